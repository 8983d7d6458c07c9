"""Example: tune-cl score docstrings context_words --output difficulty.tsv

Writes one line an instance: query id, document id(s), difficulty (higher = harder); with --plot also a picture. An
instance is a query with one of its relevant documents, whose negatives are drawn in training. With --set
training.negatives=all every pair of a relevant document and a lower-graded one is an instance, and with --set
training.loss=pointwise as well every candidate. --set training.loss=pointwise alone gives two instances a relevant
document: itself, and one drawn negative."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from trainables.prose import say
from tune_cl.console.settings import DATA_HELP, add_overrides, add_split
from tune_cl.console.tables import table


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument("scoring", metavar="SCORING", help="see tune-cl list scorings")
    add_split(parser, "train", "instances are scored")
    parser.add_argument("--output", type=Path, help="TSV file (default: SCORING.SPLIT.tsv)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG or SVG: the distribution, and examples as text")
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    from trainables.curriculum.difficulty import difficulty
    from trainables.curriculum.scoring import SCORINGS
    from trainables.data import load_data
    from trainables.data.columns import required_split
    from trainables.files import output_file, require_file, write_text
    from trainables.fit import require_scoring
    from tune_cl.console.difficulty_examples import as_document, extremes, plot_difficulty
    from tune_cl.console.plots import require_format
    from tune_cl.experiment import load_training_run

    SCORINGS[options.scoring]  # raises for an unknown name before the data is read
    if options.plot:
        require_format(options.plot)
    output = options.output or Path(f"{options.scoring}.{options.split}.tsv")
    require_file("--output", output)
    run = load_training_run(None, options.overrides, options.data)
    data = load_data(run.data)
    require_scoring(options.scoring, data)
    from trainables.training.teacher import scored_of
    from trainables.training.training import split_instances  # imports torch: input errors come first

    split = required_split(data, options.split)
    instances = split_instances(run, data, split)
    started = time.perf_counter()
    values, cached = difficulty(options.scoring, scored_of(run, data, split, instances))
    seconds = time.perf_counter() - started
    if len(values) > 1 and values.min() == values.max():
        say(f"note: all {len(values):,} instances have the same value: they would keep the order of the data")
    if options.scoring == "self_paced":
        begins = "these values are the random order that self_paced begins with"
        say(f"note: {begins}: it measures the ranker's own loss, which only a training has")
    with output_file(output) as file:
        write_text(file, "".join(_lines(data, split, instances, values)))
    found = extremes(data, split, instances, values)
    if options.plot:
        plot_difficulty(options.plot, options.scoring, values, found)
    return {
        "count": len(values),
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": float(values.mean()),
        "seconds": seconds,
        "cached": cached,
        "output": str(output),
        "plot": str(options.plot) if options.plot else None,
        "examples": as_document(found),
    }


def _lines(data, split, instances, values):
    """TSV lines: query id, the instance's fixed documents joined by a space, value."""
    query_ids = [data.query_ids[query] for query in split.query]
    columns = (instances.query, instances.fixed_positive, instances.negative, values)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for query, positive, negative, value in rows:
        documents = " ".join(data.document_ids[split.document[row]] for row in (positive, negative) if row >= 0)
        yield f"{query_ids[query]}\t{documents}\t{value!r}\n"


def render(document: dict[str, Any]) -> str:
    from tune_cl.console.difficulty_examples import as_text

    examples = document["examples"]
    values = {key: value for key, value in document.items() if key != "examples"}
    return table(["", "value"], values.items()) + "\n" + as_text(examples)
