"""Whatever argument of a command names a file: a device is refused in one line, and a pipe too where none is read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.support.data_folders import trec_files, write_folder
from tests.support.report_cases import Case
from tune_cl.cli import main

HERE = {  # an argument: where it is tried, PATH in place of the file
    "--plugin": "list data --plugin PATH",
    "--objective": "check SPACE --objective PATH:train",
    "--data": "check SPACE --data PATH",
    "--documents": "rerank RANKER --query q --documents PATH",
    "--set": "train --data DATA --ranker knrm --set ranker.vectors=PATH",
    "--set curriculum.file": "train --data DATA --ranker knrm --set curriculum.file=PATH --set curriculum.scoring=file "
    "--set curriculum.pacing=linear",
    "space": "check PATH",
    "data": "data PATH",
    "checkpoint": "rerank PATH --query q --documents SPACE",
    "qrels": "evaluate PATH RUN",
    "runs": "evaluate QRELS PATH",
}
PIPES = ("qrels", "runs", "--documents")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("places")
    data = write_folder(folder / "given", trec_files())
    case = Case(folder)
    case.add([0.3, 0.4], "baseline")
    case.add([0.3, 0.5], "completed")
    case.finish()
    ranker = folder / "ranker"
    small = ["training.max_iterations=1", "training.batches_per_iteration=1"]
    sets = [word for one in small for word in ("--set", one)]
    assert main(["train", "--data", str(data), "--ranker", "knrm", "--output", str(ranker), *sets]) == 0
    (folder / "space.yaml").write_text(f"data: {data}\nranker: knrm\ntraining.lr: {{loguniform: [0.001, 0.1]}}\n")
    files = {"DATA": data, "RUNS": case.write().storage, "SPACE": folder / "space.yaml", "RANKER": ranker / "ranker"}
    files |= {"QRELS": data / "qrels.test.txt", "RUN": data / "run.test.txt"}
    return {name: str(path) for name, path in files.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_refused(
    name: str, kind: str, places: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("x.py" if name in ("--plugin", "--objective") else "x.yaml")
    if kind == "device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    command = [places.get(word, word.replace("PATH", str(path))) for word in HERE[name].split()]
    if kind == "pipe" and name in PIPES:
        pytest.skip("is read")
    done: list[int] = []
    worker = threading.Thread(target=lambda: done.append(main(command)), daemon=True)
    worker.start()
    worker.join(60)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error")]
    assert done == [2] and len(lines) == 1, (done, lines)
    assert str(path) in lines[0] or os.path.realpath(path) in lines[0], lines


@pytest.mark.slow
def test_pipes_are_read_where_they_are_a_habit(
    places: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "run")
    content = Path(places["RUN"]).read_text()
    threading.Thread(target=lambda: (tmp_path / "run").write_text(content), daemon=True).start()
    assert main(["evaluate", places["QRELS"], str(tmp_path / "run")]) == 0
