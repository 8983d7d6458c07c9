"""Runs trials with Ray Tune: `run_trials` builds the Tuner. The search (`Trials`) says what is tried next and what goes
on; here it stands behind Ray's Searcher, Stopper, TrialScheduler and Callback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import PurePosixPath
from typing import Any

from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from trainables.core.errors import WorkFailed, last_line
from trainables.core.storage import address_of, fault_of, remove
from trainables.ranker_trainable import RankerTrainable
from trainables.training.conclusion import RUN
from trainables.training.factory import AnyPrepared
from tune_cl.experiment.search_keys import Resources
from tune_cl.process import stop_if_asked
from tune_cl.ray.workarounds import disable_running_means, failure_of, own_retries, shrink, withhold_aws_keys
from tune_cl.search.trials import FINISHED, Plan, Trials

CHECKPOINTS_PER_TRIAL = 2  # if the last one is damaged, the trial leaves the files of the one before it
RETRIES = 3  # of a trial whose process or node died
Callbacks = Sequence[tune.Callback]
log = logging.getLogger(__name__)


@dataclass
class Session:
    """What the parts below share.

    names       our name of each of Ray's trials: one that goes on after a pause is a new trial to Ray
    saved       addresses of the checkpoints that are kept of each trial, oldest first, those of earlier sessions too
    afterwards  work of the driver's own that waits until the first result is there
    reported    whether there was a result
    error       what the search ends with, at the end of Ray's step
    """

    trials: Trials
    concurrency: Callable[[], int]
    storage: str
    afterwards: Callable[[], None] | None = None
    names: dict[str, str] = field(default_factory=dict)
    saved: dict[str, list[str]] = field(default_factory=dict)
    reported: bool = False
    error: Exception | None = None

    def __post_init__(self) -> None:
        """A copied search names the checkpoints of the original, which are not ours to delete."""
        root = self.storage.partition("?")[0]
        for name, addresses in self.trials.recorded().items():
            self.saved[name] = [one for one in addresses if PurePosixPath(one.partition("?")[0]).is_relative_to(root)]

    def keep(self, name: str, address: str, first: str | None) -> None:
        """Adds a checkpoint of a trial, and deletes all but the last CHECKPOINTS_PER_TRIAL and the `first`, with which
        a process begins that takes the trial over."""
        saved = [*self.saved.get(name, ()), address]
        needed = {first, *saved[-CHECKPOINTS_PER_TRIAL:]}
        self.saved[name] = [one for one in saved if one in needed]
        delete(one for one in saved if one not in needed)

    def delete_unneeded(self) -> None:
        """Deletes the checkpoints of ended trials that nothing reads any more."""
        for name in self.trials.unneeded():
            delete(self.saved.pop(name, ()))

    def work_afterwards(self) -> None:
        work, self.afterwards = self.afterwards, None
        if work:
            work()


def delete(addresses: Iterable[str]) -> None:
    for address in addresses:
        try:
            remove(address)
        except OSError as error:
            log.warning("the old checkpoint %s could not be deleted: %s", address, error)


class Part:
    """Ray pickles its parts with a search; ours have no state to save there, for the journal is the state."""

    session: Session

    def __reduce__(self) -> tuple[Any, ...]:
        return object.__new__, (type(self),)


def ends_search(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a part's method: its exception ends the search, and no method is called before. Ray itself would turn one
    at a trial's end into a failure of the trial, one at a checkpoint into a log line, and any other into a TuneError
    that quotes a traceback."""

    @wraps(method)
    def guarded(self: Part, *arguments: Any, **options: Any) -> Any:
        if self.session.error is None:
            try:
                return method(self, *arguments, **options)
            except Exception as error:  # noqa: BLE001 - raised by on_step_end
                self.session.error = error
        return None

    return guarded


