"""Parts of a plug-in, tried once on a few instances before a search begins: else each trial would fail by itself."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator

import numpy as np

from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError, Problem, UserError, last_line
from trainables.core.plugins import own_parts, plugin_of
from trainables.core.registry import Entry
from trainables.curriculum.pacing import PACINGS, Schedule
from trainables.curriculum.scoring import OTHER_TEACHERS, SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS, values_of
from trainables.data.columns import RankingData, required_split
from trainables.data.combine import some_queries
from trainables.data.instances import Instances, make_instances
from trainables.training.batching import scored_of

QUERIES = 20  # of the training data, or all if they give no instance
STEPS = (1, 5, 10)  # of a pacing whose curriculum ends at the last


def try_parts(tree: object, run: TrainingRun, data: RankingData) -> None:
    """Calls each scoring, pacing and weighting of one's own that a space names. Raises ConfigError for those that fail,
    with the line of the plug-in where they did."""
    problems = []
    for entry in own_parts(tree):
        for kind, call in _calls(entry, run, data):
            try:
                call()
            except UserError as error:
                problems += error.problems
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises
                wrong = f"{kind} '{entry.name}' fails on a few instances: {type(error).__name__}: {last_line(error)}"
                problems.append(Problem(_place(error, entry), wrong, "a part that takes them"))
    if problems:
        raise ConfigError(problems)


def _calls(entry: Entry[object], run: TrainingRun, data: RankingData) -> Iterator[tuple[str, Callable[[], object]]]:
    name = entry.name
    if SCORINGS.entries.get(name) is entry:
        yield "scoring", lambda: _try_scoring(name, run, data)
    if PACINGS.entries.get(name) is entry:
        yield "pacing", lambda: [Schedule(name, float(STEPS[-1]), 0.33, 2, 3).share(step) for step in STEPS]
    if WEIGHTINGS.entries.get(name) is entry and WEIGHTINGS[name] is not None:
        yield "weighting", lambda: values_of(name, some_queries(required_split(data, "train"), np.arange(1)), False)


def _try_scoring(name: str, run: TrainingRun, data: RankingData) -> None:
    """On the first training queries, with drawn scores in place of those of a teacher."""
    whole, level = required_split(data, "train"), run.evaluation.relevance_level
    split = some_queries(whole, np.arange(min(QUERIES, len(whole))))
    if data.task != "classification" and not (split.grade >= level).any():
        split = whole
    instances = Instances.of_pairs(split) if data.classes else make_instances(split, True, 1, level)
    shape = (len(split.document), len(data.classes)) if data.classes else (len(split.document),)
    scores = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    teachers = {need: lambda: np.stack([scores, scores]) for need in OTHER_TEACHERS}
    teachers |= {need: lambda: scores for need in ("teacher", "cross_fitted")}
    np.asarray(SCORINGS[name](scored_of(run, data, split, instances, teachers)), np.float64)


def _place(error: Exception, entry: Entry[object]) -> str:
    """FILE:LINE of the plug-in where an error came up, else the plug-in."""
    plugin = plugin_of(entry)
    label = plugin.label if plugin else entry.module
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == label]
    return f"{label}:{lines[-1]}" if lines else label
