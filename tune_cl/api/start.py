"""Starts or opens searches from Python: `tune_cl.run`, `tune_cl.open_search`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.config.function import Function, Objective, objective_of
from trainables.core.plugins import Names, load_plugins
from trainables.core.prose import say
from trainables.core.storage import checkpoints_of
from trainables.data.forms.frames import Data, as_source
from tune_cl.api.search import Search
from tune_cl.api.session import working
from tune_cl.api.train import untrained
from tune_cl.experiment.experiment import Experiment, base_ranker
from tune_cl.experiment.load import Overrides, SpaceSource, requested_experiment
from tune_cl.history.search_folder import DEFAULT_STORAGE, SearchFolder, existing_search_folder, new_search_folder
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.process import loading
from tune_cl.ray.address import require_cluster

if TYPE_CHECKING:
    from tune_cl.ray.tuner import Callbacks


def run(
    space: SpaceSource,
    data: Data = None,
    ranker: str | None = None,
    name: str | None = None,
    trials: int | None = None,
    max_iterations: int | None = None,
    seed: int | None = None,
    storage: str | Path = DEFAULT_STORAGE,
    tracking_uri: str | None = None,
    address: str | None = None,
    overrides: Overrides | None = None,
    progress: bool = True,
    objective: Function | Objective | str | None = None,
    plugins: Names = (),
    callbacks: Callbacks = (),
    checkpoints: str | Path | None = None,
) -> Search:
    """Search a space of curricula and rankers.

        tune-cl run quickstart
        tune-cl run penha2020_pacing --data ../data/msdialog --ranker bert --set ranker.model=bert-base-uncased
        tune-cl run my_space.yaml --trials 40 --address auto --storage /shared/runs

    space           a shipped space (tune-cl list spaces) or a YAML file; in Python also a mapping of the same tree
    data            docstrings, ir_datasets:NAME, hf:NAME, or a folder (tune-cl list data); in Python also tables
    ranker          see tune-cl list rankers
    name            of the search; by default the space's name, numbered where it is taken
    trials          how many, of both arms
    max_iterations  of a trial
    seed            of sampling and of every training
    storage         the folder of the searches; on a cluster, one that all nodes see
    tracking_uri    MLflow; by default $MLFLOW_TRACKING_URI, else a SQLite file in the storage
    address         of a Ray cluster: auto, or host:port; by default a local Ray
    overrides       configuration keys with values or ranges (VALUE is YAML), repeatable
    progress        False: nothing is printed
    objective       a training function `(config, trial)` of your own
    plugins         files and modules with parts of one's own, one or several
    callbacks       of Ray Tune, such as its loggers for TensorBoard, W&B or Aim
    checkpoints     where trials save their state, if not in the storage: a folder, or an address such as s3://...

    Raises ConfigError or DataError before anything is written, WorkFailed without any value, Interrupted if stopped.
    """
    load_plugins(plugins)
    function = objective_of(objective) if objective else None
    keys = {"trials": trials, "max_iterations": max_iterations, "seed": seed}
    with working(progress, local_ray=address is None) as panel:
        experiment = requested_experiment(space, overrides or {}, function, as_source(data), ranker, **keys)
        search_folder = _new_folder(experiment, str(storage), name, tracking_uri)
        if checkpoints:
            search_folder = replace(search_folder, elsewhere=checkpoints_of(search_folder.name, str(checkpoints)))
        require_cluster(address)
        for note in [] if experiment.objective else untrained(base_ranker(experiment)):
            say(f"note: {note}")
        with loading():  # only after the input is checked
            from tune_cl.run_search import start_search
        search = Search(search_folder, start_search(experiment, search_folder, address, panel, callbacks), function)
    search.address = address
    return search


def _new_folder(experiment: Experiment, storage: str, name: str | None, tracking_uri: str | None) -> SearchFolder:
    folder = new_search_folder(storage, name, experiment.name)
    uri = resolve_tracking_uri(folder.storage, tracking_uri)
    option = experiment.objective.option if experiment.objective else ""
    return replace(folder, tracking_uri=uri, objective=option)


def open_search(
    name: str, storage: str | Path = DEFAULT_STORAGE, tracking_uri: str | None = None, plugins: Names = ()
) -> Search:
    """A search that ran before, finished or not.

    name          of the search, as run printed it
    storage       the folder of the searches; on a cluster, one that all nodes see
    tracking_uri  MLflow, if it is another address now
    plugins       files and modules with parts of one's own that it needs

    Raises ConfigError if there is none of this name in the storage, DataError if its journal is damaged.
    """
    load_plugins(plugins)
    return Search(existing_search_folder(str(storage), name, tracking_uri))
