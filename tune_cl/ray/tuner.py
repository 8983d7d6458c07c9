"""Runs trials with Ray Tune: adaptors for its searcher, scheduler and callbacks, and the deletion of
old checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import PurePosixPath
from queue import SimpleQueue
from threading import Thread
from typing import Any, Self

from ray import tune
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from trainables.core import storage
from trainables.core.errors import WorkFailed, last_line
from trainables.core.storage import CHECKPOINTS, address_of, fault_of, was_waited_for
from trainables.ranker_trainable import RankerTrainable
from trainables.training.factory import AnyPrepared
from tune_cl.experiment.search_keys import Resources
from tune_cl.process import stop_if_asked
from tune_cl.ray.workarounds import (
    disable_running_means,
    failure_of,
    own_retries,
    shrink,
    trim_records,
    withhold_aws_keys,
)
from tune_cl.search.trials import FINISHED, Plan, Trials

Deletions = SimpleQueue[str | None]  # addresses of checkpoints; None at the end
log = logging.getLogger(__name__)


@contextmanager
def background_deletion() -> Iterator[Deletions]:
    """Yields a queue for addresses of checkpoints, which a thread deletes: Ray would do so in the driver's loop, which
    stalls when the storage hangs, and would forget those that it could not delete.

    When the block ends normally, it waits for the rest for up to storage.PATIENCE seconds; after an exception it does
    not, which costs only space.
    """
    old = Deletions()
    thread = Thread(target=_delete, args=(old,), name="deletions", daemon=True)
    thread.start()
    try:
        yield old
    finally:
        old.put(None)
    thread.join(storage.PATIENCE)


def _delete(old: Deletions) -> None:
    for address in iter(old.get, None):
        try:
            with suppress(FileNotFoundError):
                storage.retry_on_fault(partial(storage.remove_folder, address))
        except OSError as error:
            log.warning("the old checkpoint %s could not be deleted: %s", address, error)


CHECKPOINTS_PER_TRIAL = 2  # if the last one is damaged, the trial resumes from the one before it


def last_checkpoints(addresses: Iterable[str], storage: str) -> list[str]:
    """Those of a trial's checkpoints that earlier sessions may not have deleted: the last ones of each Ray trial. Only
    checkpoints below `storage`: the journal of a copied search names those of the original."""
    root = storage.partition("?")[0]
    folders: dict[PurePosixPath, list[str]] = {}
    for address in addresses:
        path = PurePosixPath(address.partition("?")[0])
        if path.is_relative_to(root) and path.match(CHECKPOINTS) and ".." not in path.parts:
            folders.setdefault(path.parent, []).append(address)
    return [address for folder in folders.values() for address in folder[-CHECKPOINTS_PER_TRIAL:]]


RETRIES = 3  # of a trial whose process or node died


class _Adaptor:
    """Ray pickles its searcher, scheduler and callbacks with every snapshot; ours have no state to save there."""

    trials: Trials  # a copy that Ray unpickles lacks it, but is never used
    broken: list[Exception]  # shared by all adaptors: the error at which the search ends

    @classmethod
    def of(cls, trials: Trials, broken: list[Exception]) -> Self:
        adaptor = cls()
        adaptor.trials, adaptor.broken = trials, broken
        return adaptor

    def __reduce__(self):
        return (type(self), ())


def _ends_search(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an adaptor's method: its exception ends the search at the end of Ray's step; no method is called before.

    Ray itself would turn an exception at a trial's end into a failure of the trial, one at a checkpoint into a log
    line, and any other into a TuneError that quotes a traceback.
    """

    @wraps(method)
    def guarded(self: _Adaptor, *arguments: Any, **options: Any) -> Any:
        if not self.broken:
            try:
                return method(self, *arguments, **options)
            except Exception as error:  # noqa: BLE001 - raised by on_step_end
                self.broken.append(error)
        return TrialScheduler.NOOP  # from a scheduler: the trial takes no further step; Ray ignores the others' answers

    return guarded


class _Suggestions(_Adaptor, Searcher):
    concurrency: Callable[[], int]

    @classmethod
    def within(cls, trials: Trials, broken: list[Exception], concurrency: Callable[[], int]) -> Self:
        suggestions = cls.of(trials, broken)
        suggestions.concurrency = concurrency
        return suggestions

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial, if there is room for one."""
        try:
            self.trials.concurrent = self.concurrency()
            plan = self.trials.next_trial()
        except Exception as error:  # noqa: BLE001 - raised by on_step_end
            self.broken.append(error)
            return None
        if isinstance(plan, Plan):
            return plan.as_config()
        return Searcher.FINISHED if plan == FINISHED else None

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """The callback tells the search."""

    def save(self, checkpoint_path: str) -> None:
        """The journal is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """The journal is the state."""


