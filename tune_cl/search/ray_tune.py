"""Runs a search on Ray Tune. Thin adaptors: every decision is the Search's, and Ray's own saved state is never read.

Ray loses a scheduler's rungs and a callback's state on restore, so a resumed search is a new Tune run that takes its
open trials, with their checkpoints, from the journal.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

import ray
from ray import tune
from ray._private import services
from ray._private import utils as ray_utils
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from trainables.ranker_trainable import RankerTrainable
from trainables.storage import addressed, is_remote
from trainables.training.materials import Materials
from tune_cl.search.deletions import Deletions, deleting_aside
from tune_cl.search.search import FINISHED, Plan, Search

QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # no CSV, JSON and TensorBoard files: the journal has it all
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C reaches us
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",  # Ray's snapshots grow with the search and are never read: first and last only
    "TUNE_ONLY_STORE_CHECKPOINT_SCORE_ATTRIBUTE": "1",  # Ray keeps no copy of a result beside each checkpoint
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "0",
}
RETRIES = 3  # of a trial whose process or node died
KEPT = 2  # checkpoints of a trial: where the last is damaged, the one before it serves


class _Adaptor:
    """Ray pickles its searcher, scheduler and callbacks with every snapshot; ours have nothing to keep there."""

    search: Search  # what a copy that Ray reads back would lack: such a copy is never asked anything

    @classmethod
    def of(cls, search: Search) -> Self:
        adaptor = cls()
        adaptor.search = search
        return adaptor

    def __reduce__(self):
        return (type(self), ())


class _Suggestions(_Adaptor, Searcher):
    places: Callable[[], int]

    @classmethod
    def within(cls, search: Search, places: Callable[[], int]) -> Self:
        suggestions = cls.of(search)
        suggestions.places = places
        return suggestions

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        self.search.slots = self.places()
        plan = self.search.next_trial()
        if isinstance(plan, Plan):
            return plan.as_config()
        return Searcher.FINISHED if plan == FINISHED else None

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """The callback tells the search; nothing to do here."""

    def save(self, checkpoint_path: str) -> None:
        """The journal is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """The journal is the state."""


