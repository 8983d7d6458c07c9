"""Applies a ranker: to the candidates of data, or to documents for one query. `tune-cl rerank`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.data.cells import IDS, TEXTS, Wrong, id_of, text_of
from trainables.data.columns import SplitName
from trainables.data.files import whole_text
from trainables.data.forms.frames import Data
from trainables.evaluation.per_query import probabilities
from tune_cl.api.arguments import documents_of
from tune_cl.api.rankers import Ranker, load_ranker
from tune_cl.results import Result


class RankedText(Result):
    """A document for a query."""

    doc: str
    score: float
    text: str


class ClassifiedText(Result):
    """A document with its likeliest class and the probability of each."""

    doc: str
    label: str
    probabilities: dict[str, float]
    text: str


class Reranked(Result):
    """A file of a split's ranking, or for one query a ranking or predictions of documents. precision: of the scores;
    None of trees."""

    precision: str | None
    run_file: Path | None = None
    ranking: tuple[RankedText, ...] = ()
    predictions: tuple[ClassifiedText, ...] = ()


def rerank(
    checkpoint: str,
    data: Data = None,
    split: SplitName | None = None,
    output: str | Path | None = None,
    precision: Literal["fp32", "bf16", "auto"] | None = None,
    query: str | None = None,
    documents: str | Path | None = None,
) -> Reranked:
    """Apply a ranker.

        tune-cl rerank runs/model --data ../data/mediqa --split test --output mediqa.run.txt
        tune-cl rerank runs/model --query "how do I sort a table" --documents answers.txt
        tune-cl rerank cross-encoder/ms-marco-MiniLM-L6-v2 --data ../data/wikiqa

    A ranker that was trained to classify pairs predicts classes: of the pairs of the data (as TSV), or of each document
    with the query as the first sentence. A line of documents is a text, or an id, a tab and a text.

    checkpoint  folder of a ranker of tune-cl, or of a model of others, or its hub name: a cross-encoder with one or two
                labels, a SentenceTransformer, a language model
    data        re-rank the candidates of docstrings, ir_datasets:NAME, hf:NAME, or a folder
    split       whose candidates are re-ranked; by default test
    output      file to write; by default DATA.RANKER.SPLIT.run.txt, or .predictions.tsv
    precision   of the scores; auto: bf16 where the hardware has it; by default that of its training
    query       rank documents for this text
    documents   a file with one document a line; .csv and .jsonl: a column text

    Raises ConfigError or DataError for what cannot be done.
    """
    if (data is None) == (query is None) or (query is None) != (documents is None):
        right = "either --data DATA, or --query TEXT with --documents FILE"
        raise ConfigError(Problem("rerank", "needs one task", right))
    if query is not None and (output or split):
        option = "--output" if output else "--split"
        raise ConfigError(Problem(option, "is for data; the ranking for a text is printed", f"no {option}"))
    with _of_checkpoint():
        ranker = load_ranker(checkpoint, precision=precision)
    if query is None or documents is None:
        return Reranked(run_file=ranker.rerank(data, split or "test", output), precision=ranker.arithmetic)
    return _of_text(ranker, query, Path(documents).expanduser())


def _of_text(ranker: Ranker, query: str, documents: Path) -> Reranked:
    """Ranks the documents of a file, best first, or classifies each."""
    if not query.strip():
        raise ConfigError(Problem("--query", "is empty", "the words to rank documents for"))
    if not ranker.reads_texts:
        raise ConfigError(Problem("--query", f"{ranker.name} reads features, no texts", "--data FOLDER"))
    texts = read_documents(documents)
    if ranker.classes:
        return Reranked(precision=ranker.arithmetic, predictions=_predictions(ranker, query, texts))
    ranking = tuple(RankedText(doc=name, score=score, text=texts[name]) for name, score in ranker.rank(query, texts))
    return Reranked(precision=ranker.arithmetic, ranking=ranking)


@contextmanager
def _of_checkpoint() -> Iterator[None]:
    """What is wrong with a model is wrong with CHECKPOINT here: this command has no ranker.* keys."""
    try:
        yield
    except ConfigError as error:
        named = [replace(p, location="CHECKPOINT") if p.location.startswith("ranker.") else p for p in error.problems]
        raise ConfigError(named) from error


def _predictions(ranker: Ranker, query: str, texts: dict[str, str]) -> tuple[ClassifiedText, ...]:
    logits = ranker.predict([(query, text) for text in texts.values()])
    predictions = []
    for (name, text), row in zip(texts.items(), probabilities(logits).tolist(), strict=True):
        by_class = dict(zip(ranker.classes, row, strict=True))
        likeliest = max(by_class, key=lambda label: by_class[label])
        predictions.append(ClassifiedText(doc=name, label=likeliest, probabilities=by_class, text=text))
    return tuple(predictions)


def read_documents(path: Path) -> dict[str, str]:
    """Texts by id (as given, or the line number from 1) of a file, which may be gzipped: a CSV file with a column text
    (and id), objects of JSON, one a line, or lines of a text alone or id, tab, text. Raises DataError with every line
    that is wrong."""
    problems: list[Problem] = []
    texts: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for number, name, text in _rows(path):
        line = f"{path}:{number}"
        if not name.strip():
            problems.append(Problem(line, "no id before the tab", "id, tab, text, or a text alone"))
        elif not text.strip():
            problems.append(Problem(line, f"document '{name}' has no text", "give the document a text"))
        elif name in line_of:
            problems.append(Problem(line, f"document '{name}' is also in line {line_of[name]}", "every id once"))
        else:
            texts[name], line_of[name] = text, number
    if problems:
        raise DataError(problems)
    if not texts:
        raise DataError(Problem(str(path), "has no documents", "one document a line"))
    return texts


def _rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, id, text) of each document."""
    text = whole_text(path)
    if path.name.lower().removesuffix(".gz").endswith(".csv"):
        return _rows_of_csv(text, path)
    return _rows_of_json(text, path) if text.lstrip().startswith("{") else _lines(text)


def _rows_of_csv(text: str, path: Path) -> Iterator[tuple[int, str, str]]:
    reader = csv.DictReader(io.StringIO(text))
    rows = list(reader)
    try:
        documents = documents_of(rows) if rows else documents_of([])
    except DataError as error:
        raise DataError([replace(problem, location=str(path)) for problem in error.problems]) from None
    for number, (name, document) in enumerate(zip(documents.names, documents.texts, strict=True), 2):
        yield number, str(name), document


def _rows_of_json(text: str, path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = dict(json.loads(line))
            name = id_of(next((row[key] for key in IDS if key in row), number))
            yield number, str(name), text_of(TEXTS[0], row)
        except (ValueError, TypeError, Wrong) as error:
            wrong, right = error.args if isinstance(error, Wrong) else ("no object of JSON", "an object a line")
            raise DataError(Problem(f"{path}:{number}", wrong, right)) from None


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.split("\n"), 1):  # splitlines would end lines at a lone CR too
        line = line.removesuffix("\r")
        if line.strip():
            name, tab, behind = line.partition("\t")
            yield (number, name, behind) if tab else (number, str(number), line)
