"""The library in a real kernel of Jupyter, and in a process with a Ray of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import tune_cl
from tests.support.builders import tiny_data
from tests.support.commands import SPACE, on_path
from tests.support.project import ROOT
from tests.support.trec_folder import write_trec_folder
from tune_cl.history.journal import read_events

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"


def executed(notebook: Any, folder: Path) -> Any:
    """The notebook with the outputs of its cells, run in a folder. Raises CellExecutionError if one fails."""
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    settings = {"PYTHONPATH": on_path(str(ROOT)), "OMP_NUM_THREADS": "1"}
    settings |= {"PYTHONWARNINGS": "ignore:IProgress not found"}  # tqdm's, as Optuna imports it without ipywidgets
    client.execute(env=os.environ | settings)
    return notebook


def outputs(cell: Any, kind: str) -> list[str]:
    return [output["data"][kind] for output in cell["outputs"] if kind in output.get("data", {})]


def test_the_example_leads_from_a_folder_to_a_verdict(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "does_a_curriculum_help.ipynb", as_version=4)
    assert any(cell.get("outputs") for cell in notebook.cells), "it ships as it looks once run"
    cells = [cell for cell in executed(notebook, tmp_path).cells if cell.cell_type == "code"]
    searched, confirmed = (next(cell for cell in cells if call in cell.source) for call in ("run(", "confirm("))
    line = outputs(searched, "text/plain")[0]
    assert line.startswith("curricula: 4 of 4 trials done, 12 iterations") and line.endswith("done")
    kinds = [output["output_type"] for output in searched["outputs"]]
    assert sorted(kinds) == ["display_data", "execute_result", "stream"], "one line of progress, the result, a note"
    [shown] = outputs(searched, "text/html")
    assert "<svg" in shown and "t0000 plain, default" in shown and "tune_cl.open_search(" in shown
    [verdict] = outputs(confirmed, "text/html")
    assert "3 seeds" in verdict and "<svg" in verdict
    assert not [one["text"] for cell in cells for one in cell["outputs"] if one.get("name") == "stderr"]


INTERRUPTED = """
import _thread, threading, time
from pathlib import Path
import tune_cl
def interrupt():
    journal = Path("runs/toy/journal.jsonl")
    while not (journal.exists() and '"result"' in journal.read_text()):
        time.sleep(0.05)
    _thread.interrupt_main()
threading.Thread(target=interrupt, daemon=True).start()
try:
    tune_cl.run("toy.yaml", data="data", storage="runs")
except KeyboardInterrupt as stop:
    print(stop)
"""
WITH_RAY = """
import json, os, signal, ray, tune_cl
before = dict(os.environ), [signal.getsignal(number) for number in (2, 15, 1)]
search = tune_cl.open_search("toy", storage="runs").resume(progress=False)
changed = {name for name, _ in before[0].items() ^ os.environ.items()}
of_rays_own = {"RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED"}  # as after any ray.init
left = sorted(name for name in changed - of_rays_own if name.startswith(("RAY_", "TUNE_", "MLFLOW_", "CUDA_", "OMP_")))
left += [number for number, handler in zip((2, 15, 1), before[1]) if signal.getsignal(number) != handler]
ray_left = ray.is_initialized()
ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
verdict = search.confirm(seeds=2, top=1, progress=False)
again = tune_cl.run("toy.yaml", data="data", storage="runs", trials=2, max_iterations=1, progress=False)
print(json.dumps([search.finished, len(search.trials), left, ray_left, ray.is_initialized(), len(verdict.per_query),
    verdict.table["seeds"].tolist(), again.name]))
"""


def python(program: str, folder: Path) -> tuple[str, str]:
    environment = os.environ | {"PYTHONPATH": on_path(str(ROOT)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_an_interrupted_search_goes_on_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), tmp_path / "data")
    (tmp_path / "toy.yaml").write_text(SPACE.replace("trials: 5", "trials: 3"))
    out, _ = python(INTERRUPTED, tmp_path)
    storage = str((tmp_path / "runs").resolve())
    assert (
        out == f"stopped; what is done is saved. Go on with: tune_cl.open_search('toy', storage={storage!r}).resume()\n"
    )
    assert [event["event"] for event in read_events(tmp_path / "runs" / "toy" / "journal.jsonl")][-1] == "interrupted"
    assert not tune_cl.open_search("toy", tmp_path / "runs").finished
    out, err = python(WITH_RAY, tmp_path)
    assert out == '[true, 3, [], false, true, 48, [2, 2], "toy-2"]\n'
    assert "trial" not in err and "note" not in err
