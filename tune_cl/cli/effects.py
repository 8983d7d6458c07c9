"""What curricula change over all pairs of a search: effects."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import wrapped
from tune_cl.cli import Command
from tune_cl.cli.options import add_name, add_objective, add_session, recorded, training_options
from tune_cl.cli.tables import table
from tune_cl.results import Effects
from tune_cl.verdict.effect_sentences import value_name


class EffectsCommand(Command):
    """Examples:
      tune-cl effects quickstart
      tune-cl effects quickstart --seeds 2

    What do curricula change, over all matched pairs of a curriculum and its twin, and how much do they differ? No
    winner is chosen, so the answer has no selection bias. Without --seeds: from the dev values of the search.
    --seeds N trains every pair with N new seeds and compares them by query on the split; curricula, seeds and queries
    are samples. tune-cl confirm reuses these trainings. More --seeds later train only what is missing."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        parser.add_argument("--seeds", type=int, metavar="N", help="new trainings of each curriculum and twin")
        parser.add_argument("--split", choices=("test", "dev"), help="what --seeds compares on (default test)")
        add_objective(parser)
        add_session(parser)

    def execute(self, options: Namespace) -> Effects:
        if options.split and options.seeds is None:
            raise ConfigError(Problem("--split", "without --seeds", "--seeds 2 --split test; or neither"))
        split = options.split or "test"
        return recorded(options).effects(options.seeds, split, **training_options(options))

    def render(self, document: Effects) -> str:
        lines = [*map(wrapped, document.sentences)]
        if document.by_value:
            rows = [
                (
                    value_name(one.key, one.value),
                    f"{one.effect:+.4f} [{one.ci95[0]:+.4f}, {one.ci95[1]:+.4f}]",
                    one.pairs,
                )
                for one in document.by_value
            ]
            lines += ["", table(["value", "mean effect [95 %]", "pairs"], rows)]
        return "\n".join(lines)
