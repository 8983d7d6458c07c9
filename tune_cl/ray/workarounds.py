"""Everything that uses Ray's private names, with the defect of Ray 2.60 that each works around and the test that fails
without it. When Ray moves, mend it here."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import Any

import ray
from ray._private import services
from ray._private import utils as ray_utils
from ray._private.node import Node
from ray._raylet import AuthenticationTokenLoader, Config  # pyright: ignore[reportAttributeAccessIssue] - compiled
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.execution import class_cache
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial

from tune_cl.process import SIGNALS, replaced

# -- start and end of Ray ----------------------------------------------------------------------------------------


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Around `ray.init`: collects the SIGNALS that arrive, for the caller to raise afterwards; a second one takes
    effect at once.

    Defects: an exception in one of Ray's forks is swallowed and leaves the lock of `logging` taken for ever. Ray also
    sets a SIGTERM handler of its own, a silent exit, and its C++ core sets an alarm that aborts the process 3 seconds
    later. Signals are not blocked instead, because Ray's processes would inherit that.
    Tests: test_a_first_signal_is_held_and_a_second_one_heard_at_once,
    test_neither_a_signal_as_ray_starts_nor_garbage_as_it_ends_aborts_the_driver.
    """
    pending: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}

    def defer(number: int, frame: FrameType | None) -> None:
        if pending and callable(handler := handlers[signal.Signals(number)]):
            handler(number, frame)
        pending.append(number)

    try:
        with replaced(ray_utils, set_sigterm_handler=lambda handler: None):
            for number in handlers:
                signal.signal(number, defer)
            yield pending
            signal.alarm(0)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: the handler was not set from Python


def reread_token() -> None:
    """Around a local Ray with a token of its own: Ray reads again whether it asks for a token, and which.

    Defect: it keeps what it has read as it was imported, or first needed. If the home holds no token, a later
    `ray.init` of the user takes ours for one which its processes will find, writes none, and they die.
    Test: test_an_interrupted_search_goes_on_and_leaves_nothing_behind.
    """
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def own_process_groups() -> AbstractContextManager[None]:
    """Around `ray.init`: gives each of Ray's processes a process group of its own.

    Defect: a signal to a whole job, such as Ctrl-C, also ends the raylet, and Ray may then end the driver with status 1
    before it has saved anything. If the driver is killed, Ray's processes still end with it (prctl).
    Test: test_stopped_and_repeated_gives_the_numbers_of_an_unbroken_confirmation.
    """
    return replaced(services, ConsolePopen=partial(services.ConsolePopen, process_group=0))


def fewer_processes() -> AbstractContextManager[None]:
    """Around `ray.init` of a local Ray: starts neither autoscaler nor web server nor what sends logs to a driver.

    Defect: they start even if there is nothing to scale, no page is wanted and no log is sent, take seconds of CPU and
    100 MB each, and read every log file for as long as Ray runs.
    Test: test_a_ray_of_this_machine_is_its_own_and_ends_with_the_session.
    """
    names = ("start_monitor", "start_api_server", "start_log_monitor")
    return replaced(Node, **dict.fromkeys(names, lambda *_, **__: None))


def shut_down() -> None:
    """Ends Ray, or leaves a cluster.

    Defects: after `ray.shutdown`, SIGTERM ends the process at once. Tune leaves cycles that refer to Ray's objects; if
    another thread, such as the one of tracking, frees one while Ray shuts down, the process ends with status 1 (Ray's
    QuickExit).
    Tests: test_a_ray_of_this_machine_is_its_own_and_ends_with_the_session,
    test_neither_a_signal_as_ray_starts_nor_garbage_as_it_ends_aborts_the_driver.
    """
    handler = signal.getsignal(signal.SIGTERM)
    gc.collect()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        gc.enable()
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


# -- trials ------------------------------------------------------------------------------------------------------


@contextmanager
def own_retries() -> Iterator[None]:
    """Around a search with reused actors: retries a trial whose actor dies while it is reset for that trial, or is
    ended for lack of memory.

    Defects: Ray reports the end of the process and the end of the task. The first report retries the trial; the
    second, in either order, fails it because it is not running. What its memory monitor has ended is no dead actor to
    Tune but "an unexpected exception", which ends the search.
    Test: test_an_event_that_cannot_be_taken_in_ends_the_search_and_a_resumed_one_has_it.
    """
    original, task_failed = TuneController._process_trial_failure, RayActorManager._actor_task_failed

    def actor_task_failed(self: RayActorManager, tracked_actor_task: Any, exception: Exception) -> None:
        killed = isinstance(exception, OutOfMemoryError)
        task_failed(self, tracked_actor_task, RayActorError(error_msg=str(exception)) if killed else exception)

    def process_failure(self: TuneController, trial: Trial, exception: Any) -> None:
        trial.temporary_state.failure = exception  # pyright: ignore[reportAttributeAccessIssue]
        if trial.status == Trial.PENDING and isinstance(exception, RayActorError):
            if trial not in self._resetting_trials:
                return  # it waits for its retry
            self._set_trial_status(trial, Trial.RUNNING)
            if self._staged_trials:
                self._unstage_trial_with_resources(trial)
        self._resetting_trials.discard(trial)
        original(self, trial, exception)

    with (
        replaced(TuneController, _process_trial_failure=process_failure),
        replaced(RayActorManager, _actor_task_failed=actor_task_failed),
    ):
        yield


def failure_of(trial: Any) -> Exception:
    """What a trial failed with last, in the block of `own_retries`.

    Defect: callbacks do not get it, and Ray's `get_error` reads a copy in the storage, which may be what failed.
    Test: test_a_full_disk_ends_the_search_and_no_trial.
    """
    return trial.temporary_state.failure


def disable_running_means(trial: Any) -> None:
    """Defect: Ray keeps means over the last 5 and 10 results of each of 20 metrics, which takes longer in the driver
    than all else with a result.
    Test: test_a_trial_keeps_no_means_of_its_last_results."""
    trial.run_metadata._n_steps = ()


def shrink(trial: Any, *keys: str) -> None:
    """Drops what Ray stores of an ended trial beside its parameters and its last result: these keys of its
    configuration, means of its metrics, and its checkpoints.

    Defect: Ray keeps all that of every trial; thousands of trials fill the memory.
    Test: test_a_trial_that_has_ended_keeps_its_parameters_and_its_last_result.
    """
    for key in keys:
        trial.config.pop(key, None)
    trial._Trial__unresolved_config, trial.evaluated_params = trial.config, {}
    metadata = trial.run_metadata
    metadata.metric_analysis, metadata.metric_n_steps = {}, {}
    metadata.checkpoint_manager.best_checkpoint_results.clear()


def withhold_aws_keys() -> None:
    """Stops Tune from passing the driver's AWS keys to trials, which have those of their machine.

    Defect: Tune passes them in a runtime environment, which Ray's agent logs for all to read.
    Test: test_no_file_that_a_search_leaves_holds_a_key.
    """
    class_cache.ENV_VARS_TO_PROPAGATE.difference_update(
        {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"}
    )