class Proposals(Part, Searcher):
    """Which trial begins next."""

    def __init__(self, session: Session):
        super().__init__()
        self.session = session

    @ends_search
    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        trials = self.session.trials
        trials.concurrent = self.session.concurrency()
        plan = trials.next_trial()
        if isinstance(plan, Plan):
            self.session.names[trial_id] = plan.trial
            return plan.as_config()
        return Searcher.FINISHED if plan == FINISHED else None

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """The recorder tells the search."""

    def save(self, checkpoint_path: str) -> None:
        """The journal is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """The journal is the state."""


class Decisions(Part, tune.Stopper):
    """Takes in each result, which Ray passes here once and first, and decides whether its trial goes on."""

    def __init__(self, session: Session):
        self.session = session

    @ends_search
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        trials, name = self.session.trials, self.session.names[trial_id]
        self.session.reported = True
        goes_on = trials.result(name, result)
        if "machine" in result:
            trials.machine(name, result["machine"])
        if "note" in result:
            trials.note(name, result["note"])
        return not goes_on

    def stop_all(self) -> bool:
        return False


class Order(Part, FIFOScheduler):
    """Ray starts its pending trials itself, in their order. `alive`: trials that had not ended when the last one was
    added."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: list[Any] = []

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, trial)
        disable_running_means(trial)
        trial.evaluated_params = {key: value for key, value in trial.config.items() if key != RUN}  # for loggers
        for ended in [one for one in self.alive if one.is_finished()]:
            shrink(ended, RUN)
        if self.alive:  # all trials share one request for resources, for equal ones take 2 KiB each
            trial.placement_group_factory = self.alive[0].placement_group_factory
        self.alive = [trial, *(one for one in self.alive if not one.is_finished())]

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Chooses none: FIFOScheduler would look through all trials twice at every event."""


class Recorder(Part, tune.Callback):
    """Tells the search of checkpoints and ends, and deletes checkpoints that nothing reads any more."""

    def __init__(self, session: Session):
        self.session = session

    @ends_search
    def on_checkpoint(self, iteration: int, trials: list, trial: Any, checkpoint: Any, **info: Any) -> None:
        """Called before Ray records the checkpoint."""
        name, address = trial.config["trial"], address_of(checkpoint.path, self.session.storage)
        self.session.trials.checkpoint(name, trial.last_result["iteration"], address)
        self.session.keep(name, address, trial.config["checkpoint"])

    @ends_search
    def on_trial_complete(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        self.session.trials.ended(trial.config["trial"])

    @ends_search
    def on_trial_recover(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        """Ray's call as it retries a trial that failed: none is where the machine failed."""
        _end_if_machine_failed(trial)

    @ends_search
    def on_trial_error(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        """Ray's call for a trial that it retries no more."""
        _end_if_machine_failed(trial)
        self.session.trials.failed(trial.config["trial"], last_line(failure_of(trial)))

    def on_step_end(self, iteration: int, trials: list, **info: Any) -> None:
        stop_if_asked()
        if self.session.error:
            raise self.session.error
        self.session.delete_unneeded()
        if self.session.reported:
            self.session.work_afterwards()


def _end_if_machine_failed(trial: Any) -> None:
    """Raises what the search ends with if a fault of the machine has stopped a trial: it says nothing of the trial."""
    if fault := fault_of(failure_of(trial)):
        raise WorkFailed(f"{trial.config['trial']}: {last_line(fault)}") from fault


def folder_name(trial: Any) -> str:
    """Of a trial's folder: our name and Ray's. By default Ray would put the whole configuration into every checkpoint's
    path."""
    return f"{trial.config['trial']}-{trial.trial_id}"


def run_trials(
    trials: Trials,
    prepared: Mapping[str, AnyPrepared],
    resources: Resources,
    storage: str,
    name: str,
    concurrency: Callable[[], int],
    callbacks: Callbacks = (),
    afterwards: Callable[[], None] | None = None,
) -> None:
    """Runs trials until there are no more, or raises what stopped it.

    storage      folder or address for Ray's files and checkpoints, below `name`
    concurrency  gives the number of trials that may run, or wait for a node, now
    callbacks    the user's
    afterwards   work that is done once the first result is there
    """
    withhold_aws_keys()
    trainable = tune.with_parameters(RankerTrainable, prepared=dict(prepared))
    session = Session(trials, concurrency, storage, afterwards)
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": resources.cpu, "gpu": resources.gpu}),
        tune_config=tune.TuneConfig(
            search_alg=Proposals(session),
            scheduler=Order(),
            num_samples=-1,
            reuse_actors=True,
            trial_dirname_creator=folder_name,
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=storage,
            stop=Decisions(session),
            callbacks=[Recorder(session), JsonLoggerCallback(), *callbacks],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),  # and whenever a result says so
            failure_config=tune.FailureConfig(max_failures=RETRIES),
            progress_reporter=tune.CLIReporter(),  # in a notebook Ray would show an empty output
            verbose=0,
        ),
    )
    with own_retries():
        tuner.fit()
        session.work_afterwards()
        session.delete_unneeded()
