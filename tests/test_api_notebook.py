"""The library in a real kernel of Jupyter, and in a process with a Ray of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.builders import tiny_data
from tests.support.commands import SPACE, on_path
from tests.support.project import ROOT
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"


def executed(notebook: Any, folder: Path, sizes: dict[str, str]) -> Any:
    """The notebook with the outputs of its cells, run in a folder in other sizes. Raises CellExecutionError if one
    fails."""
    for given, small in sizes.items():
        cell = next(cell for cell in notebook.cells if given in cell.source)
        cell.source = cell.source.replace(given, small)
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
    sizes = {'"batches_per_iteration": 16': '"batches_per_iteration": 4', '"max_iterations": 16': '"max_iterations": 4'}
    sizes |= {'"trials": 6': '"trials": 4, "max_concurrent": 1'}
    cells = [cell for cell in executed(notebook, tmp_path, sizes).cells if cell.cell_type == "code"]
    searched, confirmed = (next(cell for cell in cells if call in cell.source) for call in ("run(", "confirm("))
    line = outputs(searched, "text/plain")[0]
    assert line.startswith("curricula: 4 of 4 trials done, 16 iterations") and line.endswith("done")
    kinds = [output["output_type"] for output in searched["outputs"]]
    assert sorted(kinds) == ["display_data", "execute_result", "stream"], "one line of progress, the result, a note"
    [shown] = outputs(searched, "text/html")
    assert "<svg" in shown and "t0000 plain, default" in shown and "tune_cl.open_search(" in shown
    [verdict] = outputs(confirmed, "text/html")
    assert "3 seeds" in verdict and "<table" in verdict
    assert not [one["text"] for cell in cells for one in cell["outputs"] if one.get("name") == "stderr"]


def test_the_example_on_negatives_speaks_of_no_curriculum(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "do_hard_negatives_help.ipynb", as_version=4)
    sizes = {'"batches_per_iteration": 16': '"batches_per_iteration": 4', '"max_iterations": 12': '"max_iterations": 3'}
    sizes |= {"seeds=5": "seeds=2", '"trials": 7': '"trials": 4, "max_concurrent": 1'}
    shipped = deepcopy(notebook.cells)
    for cells in (shipped, executed(notebook, tmp_path, sizes).cells):
        told = [one for cell in cells if cell.cell_type == "code" for one in cell["outputs"]]
        text = "\n".join(str(one.get("text", one.get("data", {}).get("text/plain", ""))) for one in told)
        assert " 80 queries" in text and "hard_negatives=random" in text
        assert "curricul" not in text.lower() and "plain training" not in text
        assert r"\cite{tune_cl}" in text, "the methods paragraph"
        assert not [one["text"] for one in told if one.get("name") == "stderr"]


PROGRAM = """
import _thread, json, os, signal, sys, threading, time
from pathlib import Path
import ray, tune_cl
def interrupt():
    journal = Path("runs/toy/journal.jsonl")
    while not (journal.exists() and '"result"' in journal.read_text()):
        time.sleep(0.05)
    _thread.interrupt_main()
threading.Thread(target=interrupt, daemon=True).start()
before = dict(os.environ), [signal.getsignal(number) for number in (2, 15, 1)]
try:
    tune_cl.run("toy.yaml", data="data", storage="runs")
except KeyboardInterrupt as stop:
    print(stop)
search = tune_cl.open_search("toy", storage="runs")
print('"interrupted"' in Path("runs/toy/journal.jsonl").read_text().splitlines()[-1], search.finished)
print("-- resumed", file=sys.stderr)
search = search.resume(progress=False)
changed = {name for name, _ in before[0].items() ^ os.environ.items()}
of_rays_own = {"RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED"}  # as after any ray.init
left = sorted(name for name in changed - of_rays_own if name.startswith(("RAY_", "TUNE_", "MLFLOW_", "CUDA_", "OMP_")))
left += [number for number, handler in zip((2, 15, 1), before[1]) if signal.getsignal(number) != handler]
ray_left = ray.is_initialized()
ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
verdict = search.confirm(seeds=2, top=1, progress=False)
print(json.dumps([search.finished, len(search.trials), left, ray_left, ray.is_initialized(), len(verdict.per_query),
    [*verdict.seeds]]))
"""


def test_an_interrupted_search_goes_on_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A confirmation then runs on the Ray of the user's own."""
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), tmp_path / "data")
    (tmp_path / "toy.yaml").write_text(SPACE.replace("trials: 5", "trials: 2"))
    storage = repr(str(fresh_database(tmp_path / "runs").resolve()))
    (tmp_path / "home").mkdir()  # without a token of Ray
    environment = os.environ | {"PYTHONPATH": on_path(str(ROOT)), "OMP_NUM_THREADS": "1", "HOME": f"{tmp_path}/home"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    stopped, state, went_on = done.stdout.splitlines()
    how = f"tune_cl.open_search('toy', storage={storage}).resume()"
    assert stopped == f"stopped; what is done is saved. Go on with: {how}"
    assert state == "True False"
    assert went_on == "[true, 2, [], false, true, 48, [1, 2]]"
    said = done.stderr.split("-- resumed")[1]
    assert "trial" not in said and "note" not in said
