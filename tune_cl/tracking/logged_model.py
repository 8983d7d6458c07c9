"""MLmodel beside a saved ranker, so that MLflow sees the folder as a model, to load as pyfunc and to register.

The folder itself is the model; nothing in it is copied. It is scored by `tune_cl.integrations.mlflow_model`, where
tune_cl is installed.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import yaml
from mlflow.models import Model, ModelSignature
from mlflow.pyfunc import add_to_model
from mlflow.types import ColSpec, DataType, Schema

from trainables.core.files import write_text

MLMODEL, EXAMPLE, REQUIREMENTS = "MLmodel", "input_example.json", "requirements.txt"
LOADER = "tune_cl.integrations.mlflow_model"
SCORES_TEXTS = ("tune_cl.json", "text")  # one of them is in the folder of a ranker that reads texts
PAIR = ("how do I sort a list", "sorted() returns a new list")
OF_NOW = ("utc_time_created", "model_uuid")  # fields that differ each time


def scores_texts(folder: Path) -> bool:
    return any((folder / name).exists() for name in SCORES_TEXTS)


def describe_model(folder: Path) -> None:
    """Writes MLmodel, an input example and requirements into a ranker's folder, once. The files say nothing of a run,
    so that equal rankers have equal folders."""
    if (folder / MLMODEL).exists():
        return
    columns = ("query", "document")
    example = {"columns": list(columns), "data": [list(PAIR)]}
    (folder / EXAMPLE).write_text(json.dumps(example), encoding="utf-8")
    (folder / REQUIREMENTS).write_text(f"tune-cl=={version('tune-cl')}\n", encoding="utf-8")
    inputs = Schema([ColSpec(DataType.string, name) for name in columns])
    model = Model(
        signature=ModelSignature(inputs, Schema([ColSpec(DataType.float)])),
        saved_input_example_info={
            "artifact_path": EXAMPLE, "type": "dataframe", "pandas_orient": "split", "serving_input_path": None,
        },
    )  # fmt: skip
    add_to_model(model, loader_module=LOADER, data=".")
    fields = {key: value for key, value in model.to_dict().items() if key not in OF_NOW}
    write_text(folder / MLMODEL, yaml.safe_dump(fields, sort_keys=True))