class _Rungs(_Adaptor, FIFOScheduler):
    """`alive`: trials that had not ended when the last one was added."""

    alive: list[Any]

    @classmethod
    def of(cls, trials: Trials, broken: list[Exception]) -> Self:
        rungs = super().of(trials, broken)
        rungs.alive = []
        return rungs

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, trial)
        disable_running_means(trial)
        for ended in [one for one in self.alive if one.is_finished()]:
            shrink(ended)
        if self.alive:  # all trials share one request for resources, for equal ones take 2 KiB each
            trial.placement_group_factory = self.alive[0].placement_group_factory
        self.alive = [trial, *(one for one in self.alive if not one.is_finished())]

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Chooses none: Ray starts its pending trials itself, in their order, and none of ours is paused in its sense.
        FIFOScheduler would look through all trials twice at every event."""

    @_ends_search
    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict) -> str:
        keep = self.trials.result(trial.config["trial"], result)
        return TrialScheduler.CONTINUE if keep else TrialScheduler.STOP


class _Recorder(_Adaptor, tune.Callback):
    storage: str
    deletions: Deletions
    checkpoints: dict[str, list[tuple[str, str]]]  # by trial, oldest first: the id of Ray's trial, an address
    earlier: dict[str, list[str]]  # by trial: addresses of checkpoints from earlier sessions
    rungs: _Rungs

    @classmethod
    def beside(cls, rungs: _Rungs, storage: str, deletions: Deletions) -> Self:
        recorder = cls.of(rungs.trials, rungs.broken)
        recorder.rungs = rungs
        recorder.storage, recorder.deletions = storage, deletions
        recorder.checkpoints, recorder.earlier = {}, {}
        return recorder

    def read_earlier(self) -> None:
        """Notes the checkpoints of earlier sessions."""
        recorded = self.trials.recorded()
        self.earlier = {trial: last_checkpoints(addresses, self.storage) for trial, addresses in recorded.items()}

    def delete_unneeded(self) -> None:
        """Deletes the checkpoints of ended trials that nothing reads any more."""
        for name in self.trials.unneeded():
            addresses = [address for _, address in self.checkpoints.pop(name, ())]
            for address in (*self.earlier.pop(name, ()), *addresses):
                self.deletions.put(address)

    @_ends_search
    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
        """Passes results on: a trial's last one never reaches the scheduler. The search ignores a second copy."""
        self.trials.result(trial.config["trial"], result)
        if "machine" in result:
            self.trials.machine(trial.config["trial"], result["machine"])
        if "note" in result:
            self.trials.note(trial.config["trial"], result["note"])

    @_ends_search
    def on_checkpoint(self, iteration: int, trials: list, trial: Any, checkpoint: Any, **info: Any) -> None:
        """Called before Ray records the checkpoint."""
        self._record(trial, trial.last_result["iteration"], checkpoint)

    def _record(self, trial: Any, iteration: int, checkpoint: Any) -> None:
        address = address_of(checkpoint.path, self.storage)
        self.trials.checkpoint(trial.config["trial"], iteration, address)
        trim_records(trial, CHECKPOINTS_PER_TRIAL)
        self._delete_older(trial.config["trial"], trial.trial_id, address)

    def _delete_older(self, name: str, ray_trial: str, address: str) -> None:
        """Deletes a trial's checkpoints, except the last CHECKPOINTS_PER_TRIAL and the last one before the trial went
        on after a pause: a process that takes the trial over begins with that one."""
        every = [*self.checkpoints.get(name, ()), (ray_trial, address)]
        before, present = ([one for one in every if (one[0] == ray_trial) is now] for now in (False, True))
        for _, old in [*before[:-1], *present[:-CHECKPOINTS_PER_TRIAL]]:
            self.deletions.put(old)
        self.checkpoints[name] = before[-1:] + present[-CHECKPOINTS_PER_TRIAL:]

    @_ends_search
    def on_trial_complete(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        self.trials.ended(trial.config["trial"])

    @_ends_search
    def on_trial_recover(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        """Ray's call as it retries a trial that failed: none is where its storage was waited for."""
        if (fault := fault_of(failure_of(trial))) and was_waited_for(fault):
            raise _broken_off(trial, fault)

    @_ends_search
    def on_trial_error(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        """Ray's call for a trial that it retries no more. It has failed, unless what failed is the machine."""
        failure = failure_of(trial)
        if fault := fault_of(failure):
            raise _broken_off(trial, fault)
        self.trials.failed(trial.config["trial"], last_line(failure))

    def on_step_end(self, iteration: int, trials: list, **info: Any) -> None:
        stop_if_asked()
        if self.broken:
            raise self.broken[0]
        self.delete_unneeded()


def _folder(trial: Any) -> str:
    """Name of a trial's folder: our id and Ray's, because a trial that goes on is a new one to Ray. By default Ray
    would put the whole configuration into every checkpoint's path."""
    return f"{trial.config['trial']}-{trial.trial_id}"


def _broken_off(trial: Any, fault: BaseException) -> WorkFailed:
    """What a search ends with when a fault of the machine has stopped a trial."""
    error = WorkFailed(f"{trial.config['trial']}: {last_line(fault)}")
    error.__cause__ = fault
    return error


def run_trials(
    trials: Trials,
    prepared: Mapping[str, AnyPrepared],
    resources: Resources,
    storage: str,
    name: str,
    concurrency: Callable[[], int],
) -> None:
    """Runs trials until there are no more, or raises what stopped it.

    `storage`: folder or address for Ray's checkpoints, below `name`; `concurrency`:
    gives the number of trials that may run, or wait for a node, now.
    """
    withhold_aws_keys()
    given = tune.with_parameters(RankerTrainable, prepared=dict(prepared))
    trainable = tune.with_resources(given, {"cpu": resources.cpu, "gpu": resources.gpu})
    broken: list[Exception] = []
    with background_deletion() as deletions, own_retries():
        rungs = _Rungs.of(trials, broken)
        recorder = _Recorder.beside(rungs, storage, deletions)
        recorder.read_earlier()
        tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=_Suggestions.within(trials, broken, concurrency),
                scheduler=rungs,
                num_samples=-1,
                reuse_actors=True,
                trial_dirname_creator=_folder,
            ),
            run_config=tune.RunConfig(
                name=name,
                storage_path=storage,
                callbacks=[recorder],
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),  # and whenever a result says so
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                progress_reporter=tune.CLIReporter(),  # in a notebook Ray would show an empty output
                verbose=0,
            ),
        ).fit()
        recorder.delete_unneeded()
