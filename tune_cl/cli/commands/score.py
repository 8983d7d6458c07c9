"""Example: tune-cl score docstrings context_words --output difficulty.tsv

Writes one line an instance: query id, document id(s), difficulty (higher = harder). An instance is a query with one of
its relevant documents, whose negatives are drawn in training. With --set training.negatives=all every pair of a
relevant document and a lower-graded one is an instance, and with --set training.loss=pointwise as well every candidate.
--set training.loss=pointwise alone gives two instances a relevant document: itself, and one drawn negative."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.core.files import output_file, require_file, write_text
from trainables.curriculum.sampler import easy_first
from trainables.data.columns import RankingData, Split
from trainables.data.instances import DRAWN, NONE, Instances
from tune_cl.cli.options import DATA_HELP, add_overrides, add_split
from tune_cl.cli.tables import table

if TYPE_CHECKING:
    from trainables.loops.instances import SplitInstances

SHOWN = 3
NOT_FIXED = "(drawn each time from the less relevant candidates)"
LETTERS = 300  # of a text
WIDTH = 110  # of the printed examples


@dataclass(frozen=True)
class Example:
    """One instance, its texts cut to LETTERS. `label`: relevant, other, or a pair's class."""

    value: float
    query_id: str
    query: str
    document: str
    label: str


def extremes(data: RankingData, split: Split, instances: Instances, values: np.ndarray) -> dict[str, list[Example]]:
    """The SHOWN easiest and hardest instances, on each side of different queries, most extreme first."""
    orders = {"easiest": easy_first(values), "hardest": easy_first(values, anti=True)}
    return {name: [_example(data, split, instances, values, row) for row in _of_queries(instances, order)]
            for name, order in orders.items()}  # fmt: skip


def _of_queries(instances: Instances, order: np.ndarray) -> list[int]:
    """The first SHOWN instances of an order that belong to different queries."""
    _, first = np.unique(instances.query[order], return_index=True)
    return order[np.sort(first)[:SHOWN]].tolist()


def _example(data: RankingData, split: Split, instances: Instances, values: np.ndarray, row: int) -> Example:
    query = int(split.query[instances.query[row]])
    positive = int(instances.fixed_positive[row])
    shown = positive if positive != NONE else int(instances.negative[row])
    document = NOT_FIXED if shown == DRAWN else data.documents[int(split.document[shown])]
    texts = [shorten(text, LETTERS, placeholder=" ...") for text in (data.query_text(query), document)]
    label = "other" if positive == NONE else data.classes[split.grade[positive]] if data.classes else "relevant"
    return Example(float(values[row]), data.query_ids[query], *texts, label=label)


def as_text(document: Mapping[str, list[dict[str, Any]]]) -> str:
    """The examples of a document, a block each."""
    blocks = []
    for name, examples in document.items():
        blocks.append(f"\n{name}:")
        for example in examples:
            lines = [f"  {example['value']:.4g}  {example['query_id']}"]
            lines += _indented("query: ", example["query"]) + _indented(f"{example['label']}: ", example["document"])
            blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _indented(label: str, text: str) -> list[str]:
    return wrap(label + text, WIDTH, initial_indent="    ", subsequent_indent="      ")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument("scoring", metavar="SCORING", help="see tune-cl list scorings")
    add_split(parser, "train", "instances are scored")
    parser.add_argument("--output", type=Path, help="TSV file (default: SCORING.SPLIT.tsv)")
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    from trainables.loops.instances import difficulties, instances_of
    from tune_cl.experiment.load import load_training_run

    output = options.output or Path(f"{options.scoring}.{options.split}.tsv")
    require_file("--output", output)
    part = instances_of(load_training_run(None, options.overrides, options.data), options.split, options.scoring)
    scored = difficulties(part, options.scoring)
    data, split, instances, values = part.data, part.split, part.instances, scored.values
    with output_file(output) as file:
        write_text(file, "".join(_lines(part, values)))
    examples = extremes(data, split, instances, values)
    return {
        "count": len(values),
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": float(values.mean()),
        "seconds": scored.seconds,
        "cached": scored.cached,
        "output": str(output),
        "examples": {name: [asdict(one) for one in side] for name, side in examples.items()},
    }


def _lines(part: SplitInstances, values: np.ndarray) -> Iterator[str]:
    """TSV lines: query id, the instance's fixed documents joined by a space, value."""
    rows = zip(part.query, part.ids(part.document), part.ids(part.negative), values.tolist(), strict=True)
    for query, document, negative, value in rows:
        documents = " ".join(name for name in (document, negative) if name is not None)
        yield f"{part.data.query_ids[int(query)]}\t{documents}\t{value!r}\n"


def render(document: dict[str, Any]) -> str:
    examples = document["examples"]
    values = {key: value for key, value in document.items() if key != "examples"}
    return table(["", "value"], values.items()) + "\n" + as_text(examples)
