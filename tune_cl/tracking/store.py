"""MLflow's runs, behind operations that may be repeated, and what tells lasting refusals from passing failures."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag, ViewType
from mlflow.exceptions import MlflowException, RestException
from mlflow.tracking import MlflowClient
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT
from requests import HTTPError

from tune_cl.history.tracking_uri import SQLITE

METRICS, OTHERS = 1000, 100  # limits of one log_batch request
REFUSALS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"}
"""Error codes that repeating the request cannot change: the user deleted the run, or MLflow refuses a value."""
TOO_LARGE = 413  # answered by a server, or the proxy before it, to a large file
KIND = {"mlflow.experimentKind": "custom_model_development"}  # so that pages open for training, not for prompts

logging.getLogger("mlflow").setLevel(logging.WARNING)
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # tracebacks of errors that it raises as well


class RunStore:
    """Runs of one tracking server or database. Every method but `create` may be repeated: of identical points of a
    metric, MLflow keeps one. `artifacts`: where new experiments keep artifacts (None: as the server decides)."""

    def __init__(self, uri: str, artifacts: str | None):
        create_database(uri)
        self.client = MlflowClient(tracking_uri=uri)
        self.artifacts = artifacts
        self.is_server = uri.startswith("http")

    def refusal(self, error: Exception) -> str | None:
        """Why MLflow will never do what was asked; None for an outage. What a proxy answers in place of the server is
        no refusal, unless a file is too large for it."""
        if isinstance(error, MlflowException) and error.error_code in REFUSALS:
            return error.message if isinstance(error, RestException) or not self.is_server else None
        if isinstance(error, HTTPError) and error.response is not None and error.response.status_code == TOO_LARGE:
            return f"it is larger than the server takes ({TOO_LARGE})"
        return None

    def experiment(self, name: str) -> str:
        """The experiment's id; it is created, or restored from the trash, if need be."""
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            return self.client.create_experiment(name, self.artifacts, tags=KIND)
        if experiment.lifecycle_stage == "deleted":
            self.client.restore_experiment(experiment.experiment_id)
        return experiment.experiment_id

    def tag_experiment(self, experiment: str, key: str, value: str) -> None:
        self.client.set_experiment_tag(experiment, key, value)

    def tagged(self, experiment: str, tag: str, value: str) -> list[Run]:
        """All runs with the tag, those in the trash included."""
        runs: list[Run] = []
        where, token = f"tags.`{tag}` = '{value}'", None
        while True:
            page = self.client.search_runs([experiment], where, ViewType.ALL, 1000, page_token=token)
            runs += page
            token = page.token
            if not token:
                return runs

    def create(self, experiment: str, name: str, tags: Mapping[str, str], start: int) -> str:
        """The id of a new run, begun at `start` (milliseconds)."""
        return self.client.create_run(experiment, start, dict(tags), name).info.run_id

    def log(
        self,
        run: str,
        metrics: Iterable[Metric] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Metrics, parameters and tags, in as many requests as MLflow's limits ask for."""
        points = list(metrics)
        values = [Param(*pair) for pair in (params or {}).items()]
        words = [RunTag(*pair) for pair in (tags or {}).items()]
        while points or values or words:
            batch = points[:METRICS], values[:OTHERS], words[:OTHERS]
            self.client.log_batch(run, metrics=batch[0], params=batch[1], tags=batch[2], synchronous=True)
            points, values, words = points[METRICS:], values[OTHERS:], words[OTHERS:]

    def log_data(self, run: str, fields: Mapping[str, str]) -> None:
        """Names the data that a run trains on. `fields`: of mlflow.entities.Dataset."""
        context = InputTag(MLFLOW_DATASET_CONTEXT, "training")
        self.client.log_inputs(run, datasets=[DatasetInput(Dataset(**fields), [context])])

    def log_artifact(self, run: str, path: Path, folder: str | None) -> None:
        """Copies a file, or everything in a folder, to `folder` among the run's artifacts."""
        copy = self.client.log_artifacts if path.is_dir() else self.client.log_artifact
        copy(run, str(path), folder)
        _artifact_repos_cache.pop(run, None)  # else MLflow caches 1024 runs' repositories of 10 KiB, each used once

    def set_status(self, run: str, status: str) -> None:
        """Sets the status and leaves the end time as it is."""
        self.client.update_run(run, status=status)

    def finish(self, run: str, status: str, end: int) -> None:
        """Ends the run at `end` (milliseconds)."""
        self.client.set_terminated(run, status, end)

    def delete(self, run: str) -> None:
        """Moves the run to the trash."""
        self.client.delete_run(run)


def create_database(uri: str) -> None:
    """Creates the SQLite file of an address if there is none, completely or not at all: MLflow takes seconds to create
    its tables, and fails for ever on those that a kill or a full disk cut short."""
    path = Path(uri.removeprefix(SQLITE).partition("?")[0])
    if not uri.startswith(f"{SQLITE}/") or "%" in uri or path.exists():  # MLflow reads a % in its own ways
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".mlflow-", dir=path.parent) as scratch:
        new = Path(scratch) / path.name
        MlflowClient(tracking_uri=f"{SQLITE}{new}")
        try:
            os.link(new, path)
        except OSError:
            if not path.exists():  # no other search was faster: the file system has no hard links
                new.replace(path)
