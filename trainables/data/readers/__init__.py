"""Readers of data folders by name; a folder is recognised by the files in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainables.data.readers import trec, wikiqa
from trainables.errors import DataError, Problem
from trainables.registry import Entry, Registry

if TYPE_CHECKING:
    from trainables.config import DataConfig
    from trainables.data.columns import RankingData


class Reader(Protocol):
    """A module with these functions."""

    def recognises(self, folder: Path) -> bool:
        """Whether the folder holds this form of data."""
        ...

    def files(self, folder: Path) -> list[Path]:
        """The files that `read` reads, in a fixed order; their bytes decide whether the data is read anew."""
        ...

    def read(self, folder: Path, config: DataConfig) -> RankingData:
        """The data without a digest. Raises DataError with a place for everything that is wrong."""
        ...


READERS: Registry[Reader] = Registry(
    "data.source",
    Entry("trec", trec, "TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt, run.SPLIT.txt", "trec_eval"),
    Entry("wikiqa", wikiqa, "WikiQA folder: WikiQA-train.tsv, WikiQA-dev.tsv, WikiQA-test.tsv", "Yang et al. 2015"),
)


def reader_for(folder: Path) -> str:
    """The name of the one reader that recognises the folder; DataError if none does, or several do."""
    names = [name for name, reader in READERS.items() if reader.recognises(folder)]
    if len(names) == 1:
        return names[0]
    if names:
        raise DataError(Problem(str(folder), f"could be {' or '.join(names)}", "keep one form a folder"))
    forms = "; ".join(entry.summary for entry in READERS.entries.values())
    raise DataError(Problem(str(folder), "no known form of data", f"known: {forms}"))
