"""A search as an Optuna study, for optuna-dashboard and Optuna's own analyses."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import optuna
from optuna.trial import FixedTrial, FrozenTrial, create_trial
from optuna.trial import TrialState as Status

from trainables.core.errors import ConfigError, Problem
from tune_cl.history.state import SearchState, TrialState, experiment_of
from tune_cl.space.parameters import Parameter

STATUS = {"failed": Status.FAIL, "stopped_early": Status.PRUNED}  # by outcome; of any other, by whether it has ended


def write_study(
    state: SearchState,
    storage: str | optuna.storages.BaseStorage,
    name: str,
    trials: Sequence[TrialState] | None = None,
) -> optuna.Study:
    """Writes each trial, all or these, with its parameters, their distributions, dev values by iteration, and how it
    ended. Raises ConfigError if the storage has a study of that name."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    leaves = experiment_of(state).space.parameters
    try:
        study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    except optuna.exceptions.DuplicatedStudyError as error:
        wrong = f"the storage has a study '{name}'"
        raise ConfigError(Problem("storage", wrong, "another study_name, or delete that study")) from error
    study.set_user_attr("tune_cl.search", state.name)
    study.set_user_attr("tune_cl.metric", state.metric)
    study.add_trials([_trial(trial, state.metric, leaves) for trial in trials or state.by_number()])
    return study


def _trial(trial: TrialState, metric: str, leaves: Mapping[str, Parameter]) -> FrozenTrial:
    """A trial that was stopped early, or has not ended, has its best value so far. A value outside its range, as the
    baseline may have, is an attribute, not a parameter."""
    inside = {key: value for key, value in trial.point.items() if key in leaves and leaves[key].allows(value)}
    recorded = FixedTrial(inside)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about options that are lists, which are written as text
        for key in inside:
            leaves[key].suggest(recorded, key)  # enters the distribution in `recorded`
    best = trial.best(metric)
    status = STATUS.get(trial.outcome or "", Status.COMPLETE if trial.outcome else Status.RUNNING)
    return create_trial(
        state=Status.FAIL if status is Status.COMPLETE and best is None else status,
        value=best.dev if best and status in (Status.COMPLETE, Status.PRUNED) else None,
        params=inside,
        distributions=recorded.distributions,
        intermediate_values=trial.dev(metric),
        user_attrs={
            "trial_id": trial.trial,
            "arm": trial.arm,
            "twin": trial.twin,
            "repeats": trial.repeats,
            "outcome": trial.outcome,
            "seed": trial.seed,
            "params": trial.params,
        },
    )
