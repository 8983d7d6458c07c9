"""The files of a saved ranker's folder; without PyTorch, so that a folder that holds none is refused at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainables.config.keys import TrainingConfig
from trainables.core.errors import DataError, Problem
from trainables.core.plugins import plugins_of, require_plugins
from trainables.rankers.hub import ADAPTER

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")  # organisation/model
WEIGHTS, CONFIG, TEXT = "model.safetensors", "config.json", "text"
MODULES = "modules.json"  # of sentence-transformers
OWN = "tune_cl.json"  # beside the files of a form that other libraries read: all that the form has no room for


def is_shared_form(folder: Path) -> bool:
    """Whether a ranker was saved in a form that other libraries read, not in tune_cl's own."""
    return (folder / OWN).is_file()


def is_of_others(name: str | Path) -> bool:
    """Whether it can be a cross-encoder or bi-encoder that tune_cl did not write: a Hugging Face folder, or a hub
    name."""
    folder = Path(name)
    if not folder.exists():
        return HUB_NAME.fullmatch(str(name)) is not None
    if is_shared_form(folder):
        return False
    if not (folder / CONFIG).is_file():
        return (folder / MODULES).is_file() or (folder / ADAPTER).is_file()
    return '"model_type"' in (folder / CONFIG).read_text(encoding="utf-8")


def require_ranker(folder: Path) -> None:
    """Raises DataError unless it is a folder that a trained ranker was saved in, or can be an encoder of others."""
    if is_of_others(folder):
        return
    if not any((folder / name).is_file() for name in (CONFIG, MODULES)):  # a table of vectors has no config.json
        inside = [folder / "ranker", folder / "trials" / "best-ranker"]  # of a training or confirmation, of a search
        of_ours = f"a folder with {CONFIG} and {WEIGHTS}, as tune-cl train writes"
        right = next((str(one) for one in inside if one.is_dir()), of_ours)
        raise DataError(Problem(str(folder), "is not a trained ranker", right))


def described(run: TrainingConfig) -> dict[str, Any]:
    """What a saved ranker's file CONFIG says of its training."""
    tree = run.model_dump()
    plugins = plugins_of(tree)
    return {"run": tree, **({"plugins": plugins} if plugins else {})}


def recorded_run(config: Mapping[str, Any], folder: Path) -> TrainingConfig:
    """The training of a saved ranker, from its file CONFIG. Raises ConfigError naming a plug-in that it needs and that
    is not loaded, and DataError for a configuration that this version does not know."""
    require_plugins(config.get("plugins", ()), f"the ranker {folder}")
    try:
        return TrainingConfig.model_validate(config["run"])
    except ValidationError as error:
        keys = ", ".join(".".join(str(part) for part in one["loc"]) for one in error.errors())
        wrong = f"was written by another version of tune_cl: this one does not know {keys}"
        raise DataError(Problem(str(folder / CONFIG), wrong, "the version that wrote it")) from None
