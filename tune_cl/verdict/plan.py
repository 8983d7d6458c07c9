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
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, experiment_of
from tune_cl.results import LEVEL, Plan, PlanRow, Verdict
from tune_cl.verdict.confirm import mean_seconds
from tune_cl.verdict.contenders import contenders_by_training
from tune_cl.verdict.files import last_verdict
from tune_cl.verdict.opponents import in_pairs
from tune_cl.verdict.power import design_of
from tune_cl.verdict.retraining import Request
from tune_cl.verdict.selection import SPLIT, choices, selecting
from tune_cl.verdict.test import Duel, outcomes, values_by_cluster

SEEDS = (3, 5, 10, 20, 50)
OPPONENTS = 3  # champion, twin and default


def plan_of(search_folder: SearchFolder, state: SearchState, request: Request) -> Plan:
    """The smallest gain that each number of seeds finds over all opponents, and the hours of all trainings, those of
    the selection included. Raises ConfigError where no variance between seeds is known."""
    verdict = last_verdict(search_folder.folder, request.split, "dev")
    if verdict and len(verdict.seeds) > 1:
        tests, queries = _of_verdict(verdict), verdict.clusters
        source = f"the verdict on {verdict.split} with {counted(len(verdict.seeds), 'seed')}"
    else:
        tests, queries = _of_repeated(state)
        source = "a pair that the search trained with further seeds, on dev"
    design = design_of(tests, queries, LEVEL) if tests else None
    if design is None:
        wrong = f"search '{search_folder.name}' has no two trainings of a pair that differ in the seed alone"
        raise ConfigError(Problem("--plan", wrong, "tune-cl confirm first, with 2 seeds or more"))
    arms = choices(state, contenders_by_training(state, experiment_of(state)), request.top, request.trials)
    choosing, selection_seeds = selecting(arms, bool(request.trials), len(state.trials))
    selection = selection_seeds * sum(len(arms[arm]) for arm in choosing)
    seconds = mean_seconds(state)
    rows = []
    for seeds in SEEDS:
        trainings = selection + (len(tests) + 1) * seeds
        hours = None if seconds is None else trainings * seconds / 3600
        power = {"detectable": design.detectable(seeds), "power": design.power(seeds)}
        rows.append(PlanRow(seeds=seeds, trainings=trainings, hours=hours, **power))
    return Plan(
        search=state.name, metric=state.metric, split=request.split, queries=queries, source=source, rows=tuple(rows)
    )


def _of_verdict(verdict: Verdict) -> list[CrossedTest]:
    values, curriculum = values_by_cluster(verdict.per_query), verdict.curriculum
    alike = all(_starts_alike(one.params) for one in (curriculum, *verdict.opponents))
    duels = []
    for one in verdict.opponents:
        paired = alike or in_pairs(curriculum.params, one.params, bool({"twin", "filter"} & {*one.roles}))
        if not np.array_equal(values[one.label], values[curriculum.label]):
            duels.append(Duel(curriculum.label, one.label, one.roles, paired))
    return [one.test for of_curriculum in outcomes(values, duels).values() for one in of_curriculum]


def _starts_alike(params: dict[str, object]) -> bool:
    return bool(params.get("ranker.model") or params.get("training.pretrain_data"))


def _of_repeated(state: SearchState) -> tuple[list[CrossedTest], int]:
    """From the best curriculum that has further seeds, as if each opponent were like its twin, trained for itself; none
    if there is no such curriculum."""
    for curriculum, _ in state.ranked_of(CURRICULUM):
        trials = [curriculum, *(trial for trial in state.by_number() if trial.repeats == curriculum.trial)]
        pairs = [(trial, state.trials[trial.twin]) for trial in trials if trial.twin]
        files = [[values_file(Path(one.artifacts), SPLIT) for one in pair if one.artifacts] for pair in pairs]
        whole = [of_pair for of_pair in files if len(of_pair) == 2 and all(file.exists() for file in of_pair)]
        if len(whole) > 1:
            values, reference = (
                np.array([[*read_per_query(of_pair[arm], state.metric).values()] for of_pair in whole])
                for arm in (0, 1)
            )
            [test] = crossed_tests([(values, reference)], paired=_starts_alike(curriculum.params))
            return [test] * OPPONENTS, values.shape[1]
    return [], 0
