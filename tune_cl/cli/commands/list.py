"""Example: tune-cl list scorings"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from search_spaces import SPACES
from trainables.baselines import BASELINES
from trainables.core.plugins import plugin_of
from trainables.core.registry import Entry, Registry
from trainables.curriculum.negatives import SCHEDULES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.curriculum.subset import SUBSETS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.data import DATA_FORMS
from trainables.evaluation.metrics import METRICS
from trainables.evaluation.significance import CORRECTIONS
from trainables.rankers import RANKERS
from trainables.training.losses import LOSSES
from tune_cl.cli.tables import table
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS

KINDS: dict[str, Registry[Any]] = {
    "rankers": RANKERS,
    "scorings": SCORINGS,
    "pacings": PACINGS,
    "weightings": WEIGHTINGS,
    "negatives": SCHEDULES,
    "losses": LOSSES,
    "subsets": SUBSETS,
    "spaces": SPACES,
    "data": DATA_FORMS,
    "baselines": BASELINES,
    "metrics": METRICS,
    "corrections": CORRECTIONS,
    "searchers": SEARCHERS,
    "schedulers": SCHEDULERS,
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help=", ".join(KINDS))


def execute(options: Namespace) -> list[dict[str, Any]]:
    entries = KINDS[options.kind].entries.values()
    return [{"name": entry.name, "summary": entry.summary, "source": _source(entry)} for entry in entries]


def _source(entry: Entry[Any]) -> str:
    """Where an entry comes from; for a plug-in's, also its file or module."""
    plugin = plugin_of(entry)
    return " in ".join(filter(None, [entry.source, plugin.label if plugin else ""]))


def render(document: list[dict[str, Any]]) -> str:
    return table(["name", "summary", "source"], ([row["name"], row["summary"], row["source"]] for row in document))
