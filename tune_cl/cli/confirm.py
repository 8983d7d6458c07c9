"""The verdict on a search, and how many seeds it needs: confirm, plan."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from trainables.core.prose import counted, wrapped
from trainables.evaluation.metrics import in_words as in_metric_words
from tune_cl.api.search import Search
from tune_cl.api.start import open_search
from tune_cl.cli import Command
from tune_cl.cli.options import add_name, add_objective, add_session, storage_of, training_options
from tune_cl.cli.tables import table, text
from tune_cl.confirmation.request import PlanRequest, Request
from tune_cl.confirmation.verdict import VerdictFacts
from tune_cl.effects.words import sentences_of_search
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP, search_folder_of
from tune_cl.report.story import of_verdict

if TYPE_CHECKING:
    from tune_cl.confirmation.plan import Plan, PlanRow


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
        Request.add_to(parser)
        add_objective(parser)
        add_session(parser)

    def execute(self, options: Namespace) -> VerdictFacts:
        request = Request.of_command_line(options)
        given = storage_of(options)
        searches = open_search(options.name, given.storage, given.tracking_uri)
        return searches.confirm(**request.changed, **training_options(options))

    def render(self, document: VerdictFacts) -> str:
        folder = replace(search_folder_of(document.storage, document.search), tracking_uri=document.tracking_uri)
        return f"{text(of_verdict(document))}\n\nRead the report:  {folder.command('report')}"


class PlanCommand(Command):
    """Examples:
      tune-cl plan quickstart --pilot 3
      tune-cl plan quickstart --difference .01

    How many seeds does `tune-cl confirm` need? A table of the minimum detectable difference by seeds and queries, with
    the hours of the trainings, one after another. The variances come from the last confirmation, or from --pilot N,
    which trains the baseline N times and evaluates it on dev; `tune-cl confirm` reuses these trainings."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        PlanRequest.add_to(parser)
        parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)
        parser.add_argument("--address", help="of a Ray cluster for --pilot: auto, or host:port (default: a local Ray)")
        add_objective(parser)
        parser.add_argument("--allow-open-ray", action="store_true", help="as in tune-cl run; for --pilot")

    def execute(self, options: Namespace) -> Plan:
        search = Search.recorded(options.name, options.storage)
        return search.plan(**PlanRequest.given(options), **training_options(options))

    def render(self, document: Plan) -> str:
        queries = sorted({row.queries for row in document.table})
        by_seeds: dict[int, list[PlanRow]] = {}
        for row in document.table:
            by_seeds.setdefault(row.seeds, []).append(row)
        timed = document.table[0].hours is not None
        rows = [
            (str(seeds), *(f"{row.detectable:.4f}" for row in sorted(of_seeds, key=lambda row: row.queries)),
             *([f"{of_seeds[0].hours:.2g}"] if timed else []))
            for seeds, of_seeds in sorted(by_seeds.items())
        ]  # fmt: skip
        headings = ["seeds", *(counted(one, "query") for one in queries), *(["hours"] if timed else [])]
        question = (
            f"Minimum detectable difference in {in_metric_words(document.metric)} between two configurations "
            f"(power {document.power:g}). Variances from {document.source}."
        )
        lines = [wrapped(question), "", table(headings, rows), ""]
        if document.difference:
            needed = document.seeds_needed
            seeds = counted(needed, "seed") if needed else "more than 100 seeds, or more queries"
            lines.append(f"To show {document.difference:g} on {counted(document.queries, 'query')}: {seeds}.")
        said = sentences_of_search(document.effects, document.over_curricula)
        lines += [wrapped(" ".join(said))]
        lines += [wrapped(f"Note: {note}.") for note in document.notes]
        return "\n".join(lines).rstrip()
