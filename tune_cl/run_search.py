"""Runs a search, new or resumed, to its end: its events, its best ranker, its report and its document."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import yaml

from trainables.config.function import Objective
from trainables.core.plugins import plugins_of, require_sendable
from trainables.core.prose import say
from trainables.data import form_of
from tune_cl.experiment.experiment import Experiment, base_ranker
from tune_cl.experiment.load import to_yaml
from tune_cl.history.journal import Event, Journal, read_events
from tune_cl.history.search_folder import TRIALS, SearchFolder, name_exists, named_when_stopped, stops
from tune_cl.history.state import SearchState, experiment_of, replay
from tune_cl.history.tracking_uri import masked
from tune_cl.inputs import Artifacts, Inputs, inputs_of
from tune_cl.process import versions
from tune_cl.ray.concurrency import Concurrency, require_room
from tune_cl.ray.nodes import PACKAGES
from tune_cl.ray.session import ray_session
from tune_cl.ray.tuner import Callbacks, run_trials
from tune_cl.report.page import write_report
from tune_cl.results import SearchResult
from tune_cl.search.driver import BASELINE_TRIAL, SearchDriver
from tune_cl.search.phases import phases_of, planned_arms
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.search_result import report_is_current, search_result
from tune_cl.tracking.writer import MlflowWriter, finish

OF_DRIVER = ("optuna", "mlflow")  # packages that no trial needs


def start_search(
    experiment: Experiment,
    search_folder: SearchFolder,
    address: str | None,
    panel: PanelKind = Panel,
    callbacks: Callbacks = (),
) -> SearchResult:
    """Runs a new search to its end. Nothing is written if the data is bad, or if
    trials are to run on this machine and none fits. Raises ConfigError if the name has been taken in the meantime."""
    if address is None:
        require_room(experiment.search.resources)
    require_sendable(parts_of(experiment))
    inputs = inputs_of(experiment)
    inputs.complete(address)
    with search_folder.open() as journal:
        if journal.size:  # another `run` took the name while this one read its data
            raise name_exists(search_folder)
        journal.append(_search_event(experiment, search_folder, inputs))
        with named_when_stopped(*_goes_on_by(search_folder, address)):
            return _session(experiment, search_folder, journal, inputs, address, panel, callbacks)


def resume_search(
    search_folder: SearchFolder,
    address: str | None,
    panel: PanelKind = Panel,
    objective: Objective | None = None,
    callbacks: Callbacks = (),
) -> SearchResult:
    """Goes on with a search. One that is done only gets its tracking and report completed, without reading its data.
    `objective`: the function of a search that trains by one.

    Raises DataError if the data or a plug-in has changed: trials before and after could not be compared.
    """
    with named_when_stopped(*_goes_on_by(search_folder, address)):
        state = replay(read_events(search_folder.journal))
        experiment = experiment_of(state, objective=objective)
        if address is None and not state.end:
            require_room(experiment.search.resources)
        inputs = None if state.end else inputs_of(experiment)
        if inputs:
            inputs.require_unchanged(state.data)
            inputs.complete(address)
        with search_folder.open() as journal:
            if journal.note:
                say(journal.note)
            return _session(experiment, search_folder, journal, inputs, address, panel, callbacks)


def _goes_on_by(search_folder: SearchFolder, address: str | None) -> tuple[str, str]:
    """The command and the call that go on with a search."""
    return search_folder.command("resume", address), search_folder.call("resume", address=address)


def _session(
    experiment: Experiment,
    search_folder: SearchFolder,
    journal: Journal,
    inputs: Inputs | None,
    address: str | None,
    panel: PanelKind = Panel,
    callbacks: Callbacks = (),
) -> SearchResult:
    """One session of a search, from its first event or from where the last session ended. `inputs`: None for a
    search that is done."""
    if inputs:
        for note in (*experiment.notes, *inputs.notes()):
            say(f"note: {note}")
        for warning in inputs.warnings():
            say(f"warning: {warning}")
    writer = MlflowWriter(journal, search_folder.tracking_uri)
    cluster, result = address, None
    try:
        state = replay(journal.events())
        if inputs:
            state = _run(experiment, search_folder, journal, inputs, address, state, panel, writer.start, callbacks)
        if inputs or not report_is_current(search_folder, state):  # stopped earlier, between its end and its report
            result = write_report(search_folder, journal)
        cluster = None  # only tracking may be left, which needs no cluster
    except BaseException as error:
        if stops(error):
            with suppress(OSError, KeyboardInterrupt):  # a full disk, or another Ctrl-C: the user is not kept waiting
                if not replay(journal.events()).end:  # not `state`, which lacks an end that `_run` was about to return
                    journal.append({"event": "interrupted", "time": time.time()})
        raise
    finally:
        finish(writer, search_folder.command("resume", cluster))
    if result is None:
        return search_result(state, search_folder, writer.run_id)
    return result.model_copy(update={"mlflow_run_id": writer.run_id})


def _run(
    experiment: Experiment,
    search_folder: SearchFolder,
    journal: Journal,
    inputs: Inputs,
    address: str | None,
    before: SearchState,
    panel: PanelKind,
    track: Callable[[], None],
    callbacks: Callbacks = (),
) -> SearchState:
    """Runs trials until there are no more, then closes the search.

    `before`: the search as earlier sessions left it; `track` starts the thread of tracking.
    """
    journal.append({"event": "session", "number": before.sessions + 1, "time": time.time()})
    artifacts = inputs.artifacts(search_folder.folder / TRIALS)
    limits = experiment.search
    with ray_session(address):
        track()
        trials, iterations = phases_of(experiment).trials, experiment.base.run.training.max_iterations
        with panel(trials, iterations, before) as progress:
            concurrency = Concurrency.of(experiment, address, progress.say)
            search = SearchDriver(experiment, journal, concurrency(), artifacts, progress.update)
            place = search_folder.checkpoints, f"session-{search.state.sessions}"

            def rank_without_labels() -> None:
                if not before.label_free:
                    search.record({"event": "label_free", **inputs.label_free("dev")})

            run_trials(
                search, inputs.by_key, limits.resources, *place, concurrency, callbacks, afterwards=rank_without_labels
            )
    _close(search, artifacts)
    return search.state


def _close(search: SearchDriver, artifacts: Artifacts) -> None:
    """Saves the best trial's ranker; records the closing event, with the search's cost."""
    state, resources = search.state, search.experiment.search.resources
    ranker = None
    if best := state.best():
        run = search.run_of(best[0])
        ranker = search.from_sound_checkpoint(best[0], lambda checkpoint: artifacts.ranker(checkpoint, run))
        if ranker:
            artifacts.describe(Path(ranker), best[0].trial, best[1], run, state.label_free)
    hours = sum(trial.seconds for trial in state.trials.values()) / 3600
    cost = {"iterations": state.iterations, "cpu_hours": hours * resources.cpu, "gpu_hours": hours * resources.gpu}
    now = time.time()
    found = {"trial_id": best[0].trial, "params": best[0].params, **asdict(best[1])} if best else None
    event = {"event": "search_end", "best": found, "cost": cost, "seconds": state.seconds_until(now)}
    search.record(event | {"ended_by": search.ended_by, "checkpoint": ranker, "time": now})


def _search_event(experiment: Experiment, search_folder: SearchFolder, inputs: Inputs) -> Event:
    run = experiment.base.run
    return {
        "event": "search",
        "name": search_folder.name,
        "space": experiment.name,
        "data": inputs.fingerprint(),
        "ranker": run.ranker.name,
        "rankers": experiment.values("ranker.name"),
        "opened": list(experiment.space.parameters),
        "arms": planned_arms(experiment),
        "compares": experiment.arms.compares,
        "metric": experiment.base.run.metric,
        "seed": experiment.base.run.seed,
        "baseline": BASELINE_TRIAL,
        "yaml": to_yaml(experiment),
        "objective": experiment.objective and experiment.objective.record,
        "plugins": plugins_of(parts_of(experiment)),
        "versions": {name: number for name, number in versions((*PACKAGES, *OF_DRIVER)).items() if number},
        "git_commit": _git_commit(),
        "tracking_uri": masked(search_folder.tracking_uri),
        "storage": str(search_folder.storage),
        "checkpoints": search_folder.elsewhere,
        "time": time.time(),
    }


def parts_of(experiment: Experiment) -> list[object]:
    """A tree with the names of all parts that a search may use, among others."""
    parts: list[object] = [yaml.safe_load(to_yaml(experiment))]
    return parts if experiment.objective else [*parts, form_of(base_ranker(experiment).data.source)]


def _git_commit() -> str | None:
    """Commit of the repository that the program runs from; None without one, or without git."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
