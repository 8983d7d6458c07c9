"""Early and final orders of recorded curves (`benchmarks/rung_agreement.py`)."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "rung_agreement.py"


class Script:
    """The benchmark, run in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def rows(self, *arguments: str) -> tuple[list[dict], str]:
        self.monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--json", *arguments])
        self.monkeypatch.syspath_prepend(SCRIPT.parent)
        runpy.run_path(str(SCRIPT), run_name="__main__")
        out, err = self.capsys.readouterr()
        return json.loads(out), err


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(capsys, monkeypatch)


def test_the_given_curves_agree_as_their_table_says(shared: Path, tmp_path: Path, script: Script) -> None:
    folder = shared / "curves"
    if not folder.exists():
        pytest.skip(f"no curves in {folder}")
    found = [row for row in script.rows("--curves", str(tmp_path), "--given", str(folder))[0] if row["by"] == "best"]
    own = {seed: [round(row["own"], 2) for row in found if row["of"].endswith(f"seed {seed}")] for seed in (1, 2)}
    assert own == {1: [0.26, 0.09, 0.27, -0.06, 0.39, 0.23], 2: [0.48, 0.39, 0.52, 0.42, 0.58, 0.58]}


def test_curves_of_two_seeds_by_hand(tmp_path: Path, script: Script) -> None:
    """Three configurations, which end in the same order under both seeds; the first look at seed 1 swaps two."""
    curves = {
        1: {"a": [0.1, 0.5], "b": [0.3, 0.4], "c": [0.2, 0.3]},
        2: {"a": [0.3, 0.6], "b": [0.2, 0.5], "c": [0.1, 0.2]},
    }
    lines = [json.dumps({"seed": seed, "config": {"x": name}, "dev_map": dev, "seconds": 1.0})
             for seed, named in curves.items() for name, dev in named.items()]  # fmt: skip
    (tmp_path / "toy.jsonl").write_text("\n".join(lines))
    first = {
        row["of"]: row
        for row in script.rows("--curves", str(tmp_path / "none"), "--given", str(tmp_path))[0]
        if row["rung"] == 1 and row["by"] == "best"
    }
    assert first["toy seed 1"]["own"] == first["toy seed 1"]["others"] == pytest.approx(-1 / 3, abs=1e-3)
    assert first["toy seed 2"]["own"] == first["toy seed 2"]["others"] == 1.0


def test_missing_curves_are_passed_over_with_a_word(tmp_path: Path, script: Script) -> None:
    rows, notes = script.rows("--given", str(tmp_path / "none"))
    assert "holds no curves: passed over" in notes and all("studies" in row["of"] for row in rows)
