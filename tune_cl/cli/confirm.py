"""The verdict on a search, and how many seeds it needs: confirm, plan."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import counted, say, wrapped
from trainables.evaluation.effects import Effects
from trainables.evaluation.metrics import in_words as in_metric_words
from trainables.evaluation.significance import CORRECTIONS
from tune_cl.api.search import open_search
from tune_cl.cli import Command
from tune_cl.cli.options import add_name, add_objective, add_session, training_options
from tune_cl.cli.tables import table, text
from tune_cl.confirmation.request import Request
from tune_cl.confirmation.verdict import VerdictFacts
from tune_cl.effects.words import sentences_of_search
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP, search_folder_of
from tune_cl.report.story import notes, of_verdict


class ConfirmCommand(Command):
    """Examples:
      tune-cl confirm quickstart
      tune-cl confirm penha2020_pacing --top 5 --seeds 10 --correction bonferroni
      tune-cl confirm macavaney2020_curricula --best-of curriculum.weighting
      tune-cl confirm macavaney2020_curricula --trials t0003,t0017 --against-trial t0001

    First a selection: the K best configurations of each arm, curricula and plain training, are trained with S new seeds
    and compared on dev. Then the best curriculum meets its opponents on the split, with N further seeds each: the best
    plain training, its own settings without the curriculum, and the defaults. It is better only if it beats all of
    them, for new queries and new trainings. --each tests all K curricula, --trials those of the trials that it names
    and --best-of the best of each value of a searched key, also against one another; these two are tested against the
    best plain training alone. More --seeds later train only what is missing. --until-settled trains one seed at a time,
    with an interim analysis after each from the third on, and stops once the result is significant, or so unlikely to
    become significant that more seeds would be wasted; the overall error stays at 5 %. --against adds existing rankers
    or their runs. Of searches NAME-Fold1, NAME-Fold2, ... each is confirmed, and the test is over the queries of all
    folds."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        top = "candidates of each arm (default 3; 2 after fewer than 12 trials)"
        parser.add_argument("--top", type=int, metavar="K", help=top)
        selection = "new seeds of each candidate (default: as many as cost half of the search, at least 1)"
        parser.add_argument("--selection-seeds", type=int, metavar="S", help=selection)
        parser.add_argument("--seeds", type=int, metavar="N", help=f"trainings of each (default {Request.seeds})")
        parser.add_argument(
            "--until-settled",
            action="store_true",
            help="one more seed at a time, until the result is significant or unlikely to become so",
        )
        most = f"the most trainings of each with --until-settled (default {Request.max_seeds})"
        parser.add_argument("--max-seeds", type=int, metavar="N", help=most)
        parser.add_argument(
            "--split", default="test", choices=("test", "dev"), help="what is compared on (default test)"
        )
        names = f"{', '.join(CORRECTIONS)} (default %(default)s); bh is short for benjamini-hochberg"
        parser.add_argument("--correction", default="holm", help=names)
        parser.add_argument(
            "--each", action="store_true", help="test all K curricula, not only the one that dev selects"
        )
        parser.add_argument("--trials", metavar="ID,ID,...", help="test the curricula of these trials instead")
        parser.add_argument("--best-of", metavar="KEY", help="test the best curriculum of each value of KEY instead")
        parser.add_argument("--against-trial", metavar="ID", help="test against this trial instead of plain training")
        parser.add_argument(
            "--new-noise", action="store_true", help="draw the label noise of data.label_noise again for each seed"
        )
        parser.add_argument(
            "--unfinished", action="store_true", help="also of a search that has not ended: its best so far"
        )
        present = "a TREC run or a ranker (a folder, or a cross-encoder's hub name) to compare with (repeatable)"
        parser.add_argument("--against", action="append", default=[], metavar="RUN|MODEL", help=present)
        add_objective(parser)
        add_session(parser)

    def execute(self, options: Namespace) -> VerdictFacts:
        request = _request(options)
        place = {"storage": options.storage, "tracking_uri": options.tracking_uri}
        if folds := searches_of_folds(options.storage, options.name):
            return confirm_folds(options.name, folds, request, **place, **training_options(options))
        return open_search(options.name, **place).confirm(**_given(request), **training_options(options))

    def render(self, document: VerdictFacts) -> str:
        folder = replace(search_folder_of(document.storage, document.search), tracking_uri=document.tracking_uri)
        return f"{text(of_verdict(document))}\n\nRead the report:  {folder.command('report')}"


def _given(request: Request) -> dict[str, Any]:
    """The options as `Search.confirm` takes them."""
    return {one.name: getattr(request, one.name) for one in fields(Request)}


