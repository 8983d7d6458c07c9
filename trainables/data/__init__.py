"""Data by name or path: `load_data` gives RankingData, from the cache if it has been read before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.core.cache import digest_of
from trainables.core.errors import DataError, Problem
from trainables.core.plugins import source_of
from trainables.core.prose import phase
from trainables.core.registry import Entry, Registry
from trainables.data.columns import RankingData, Task
from trainables.data.combine import with_splits, with_training_share
from trainables.data.data_cache import cached_data
from trainables.data.files import ARCHIVES, TABLES, ending_of, not_read, unreadable
from trainables.data.forms import HUB, IR_DATASETS, READERS, Form, reader_for
from trainables.data.labels import with_training_labels
from trainables.data.settings import DataConfig

if TYPE_CHECKING:
    from trainables.data.tables import Reading, Tables

_FORMAT = 8  # raise it when a form or the store would give other columns for the same files
DOCSTRINGS = "docstrings"
DATA_FORMS: Registry[str] = Registry(
    "data.source",
    Entry(
        DOCSTRINGS,
        DOCSTRINGS,
        "built in: the next part of a documentation string of the installed packages",
        "in the form of Penha & Hauff 2020",
    ),
    Entry(
        "ir_datasets",
        f"{IR_DATASETS}NAME",
        "a dataset of the ir_datasets library; parts by ir_datasets:NAME?train=PART&dev=PART&test=PART",
        "MacAvaney et al. 2021",
    ),
    Entry(
        "hf",
        f"{HUB}NAME",
        "a dataset of the Hugging Face hub with columns of pairs, through the datasets library",
        "Lhoest et al. 2021",
    ),
    *(Entry(form.name, "PATH", form.summary, form.source) for form in READERS.entries.values()),
)


def load_data(config: DataConfig, relevance_level: int = 1) -> RankingData:
    """The data that `data.source` names, memory-mapped from the cache; `data.train_share` of its training queries, with
    labels as `data.label_noise` says, for which the lowest relevant grade counts.

    Raises DataError for a source that is unknown or wrong, WorkFailed if candidates cannot be retrieved.
    """
    source = config.source
    with phase(f"reading {source if _elsewhere(source) else Path(source).resolve().name}"):
        data = with_training_share(with_splits(_load(config), config.split), config.train_share)
        return with_training_labels(data, config, relevance_level)


def _load(config: DataConfig) -> RankingData:
    source = config.source
    match _elsewhere(source):
        case "docstrings":
            from trainables.data.docstrings import load_docstrings

            return load_docstrings(config)
        case "ir_datasets":
            return _load_ir_datasets(source, config)
        case "hf":
            from trainables.data.forms.frames import from_hub

            return replace(_load_folder(from_hub(source), config), name=source.removeprefix(HUB))
    require_source(source)
    return _load_folder(Path(source).expanduser(), config)


def _elsewhere(source: str) -> str | None:
    """The name in DATA_FORMS of data that is not a folder; None for a folder."""
    prefixes = {IR_DATASETS: "ir_datasets", HUB: "hf"}
    named = next((name for prefix, name in prefixes.items() if source.startswith(prefix)), None)
    return DOCSTRINGS if source == DOCSTRINGS else named


def require_source(source: str) -> None:
    """Raises DataError for a folder or file that is not there. Takes no time, unlike loading."""
    folder = Path(source).expanduser()
    if _elsewhere(source) or folder.is_dir() or (folder.is_file() and ending_of(folder) in TABLES):
        return
    wrong = "is not a folder" if folder.exists() else "does not exist"
    right = f"a folder (tune-cl list data), {DOCSTRINGS}, {IR_DATASETS}NAME or {HUB}NAME"
    if folder.name.endswith(ARCHIVES):
        right = "unpack it, and give the folder"
    raise DataError(Problem("data.source", f"'{source}' {wrong}", right))


def form_of(source: str) -> str:
    """The name in DATA_FORMS of what `load_data` reads. Raises DataError where it does."""
    return _elsewhere(source) or reader_for(Path(source).expanduser())


def task_of(source: str) -> Task:
    """Task of the data in `data.source`, by its form alone; ranking if `load_data` would refuse it."""
    form = _form(source)
    return form.task if form else "ranking"


def may_have_turns(source: str) -> bool:
    """Whether queries of the data in `data.source` may have several utterances, by its form alone."""
    form = _form(source)
    return form.turns if form else source == DOCSTRINGS


def _form(source: str) -> Form | None:
    """The form of a folder or file; None for data elsewhere, and where `load_data` refuses it."""
    folder = Path(source).expanduser()
    with suppress(DataError):
        return None if _elsewhere(source) or not folder.exists() else READERS[reader_for(folder)]
    return None


def recognised(source: str) -> tuple[str, str, list[str]]:
    """(name of the form, what it is recognised by, the files that are read) of data that `load_data` can load."""
    name = form_of(source)
    if _elsewhere(source):
        return name, DATA_FORMS.entries[name].summary, []
    folder = Path(source).expanduser()
    beside = folder if folder.is_dir() else folder.parent
    files = [str(path.relative_to(beside)) for path in READERS[name].files_of(folder)]
    return name, READERS.entries[name].summary, files


def _load_folder(folder: Path, config: DataConfig) -> RankingData:
    name = reader_for(folder)
    form = READERS[name]
    files = form.files_of(folder)
    contents = [(str(path.relative_to(folder)), path) for path in files]
    try:
        digest = digest_of(_FORMAT, name, source_of(READERS.entries[name]), contents, _of_candidates(config))
    except OSError as error:
        raise DataError(unreadable(Path(error.filename), error)) from None
    data = _cached(folder.name, digest, config, lambda reading: form.read(folder, reading))
    passed_over = not_read(folder, files) if folder.is_dir() else []
    notes = (f"not read, though named like data: {', '.join(passed_over)}",) if passed_over else ()
    return replace(data, name=folder.resolve().name, notes=(*data.notes, *notes))


def _load_ir_datasets(source: str, config: DataConfig) -> RankingData:
    """The library checks its files against known hashes, so dataset and library version identify the content."""
    from trainables.data.forms.ir_datasets_source import parse_source, read_source

    name, splits = parse_source(source)
    digest = digest_of(_FORMAT, IR_DATASETS, version("ir_datasets"), splits, _of_candidates(config))
    return _cached(name, digest, config, lambda reading: read_source(splits, reading))


def _of_candidates(config: DataConfig) -> dict[str, Any]:
    """The settings that decide what is made of the files."""
    return config.model_dump(include={"candidates", "top_k", "unretrieved_positives", "bm25", "identical_ids", "words",
                                      "columns"})  # fmt: skip


def _cached(name: str, digest: str, config: DataConfig, read: Callable[[Reading], Tables]) -> RankingData:
    def build(entry: Path) -> RankingData:
        from trainables.data.arrays import ranking_data  # here: pandas and Arrow take half a second
        from trainables.data.tables import Reading

        reading = Reading(config)
        try:
            return ranking_data(name, read(reading), reading, entry)
        except DataError as error:  # a file that cannot be read, besides rows that cannot
            raise DataError(dict.fromkeys([*reading.problems, *error.problems])) from None

    key = digest_of(digest, "strict") if config.strict else digest  # the same content, if it is not refused
    return cached_data(key, digest, build)
