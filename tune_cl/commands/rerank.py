"""Examples:
  tune-cl rerank runs/model --data ../data/mediqa --split test --output mediqa.run.txt
  tune-cl rerank runs/model --query "how do I sort a table" --documents answers.txt

DOCUMENTS has one document a line: its text, or its id, a tab and its text."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np

from trainables.config import DataConfig
from trainables.data import load_data
from trainables.errors import DataError, Problem, UserError
from trainables.evaluation.trec import write_run
from trainables.training.saved import SavedRanker, load_ranker_folder
from tune_cl.commands.tables import table


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="folder of a trained ranker, as tune-cl train and run write it"
    )
    parser.add_argument("--data", help="re-rank the candidates of this data")
    parser.add_argument("--split", default="test", choices=["train", "dev", "test"])
    parser.add_argument("--output", type=Path, help="run file to write (default: rerank.SPLIT.run.txt)")
    parser.add_argument("--query", help="rank documents for this text")
    parser.add_argument("--documents", type=Path, help="file with one document a line")


def execute(options: Namespace) -> dict[str, Any]:
    if (options.data is None) == (options.query is None) or (options.query is None) != (options.documents is None):
        raise UserError(
            Problem("rerank", "needs one task", "either --data DATA, or --query TEXT with --documents FILE")
        )
    ranker = load_ranker_folder(Path(options.checkpoint))
    return _rank_texts(ranker, options) if options.query is not None else _rank_data(ranker, options)


def _rank_texts(ranker: SavedRanker, options: Namespace) -> dict[str, Any]:
    ids, texts = _documents(options.documents)
    rows = np.arange(len(texts))
    scores = ranker.score([options.query], texts, np.zeros(len(rows), np.int64), rows)
    best_first = sorted(rows.tolist(), key=lambda row: (-scores[row], row))
    return {"ranking": [{"doc": ids[row], "score": float(scores[row])} for row in best_first]}


def _documents(path: Path) -> tuple[list[str], list[str]]:
    """Ids (given, or the line number from 1) and texts."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            Problem(str(path), f"cannot be read: {error}", "a UTF-8 text file with one document a line")
        ) from error
    parts = [
        (str(number), line) if "\t" not in line else tuple(line.split("\t", 1))
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not parts:
        raise DataError(Problem(str(path), "holds no document", "one document a line"))
    return [identifier for identifier, _ in parts], [text for _, text in parts]


def _rank_data(ranker: SavedRanker, options: Namespace) -> dict[str, Any]:
    config = ranker.run.data
    data = load_data(config if options.data == config.source else DataConfig(source=options.data))
    if options.split not in data.splits:
        raise DataError(
            Problem("--split", f"'{data.name}' has no {options.split} split", f"one of {', '.join(data.splits)}")
        )
    split = data.splits[options.split]
    scores = ranker.score(data.query_texts(), data.documents, split.query[split.owner], split.document)
    output = options.output or Path(f"rerank.{options.split}.run.txt")
    write_run(output, split, data, scores, ranker.run.ranker["name"])
    return {"run_file": str(output)}


def render(document: dict[str, Any]) -> str:
    if "run_file" in document:
        return f"run written to {document['run_file']}"
    return table(["doc", "score"], ([row["doc"], row["score"]] for row in document["ranking"]))
