"""Computes what all trials share, which may take a GPU hours, on the cluster that the trials run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from trainables.config.keys import TrainingConfig
from trainables.core.errors import ConfigError, DataError, Problem, UserError, WorkFailed, last_line
from trainables.core.prose import say
from trainables.curriculum.scoring import any_needs, difficulty, no_vectors
from trainables.rankers.settings import TRAINED_VECTORS
from trainables.training.batching import scored_of
from trainables.training.device import Compute, here, limit_process
from trainables.training.factory import training_notes
from trainables.training.prepared import PreparedData, changed_files, files_of, prepare, prepared_key
from trainables.training.pretraining import with_start
from trainables.training.teachers import with_teachers
from trainables.training.trainer import training_instances
from tune_cl.experiment.experiment import Experiment, base_ranker
from tune_cl.experiment.readers import distinct_rankers, file_readers, scorings_of, teachers_of
from tune_cl.experiment.search_keys import Resources
from tune_cl.process import stop_if_asked
from tune_cl.ray.concurrency import READ_SECONDS, Concurrency
from tune_cl.ray.session import ray_session


def on_cluster(address: str, resources: Resources) -> Compute:
    """Runs functions as tasks with a trial's resources, each in a session of its own: cached results need none.

    Raises the function's own UserError or WorkFailed, and WorkFailed for anything else.
    """

    def compute(function: Callable[..., Any], *arguments: Any) -> Any:
        name = function.__name__.replace("_", " ")
        say(f"{name}: computed on the cluster; the trials begin when it is there")
        with ray_session(address):
            task = ray.remote(num_cpus=resources.cpu, num_gpus=resources.gpu)(_task)
            started = task.remote(function, arguments, resources.threads, resources.gpu)
            look = Concurrency(resources, None, cluster=True, say=say)
            while not ray.wait([started], timeout=READ_SECONDS)[0]:
                stop_if_asked()
                look()  # Ray itself waits without a word for a node that holds a task
            try:
                return ray.get(started)
            except RayError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, UserError | WorkFailed):
                    raise cause from None
                raise WorkFailed(f"{name}: {last_line(error)}") from error

    return compute


def _task(function: Callable[..., Any], arguments: tuple[Any, ...], threads: int, gpu: float) -> Any:
    limit_process(threads, gpu)
    return function(*arguments)


def completed(
    experiment: Experiment, by_key: Mapping[str, PreparedData], compute: Compute = here, later: bool = False
) -> dict[str, PreparedData]:
    """What `untrained` gives, with each ranker's pre-trained start and the search's one teacher, which are trained
    through `compute`. `later`: each training trains the teacher that it needs, as the baseline would, if no other one
    has."""
    by_key, base = dict(by_key), base_ranker(experiment)
    for run in {prepared_key(run): run for run in distinct_rankers(experiment)}.values():
        by_key[prepared_key(run)] = with_start(base, run, by_key[prepared_key(run)], compute)
    if later:
        return {key: replace(one, taught_as=base) for key, one in by_key.items()}
    return with_teachers(base, by_key, teachers_of(experiment), compute)


def untrained(experiment: Experiment) -> dict[str, PreparedData]:
    """For every ranker that the space can choose, by prepared_key: its data and text side, without start and teacher,
    which take training.

    Raises DataError or ConfigError for whatever a trial would find wrong with the data or the files it reads.
    """
    by_key: dict[str, PreparedData] = {}
    data = None
    for run in distinct_rankers(experiment):
        key = prepared_key(run)
        if key not in by_key:
            by_key[key] = prepare(run, data)
            data = by_key[key].data
        training_notes(run, by_key[key])
        _require_difficulty(experiment, run, by_key[key])
    _require_vectors(experiment)
    return by_key


def _require_difficulty(experiment: Experiment, run: TrainingConfig, prepared: PreparedData) -> None:
    """Reads the files of scoring `file` for the instances of a training. Raises ConfigError or DataError for a file
    that is missing or wrong, or that lacks a value."""
    if "file" not in scorings_of(experiment) or run.reads == "features":
        return
    split, instances = training_instances(run, prepared)
    for name in dict.fromkeys(reader.curriculum.file for reader in file_readers(experiment) if reader.curriculum.file):
        difficulty("file", replace(scored_of(run, prepared.data, split, instances), file=name))


def _require_vectors(experiment: Experiment) -> None:
    """Raises ConfigError for each missing file of word vectors that a scoring needs."""
    if not any_needs(scorings_of(experiment), "vectors"):
        return
    files = {run.curriculum.vectors for run in file_readers(experiment)} - {TRAINED_VECTORS}
    if problems := [no_vectors(name) for name in sorted(files) if not Path(name).is_file()]:
        raise ConfigError(problems)


def fingerprint(experiment: Experiment, prepared: Mapping[str, PreparedData]) -> dict[str, Any]:
    """The name of the data that a search reads, and the digests by which a change is seen: of the data, of pre-training
    data, of files of word vectors and of difficulty."""
    first, readers = next(iter(prepared.values())), file_readers(experiment)
    found = {
        "name": first.data.name,
        "digest": first.data.digest,
        "pretrain_digest": first.pretrain_digest,
        "files": files_of(readers),
    }
    return {key: value for key, value in found.items() if value or key in ("name", "digest")}


def require_unchanged(now: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    """Raises DataError if the data or a file has changed since the search began. `now`, `recorded`: fingerprints."""
    places = {"digest": "data.source", "pretrain_digest": "training.pretrain_data"}
    changed = [place for key, place in places.items() if now.get(key) != recorded.get(key)]
    changed += changed_files(now.get("files", {}), recorded.get("files", {}))
    if changed:
        right = "what the search began with, or a new search"
        raise DataError([Problem(place, "has changed since the search began", right) for place in changed])
