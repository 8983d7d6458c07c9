"""MLflow's store: a database that is made whole or not at all; lasting refusals told from failures that pass."""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock
from mlflow.exceptions import MlflowException, RestException
from mlflow.tracking import MlflowClient
from requests import HTTPError

from tune_cl.history.tracking_uri import SQLITE

REFUSALS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"}
"""Error codes that repeating the request cannot change: the user deleted the run, or MLflow refuses a value."""
TOO_LARGE = 413  # answered by a server, or the proxy before it, to a large file
KIND = {"mlflow.experimentKind": "custom_model_development"}  # so that pages open for training, not for prompts

logging.getLogger("mlflow").setLevel(logging.WARNING)
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # tracebacks of errors that it raises as well


def connect(uri: str) -> MlflowClient:
    create_database(uri)
    return MlflowClient(tracking_uri=uri)


def create_database(uri: str) -> None:
    """Creates the SQLite file of an address if there is none, completely or not at all: MLflow takes seconds to create
    its tables, and fails for ever on those that a kill cut short."""
    path = Path(uri.removeprefix(SQLITE).partition("?")[0])
    if not uri.startswith(f"{SQLITE}/") or path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")), TemporaryDirectory(prefix=".mlflow-", dir=path.parent) as new:
        if not path.exists():  # another search may have been faster
            MlflowClient(tracking_uri=f"{SQLITE}{new}/{path.name}")
            Path(new, path.name).replace(path)


def experiment_id(client: MlflowClient, name: str, artifacts: str | None) -> str:
    """The experiment's id; it is created, or restored from the trash, if need be. `artifacts`: where a new one keeps
    its artifacts (None: as the server decides)."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return client.create_experiment(name, artifacts, tags=KIND)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def refusal(error: Exception, uri: str) -> str | None:
    """Why MLflow will never do what was asked; None for an outage. What a proxy answers in place of the server is no
    refusal, unless a file is too large for it."""
    if isinstance(error, MlflowException) and error.error_code in REFUSALS:
        return error.message if isinstance(error, RestException) or not uri.startswith("http") else None
    if isinstance(error, HTTPError) and error.response is not None and error.response.status_code == TOO_LARGE:
        return f"it is larger than the server takes ({TOO_LARGE})"
    return None
