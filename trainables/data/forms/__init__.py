"""Forms of data: each recognises a folder by its files and reads it into tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.core.errors import DataError, Problem
from trainables.core.registry import Entry, Later, Part, Registry, require_arguments
from trainables.data.columns import Task
from trainables.data.files import ARCHIVES, files_in, split_files

if TYPE_CHECKING:
    from trainables.data.tables import Reading, Tables


@dataclass(frozen=True)
class Form:
    """A form of data.

    files    folder -> the files that are read, in a fixed order; none: the folder has another form
    read     (folder, reading) -> tables
    task     what there is to learn from such data
    loosely  as `files`, for files of other names, where no form fits a folder
    turns    whether a query may have several utterances
    """

    files: Callable[[Path], list[Path]]
    read: Callable[[Path, Reading], Tables]
    task: Task = "ranking"
    loosely: Callable[[Path], list[Path]] | None = None
    turns: bool = False

    def files_of(self, folder: Path) -> list[Path]:
        """The files that are read, by their names or else loosely."""
        return (self.files(folder) if folder.is_dir() else []) or (self.loosely(folder) if self.loosely else [])


def _entry(name: str, place: str, summary: str, source: str) -> Entry[Form]:
    return Entry(name, Later(f"trainables.data.forms.{place}"), summary, source)


READERS = Registry[Form](
    "data.source",
    _entry(
        "trec",
        "trec:FORM",
        "TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt, run.SPLIT.txt",
        "trec_eval",
    ),
    _entry(
        "beir",
        "beir:FORM",
        "BEIR folder: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv, run.SPLIT.txt",
        "Thakur et al. 2021",
    ),
    _entry(
        "pairs",
        "pairs:FORM",
        "pairs and triples: {train,dev,test}.{jsonl,csv,tsv,parquet} with columns query, positive, negative or "
        "query, document, label",
        "sentence-transformers, MS MARCO",
    ),
    _entry(
        "datasets",
        "datasets:FORM",
        "the same columns as datasets on disk: DatasetDict.save_to_disk with train, validation, test",
        "Lhoest et al. 2021",
    ),
    _entry(
        "wikiqa", "wikiqa:FORM", "WikiQA folder: WikiQA-train.tsv, WikiQA-dev.tsv, WikiQA-test.tsv", "Yang et al. 2015"
    ),
    _entry(
        "conversation",
        "conversation:FORM",
        "conversation folder: train.tsv, valid.tsv, test.tsv with label, utterances, response",
        "MSDialog, MANtIS, UDC, Douban",
    ),
    _entry("letor", "letor:FORM", "LETOR folder: train.txt, vali.txt, test.txt with features", "Qin & Liu 2013"),
    _entry(
        "insurance_qa",
        "insurance_qa:FORM",
        "InsuranceQA folder: vocabulary, answers and questions of version 1 or 2",
        "Feng et al. 2015",
    ),
    _entry(
        "squad",
        "squad:FORM",
        "SQuAD folder: train-v1.1.json, dev-v1.1.json, as sentence ranking",
        "Rajpurkar et al. 2016",
    ),
    _entry(
        "sick",
        "sentence_pairs:SICK",
        "SICK folder: SICK.txt, or SICK_{train,trial,test_annotated}.txt",
        "Marelli et al. 2014",
    ),
    _entry("snli", "sentence_pairs:SNLI", "SNLI folder: snli_1.0_{train,dev,test}.jsonl or .txt", "Bowman et al. 2015"),
    _entry(
        "quora",
        "sentence_pairs:QUORA",
        "Quora folder: quora_duplicate_questions.tsv, or train.tsv, dev.tsv, test.tsv",
        "Wang et al. 2017",
    ),
)
HUB, IR_DATASETS = "hf:", "ir_datasets:"  # what the names of data elsewhere begin with
FILE_NAME = re.compile(r"[\w{},./-]+\.(?:{[a-z,]+}|[a-z]+)")  # in the summary of a form


def reader(
    name: str, summary: str = "", source: str = "", files: Sequence[str] = (), task: Task = "ranking"
) -> Callable[[Part], Part]:
    """Registers a form: a function (folder, reading) -> Tables. `files`: names of its files, with {} for the split, as
    "faq.{}.tsv"; a folder that has one of the first name has this form."""

    def value(part: Any) -> Form:
        require_arguments(part, "folder", "reading")
        if isinstance(files, str) or not files:
            raise ValueError('names no files; files=["NAME.{}.tsv"], with {} for the split')

        def files_of(folder: Path) -> list[Path]:
            if not split_files(folder, files[0]):
                return []
            return [path for pattern in files for path in split_files(folder, pattern).values()]

        return Form(files_of, part, task, turns=True)

    return READERS.decorator(name, summary, source, value)


def reader_for(folder: Path) -> str:
    """The name of the one form that recognises the folder. Raises DataError if none does, or several do."""
    names = _forms_of(folder)
    if len(names) == 1:
        return names[0]
    if names:
        raise DataError(Problem(str(folder), f"could be {' or '.join(names)}", "keep one form a folder"))
    if folder.is_dir() and not any(folder.iterdir()):
        raise DataError(Problem(str(folder), "an empty folder", "a folder with data (tune-cl list data has all forms)"))
    right = f"{_deeper(folder) or _nearest_form(folder)}tune-cl list data has all forms"
    raise DataError(Problem(str(folder), "no known form of data", right))


def _forms_of(folder: Path) -> list[str]:
    """The forms whose files the folder has, else those that fit files of other names."""
    names = [name for name, form in READERS.items() if form.files(folder)] if folder.is_dir() else []
    return names or [name for name, form in READERS.items() if form.loosely and form.loosely(folder)]


def _deeper(folder: Path) -> str:
    """What a folder has in place of data: folders with data, or archives. Of a file: the folder that it belongs to."""
    if not folder.is_dir():
        form = _form(folder.parent)
        return f"its folder has the files of: {form}; give {folder.parent}; " if form else ""
    inner = sorted(path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_dir())
    for path in inner:
        if form := _form(path):
            return f"{path.relative_to(folder.parent)} has the files of: {form}; give {path}; "
    packed = [path.name for path in files_in(folder) if path.name.endswith(ARCHIVES)]
    return f"unpack {packed[0]}; " if packed else ""


def _form(folder: Path) -> str:
    """The form of data that a folder has; empty if none."""
    entries = READERS.entries.values()
    return next((entry.summary.partition(":")[0] for entry in entries if entry.value.files(folder)), "")


def _pattern(name: str) -> re.Pattern[str]:
    """Of a file's name as a summary has it: `{a,b}` is one of these, SPLIT any split."""
    choices = re.sub(r"{([^}]+)}", lambda found: f"({found[1].replace(',', '|')})", name.replace(".", r"\."))
    return re.compile(rf"{choices.replace('SPLIT', '(train|dev|test)')}(\.gz)?")


def _nearest_form(folder: Path) -> str:
    """The form of which the folder has the most files, and those that it lacks; empty if it has none of any."""
    there = [str(path.relative_to(folder)) for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file()]
    lacking: dict[str, list[str]] = {}
    had: dict[str, int] = {}
    for entry in READERS.entries.values():
        names = [name for name in FILE_NAME.findall(entry.summary) if not name.startswith("run.")]
        lacking[entry.summary] = [name for name in names if not any(map(_pattern(name).fullmatch, there))]
        had[entry.summary] = len(names) - len(lacking[entry.summary])
    nearest = max(had, key=lambda form: (had[form], -len(lacking[form])))
    if not had[nearest] or not lacking[nearest]:
        return ""
    return f"nearest: {nearest.partition(':')[0]}, which lacks {' and '.join(lacking[nearest])}; "
