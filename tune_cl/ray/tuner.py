"""Runs the trials of a search with Ray Tune: adaptors for its searcher, scheduler and callbacks, and the deletion of
old checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from threading import Thread
from typing import Any, Self

import ray
from ray import tune
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from trainables.core import storage
from trainables.core.storage import CHECKPOINTS, addressed, is_remote
from trainables.post import new_cleaner
from trainables.ranker_trainable import LATE_CHECKPOINT, RankerTrainable
from trainables.training.factory import AnyMaterials
from tune_cl.history.search_folder import SearchFolder, own_checkpoint
from tune_cl.history.state import SearchState, TrialState
from tune_cl.process import environment, stop_if_asked
from tune_cl.ray.slots import group_of
from tune_cl.ray.workarounds import disable_running_means, retries_after_reset, shrink, trim_records, withhold_aws_keys
from tune_cl.search.driver import FINISHED, Plan, Search

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
                storage.patiently(partial(storage.remove_folder, address))
        except OSError as error:
            log.warning("the old checkpoint %s could not be deleted: %s", address, error)


CHECKPOINTS_PER_TRIAL = 2  # if the last one is damaged, the trial resumes from the one before it


class EndedTrials:
    """`waiting`: the ended trial whose checkpoints may still be read, for the search's best ranker is copied from them
    when the search ends: the best one so far."""

    def __init__(self, search: Search):
        self.search = search
        self.waiting: list[str] = []

    def unneeded(self, ended: Iterable[str]) -> list[str]:
        """Trials whose checkpoints nothing reads any more, now that these have ended too."""
        before = [*self.waiting, *ended]
        self.waiting = [trial.trial for trial, _ in self.search.state.ranked(before)][:1]
        return [name for name in before if name not in self.waiting]


def drop_foreign_checkpoints(state: SearchState, search_folder: SearchFolder) -> list[str]:
    """Removes checkpoints outside the search's folder from its state; returns their addresses. A journal from somebody
    else may name any folder or server: nothing there is read or deleted."""
    foreign: list[str] = []
    for trial in state.by_number():
        recorded = dict(trial.checkpoints)
        own_checkpoints = {iteration: own_checkpoint(address, search_folder) for iteration, address in recorded.items()}
        trial.checkpoints = {iteration: own for iteration, own in own_checkpoints.items() if own}
        foreign += [recorded[iteration] for iteration, own in own_checkpoints.items() if not own]
        trial.replaced = [own for address in trial.replaced if (own := own_checkpoint(address, search_folder))]
    return foreign


def last_checkpoints(trial: TrialState, storage: str) -> list[str]:
    """Addresses of a trial's checkpoints that earlier sessions may not have deleted: the last ones of each Ray trial.
    Only checkpoints below `storage`: the journal of a copied search names those of the original."""
    root = storage.partition("?")[0]
    folders: dict[PurePosixPath, list[str]] = {}
    for address in [*dict(sorted(trial.checkpoints.items())).values(), *trial.replaced]:
        path = PurePosixPath(address.partition("?")[0])
        if path.is_relative_to(root) and path.match(CHECKPOINTS) and ".." not in path.parts:
            folders.setdefault(path.parent, []).append(address)
    return [address for folder in folders.values() for address in folder[-CHECKPOINTS_PER_TRIAL:]]


NOTHING: dict[str, float] = {"cpu": 0, "memory": 1}  # a byte: Tune refuses to reserve nothing at all
RETRIES = 3  # of a trial whose process or node died


class _Adaptor:
    """Ray pickles its searcher, scheduler and callbacks with every snapshot; ours have no state to save there."""

    search: Search  # a copy that Ray unpickles lacks it, but is never used
    broken: list[Exception]  # shared by all adaptors: the error at which the search ends

    @classmethod
    def of(cls, search: Search, broken: list[Exception]) -> Self:
        adaptor = cls()
        adaptor.search, adaptor.broken = search, broken
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
    slots: Callable[[], int]

    @classmethod
    def within(cls, search: Search, broken: list[Exception], slots: Callable[[], int]) -> Self:
        suggestions = cls.of(search, broken)
        suggestions.slots = slots
        return suggestions

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        self.search.slots = self.slots()
        plan = self.search.next_trial()
        if isinstance(plan, Plan):
            return plan.as_config()
        return Searcher.FINISHED if plan == FINISHED else None

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """Nothing to do: the callback tells the search."""

    def save(self, checkpoint_path: str) -> None:
        """The journal is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """The journal is the state."""


class _Rungs(_Adaptor, FIFOScheduler):
    """`alive`: trials that had not ended when the last one was added."""

    alive: list[Any]

    @classmethod
    def of(cls, search: Search, broken: list[Exception]) -> Self:
        rungs = super().of(search, broken)
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
        keep = self.search.result(trial.config["trial"], result)
        return TrialScheduler.CONTINUE if keep else TrialScheduler.STOP


