"""Trials that read no teacher begin while it is trained, with the numbers of a search that had it from the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tune_cl
from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder
from tune_cl.history.journal import read_events
from tune_cl.history.state import SearchState, replay

pytestmark = pytest.mark.slow
SPACE: dict[str, Any] = {
    "ranker": {"name": "conv_knrm", "vector_size": 8, "filters": 4},
    "curriculum": {
        "scoring": {"choice": ["model_margin", "model_loss"]},
        "pacing": {"choice": ["root", "linear"]},
        "T": 0.3,
        "teacher": {"max_iterations": 60},
    },
    "training": {"batch_size": 8, "batches_per_iteration": 4, "max_iterations": 3, "lr": {"choice": [0.001, 0.01]}},
    "search": {"trials": 6},
}


def searched(folder: Path, name: str) -> SearchState:
    tune_cl.run(SPACE, folder / "data", name=name, storage=folder / "runs", progress=False)
    return replay(read_events(folder / "runs" / name / "journal.jsonl"))


@pytest.mark.usefixtures("local_ray")
def test_plain_trials_begin_before_the_teacher_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12}, candidates=5, turns=1), tmp_path / "data")
    beside = searched(tmp_path, "beside")
    [teacher] = (tmp_path / "cache" / "tune_cl" / "teacher-scores").iterdir()
    events = list(read_events(tmp_path / "runs" / "beside" / "journal.jsonl"))
    first = next(event for event in events if event["event"] == "trial")
    assert first["trial"] == "t0000" and first["time"] < teacher.stat().st_mtime
    after = searched(tmp_path, "after")  # with the teacher in the cache
    devs = [{trial.trial: trial.dev("map") for trial in state.by_number()} for state in (beside, after)]
    assert devs[0] == devs[1] and all(len(values) == 3 for values in devs[0].values())
    assert any("curriculum.scoring" in trial.params for trial in beside.by_number()), "no trial reads the teacher"