def searches_of_folds(storage: str, name: str) -> list[str]:
    """The searches NAME-Fold1, ..., by number; none if there is a search of the name itself."""
    if search_folder_of(storage, name).exists():
        return []
    form = re.compile(rf"{re.escape(name)}-Fold([0-9]+)")
    found = filter(None, map(form.fullmatch, search_folder_of(storage, "").search_names()))
    return [match[0] for match in sorted(found, key=lambda match: int(match[1]))]


def confirm_folds(
    name: str, names: Sequence[str], request: Request, storage: str, tracking_uri: str | None, **options: Any
) -> VerdictFacts:
    """Confirms the search of each fold, then joins them; `options`: others of `Search.confirm`. Raises ConfigError for
    what only one search can be asked."""
    single = {"--until-settled": request.until_settled, "--against": request.against}
    if problems := [Problem(flag, "not over folds", f"of one: {names[0]}") for flag, given in single.items() if given]:
        raise ConfigError(problems)
    from tune_cl.confirmation.folds import joined  # imports SciPy's statistics

    verdicts = []
    for one in names:
        say(f"search {one}")
        verdicts.append(open_search(one, storage, tracking_uri).confirm(**_given(request), **options))
    found = joined(name, verdicts, request)
    return replace(found, notes=notes(found))


def _request(options: Namespace) -> Request:
    """Raises ConfigError for options that do not go together."""
    if options.until_settled and options.seeds is not None:
        right = "--max-seeds, the most that it may train; or --seeds alone"
        raise ConfigError(Problem("--seeds", "not together with --until-settled", right))
    if options.max_seeds is not None and not options.until_settled:
        raise ConfigError(Problem("--max-seeds", "without --until-settled", "both; or --seeds for a fixed number"))
    given = {one.name: getattr(options, one.name) for one in fields(Request)}
    trials = dict.fromkeys(name for name in (options.trials or "").split(",") if name)
    given |= {"trials": tuple(trials), "against": tuple(options.against)}
    return Request(**{name: value for name, value in given.items() if value is not None})


class PlanCommand(Command):
    """Examples:
      tune-cl plan quickstart --pilot 3
      tune-cl plan quickstart --difference .01

    How many seeds does `tune-cl confirm` need? A table of the minimum detectable difference by seeds and queries, with
    the hours of the trainings, one after another. The variances come from the last confirmation, or from --pilot N,
    which trains the baseline N times and evaluates it on dev; `tune-cl confirm` reuses these trainings."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        parser.add_argument(
            "--difference", type=float, metavar="D", help="a difference to detect, for the seeds it needs"
        )
        parser.add_argument("--power", type=float, default=0.8, help="probability of detecting it (default .8)")
        each = "candidates of each arm (default 1: no selection)"
        parser.add_argument("--top", type=int, default=1, metavar="K", help=each)
        parser.add_argument("--pilot", type=int, metavar="N", help="train the baseline N times first, on dev")
        parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)
        parser.add_argument("--address", help="of a Ray cluster for --pilot: auto, or host:port (default: a local Ray)")
        add_objective(parser)
        parser.add_argument("--allow-open-ray", action="store_true", help="as in tune-cl run; for --pilot")

    def execute(self, options: Namespace) -> dict[str, Any]:
        search = open_search(options.name, options.storage)
        asked = {name: getattr(options, name) for name in ("difference", "power", "top", "pilot")}
        return search.plan(**asked, **training_options(options))

    def render(self, document: dict[str, Any]) -> str:
        queries = sorted({row["queries"] for row in document["table"]})
        by_seeds: dict[int, list[dict[str, Any]]] = {}
        for row in document["table"]:
            by_seeds.setdefault(row["seeds"], []).append(row)
        timed = document["table"][0]["hours"] is not None
        rows = [
            (str(seeds), *(f"{row['detectable']:.4f}" for row in sorted(of_seeds, key=lambda row: row["queries"])),
             *([f"{of_seeds[0]['hours']:.2g}"] if timed else []))
            for seeds, of_seeds in sorted(by_seeds.items())
        ]  # fmt: skip
        headings = ["seeds", *(counted(one, "query") for one in queries), *(["hours"] if timed else [])]
        question = (
            f"Minimum detectable difference in {in_metric_words(document['metric'])} between two configurations "
            f"(power {document['power']:g}). Variances from {document['source']}."
        )
        lines = [wrapped(question), "", table(headings, rows), ""]
        if asked := document["difference"]:
            needed = document["seeds_needed"]
            seeds = counted(needed, "seed") if needed else "more than 100 seeds, or more queries"
            lines.append(f"To show {asked:g} on {counted(document['queries'], 'query')}: {seeds}.")
        effects = document["effects"] and Effects.of_document(document["effects"])
        said = sentences_of_search(
            document["search"], document["metric"], effects, document.get("over_curricula", True)
        )
        lines += [wrapped(" ".join(said))]
        lines += [wrapped(f"Note: {note}.") for note in document["notes"]]
        return "\n".join(lines).rstrip()
