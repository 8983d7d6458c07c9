"""Examples:
  tune-cl rerank runs/model --data ../data/mediqa --split test --output mediqa.run.txt
  tune-cl rerank runs/model --query "how do I sort a table" --documents answers.txt
  tune-cl rerank cross-encoder/ms-marco-MiniLM-L6-v2 --data ../data/wikiqa

CHECKPOINT may be any cross-encoder with one or two labels. DOCUMENTS has one document a line: its text, or its
id, a tab and its text. A ranker that was trained to classify pairs predicts classes: of the pairs of DATA (as TSV), or
of each document with the query as the first sentence."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from trainables.core.errors import DataError, Problem, UserError
from trainables.data.readers.rows import read_whole
from trainables.evaluation.per_query import probabilities
from tune_cl.api.rankers import Ranker, load_ranker
from tune_cl.cli.options import DATA_HELP, add_split
from tune_cl.cli.tables import table

SPLIT = "test"  # that is re-ranked by default
LETTERS = 160  # of a document's text in the table; the JSON document has all


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="folder of a trained ranker, as tune-cl train and run write it, or of a cross-encoder, or its hub name",
    )
    parser.add_argument("--data", help=f"re-rank the candidates of {DATA_HELP}")
    add_split(parser, SPLIT, "candidates are re-ranked")
    parser.set_defaults(split=None)  # shows whether it was given
    parser.add_argument(
        "--output", type=Path, help="file to write (default: rerank.SPLIT.run.txt, or .predictions.tsv)"
    )
    parser.add_argument("--query", help="rank documents for this text")
    parser.add_argument("--documents", type=Path, help="file with one document a line")


def execute(options: Namespace) -> dict[str, Any]:
    if (options.data is None) == (options.query is None) or (options.query is None) != (options.documents is None):
        raise UserError(
            Problem("rerank", "needs one task", "either --data DATA, or --query TEXT with --documents FILE")
        )
    if options.query is not None:
        _require_none_of_data(options)
    ranker = load_ranker(options.checkpoint, precision=None)
    if options.query is None:
        return {"run_file": str(ranker.rerank(options.data, options.split or SPLIT, options.output))}
    return _rank_texts(ranker, options)


def _require_none_of_data(options: Namespace) -> None:
    """Raises UserError for options that have no effect on the ranking of documents for a text."""
    wrong = {
        "output": "is for the ranking of data; the ranking for a text is printed",
        "split": "is for data; a text has no splits",
    }
    given = [key for key in wrong if getattr(options, key) is not None]
    if given:
        raise UserError(Problem(f"--{key}", wrong[key], f"--data DATA, or no --{key}") for key in given)


def _rank_texts(ranker: Ranker, options: Namespace) -> dict[str, Any]:
    if not options.query.strip():
        raise UserError(Problem("--query", "is empty", "the words to rank documents for"))
    if not ranker.reads_texts:
        raise UserError(Problem("--query", f"{ranker.name} reads features, no texts", "--data FOLDER"))
    ids, texts = _documents(options.documents)
    if ranker.classes:
        logits = ranker.predict([(options.query, text) for text in texts])
        return {"predictions": _predictions(ids, texts, ranker.classes, logits)}
    ranked = ranker.rank(options.query, texts)
    return {"ranking": [{"doc": ids[row], "score": score, "text": texts[row]} for row, score in ranked]}


def _predictions(
    ids: list[str], texts: list[str], classes: tuple[str, ...], logits: np.ndarray
) -> list[dict[str, Any]]:
    """The likeliest class of each document, and the probabilities of all classes, from logits [N, K]."""
    rows = probabilities(logits).tolist()
    return [
        {
            "doc": name,
            "class": classes[row.index(max(row))],
            "probabilities": dict(zip(classes, row, strict=True)),
            "text": text,
        }
        for name, text, row in zip(ids, texts, rows, strict=True)
    ]


def _documents(path: Path) -> tuple[list[str], list[str]]:
    """Ids (as given, or the line number from 1) and texts; the file may be gzipped."""
    text = read_whole(path, problems := [], pipes=True)
    if text is None:
        raise DataError(problems)
    texts: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):  # read_text would end lines at a lone CR too
        line = line.removesuffix("\r")
        if line.strip():
            name, tab, text = line.partition("\t")
            name, text = (name, text) if tab else (str(number), line)
            if not name.strip():
                problems.append(Problem(f"{path}:{number}", "no id before the tab", "id, tab, text, or a text alone"))
            elif not text.strip():
                problems.append(Problem(f"{path}:{number}", f"document '{name}' has no text", "a text after the tab"))
            elif name in line_of:
                wrong = f"document '{name}' is also in line {line_of[name]}"
                problems.append(Problem(f"{path}:{number}", wrong, "every id once"))
            else:
                texts[name], line_of[name] = text, number
    if problems:
        raise DataError(problems)
    if not texts:
        raise DataError(Problem(str(path), "has no documents", "one document a line"))
    return list(texts), list(texts.values())


def render(document: dict[str, Any]) -> str:
    if "run_file" in document:
        return f"written to {document['run_file']}"
    if "ranking" in document:
        rows = [[row["doc"], row["score"], _start(row["text"])] for row in document["ranking"]]
        return table(["doc", "score", "text"], rows)
    likeliest = [[row["doc"], row["class"], max(row["probabilities"].values())] for row in document["predictions"]]
    rows = [[*row, _start(one["text"])] for row, one in zip(likeliest, document["predictions"], strict=True)]
    return table(["doc", "class", "probability", "text"], rows)


def _start(text: str) -> str:
    return shorten(text, LETTERS, placeholder=" ...")
