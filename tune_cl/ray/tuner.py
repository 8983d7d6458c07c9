"""Deletes old checkpoints in a thread. Ray would do so in the driver's loop, which would stall whenever the storage
hangs, and would forget checkpoints that it could not delete."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from threading import Thread
from typing import Any, Self

from ray import tune
from ray.exceptions import RayActorError
from ray.tune.execution import class_cache
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from trainables.core import storage
from trainables.core.storage import CHECKPOINTS, addressed, is_remote
from trainables.ranker_trainable import WRITTEN, RankerTrainable
from trainables.training.materials import Materials
from tune_cl.history.search_folder import SearchFolder, own_checkpoint
from tune_cl.history.state import NO_STANDING, SearchState, TrialState
from tune_cl.process import stop_if_asked
from tune_cl.search.driver import FINISHED, Plan, Search

Deletions = SimpleQueue[str | None]  # addresses of checkpoints; None at the end
log = logging.getLogger(__name__)


@contextmanager
def deleting_aside() -> Iterator[Deletions]:
    """Yields a queue for addresses of checkpoints, which a thread deletes. When the block ends normally, the rest are
    awaited for up to storage.PATIENCE seconds; after an exception they are left behind, which costs only space."""
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


KEPT = 2  # checkpoints of a trial: where the last is damaged, the one before it serves


class Leftovers:
    """`held`: trials that have ended and whose checkpoints may still be read. The search's best ranker is copied from
    one of them at its end; under pbt open trials go on from those of others, ended ones among them."""

    def __init__(self, search: Search):
        self.search = search
        self.held: list[str] = []

    def freed(self, ended: Iterable[str]) -> list[str]:
        """Trials whose checkpoints nothing reads any more, now that these have ended as well."""
        before = [*self.held, *ended]
        self.held = self._needed(before)
        return [name for name in before if name not in self.held]

    def _needed(self, names: list[str]) -> list[str]:
        search = self.search
        if search.scheduler.copies and search.state.open_trials():
            return names
        best: dict[str, str] = {}
        for trial, _ in search.state.ranked(names):
            best.setdefault(trial.configuration, trial.trial)
        if search.experiment.search.repeats == 1:
            return list(best.values())[:1]
        known = search.state.standing() if search.state.repeats else {}
        return [name for configuration, name in best.items() if not self._behind(configuration, known)]

    def _behind(self, own: str, known: Mapping[str, tuple[int, float]]) -> bool:
        """Whether a configuration will train under no further seed and has been overtaken. Who has overtaken it stays
        ahead: the more seeds come first, and no seed is taken back."""
        if self.search.race.goes_on(own):
            return False
        return any(standing < known.get(own, NO_STANDING) for standing in known.values())


def without_foreign(state: SearchState, search_folder: SearchFolder) -> list[str]:
    """Takes checkpoints that are not below the search's folder out of its state; returns the addresses of these. A
    journal that a stranger has handed over may name any folder or server: none is read, asked or deleted."""
    foreign: list[str] = []
    for trial in state.by_number():
        named = dict(trial.checkpoints)
        known = {iteration: own_checkpoint(address, search_folder) for iteration, address in named.items()}
        trial.checkpoints = {iteration: own for iteration, own in known.items() if own}
        foreign += [named[iteration] for iteration, own in known.items() if not own]
        trial.replaced = [own for address in trial.replaced if (own := own_checkpoint(address, search_folder))]
        if trial.adopted and (address := trial.adopted["checkpoint"]):
            own = own_checkpoint(address, search_folder)
            trial.adopted = {**trial.adopted, "checkpoint": own}
            foreign += [] if own else [address]
    return foreign


def recorded(trial: TrialState, storage: str) -> list[str]:
    """Addresses of a trial's checkpoints that earlier sessions may have left: the last ones of each of its sittings.
    Only what is a checkpoint below `storage`: the journal of a copied search names those of the original."""
    root = storage.partition("?")[0]
    sittings: dict[PurePosixPath, list[str]] = {}
    for address in [*dict(sorted(trial.checkpoints.items())).values(), *trial.replaced]:
        path = PurePosixPath(address.partition("?")[0])
        if path.is_relative_to(root) and path.match(CHECKPOINTS) and ".." not in path.parts:
            sittings.setdefault(path.parent, []).append(address)
    return [address for sitting in sittings.values() for address in sitting[-KEPT:]]


RETRIES = 3  # of a trial whose process or node died

# Tune hands these keys to trials in a form that Ray's agent logs for all to read. Trials have those of their machine.
class_cache.ENV_VARS_TO_PROPAGATE.difference_update(
    {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"}
)


class _Adaptor:
    """Ray pickles its searcher, scheduler and callbacks with every snapshot; ours have nothing to keep there."""

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
    """Wraps an adaptor's method: its exception ends the search at the end of Ray's step; until then no method is called
    any more.

    Ray itself would turn an exception at a trial's end into a failure of the trial, one at a checkpoint into a log
    line, and any other into a TuneError that quotes a traceback.
    """

    @wraps(method)
    def heard(self: _Adaptor, *arguments: Any, **options: Any) -> Any:
        if not self.broken:
            try:
                return method(self, *arguments, **options)
            except Exception as error:  # noqa: BLE001 - raised by on_step_end
                self.broken.append(error)
        return TrialScheduler.NOOP  # from a scheduler: the trial takes no further step; Ray ignores the others' answers

    return heard


class _Suggestions(_Adaptor, Searcher):
    places: Callable[[], int]

    @classmethod
    def within(cls, search: Search, broken: list[Exception], places: Callable[[], int]) -> Self:
        suggestions = cls.of(search, broken)
        suggestions.places = places
        return suggestions

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        self.search.slots = self.places()
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
        trial.run_metadata._n_steps = ()  # no means over the last 5 and 10 results of each of 20 metrics
        for ended in [one for one in self.alive if one.is_finished()]:
            _shed(ended)
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
    old: Deletions
    kept: dict[str, list[tuple[str, str]]]  # by trial, oldest first: Ray's id of its sitting, a checkpoint's address
    earlier: dict[str, list[str]]  # by trial: addresses of checkpoints that earlier sessions left
    leftovers: Leftovers

    @classmethod
    def into(cls, search: Search, broken: list[Exception], storage: str, old: Deletions) -> Self:
        recorder = cls.of(search, broken)
        recorder.storage, recorder.old, recorder.kept, recorder.earlier = storage, old, {}, {}
        recorder.leftovers = Leftovers(search)
        return recorder

    def take_up(self) -> None:
        """What the sessions before this one left."""
        self.earlier = {trial.trial: recorded(trial, self.storage) for trial in self.search.state.by_number()}

    def let_go_of_ended(self) -> None:
        """Has the checkpoints of trials deleted that have ended, and that nothing reads any more."""
        ended, self.search.ended_since = self.search.ended_since, []
        for name in self.leftovers.freed(ended):
            for one in (*self.earlier.pop(name, ()), *(address for _, address in self.kept.pop(name, ()))):
                self.old.put(one)

    def address(self, path: str) -> str:
        """A checkpoint's address. In S3, Ray's path is the one in the file system: the bucket, then the key."""
        return addressed(self.storage, path) if is_remote(self.storage) else path

    @_ends_search
    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
        """Passes results on, for a trial's last one never reaches the scheduler; a known result is ignored. Enters the
        checkpoint that a result may hold, as Ray does with one that it had saved."""
        written = result.pop(WRITTEN, None)
        self.search.result(trial.config["trial"], result)
        if written:
            self._enter(trial, written.metrics["iteration"], written.checkpoint)
            trial.on_checkpoint(written)
        if "machine" in result:
            self.search.machine(trial.config["trial"], result["machine"])
        if "note" in result:
            self.search.note(trial.config["trial"], result["note"])

    @_ends_search
    def on_checkpoint(self, iteration: int, trials: list, trial: Any, checkpoint: Any, **info: Any) -> None:
        """Called before Ray enters the checkpoint in its books."""
        self._enter(trial, trial.last_result["iteration"], checkpoint)

    def _enter(self, trial: Any, iteration: int, checkpoint: Any) -> None:
        """Records a checkpoint. We trim Ray's books ourselves: with a limit Ray would delete in the driver's loop, and
        write its snapshot of all trials whenever one has saved as often as the limit."""
        address = self.address(checkpoint.path)
        self.search.checkpoint(trial.config["trial"], iteration, address)
        books = trial.run_metadata.checkpoint_manager.best_checkpoint_results
        del books[: max(0, len(books) - KEPT + 1)]
        self._let_go(trial.config["trial"], trial.trial_id, address)

    def _let_go(self, name: str, sitting: str, address: str) -> None:
        """Has a trial's checkpoints deleted, save the last KEPT of its present sitting and the last one of the sitting
        before, from which other trials may have yet to go on (pbt) until all have reached their next pause."""
        kept = [*self.kept.get(name, ()), (sitting, address)]
        before, present = ([one for one in kept if (one[0] == sitting) is now] for now in (False, True))
        for _, one in [*before[:-1], *present[:-KEPT]]:
            self.old.put(one)
        self.kept[name] = before[-1:] + present[-KEPT:]

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
            self.let_go_of_ended()


@contextmanager
def _retried_from_the_start() -> Iterator[None]:
    """Where a process dies that was just taking up another trial, Ray hears of the end of both, process and task. The
    one makes it retry the trial; the other, first or second, would fail it, for it does not run then."""
    plain = TuneController._process_trial_failure

    def failed(self: TuneController, trial: Trial, exception: Any) -> None:
        if trial.status == Trial.PENDING and isinstance(exception, RayActorError):
            if trial not in self._resetting_trials:
                return  # it waits for its retry
            self._set_trial_status(trial, Trial.RUNNING)
            if self._staged_trials:
                self._unstage_trial_with_resources(trial)
        self._resetting_trials.discard(trial)
        plain(self, trial, exception)

    TuneController._process_trial_failure = failed
    try:
        yield
    finally:
        TuneController._process_trial_failure = plain


def _shed(trial: Any) -> None:
    """Drops what Ray keeps of an ended trial: the journal has it, and thousands of trials would fill the memory."""
    trial.config = trial._Trial__unresolved_config = {"trial": trial.config["trial"]}
    trial.evaluated_params, trial.experiment_tag = {}, ""
    kept = trial.run_metadata
    kept.last_result, kept.metric_analysis, kept.metric_n_steps = {}, {}, {}
    checkpoints = kept.checkpoint_manager
    checkpoints.best_checkpoint_results.clear()
    if latest := checkpoints.latest_checkpoint_result:  # a trial that failed before its first has none
        latest.metrics = {}


def _folder(trial: Any) -> str:
    """Name of a trial's folder: our id and Ray's, since to Ray a trial that goes on is a new one. By default Ray would
    put the whole configuration into every checkpoint's path."""
    return f"{trial.config['trial']}-{trial.trial_id}"


