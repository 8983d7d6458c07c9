"""Forms of data: each recognises a folder by its files and reads it into tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
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


FORMS = """
trec|trec:FORM|trec_eval|TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt, run.SPLIT.txt
beir|beir:FORM|Thakur et al. 2021|BEIR folder: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv, run.SPLIT.txt
pairs|pairs:FORM|sentence-transformers, MS MARCO|pairs and triples: {train,dev,test}.{jsonl,csv,tsv,parquet}, or \
DatasetDict.save_to_disk, with columns query, positive, negative or query, document, label
wikiqa|wikiqa:FORM|Yang et al. 2015|WikiQA folder: WikiQA-train.tsv, WikiQA-dev.tsv, WikiQA-test.tsv
conversation|conversation:FORM|MSDialog, MANtIS, UDC, Douban|conversation folder: train.tsv, valid.tsv, test.tsv with \
label, utterances, response
letor|letor:FORM|Qin & Liu 2013|LETOR folder: train.txt, vali.txt, test.txt with features
insurance_qa|insurance_qa:FORM|Feng et al. 2015|InsuranceQA folder: vocabulary, answers and questions of version 1 or 2
squad|squad:FORM|Rajpurkar et al. 2016|SQuAD folder: train-v1.1.json, dev-v1.1.json, as sentence ranking
sick|sentence_pairs:SICK|Marelli et al. 2014|SICK folder: SICK.txt, or SICK_{train,trial,test_annotated}.txt
snli|sentence_pairs:SNLI|Bowman et al. 2015|SNLI folder: snli_1.0_{train,dev,test}.jsonl or .txt
quora|sentence_pairs:QUORA|Wang et al. 2017|Quora folder: quora_duplicate_questions.tsv, or train.tsv, dev.tsv, test.tsv
"""  # name, module and attribute, source, summary


def _entry(name: str, location: str, source: str, summary: str) -> Entry[Form]:
    return Entry(name, Later(f"trainables.data.forms.{location}"), summary, source)


READERS = Registry[Form]("data.source", *(_entry(*line.split("|")) for line in FORMS.strip().splitlines()))
HUB, IR_DATASETS = "hf:", "ir_datasets:"  # what the names of data elsewhere begin with


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
    names = [name for name, form in READERS.items() if folder.is_dir() and form.files(folder)]
    names = names or [name for name, form in READERS.items() if form.loosely and form.loosely(folder)]
    if len(names) == 1:
        return names[0]
    if names:
        raise DataError(Problem(str(folder), f"could be {' or '.join(names)}", "keep one form a folder"))
    raise DataError(Problem(str(folder), "no known form of data", f"{_near(folder)}tune-cl list data has all forms"))


def _near(folder: Path) -> str:
    """A folder with data in a folder that has none, or its archives. Of a file or an empty folder: what it lies in."""
    near = [path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_dir()] or [folder.parent]
    for place, entry in product(sorted(near), READERS.entries.values()):
        if entry.value.files(place):
            return f"{place} has the files of: {entry.summary.partition(':')[0]}; give {place}; "
    packed = [path.name for path in files_in(folder) if path.name.endswith(ARCHIVES)]
    return f"unpack {packed[0]}; " if packed and folder.is_dir() else ""
