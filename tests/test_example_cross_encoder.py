"""The notebook on CrossEncoderTrainer runs from its first cell to its last."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples/curriculum_in_cross_encoder_trainer.ipynb"
SIZES = "ROWS, DEV_QUERIES, STEPS, BATCH = 20_000, 100, 150, 16"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    sizes = next(cell for cell in notebook.cells if SIZES in cell.source)
    sizes.source = sizes.source.replace(SIZES, "ROWS, DEV_QUERIES, STEPS, BATCH = 800, 20, 12, 8")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    values = ast.literal_eval(notebook.cells[-2].outputs[-1]["data"]["text/plain"].replace("np.float64", ""))
    assert set(values) == {"plain", "curriculum"} and all(0 < value < 1 for value in values.values())
