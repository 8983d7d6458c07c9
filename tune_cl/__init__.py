"""tune_cl: finds the training curriculum that really improves a neural ranker.

    import tune_cl
    search = tune_cl.run("quickstart")
    verdict = search.confirm()

A name is imported when it is first used, so `import tune_cl` takes no time. Each name stands in `PUBLIC` and, for type
checkers, in a line below it; docs/reference/python.md describes them all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

PUBLIC = {  # the names of each module
    "trainables.core.errors": "ConfigError DataError Interrupted WorkFailed",
    "trainables.core.plugins": "load_plugins",
    "trainables.curriculum.pacing": "pacing",
    "trainables.curriculum.scoring": "scoring",
    "trainables.curriculum.weighting": "weighting",
    "trainables.data.forms": "reader",
    "trainables.loops.curriculum": "Curriculum",
    "trainables.rankers.decorator": "ranker",
    "trainables.training.calls": "TrainingEnded",
    "trainables.training.losses": "loss",
    "trainables.training.objective": "ObjectiveTrial",
    "tune_cl.api.baseline": "baseline",
    "tune_cl.api.check": "check",
    "tune_cl.api.data": "data_facts",
    "tune_cl.api.evaluate": "evaluate",
    "tune_cl.api.rankers": "Ranker load_ranker",
    "tune_cl.api.score": "difficulty instances score",
    "tune_cl.api.search": "Search",
    "tune_cl.api.start": "open_search run",
    "tune_cl.api.train": "Training train",
    "tune_cl.results": "SearchResult Trial Verdict",
    "tune_cl.verdict.test": "compare",
}
HOMES = {name: module for module, names in PUBLIC.items() for name in names.split()}
if TYPE_CHECKING:
    from trainables.core.errors import ConfigError as ConfigError
    from trainables.core.errors import DataError as DataError
    from trainables.core.errors import Interrupted as Interrupted
    from trainables.core.errors import WorkFailed as WorkFailed
    from trainables.core.plugins import load_plugins as load_plugins
    from trainables.curriculum.pacing import pacing as pacing
    from trainables.curriculum.scoring import scoring as scoring
    from trainables.curriculum.weighting import weighting as weighting
    from trainables.data.forms import reader as reader
    from trainables.loops.curriculum import Curriculum as Curriculum
    from trainables.rankers.decorator import ranker as ranker
    from trainables.training.calls import TrainingEnded as TrainingEnded
    from trainables.training.losses import loss as loss
    from trainables.training.objective import ObjectiveTrial as ObjectiveTrial
    from tune_cl.api.baseline import baseline as baseline
    from tune_cl.api.check import check as check
    from tune_cl.api.data import data_facts as data_facts
    from tune_cl.api.evaluate import evaluate as evaluate
    from tune_cl.api.rankers import Ranker as Ranker
    from tune_cl.api.rankers import load_ranker as load_ranker
    from tune_cl.api.score import difficulty as difficulty
    from tune_cl.api.score import instances as instances
    from tune_cl.api.score import score as score
    from tune_cl.api.search import Search as Search
    from tune_cl.api.start import open_search as open_search
    from tune_cl.api.start import run as run
    from tune_cl.api.train import Training as Training
    from tune_cl.api.train import train as train
    from tune_cl.results import SearchResult as SearchResult
    from tune_cl.results import Trial as Trial
    from tune_cl.results import Verdict as Verdict
    from tune_cl.verdict.test import compare as compare

__all__ = list(HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'tune_cl' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
