"""Training state on disk: tensors as safetensors, the rest as JSON, no pickle; a folder is complete or absent."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from trainables.core.errors import DataError, Problem
from trainables.core.files import write_text

STATE, TENSORS = "state.json", "state.safetensors"
WEIGHTS, OPTIMIZER, BEST, DEV, CURRICULUM = "weights", "optimizer", "best", "dev", "curriculum"  # groups of TENSORS
SCORES, DOCUMENTS = "scores", "documents"  # of the group DEV


def write_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Calls write(temporary folder), then renames it to `folder`, replacing what was there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        write(temporary)
        if folder.exists():  # renamed, not removed, so that a kill leaves it intact on disk
            os.replace(folder, temporary.with_name(f"{temporary.name}.old"))
        os.replace(temporary, folder)
        shutil.rmtree(temporary.with_name(f"{temporary.name}.old"), ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def save_iteration(root: Path, iteration: int, write: Callable[[Path], None]) -> Path:
    """Writes root/iteration-NNNNN and only then removes earlier ones, and what a kill left half written, so that there
    is always a complete one. Nobody else writes to `root`."""
    folder = root / f"iteration-{iteration:05d}"
    write_folder(folder, write)
    for other in (*root.glob("iteration-*"), *root.glob(".iteration-*")):
        if other != folder:
            shutil.rmtree(other)
    return folder


def latest_iteration(root: Path) -> Path | None:
    """The newest complete folder written by save_iteration."""
    return max(root.glob("iteration-*"), key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Writes atomically; NaN and infinities as the JSON extensions that Python reads."""
    write_text(path, json.dumps(document, indent=1))


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


# -- tensors -----------------------------------------------------------------------------------------------------------


def save_tensors(folder: Path, groups: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Writes groups of tensors, on whatever device they are."""
    copies = {  # tied weights, which share memory, would be refused
        f"{group}/{name}": tensor.detach().to("cpu", copy=True).contiguous()
        for group, tensors in groups.items()
        for name, tensor in tensors.items()
    }
    save_file(copies, folder / TENSORS)


def load_tensors(folder: Path, group: str) -> dict[str, Tensor]:
    """The tensors of a group by `save_tensors`, by name; none if there is no such group."""
    path, prefix = folder / TENSORS, f"{group}/"
    path.open("rb").close()  # safetensors calls every file missing that it cannot open; this raises the system's error
    with safe_open(path, "pt") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 - no mapping
        return {name.removeprefix(prefix): file.get_tensor(name) for name in names}


def trained_state(module: nn.Module) -> dict[str, Tensor]:
    """Trainable parameters and buffers, not copied; frozen parameters come from the shared text side."""
    frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
    return {name: tensor for name, tensor in module.state_dict().items() if name not in frozen}


def load_trained_state(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """The inverse of trained_state. Raises DataError unless the names are the same."""
    expected = set(trained_state(module))
    if set(state) != expected:
        wrong = f"holds other weights: {sorted(expected ^ set(state))[:3]} ..."
        raise DataError(Problem("checkpoint", wrong, "a checkpoint of the same ranker"))
    module.load_state_dict(state, strict=False)


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments and step counts of each parameter, under its index."""
    rows = optimizer.state_dict()["state"].items()
    return {f"{index}.{key}": value for index, row in rows for key, value in row.items()}


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of optimizer_state."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def dev_tensors(scores: np.ndarray, documents: np.ndarray | None = None) -> dict[str, Tensor]:
    """The group DEV: the best iteration's scores of the dev candidates, or of the documents that it retrieved."""
    retrieved = {} if documents is None else {DOCUMENTS: torch.from_numpy(documents)}
    return {SCORES: torch.from_numpy(scores), **retrieved}


def best_scores(folder: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Dev scores of the best iteration, float32 [C]; and the documents that they are of, int32 [C], if these were
    retrieved, None: the dev candidates. Raises KeyError if there are none."""
    tensors = load_tensors(folder, DEV)
    documents = tensors.get(DOCUMENTS)
    return tensors[SCORES].numpy(), None if documents is None else documents.numpy()
