"""MLmodel beside a saved ranker, so that MLflow sees the folder as a model: loaded as pyfunc, registered from its page.

The folder itself is the model; nothing in it is copied. It is scored by `tune_cl.integrations.mlflow_model`, where
tune_cl is installed.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mlflow.models import Model, ModelSignature
from mlflow.pyfunc import add_to_model
from mlflow.types import ColSpec, DataType, Schema

MLMODEL, EXAMPLE, REQUIREMENTS = "MLmodel", "input_example.json", "requirements.txt"
LOADER = "tune_cl.integrations.mlflow_model"
SCORES_TEXTS = ("tune_cl.json", "text")  # one of them is in the folder of a ranker that reads texts
PAIR = ("how do I sort a list", "sorted() returns a new list")
HISTORY = "mlflow.log-model.history"  # the tag by which a run's page offers to register a folder


def scores_texts(folder: Path) -> bool:
    return any((folder / name).exists() for name in SCORES_TEXTS)


def describe_model(folder: Path, run_id: str, artifact_path: str) -> str:
    """Writes MLmodel, an input example and requirements into a ranker's folder; returns the value of the tag HISTORY of
    the run that the folder is sent to. Doing it again changes nothing."""
    file = folder / MLMODEL
    if not file.exists() or Model.load(str(file)).run_id != run_id:
        _write(folder, run_id, artifact_path)
    fields: dict[str, Any] = Model.load(str(file)).to_dict()
    return json.dumps([fields], default=str)


def _write(folder: Path, run_id: str, artifact_path: str) -> None:
    columns = ("query", "document")
    example = {"columns": list(columns), "data": [list(PAIR)]}
    (folder / EXAMPLE).write_text(json.dumps(example), encoding="utf-8")
    (folder / REQUIREMENTS).write_text(f"tune-cl=={version('tune-cl')}\n", encoding="utf-8")
    inputs = Schema([ColSpec(DataType.string, name) for name in columns])
    model = Model(
        artifact_path=artifact_path,
        run_id=run_id,
        signature=ModelSignature(inputs, Schema([ColSpec(DataType.float)])),
        saved_input_example_info={
            "artifact_path": EXAMPLE, "type": "dataframe", "pandas_orient": "split", "serving_input_path": None,
        },
    )  # fmt: skip
    add_to_model(model, loader_module=LOADER, data=".")
    model.save(str(folder / MLMODEL))
