"""Training state on disk: safetensors and JSON, no pickle; a folder is complete or absent."""

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
from safetensors import numpy as flat
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trainables.core.cache import CHECKSUMS, require_checksums, write_checksums
from trainables.core.errors import DataError, Problem
from trainables.core.files import write_text

BEST, DEV_SCORES, DEV_DOCUMENTS = "best.safetensors", "dev scores", "dev documents"
CURRICULUM = "curriculum.safetensors"  # only where a curriculum has state to keep
SEAL = CHECKSUMS


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
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


def seal(folder: Path, *names: str) -> None:
    """Notes the checksums of the named files, or of all below the folder, for `require_whole`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / SEAL)
    write_checksums(folder, names or [str(path.relative_to(folder)) for path in files])


def require_whole(folder: Path, *names: str) -> None:
    """Raises ValueError if a file is not as `seal` found it, FileNotFoundError if it is gone: weights with a few wrong
    bytes can still be read. `names`: the files to look at, by default all that were sealed. A folder without a seal, as
    earlier versions left it, passes.
    """
    if (folder / SEAL).exists():
        require_checksums(folder, names)


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


def trained_state(module: nn.Module) -> dict[str, Tensor]:
    """Copies of trainable parameters and buffers on the CPU; frozen parameters come from the shared text side."""
    return copied_to_cpu(_trained(module))


def device_state(module: nn.Module) -> dict[str, Tensor]:
    """As `trained_state`, but the copies stay on the module's device."""
    return {name: tensor.detach().clone() for name, tensor in _trained(module).items()}


def copied_to_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def _trained(module: nn.Module) -> dict[str, Tensor]:
    """The tensors of trained_state, not copied."""
    frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
    return {name: tensor for name, tensor in module.state_dict().items() if name not in frozen}


def load_trained_state(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """The inverse of trained_state. Raises DataError unless the names are the same."""
    expected = set(_trained(module))
    if set(state) != expected:
        raise DataError(
            Problem(
                "checkpoint",
                f"holds other weights: {sorted(expected ^ set(state))[:3]} ...",
                "a checkpoint of the same ranker",
            )
        )
    module.load_state_dict(state, strict=False)


def load_tensors(path: Path) -> dict[str, Tensor]:
    return load_file(_opened(path))


def _opened(path: Path) -> Path:
    """The path, after opening it once. safetensors reports every file that it cannot open as missing, even if the
    storage is unreachable or the process is out of file handles; this raises the system's own error first."""
    with path.open("rb"):
        return path


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Copies on the CPU of the moments and step counts of each parameter, under its index."""
    rows = optimizer.state_dict()["state"].items()
    return copied_to_cpu({f"{index}.{key}": value for index, row in rows for key, value in row.items()})


def save_arrays(arrays: Mapping[str, np.ndarray], path: Path) -> None:
    flat.save_file(dict(arrays), path)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    return flat.load_file(_opened(path))


def save_best(
    weights: Mapping[str, Tensor], scores: np.ndarray, path: Path, documents: np.ndarray | None = None
) -> None:
    """Saves the best iteration's weights, wherever they are, and its scores of the dev candidates, or of the documents
    that it retrieved for them."""
    here = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
    retrieved = {} if documents is None else {DEV_DOCUMENTS: torch.from_numpy(documents)}
    save_file({**here, **retrieved, DEV_SCORES: torch.from_numpy(scores)}, path)


def best_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of the best iteration of a saved training."""
    tensors = load_tensors(folder / BEST)
    return {name: tensor for name, tensor in tensors.items() if name not in (DEV_SCORES, DEV_DOCUMENTS)}


def best_scores(folder: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Dev scores of the best iteration, float32 [C], without reading its weights; and the documents that they are of,
    int32 [C], if these were retrieved, None: the dev candidates."""
    with safe_open(_opened(folder / BEST), "np") as file:
        retrieved = DEV_DOCUMENTS in file.keys()  # noqa: SIM118 - no mapping
        return file.get_tensor(DEV_SCORES), file.get_tensor(DEV_DOCUMENTS) if retrieved else None


def load_optimizer(optimizer: torch.optim.Optimizer, path: Path) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in load_tensors(path).items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