def _reason(trial: Any) -> str:
    """The last line of the trial's error, from the driver's own file. Ray's `get_error` reads the copy in the storage,
    which appears only with the next snapshot, and never if the storage is the trouble."""
    text = Path(trial.error_file).read_text().strip().splitlines() if trial.error_file else []
    return text[-1] if text else "the trial's process ended without an error message"


def run_trials(
    search: Search, materials: Mapping[str, Materials], storage: str, session: int, places: Callable[[], int]
) -> None:
    """Runs the search's trials until there are no more, or raises what stopped it.

    `storage`: folder or S3 address for Ray's checkpoints; `places`: gives the number of trials that may run, or wait
    for a node, now.
    """
    resources = search.experiment.search.resources
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(search.experiment.trials)  # `places` is the limit, not Ray's guess
    trainable = tune.with_resources(
        tune.with_parameters(RankerTrainable, materials=dict(materials)), {"cpu": resources.cpu, "gpu": resources.gpu}
    )
    broken: list[Exception] = []
    with deleting_aside() as old, _retried_from_the_start():
        recorder = _Recorder.into(search, broken, storage, old)
        recorder.take_up()
        tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=_Suggestions.within(search, broken, places),
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
                verbose=0,
            ),
        ).fit()
        recorder.let_go_of_ended()
