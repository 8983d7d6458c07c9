"""Examples:
  tune-cl plan quickstart --pilot 3
  tune-cl plan quickstart --difference .01

How many seeds does `tune-cl confirm` need? A table of the minimum detectable difference by seeds and queries, with the
hours of the trainings, one after another. The variances come from the last confirmation, or from --pilot N, which
trains the baseline N times and evaluates it on dev; `tune-cl confirm` reuses these trainings."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from trainables.core.prose import counted, wrapped
from trainables.evaluation.metrics import in_words
from tune_cl.api.search import open_search
from tune_cl.cli.options import add_name, add_objective, objective_option
from tune_cl.cli.tables import table
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP


def add_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("--difference", type=difference, metavar="D", help="how many seeds would show it?")
    parser.add_argument("--power", type=power, default=0.8, help="the chance to show it (default .8)")
    parser.add_argument(
        "--top",
        type=int,
        default=1,
        metavar="K",
        help="candidates of each arm (default 1: no selection)",
    )
    parser.add_argument("--pilot", type=int, metavar="N", help="train the baseline N times first, on dev")
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)
    parser.add_argument("--address", help="of a Ray cluster for --pilot: auto, or host:port (default: a local Ray)")
    add_objective(parser)
    parser.add_argument("--allow-open-ray", action="store_true", help="as in tune-cl run; for --pilot")


def difference(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return value


def power(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def execute(options: Namespace) -> dict[str, Any]:
    search = open_search(options.name, options.storage)
    names = ("difference", "power", "top", "pilot", "address", "allow_open_ray")
    return search.plan(**{name: getattr(options, name) for name in names}, objective=objective_option(options))


def render(document: dict[str, Any]) -> str:
    queries = sorted({row["queries"] for row in document["table"]})
    seeds = sorted({row["seeds"] for row in document["table"]})
    cells = {(row["seeds"], row["queries"]): row for row in document["table"]}
    rows = []
    for each in seeds:
        first = cells[each, queries[0]]
        spent = [f"{first['hours']:.2g}"] if first["hours"] is not None else []
        rows.append((str(each), *(f"{cells[each, one]['detectable']:.4f}" for one in queries), *spent))
    headings = ["seeds", *(counted(one, "query") for one in queries)]
    headings += ["hours"] if document["table"][0]["hours"] is not None else []
    question = (
        f"Minimum detectable difference in {in_words(document['metric'])} between two configurations "
        f"(power {document['power']:g}). Variances from {document['source']}."
    )
    lines = [wrapped(question), "", table(headings, rows), "", *_answer(document)]
    lines += [wrapped(f"Note: {note}.") for note in document["notes"]]
    return "\n".join(lines).rstrip()


def _answer(document: dict[str, Any]) -> list[str]:
    """How many seeds would show the difference asked for."""
    if not document["difference"]:
        return []
    needed = document["seeds_needed"]
    seeds = counted(needed, "seed") if needed else "more than 100 seeds, or more queries"
    return [f"To show {document['difference']:g} on {counted(document['queries'], 'query')}: {seeds}."]