class _Recorder(_Adaptor, tune.Callback):
    storage: str
    deletions: Deletions
    checkpoints: dict[str, list[tuple[str, str]]]  # by trial, oldest first: the id of Ray's trial, an address
    earlier: dict[str, list[str]]  # by trial: addresses of checkpoints from earlier sessions
    ended: EndedTrials

    @classmethod
    def into(cls, search: Search, broken: list[Exception], storage: str, deletions: Deletions) -> Self:
        recorder = cls.of(search, broken)
        recorder.storage, recorder.deletions = storage, deletions
        recorder.checkpoints, recorder.earlier = {}, {}
        recorder.ended = EndedTrials(search)
        return recorder

    def read_earlier(self) -> None:
        """Notes the checkpoints of earlier sessions."""
        self.earlier = {trial.trial: last_checkpoints(trial, self.storage) for trial in self.search.state.by_number()}

    def delete_unneeded(self) -> None:
        """Deletes the checkpoints of ended trials that nothing reads any more."""
        ended, self.search.ended_since = self.search.ended_since, []
        for name in self.ended.unneeded(ended):
            own = [address for _, address in self.checkpoints.pop(name, ())]
            for address in (*self.earlier.pop(name, ()), *own):
                self.deletions.put(address)

    def address(self, path: str) -> str:
        """A checkpoint's address. In S3, Ray's path is the one in the file system: the bucket, then the key."""
        return addressed(self.storage, path) if is_remote(self.storage) else path

    @_ends_search
    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
        """Passes results on, because a trial's last one never reaches the scheduler; the search ignores a second copy.
        Records a checkpoint that the result brings, as Ray does with one that it saved itself."""
        late = result.pop(LATE_CHECKPOINT, None)
        self.search.result(trial.config["trial"], result)
        if late:
            self._record(trial, late.metrics["iteration"], late.checkpoint)
            trial.on_checkpoint(late)
        if "machine" in result:
            self.search.machine(trial.config["trial"], result["machine"])
        if "note" in result:
            self.search.note(trial.config["trial"], result["note"])

    @_ends_search
    def on_checkpoint(self, iteration: int, trials: list, trial: Any, checkpoint: Any, **info: Any) -> None:
        """Called before Ray records the checkpoint."""
        self._record(trial, trial.last_result["iteration"], checkpoint)

    def _record(self, trial: Any, iteration: int, checkpoint: Any) -> None:
        address = self.address(checkpoint.path)
        self.search.checkpoint(trial.config["trial"], iteration, address)
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
        self.search.ended(trial.config["trial"])

    @_ends_search
    def on_trial_error(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        self.search.failed(trial.config["trial"], _reason(trial))

    def on_step_end(self, iteration: int, trials: list, **info: Any) -> None:
        stop_if_asked()
        if self.broken:
            raise self.broken[0]
        if self.search.ended_since:
            self.delete_unneeded()


def _folder(trial: Any) -> str:
    """Name of a trial's folder: our id and Ray's, because a trial that goes on is a new one to Ray. By default Ray
    would put the whole configuration into every checkpoint's path."""
    return f"{trial.config['trial']}-{trial.trial_id}"


def _reason(trial: Any) -> str:
    """The last line of the trial's error, from the driver's own file. Ray's `get_error` reads the copy in the storage,
    which appears only with the next snapshot, and never if the storage failed."""
    text = Path(trial.error_file).read_text().strip().splitlines() if trial.error_file else []
    return text[-1] if text else "the trial's process ended without an error message"


def run_trials(
    search: Search, materials: Mapping[str, AnyMaterials], storage: str, session: int, slots: Callable[[], int]
) -> None:
    """Runs the search's trials until there are no more, or raises what stopped it.

    `storage`: folder or S3 address for Ray's checkpoints; `slots`: gives the number of trials that may run, or wait for
    a node, now.
    """
    resources = search.experiment.search.resources
    shared: dict[str, Any] = dict(materials)
    options: dict[str, Any] = {}
    reserved: dict[str, float] = {"cpu": resources.cpu, "gpu": resources.gpu}
    if resources.workers > 1:  # they reserve what a trial takes, and its own process nothing
        options, reserved = {"group": group_of(resources), "cleaner": new_cleaner()}, NOTHING
        shared = {key: ray.put(one) for key, one in materials.items()}
    most = {"TUNE_MAX_PENDING_TRIALS_PG": str(search.experiment.trials)}  # `slots` is the limit, not Ray's guess
    withhold_aws_keys()
    given = tune.with_parameters(RankerTrainable, materials=shared, **options)
    trainable = tune.with_resources(given, reserved)
    broken: list[Exception] = []
    with background_deletion() as deletions, retries_after_reset(), environment(most):
        recorder = _Recorder.into(search, broken, storage, deletions)
        recorder.read_earlier()
        tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=_Suggestions.within(search, broken, slots),
                scheduler=_Rungs.of(search, broken),
                num_samples=-1,
                reuse_actors=True,
                trial_dirname_creator=_folder,
            ),
            run_config=tune.RunConfig(
                name=f"session-{session}",
                storage_path=storage,
                callbacks=[recorder],
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),  # and whenever a result says so
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                progress_reporter=tune.CLIReporter(),  # in a notebook Ray would show an empty output
                verbose=0,
            ),
        ).fit()
        recorder.delete_unneeded()
