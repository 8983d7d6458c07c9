"""The notebooks of examples/, one of them in a real kernel of Jupyter, and the library in a process with a Ray of its
own."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
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


def smaller(name: str, sizes: dict[str, str]) -> Any:
    """A notebook of examples/ in other sizes."""
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    for given, small in sizes.items():
        cell = next(cell for cell in notebook.cells if given in cell.source)
        cell.source = cell.source.replace(given, small)
    return notebook


def executed(notebook: Any) -> tuple[str, dict[str, Any]]:
    """What the cells print and end with, run in this process; and their names."""
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()) as printed:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                *statements, last = ast.parse(cell.source).body
                shown = isinstance(last, ast.Expr) and not cell.source.endswith(";")
                exec(compile(ast.Module([*statements, *([] if shown else [last])], []), "cell", "exec"), names)
                if shown:
                    print(repr(eval(compile(ast.Expression(last.value), "cell", "eval"), names)))
    return printed.getvalue(), names


def outputs(cell: Any, kind: str) -> list[str]:
    return [output["data"][kind] for output in cell["outputs"] if kind in output.get("data", {})]


def test_the_example_leads_from_a_folder_to_a_verdict_in_a_kernel(tmp_path: Path) -> None:
    sizes = {'"batches_per_iteration": 16': '"batches_per_iteration": 2', '"max_iterations": 16': '"max_iterations": 4'}
    sizes |= {'"trials": 6': '"trials": 4, "max_concurrent": 1', "seeds=3": "seeds=2"}
    notebook = smaller("does_a_curriculum_help", sizes)
    assert any(cell.get("outputs") for cell in notebook.cells), "it ships as it looks once run"
    settings = {"PYTHONPATH": on_path(str(ROOT)), "OMP_NUM_THREADS": "1"}
    settings |= {"PYTHONWARNINGS": "ignore:IProgress not found"}  # tqdm's, as Optuna imports it without ipywidgets
    folder = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=folder).execute(env=os.environ | settings)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    searched, confirmed = (next(cell for cell in cells if call in cell.source) for call in ("run(", "confirm("))
    line = outputs(searched, "text/plain")[0]
    assert line.startswith("curricula: 4 of 4 trials done, 16 iterations · best dev MAP: ") and "left" not in line
    kinds = [output["output_type"] for output in searched["outputs"]]
    assert sorted(kinds) == ["display_data", "execute_result", "stream"], "one line of progress, the result, a note"
    [shown] = outputs(searched, "text/html")
    assert "<svg" in shown and "t0000 plain, default" in shown and "tune_cl.open_search(" in shown
    [verdict] = outputs(confirmed, "text/html")
    assert "2 seeds" in verdict and "<table" in verdict
    assert not [one["text"] for cell in cells for one in cell["outputs"] if one.get("name") == "stderr"]


def test_the_example_on_negatives_speaks_of_no_curriculum(
    local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = {'"batches_per_iteration": 16': '"batches_per_iteration": 2', '"max_iterations": 12': '"max_iterations": 3'}
    sizes |= {"seeds=5": "seeds=2", '"trials": 7': '"trials": 4, "max_concurrent": 1'}
    notebook = smaller("do_hard_negatives_help", sizes)
    outputs_shipped = [one for cell in notebook.cells if cell.cell_type == "code" for one in cell["outputs"]]
    shipped = "\n".join(str(one.get("text", one.get("data", {}).get("text/plain", ""))) for one in outputs_shipped)
    for text in (shipped, executed(notebook)[0]):
        assert " 80 queries" in text and "hard_negatives=random" in text
        assert "curricul" not in text.lower() and "plain training" not in text
        assert r"\cite{tune_cl}" in text, "the methods paragraph"


def test_the_example_on_cross_encoder_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = {"STEPS, BATCH = 20_000, 100, 150, 16": "STEPS, BATCH = 400, 10, 6, 8"}
    _, names = executed(smaller("curriculum_in_cross_encoder_trainer", sizes))
    assert set(names["values"]) == {"plain", "curriculum"} and all(0 < one < 1 for one in names["values"].values())


PROGRAM = """
import json, os, signal
import ray, tune_cl
from tests.support.kills import CtrlC
before = dict(os.environ), [signal.getsignal(number) for number in (2, 15, 1)]
try:
    tune_cl.run("toy.yaml", data="data", storage="runs", callbacks=[CtrlC(1)])
except KeyboardInterrupt as stop:
    print(stop)
changed = {name for name, _ in before[0].items() ^ os.environ.items()}
of_rays_own = {"RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED"}  # as after any ray.init
left = sorted(name for name in changed - of_rays_own if name.startswith(("RAY_", "TUNE_", "MLFLOW_", "CUDA_", "OMP_")))
left += [number for number, handler in zip((2, 15, 1), before[1]) if signal.getsignal(number) != handler]
search = tune_cl.open_search("toy", storage="runs")
print(json.dumps([search.finished, left, ray.is_initialized()]))
search = search.resume(progress=False)
ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
for seeds in (1, 2):
    verdict = search.confirm(seeds=seeds, top=1, progress=False)
print(json.dumps([search.finished, len(search.trials), len(verdict.per_query), [*verdict.seeds], ray.is_initialized()]))
"""


def test_an_interrupted_search_goes_on_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Two confirmations then run on the Ray of the user's own, which keeps its token: another one ended the process."""
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), tmp_path / "data")
    few = SPACE.replace("trials: 5", "trials: 2").replace("max_iterations: 8", "max_iterations: 3")
    (tmp_path / "toy.yaml").write_text(few)
    storage = repr(str(fresh_database(tmp_path / "runs").resolve()))
    (tmp_path / "home").mkdir()  # without a token of Ray
    environment = os.environ | {"PYTHONPATH": on_path(str(ROOT)), "OMP_NUM_THREADS": "1", "HOME": f"{tmp_path}/home"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    stopped, left, went_on = done.stdout.splitlines()
    how = f"tune_cl.open_search('toy', storage={storage}).resume()"
    assert stopped == f"stopped; what is done is saved. Go on with: {how}"
    assert (left, went_on) == ("[false, [], false]", "[true, 2, 72, [1, 2], true]")
