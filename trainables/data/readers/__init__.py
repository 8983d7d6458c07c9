"""Readers of data folders by name; a folder is recognised by the files in it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, get_args, runtime_checkable

from trainables.core.errors import DataError, Problem
from trainables.core.registry import Entry, Later, Part, Registry, require_arguments
from trainables.data.columns import RankingData, Task
from trainables.data.readers import beir, trec
from trainables.data.readers.pairs import DATASETS, PAIRS
from trainables.data.settings import DataConfig


class Reader(Protocol):
    """What a reader, usually a module, must define."""

    TASK: Task
    """What there is to learn from such data."""

    def recognises(self, folder: Path) -> bool:
        """Whether the folder holds this form of data."""
        ...

    def files(self, folder: Path) -> list[Path]:
        """The files that `read` reads, in a fixed order; when their bytes change, the data is read again."""
        ...

    def read(self, folder: Path, config: DataConfig, workspace: Path) -> RankingData:
        """The data without a digest. Raises DataError with the location of everything that is wrong.

        `workspace` is the folder in which the cache entry is built; columns too large for memory are written
        there while they are read (trainables.data.data_cache).
        """
        ...


HOME = "trainables.extras.readers"  # of those for published sets
READERS = Registry[Reader](
    "data.source",
    Entry("trec", trec, "TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt, run.SPLIT.txt", "trec_eval"),
    Entry(
        "beir",
        beir,
        "BEIR folder: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv, run.SPLIT.txt",
        "Thakur et al. 2021",
    ),
    Entry(
        "pairs",
        PAIRS,
        "pairs and triples: {train,dev,test}.{jsonl,csv,tsv,parquet} with columns query, positive, negative or "
        "query, document, label",
        "sentence-transformers, MS MARCO",
    ),
    Entry(
        "datasets",
        DATASETS,
        "the same columns as datasets on disk: DatasetDict.save_to_disk with train, validation, test",
        "Lhoest et al. 2021",
    ),
    Entry(
        "wikiqa",
        Later(f"{HOME}.wikiqa"),
        "WikiQA folder: WikiQA-train.tsv, WikiQA-dev.tsv, WikiQA-test.tsv",
        "Yang et al. 2015",
    ),
    Entry(
        "conversation",
        Later(f"{HOME}.conversation"),
        "conversation folder: train.tsv, valid.tsv, test.tsv with label, utterances, response",
        "MSDialog, MANtIS, UDC, Douban",
    ),
    Entry(
        "letor",
        Later(f"{HOME}.letor"),
        "LETOR folder: train.txt, vali.txt, test.txt with features",
        "Qin & Liu 2013",
    ),
    Entry(
        "insurance_qa",
        Later(f"{HOME}.insurance_qa"),
        "InsuranceQA folder: vocabulary, answers and questions of version 1 or 2",
        "Feng et al. 2015",
    ),
    Entry(
        "squad",
        Later(f"{HOME}.squad"),
        "SQuAD folder: train-v1.1.json, dev-v1.1.json, as sentence ranking",
        "Rajpurkar et al. 2016",
    ),
    Entry(
        "sick",
        Later(f"{HOME}.sentence_pairs:SICK"),
        "SICK folder: SICK.txt, or SICK_{train,trial,test_annotated}.txt",
        "Marelli et al. 2014",
    ),
    Entry(
        "snli",
        Later(f"{HOME}.sentence_pairs:SNLI"),
        "SNLI folder: snli_1.0_{train,dev,test}.jsonl or .txt",
        "Bowman et al. 2015",
    ),
    Entry(
        "quora",
        Later(f"{HOME}.sentence_pairs:QUORA"),
        "Quora folder: quora_duplicate_questions.tsv, or train.tsv, dev.tsv, test.tsv",
        "Wang et al. 2017",
    ),
)


@runtime_checkable
class Lenient(Protocol):
    """A reader that reads files of other names too, where no form fits a folder."""

    def fits_loosely(self, folder: Path) -> bool:
        """Whether the folder holds this form of data under other names."""
        ...


ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
FILE_NAME = re.compile(r"[\w{},./-]+\.(?:{[a-z,]+}|[a-z]+)")  # in the summary of a form
METHODS = {"recognises": ("folder",), "files": ("folder",), "read": ("folder", "config", "workspace")}


def reader(name: str, summary: str = "", source: str = "") -> Callable[[Part], Part]:
    """Registers a class that defines what Reader lists."""

    def value(part: Any) -> Reader:
        instance: Any = part() if inspect.isclass(part) else part
        if missing := [one for one in ("TASK", *METHODS) if not hasattr(instance, one)]:
            raise ValueError(f"has no {', '.join(missing)}; what a reader defines: TASK, {', '.join(METHODS)}")
        if instance.TASK not in get_args(Task):
            raise ValueError(f"TASK is {instance.TASK!r}; {' or '.join(get_args(Task))}")
        for method, arguments in METHODS.items():
            require_arguments(getattr(instance, method), *arguments)
        return instance

    return READERS.decorator(name, summary, source, value)


def reader_for(folder: Path) -> str:
    """The name of the one reader that recognises the folder. Raises DataError if none does, or several do."""
    names = _forms_of(folder)
    if len(names) == 1:
        return names[0]
    if names:
        raise DataError(Problem(str(folder), f"could be {' or '.join(names)}", "keep one form a folder"))
    right = f"{_deeper(folder) or _nearest_form(folder)}tune-cl list data has all forms"
    raise DataError(Problem(str(folder), "no known form of data", right))


def _forms_of(folder: Path) -> list[str]:
    """The forms whose files the folder has, else those that fit files of other names."""
    names = [name for name, reader in READERS.items() if reader.recognises(folder)] if folder.is_dir() else []
    if names:
        return names
    loose = [(name, reader) for name, reader in READERS.items() if isinstance(reader, Lenient)]
    return [name for name, reader in loose if reader.fits_loosely(folder)]


def _deeper(folder: Path) -> str:
    """What a folder has in place of data: folders with data, or archives. Of a file: the folder that it belongs to."""
    if not folder.is_dir():
        form = _form(folder.parent)
        return f"its folder has the files of: {form}; give {folder.parent}; " if form else ""
    inner = sorted(path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_dir())
    for path in inner:
        if form := _form(path):
            return f"{path.relative_to(folder.parent)} has the files of: {form}; give {path}; "
    packed = sorted(path.name for path in folder.glob("*") if path.name.endswith(ARCHIVES))
    return f"unpack {packed[0]}; " if packed else ""


def _form(folder: Path) -> str:
    """The form of data that a folder has; empty if none."""
    entries = READERS.entries.values()
    return next((entry.summary.partition(":")[0] for entry in entries if entry.value.recognises(folder)), "")


def _pattern(name: str) -> re.Pattern[str]:
    """Of a file's name as a summary has it: `{a,b}` is one of these, SPLIT any split."""
    choices = re.sub(r"{([^}]+)}", lambda found: f"({found[1].replace(',', '|')})", name.replace(".", r"\."))
    return re.compile(rf"{choices.replace('SPLIT', '(train|dev|test)')}(\.gz)?")


def _nearest_form(folder: Path) -> str:
    """The form of which the folder has the most files, and those that it lacks; empty if it has none of any."""
    found_names = [str(path.relative_to(folder)) for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file()]
    lacking: dict[str, list[str]] = {}
    had: dict[str, int] = {}
    for entry in READERS.entries.values():
        names = [name for name in FILE_NAME.findall(entry.summary) if not name.startswith("run.")]
        lacking[entry.summary] = [name for name in names if not any(map(_pattern(name).fullmatch, found_names))]
        had[entry.summary] = len(names) - len(lacking[entry.summary])
    nearest = max(had, key=lambda form: (had[form], -len(lacking[form])))
    if not had[nearest] or not lacking[nearest]:
        return ""
    return f"nearest: {nearest.partition(':')[0]}, which lacks {' and '.join(lacking[nearest])}; "
