"""How many seeds a verdict needs: `tune-cl confirm --plan`. Nothing is trained.

The variances come from the last verdict of the search, else from a pair that the search trained with further seeds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import counted
from trainables.evaluation.crossed import CrossedTest, crossed_tests
from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import read_per_query
from tune_cl.experiment.arms import CURRICULUM
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, experiment_of
from tune_cl.results import LEVEL, Plan, PlanRow, Verdict
from tune_cl.verdict.confirm import mean_seconds
from tune_cl.verdict.contenders import contenders_by_training
from tune_cl.verdict.files import last_verdict, verdict_values
from tune_cl.verdict.opponents import in_pairs
from tune_cl.verdict.power import design_of
from tune_cl.verdict.retraining import Request
from tune_cl.verdict.selection import SPLIT, choices, selecting
from tune_cl.verdict.test import Duel, outcomes

SEEDS = (3, 5, 10, 20, 50)
OPPONENTS = 3  # champion, twin and default


def plan_of(search_folder: SearchFolder, state: SearchState, request: Request) -> Plan:
    """The smallest gain that each number of seeds finds over all opponents, and the hours of all trainings, those of
    the selection included. Raises ConfigError where no variance between seeds is known."""
    experiment = experiment_of(state)
    verdict = last_verdict(search_folder.folder, request.split, "dev")
    if verdict and len(verdict.seeds) > 1:
        tests, queries = _of_verdict(verdict), verdict.clusters
        source = f"the verdict on {verdict.split} with {counted(len(verdict.seeds), 'seed')}"
    else:
        tests, queries = _of_repeated(search_folder, state)
        source = "a pair that the search trained with further seeds, on dev"
    design = design_of(tests, queries, LEVEL)
    if design is None:
        raise _unknown(search_folder)
    seconds = mean_seconds(state)
    configurations = len(tests) + 1
    selecting = _selection_trainings(state, experiment, request)
    rows = []
    for seeds in SEEDS:
        trainings = selecting + configurations * seeds
        hours = None if seconds is None else trainings * seconds / 3600
        power = {"detectable": design.detectable(seeds), "power": design.power(seeds)}
        rows.append(PlanRow(seeds=seeds, trainings=trainings, hours=hours, **power))
    return Plan(
        search=state.name, metric=state.metric, split=request.split, queries=queries, source=source, rows=tuple(rows)
    )


def _of_verdict(verdict: Verdict) -> list[CrossedTest]:
    values = verdict_values(verdict)
    alike = all(_starts_alike(one.params) for one in (verdict.curriculum, *verdict.opponents))
    duels = [
        Duel(
            verdict.curriculum.label,
            one.label,
            one.roles,
            alike or in_pairs(verdict.curriculum.params, one.params, bool({"twin", "filter"} & {*one.roles})),
        )
        for one in verdict.opponents
        if not np.array_equal(values[one.label], values[verdict.curriculum.label])
    ]
    return [one.test.new for of_curriculum in outcomes(values, duels).values() for one in of_curriculum]


def _starts_alike(params: dict[str, object]) -> bool:
    return bool(params.get("ranker.model") or params.get("training.pretrain_data"))


def _of_repeated(search_folder: SearchFolder, state: SearchState) -> tuple[list[CrossedTest], int]:
    """From the best curriculum that has further seeds, as if each opponent were like its twin, trained for itself."""
    for curriculum, _ in state.ranked_of(CURRICULUM):
        trials = [curriculum, *(trial for trial in state.by_number() if trial.repeats == curriculum.trial)]
        pairs = [(trial, state.trials[trial.twin]) for trial in trials if trial.twin]
        saved = [[values_file(Path(one.artifacts), SPLIT) for one in pair if one.artifacts] for pair in pairs]
        whole = [files for files in saved if len(files) == 2 and all(file.exists() for file in files)]
        if len(whole) > 1:
            values, reference = (
                np.array([[*read_per_query(files[arm], state.metric).values()] for files in whole]) for arm in (0, 1)
            )
            [test] = crossed_tests([(values, reference)], paired=_starts_alike(curriculum.params))
            return [test] * OPPONENTS, values.shape[1]
    raise _unknown(search_folder)


def _unknown(search_folder: SearchFolder) -> ConfigError:
    wrong = f"search '{search_folder.name}' has no two trainings of a pair that differ in the seed alone"
    return ConfigError(Problem("--plan", wrong, "tune-cl confirm first, with 2 seeds or more"))


def _selection_trainings(state: SearchState, experiment: Experiment, request: Request) -> int:
    arms = choices(state, contenders_by_training(state, experiment), request.top, request.trials)
    choosing, seeds = selecting(arms, bool(request.trials), len(state.trials))
    return seeds * sum(len(arms[arm]) for arm in choosing)
