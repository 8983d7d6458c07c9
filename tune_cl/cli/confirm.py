"""The verdict on a search: confirm."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import wrapped
from trainables.evaluation.metrics import in_words
from tune_cl.cli import Command
from tune_cl.cli.options import add_name, add_objective, add_session, recorded, training_options
from tune_cl.cli.tables import table
from tune_cl.history.search_folder import search_folder_of
from tune_cl.results import Opponent, Plan, Verdict


class ConfirmCommand(Command):
    """Examples:
      tune-cl confirm quickstart
      tune-cl confirm quickstart --plan
      tune-cl confirm macavaney2020_curricula --trials t0003,t0017

    First a selection: the K best configurations of each arm, curricula and plain training, are trained with new seeds
    and compared on dev. Then the best curriculum meets its opponents on the split, with N further seeds each: the best
    plain training, its own settings without the curriculum, the defaults and, if it never showed some pairs, the same
    pairs in random order. It is better only if it beats all of them, for new queries and new trainings. More --seeds
    later train only what is missing, and count as a further test."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        parser.add_argument("--seeds", type=int, metavar="N", help="new trainings of each (default: 5 to 20, by time)")
        parser.add_argument("--top", type=int, metavar="K", help="candidates of each arm (default 3; 2 of few trials)")
        parser.add_argument("--trials", metavar="ID,..", default="", help="test the curricula of these trials instead")
        parser.add_argument(
            "--split", default="test", choices=("test", "dev"), help="what is compared on (default test)"
        )
        parser.add_argument(
            "--plan", action="store_true", help="train nothing: how many seeds find which gain, in how many hours"
        )
        add_objective(parser)
        add_session(parser)

    def execute(self, options: Namespace) -> Verdict | Plan:
        search, trials = recorded(options), [one for one in options.trials.split(",") if one]
        asked = {"top": options.top, "trials": trials, "split": options.split}
        if not options.plan:
            return search.confirm(seeds=options.seeds, **asked, **training_options(options))
        if options.seeds is not None:
            raise ConfigError(Problem("--seeds", "together with --plan", "one of the two"))
        return search.plan(**asked)

    def render(self, document: Verdict | Plan) -> str:
        return plan_text(document) if isinstance(document, Plan) else verdict_text(document)


def verdict_text(verdict: Verdict) -> str:
    rows = [(verdict.curriculum.label, "curriculum", verdict.curriculum.mean, verdict.curriculum.sd, "", "", "")]
    rows += [_row(one) for one in verdict.opponents]
    headings = ["", "role", f"{verdict.split} {in_words(verdict.metric)}", "SD", "difference", "95 % CI", "p"]
    lines = [*map(wrapped, verdict.sentences), "", table(headings, rows)]
    for other in verdict.others:
        first = other.opponents[0]
        row = (other.curriculum.label, other.verdict, other.curriculum.mean, other.curriculum.sd)
        lines.append(table(["", "verdict", "mean", "SD", "difference", "95 % CI", "p"], [(*row, *_row(first)[4:])]))
    folder = replace(search_folder_of(verdict.storage, verdict.search), tracking_uri=verdict.tracking_uri)
    return "\n".join([*lines, "", f"Read the report:  {folder.command('report')}"])


def _row(one: Opponent) -> tuple[object, ...]:
    between = f"[{one.ci95[0]:+.4f}, {one.ci95[1]:+.4f}]" if one.ci95 else None
    p = None if one.p is None else "< 0.001" if one.p < 0.001 else f"{one.p:.3f}"
    return one.label, ", ".join(one.roles), one.mean, one.sd, f"{one.difference:+.4f}", between, p


def plan_text(plan: Plan) -> str:
    question = (
        f"The smallest gain in {in_words(plan.metric)} over all opponents that a verdict finds with a power of .8, on "
        f"{plan.queries} queries; the power for a gain of .02; and the time of all trainings, one after another. "
        f"Variances from {plan.source}."
    )
    rows = [
        (
            row.seeds,
            row.detectable,
            f"{row.power:.2f}",
            row.trainings,
            None if row.hours is None else f"{row.hours:.2g}",
        )
        for row in plan.rows
    ]
    return f"{wrapped(question)}\n\n{table(['seeds', 'gain', 'power for .02', 'trainings', 'hours'], rows)}"
