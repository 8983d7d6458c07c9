"""Searches replayed on recorded trainings: `benchmarks/search_quality.py`."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import search_quality
from benchmarks.recorded import HERE, SPACES, Recorded, configurations
from benchmarks.search_quality import PEER, WAYS, experiment_of, measured, replays

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("study", SPACES)
def test_every_configuration_of_a_study_is_recorded(study: str) -> None:
    table = Recorded.read(study)
    assert list(table.settings) == [*configurations(experiment_of(study, 4))]
    assert table.dev.shape == (*table.test.shape, 8) and table.test.min() > 0


def test_every_recorded_study_has_a_space() -> None:
    assert {path.stem for path in HERE.glob("*.npz")} == set(SPACES)


@pytest.mark.parametrize("way", WAYS)
def test_a_search_is_replayed(way: str) -> None:
    cell = measured(way, "order_mediqa", 12, 3)
    assert cell.iterations <= 13 * 8 and np.isfinite(cell.by_replay).all()
    assert np.array_equal(cell.gains, measured(way, "order_mediqa", 12, 3).gains, equal_nan=True), "the seeds decide"


@pytest.mark.parametrize("study", SPACES)
def test_what_is_held_out_takes_no_part_in_the_search(study: str) -> None:
    seeds, number = [seeds for _, seeds in replays(study, 120)], Recorded.read(study).seeds
    assert all({*one.search, *one.held_out} == set(range(number)) for one in seeds)
    assert all(len(one.search) + len(one.held_out) == number for one in seeds)
    assert {one.held_out[0] for one in seeds} == set(range(number))


def test_a_table_has_gains_and_how_many_times_the_peers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--replays", "6", "--trainings", "12", "--studies", "order_mediqa"]
    monkeypatch.setattr("sys.argv", ["search_quality", *options])
    assert search_quality.main() == 0
    lines = capsys.readouterr().out.splitlines()
    of_peer = next(line for line in lines if f"| {PEER} |" in line)
    assert len(lines) == 2 + 3 and "+0.00 (+0.00 to +0.00; +0.00 to +0.00)" in of_peer, "compared with itself"
