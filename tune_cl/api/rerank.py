"""Applies a ranker: to the candidates of data, or to documents for one query. `tune-cl rerank`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.data.cells import IDS, TEXTS
from trainables.data.columns import SplitName
from trainables.data.files import ending_of, whole_text
from trainables.data.forms.frames import Data
from tune_cl.api.rankers import load_ranker
from tune_cl.results import Result


class RankedText(Result):
    """A document for a query."""

    doc: str
    score: float
    text: str


class Reranked(Result):
    """A file of a split's ranking, or a ranking of documents for one query. precision: of the scores; None of trees."""

    precision: str | None
    run_file: Path | None = None
    ranking: tuple[RankedText, ...] = ()


def rerank(
    checkpoint: str,
    data: Data = None,
    split: SplitName = "test",
    output: str | Path | None = None,
    precision: Literal["fp32", "bf16", "auto"] | None = None,
    query: str | None = None,
    documents: str | Path | None = None,
) -> Reranked:
    """Apply a ranker.

        tune-cl rerank runs/model --data ../data/mediqa --split test --output mediqa.run.txt
        tune-cl rerank runs/model --query "how do I sort a table" --documents answers.txt
        tune-cl rerank cross-encoder/ms-marco-MiniLM-L6-v2 --data ../data/wikiqa

    A ranker that was trained to classify pairs predicts the classes of the data, as TSV. A line of documents is a text,
    or an id, a tab and a text.

    checkpoint  folder of a ranker of tune-cl, or of a model of others, or its hub name: a cross-encoder with one or two
                labels, a SentenceTransformer, a language model
    data        re-rank the candidates of docstrings, ir_datasets:NAME, hf:NAME, or a folder
    split       whose candidates are re-ranked
    output      file to write; by default DATA.RANKER.SPLIT.run.txt, or .predictions.tsv
    precision   of the scores; auto: bf16 where the hardware has it; by default that of its training
    query       rank documents for this text
    documents   a file with one document a line; .csv, .jsonl and .parquet: a column text, and perhaps id

    Raises ConfigError or DataError for what cannot be done.
    """
    if (data is None) == (query is None) or (query is None) != (documents is None):
        right = "either --data DATA, or --query TEXT with --documents FILE"
        raise ConfigError(Problem("rerank", "needs one task", right))
    if query is not None and output:
        raise ConfigError(Problem("--output", "is for data; the ranking for a text is printed", "no --output"))
    if query is None or documents is None:
        ranker = load_ranker(checkpoint, precision=precision)
        return Reranked(run_file=ranker.rerank(data, split, output), precision=ranker.arithmetic)
    texts = read_documents(Path(documents).expanduser())
    ranker = load_ranker(checkpoint, precision=precision)
    ranking = tuple(RankedText(doc=name, score=score, text=texts[name]) for name, score in ranker.rank(query, texts))
    return Reranked(precision=ranker.arithmetic, ranking=ranking)


def read_documents(path: Path) -> dict[str, str]:
    """Texts by id, else by the line (from 1), of a file that may be compressed. Raises DataError for an id that comes
    twice, and for a file without texts."""
    if ending_of(path) in ("csv", "jsonl", "parquet"):
        rows = _of_columns(path)
    else:
        lines = enumerate(whole_text(path).split("\n"), 1)  # splitlines would end lines at U+2028, too
        rows = [_of_line(number, line.removesuffix("\r")) for number, line in lines if line.strip()]
    texts = dict(rows)
    if len(texts) < len(rows):
        raise DataError(Problem(str(path), "an id comes twice", "every id once"))
    if not texts:
        raise DataError(Problem(str(path), "has no documents", "one document a line"))
    return texts


def _of_line(number: int, line: str) -> tuple[str, str]:
    name, tab, text = line.partition("\t")
    return (name, text) if tab else (str(number), line)


def _of_columns(path: Path) -> list[tuple[str, str]]:
    from trainables.data.tables import Reading

    reading = Reading()
    rows = reading.rows(path)
    reading.finish()
    text = next((name for name in TEXTS if name in rows), None)
    if text is None:
        raise DataError(Problem(str(path), "no column of texts", f"name it {TEXTS[0]}"))
    ids = rows[next((name for name in IDS if name in rows), "line")]
    return list(zip(ids.astype(str), rows[text].fillna("").astype(str), strict=True))
