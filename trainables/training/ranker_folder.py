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
from trainables.rankers.hub import FIRST

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")  # organisation/model
OWN, TEXT = "tune_cl.json", "text"  # its training; the text files that it reads new texts by
PROMPTS = ("prompt", "query_prompt", "document_prompt")  # keys of texts, which may begin as a path does


def is_shared_form(folder: Path) -> bool:
    """Whether other libraries read a saved ranker too."""
    return any((folder / name).is_file() for name in FIRST)


def is_of_others(name: str | Path) -> bool:
    """Whether it can be a model that tune_cl did not write: a folder of other libraries, or a hub name."""
    folder = Path(name)
    if not folder.exists():
        return HUB_NAME.fullmatch(str(name)) is not None
    return is_shared_form(folder) and not (folder / OWN).is_file()


def require_ranker(folder: Path) -> None:
    """Raises DataError unless it is a folder that a trained ranker was saved in, or can be a model of others."""
    if is_of_others(folder) or (folder / OWN).is_file():
        return
    inside = [folder / "ranker", folder / "trials" / "best-ranker"]  # of a training or confirmation, of a search
    right = next((str(one) for one in inside if one.is_dir()), f"a folder with {OWN}, as tune-cl train writes")
    raise DataError(Problem(str(folder), "is not a trained ranker", right))


def described(run: TrainingConfig) -> dict[str, Any]:
    """What a saved ranker's file OWN says of its training."""
    tree = run.model_dump()
    plugins = plugins_of(tree)
    return without_folders({"run": tree, **({"plugins": plugins} if plugins else {})})


def without_folders(value: Any, key: str = "") -> Any:
    """A value, or all in a mapping or list, with the name of a file or folder in place of its path: a saved ranker is
    read on other machines, by strangers too. `key`: where the value stands."""
    if isinstance(value, Mapping):
        return {name: without_folders(one, name) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(one, key) for one in value]
    is_path = isinstance(value, str) and value.startswith(("/", "~", ".")) and not key.endswith(PROMPTS)
    return Path(value).name or value if is_path else value


def recorded_run(own: Mapping[str, Any], folder: Path) -> TrainingConfig:
    """The training of a saved ranker, from its file OWN. Raises ConfigError naming a plug-in that it needs and that is
    not loaded, and DataError for a configuration that this version does not know."""
    require_plugins(own.get("plugins", ()), f"the ranker {folder}")
    try:
        return TrainingConfig.model_validate(own["run"])
    except ValidationError as error:
        keys = ", ".join(".".join(str(part) for part in one["loc"]) for one in error.errors())
        wrong = f"was written by another version of tune_cl: this one does not know {keys}"
        raise DataError(Problem(str(folder / OWN), wrong, "the version that wrote it")) from None