class _Rungs(_Adaptor, FIFOScheduler):
    """`alive`: trials that had not ended when the last one was added."""

    alive: list[Any]

    @classmethod
    def of(cls, search: Search) -> Self:
        rungs = super().of(search)
        rungs.alive = []
        return rungs

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, trial)
        trial.run_metadata._n_steps = ()  # no means over the last 5 and 10 results of each of 20 metrics
        for ended in [one for one in self.alive if one.is_finished()]:
            _shed(ended)
        if self.alive:  # one request for resources for all: they are the same, and 2 KiB each
            trial.placement_group_factory = self.alive[0].placement_group_factory
        self.alive = [trial, *(one for one in self.alive if not one.is_finished())]

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """None: Ray starts its pending trials itself, in their order, and none of ours is paused in its sense. The
        scheduler above looks through all trials twice at every event."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict) -> str:
        keep = self.search.result(trial.config["trial"], result)
        return TrialScheduler.CONTINUE if keep else TrialScheduler.STOP


class _Recorder(_Adaptor, tune.Callback):
    storage: str
    old: Deletions
    kept: dict[str, list[tuple[str, Any]]]  # by trial: Ray's id of its sitting, and checkpoint, oldest first

    @classmethod
    def into(cls, search: Search, storage: str, old: Deletions) -> Self:
        recorder = cls.of(search)
        recorder.storage, recorder.old, recorder.kept = storage, old, {}
        return recorder

    def address(self, path: str) -> str:
        """A checkpoint's address. In S3 Ray gives the path in the file system: the bucket, then the key."""
        return addressed(self.storage, path) if is_remote(self.storage) else path

    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
        """A trial's last result passes by the scheduler, so it is told here; a known one is passed over."""
        self.search.result(trial.config["trial"], result)
        if "note" in result:
            self.search.note(trial.config["trial"], result["note"])

    def on_checkpoint(self, iteration: int, trials: list, trial: Any, checkpoint: Any, **info: Any) -> None:
        """Ray enters the checkpoint in its books after this. They have no limit of their own: beside deleting on the
        driver's loop Ray would write its snapshot of all trials each time one has saved as often as the limit."""
        self.search.checkpoint(trial.config["trial"], trial.last_result["iteration"], self.address(checkpoint.path))
        books = trial.run_metadata.checkpoint_manager.best_checkpoint_results
        del books[: max(0, len(books) - KEPT + 1)]
        self._let_go(trial.config["trial"], trial.trial_id, checkpoint)

    def _let_go(self, name: str, sitting: str, checkpoint: Any) -> None:
        """Has a trial's checkpoints deleted but the last ones of its present sitting, and the last of the one before:
        other trials may have yet to go on from there (pbt), until all have come to their next pause."""
        kept = [*self.kept.get(name, ()), (sitting, checkpoint)]
        before, present = ([one for one in kept if (one[0] == sitting) is now] for now in (False, True))
        for _, one in [*before[:-1], *present[:-KEPT]]:
            self.old.put(one)
        self.kept[name] = before[-1:] + present[-KEPT:]

    def on_trial_complete(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        name = trial.config["trial"]
        self.search.ended(name)
        if self.search.state.trials[name].outcome:
            self.kept.pop(name, None)

    def on_trial_error(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        self.search.failed(trial.config["trial"], _reason(trial))


def _shed(trial: Any) -> None:
    """Drops what Ray keeps of a trial that has ended: the journal has it, and thousands of trials would fill memory."""
    trial.config = trial._Trial__unresolved_config = {"trial": trial.config["trial"]}
    trial.evaluated_params, trial.experiment_tag = {}, ""
    kept = trial.run_metadata
    kept.last_result, kept.metric_analysis, kept.metric_n_steps = {}, {}, {}
    checkpoints = kept.checkpoint_manager
    checkpoints.best_checkpoint_results.clear()
    if latest := checkpoints.latest_checkpoint_result:  # a trial that failed before its first has none
        latest.metrics = {}


def _folder(trial: Any) -> str:
    """Name of a trial's folder: our id, and Ray's, since a trial that goes on is another one to Ray. Ray's own choice
    lists the whole configuration, in every checkpoint's path."""
    return f"{trial.config['trial']}-{trial.trial_id}"


def _reason(trial: Any) -> str:
    """The last line of the trial's error, from the driver's own file: Ray's `get_error` reads the copy in the storage,
    which comes with its next snapshot, and never where the storage is the trouble."""
    text = Path(trial.error_file).read_text().strip().splitlines() if trial.error_file else []
    return text[-1] if text else "the trial's process ended without an error message"


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Connects to a cluster, or starts a local Ray and ends it afterwards. Ends nothing else."""
    os.environ.update({key: value for key, value in QUIET.items() if key not in os.environ})
    for name in ("ray", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with _signals_held() as held, _processes_apart():
        ray.init(
            address=address or "local",  # left open, Ray would join whatever cluster runs on this machine
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=True,
            **({} if address else {"include_dashboard": False, "num_cpus": os.cpu_count()}),
        )
    try:
        for number in held:
            signal.raise_signal(number)
        yield
    finally:
        with _sigterm_kept(), _no_collection():
            ray.shutdown()


@contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Around `ray.init`: SIGINT and SIGTERM that come meanwhile, to be raised after it. An exception in a fork of it is
    swallowed and leaves the lock of `logging` taken for ever. A second signal is heard at once. Ray's own SIGTERM, an
    exit without a word, is kept out; that of its C++ core stands for some milliseconds at the end.

    The signals are not blocked: Ray's processes would inherit that.
    """
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def hold(number: int, frame: FrameType | None) -> None:
        if held and callable(heard := before[signal.Signals(number)]):
            heard(number, frame)
        held.append(number)

    set_by_ray = ray_utils.set_sigterm_handler
    ray_utils.set_sigterm_handler = lambda handler: None
    try:
        for number in before:
            signal.signal(number, hold)
        yield held
    finally:
        ray_utils.set_sigterm_handler = set_by_ray
        for number, heard in before.items():
            signal.signal(number, heard or signal.SIG_DFL)  # None: not of Python's making


@contextmanager
def _processes_apart() -> Iterator[None]:
    """Around `ray.init`: Ray's processes get process groups of their own, so that a signal to all of a job ends the
    driver alone, which ends Ray in order. A driver whose raylet goes first may be ended by Ray at once, with status 1.
    They still end with a driver that is killed: Ray asks the kernel for it."""
    plain = services.ConsolePopen
    services.ConsolePopen = partial(plain, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = plain


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Restores what SIGTERM does: `ray.shutdown` makes it end the process at once."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing is collected as garbage meanwhile. Tune leaves cycles with references to Ray's objects, and one that
    another thread, such as the tracking's, frees while Ray shuts down ends the process (Ray's QuickExit, status 1)."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def run_trials(
    search: Search, materials: Mapping[str, Materials], storage: str, session: int, places: Callable[[], int]
) -> None:
    """Runs the search's trials to the end; returns when it has no more, or raises what stopped it.

    `storage`: folder or S3 address for Ray's checkpoints; `places`: how many may run or wait for a node now.
    """
    resources = search.experiment.search.resources
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(search.experiment.trials)  # `places` is the limit, not Ray's guess
    trainable = tune.with_resources(
        tune.with_parameters(RankerTrainable, materials=dict(materials)), {"cpu": resources.cpu, "gpu": resources.gpu}
    )
    with deleting_aside() as old:
        tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=_Suggestions.within(search, places),
                scheduler=_Rungs.of(search),
                num_samples=-1,
                reuse_actors=True,
                trial_dirname_creator=_folder,
            ),
            run_config=tune.RunConfig(
                name=f"session-{session}",
                storage_path=storage,
                callbacks=[_Recorder.into(search, storage, old)],
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),  # and whenever a result says so
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                verbose=0,
            ),
        ).fit()
