"""Examples:
  tune-cl confirm quickstart
  tune-cl confirm penha2020_pacing --top 5 --seeds 10 --correction bonferroni

Trains the K configurations that were best on dev, and the baseline, with N new seeds each; applies each best dev
checkpoint to the split once, and tests the differences over queries. Asked again with more seeds, it trains those that
are missing. With --race, configurations that can no longer be the best on dev get no more seeds. With --ablate, each
configuration is also held against itself without its curriculum: where the search opened more than the curriculum, that
tells what the curriculum is worth. docs/verdict.md tells how the verdict is made."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any

from trainables.core.prose import counted, wrapped
from trainables.evaluation.significance import CORRECTIONS
from tune_cl.cli.options import add_name, add_session, require_ray, tracking_uri_of
from tune_cl.cli.tables import table
from tune_cl.confirmation.request import Request
from tune_cl.confirmation.verdict import (
    LEVEL,
    best_on_dev,
    configurations_of,
    corrected,
    higher,
    leader,
    left_open,
    notes_of,
    p_heading,
)
from tune_cl.history.search_folder import existing_search_folder, search_folder_of

MOST_KEYS = 4  # listed in a sentence
CORRECTED = {"holm": "Holm", "bonferroni": "Bonferroni", "none": "no correction"}
CORRECTED |= dict.fromkeys(("bh", "benjamini-hochberg"), "Benjamini-Hochberg")


def add_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("--top", type=int, default=3, metavar="K", help="configurations, best on dev (default 3)")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="trainings of each (default 5)")
    parser.add_argument("--split", default="test", choices=("test", "dev"), help="what is compared on (default test)")
    names = f"{', '.join(CORRECTIONS)} (default %(default)s); bh is short for benjamini-hochberg"
    parser.add_argument("--correction", default="holm", help=names)
    parser.add_argument("--race", action="store_true", help="no more seeds for those that can no longer win on dev")
    parser.add_argument("--ablate", action="store_true", help="train each configuration without its curriculum too")
    add_session(parser)


def execute(options: Namespace) -> dict[str, Any]:
    search_folder = existing_search_folder(options.storage, options.name)
    tracking_uri = tracking_uri_of(options, search_folder)
    search_folder = replace(search_folder, tracking_uri=tracking_uri)
    require_ray(options)
    from tune_cl.run_confirmation import confirm_search  # imports Ray and torch

    request = Request(options.top, options.seeds, options.split, options.correction, options.race, options.ablate)
    return confirm_search(search_folder, request, tracking_uri, options.address)


def render(document: dict[str, Any]) -> str:
    seeds, queries = len(document["seeds"]), document["queries"]
    head = f"{document['metric']} on {document['split']}, {queries} queries, {seeds} seeds a configuration"
    columns = ["configuration", "mean ± sd", "difference [95 %]", p_heading(document), ""]
    rows = [_row(row) for row in (document["baseline"], *document["configurations"])]
    notes = [
        f"{run['label']}, seed {run['seed']}: not tested, for it failed: {run['reason']}" for run in document["failed"]
    ]
    notes += [f"{one['label']}: not tested, out of the race after seeds {one['seeds']}" for one in document["dropped"]]
    lines = [head, "", table(columns, rows), *map(wrapped, _intervals(document)), "", *_ablations(document)]
    lines += map(wrapped, (*notes, f"{document['verdict']}: {in_words(document)}"))
    search_folder = replace(
        search_folder_of(document["storage"], document["search"]), tracking_uri=document["tracking_uri"]
    )
    report = search_folder.command("report")
    return "\n".join([*lines, "", f"Read the report:  {report}"])


def _intervals(document: dict[str, Any]) -> list[str]:
    """A line on why an interval may exclude 0 though no difference is shown."""
    count = len(document["configurations"])
    if count < 2 or not corrected(document):
        return []
    return [f"Each interval is of one configuration; p is corrected for all {count}."]


def _ablations(document: dict[str, Any]) -> list[str]:
    """A table of the configurations' ablations, by trial; empty if there are none."""
    pairs = [(row, row["ablation"]) for row in document["configurations"] if "ablation" in row]
    columns = ["trial", "without its curriculum", "mean ± sd", "difference [95 %]", p_heading(document), ""]
    rows = [(row["trial_id"], ablation["label"], *_figures(ablation)) for row, ablation in pairs]
    return [table(columns, rows), ""] if rows else []


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    return f"{row['trial_id']} {row['label']}", *_figures(row)


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    spread = f"{row['mean']:.4f}" + (f" ± {row['sd']:.4f}" if len(row["runs"]) > 1 else "")
    if "difference" not in row:
        return spread, "-", "-", ""
    low, high = row["ci95"]
    difference = f"{row['difference']:+.4f} [{low:+.4f}, {high:+.4f}]"
    return spread, difference, f"{row['p_adjusted']:.4f}", row["marks"]


