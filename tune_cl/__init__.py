"""tune_cl: finds the training curriculum that really improves a neural ranker.

    import tune_cl
    search = tune_cl.run("quickstart")
    verdict = search.confirm()

A name is imported when it is first used, so `import tune_cl` takes no time. Each name has a line in `HOMES` and one for
type checkers below it; docs/reference/python.md describes them all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

HOMES = {  # the module that each public name comes from
    "ConfigError": "trainables.core.errors",
    "Curriculum": "trainables.loops.curriculum",
    "DataError": "trainables.core.errors",
    "Interrupted": "trainables.core.errors",
    "ObjectiveTrial": "trainables.training.objective",
    "Ranker": "tune_cl.api.rankers",
    "Search": "tune_cl.api.search",
    "SearchResult": "tune_cl.results",
    "Training": "tune_cl.api.train",
    "TrainingEnded": "trainables.training.calls",
    "Trial": "tune_cl.results",
    "Verdict": "tune_cl.results",
    "WorkFailed": "trainables.core.errors",
    "baseline": "tune_cl.api.baseline",
    "check": "tune_cl.api.check",
    "compare": "tune_cl.verdict.test",
    "data_facts": "tune_cl.api.data",
    "difficulty": "tune_cl.api.score",
    "evaluate": "tune_cl.api.evaluate",
    "instances": "tune_cl.api.score",
    "load_plugins": "trainables.core.plugins",
    "load_ranker": "tune_cl.api.rankers",
    "loss": "trainables.training.losses",
    "open_search": "tune_cl.api.start",
    "pacing": "trainables.curriculum.pacing",
    "ranker": "trainables.rankers.decorator",
    "reader": "trainables.data.forms",
    "run": "tune_cl.api.start",
    "score": "tune_cl.api.score",
    "scoring": "trainables.curriculum.scoring",
    "train": "tune_cl.api.train",
    "weighting": "trainables.curriculum.weighting",
}
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