def in_words(document: dict[str, Any]) -> str:
    """The verdict in a few sentences: what was found, how it was corrected, and what it does not say."""
    row, metric = leader(document), document["metric"]
    assert row is not None, "a verdict is of at least one configuration"
    curriculum = of_curriculum(row, metric, any(one["has_curriculum"] for one in document["configurations"]))
    notes = "".join(f" Note: {note}." for note in notes_of(document))
    seeds, queries = counted(len(document["seeds"]), "seed"), counted(document["queries"], "query")
    tested = f"p = {row['p_adjusted']:.2g} ({seeds}, {queries}; {_correction(document)})"
    if document["verdict"] == "no difference shown":
        found = f"'{row['label']}', {best_on_dev(document)}, is {row['difference']:+.4f} {metric} from the baseline"
        return f"{found}; {left_open(document, row)}, {tested}.{_higher(document)}{curriculum}{notes}"
    verb = "is below" if document["verdict"] == "worse" else "is above"
    found = f"'{row['label']}' {verb} the baseline by {abs(row['difference']):.4f} {metric}, {tested}."
    return f"{found}{_of_seeds(row)}{curriculum}{notes}"


def _higher(document: dict[str, Any]) -> str:
    other = higher(document)
    return f" The highest on {document['split']} is '{other['label']}' ({other['difference']:+.4f})." if other else ""


def of_curriculum(row: dict[str, Any], metric: str, curricula: bool = True) -> str:
    """How much of a configuration's difference its curriculum accounts for, if other keys differ from the baseline too.
    `curricula`: whether any configuration has another curriculum than the baseline."""
    others = row["also_differs"]
    if not others:
        return ""
    more = f" and {counted(len(others) - MOST_KEYS, 'more key')}" if len(others) > MOST_KEYS else ""
    keys = f"{', '.join(others[:MOST_KEYS])}{more}"
    if not row["has_curriculum"]:
        return f" {'It has no other curriculum than the baseline: what' if curricula else 'What'} differs is {keys}."
    if "ablation" not in row:
        return f" It differs from the baseline in {keys} too: --ablate tells them apart."
    ablation = row["ablation"]
    difference = f"{ablation['difference']:+.4f} {metric}, p = {ablation['p_adjusted']:.2g}"
    told = f" Against '{ablation['label']}', which is the same without its curriculum: {difference}"
    if ablation["p_adjusted"] > LEVEL:
        return f"{told}; what its curriculum is worth is not shown."
    return f"{told}.{_of_seeds(ablation)}"


def _of_seeds(row: dict[str, Any]) -> str:
    """Says whether the difference holds for new seeds, for p_adjusted takes the seeds as given."""
    seeds, p = len(row["runs"]), row["p_both_adjusted"]
    if not row["seed_matters"]:
        return " The seed changes nothing in these trainings, so it holds for any."
    if seeds == 1:
        return " This speaks of one seed; another might show something else."
    if p <= LEVEL:
        return f" It holds for new seeds as well (p = {p:.2g} with the seeds as a sample too)."
    return (
        f" This speaks of these {seeds} seeds; that it holds for new ones is not shown "
        f"(p = {p:.2g} with the seeds as a sample too)."
    )


def _correction(document: dict[str, Any]) -> str:
    name = CORRECTED.get(document["correction"], document["correction"])
    return f"{name} over {configurations_of(document)}"
