"""Searches replayed on recorded trainings: `benchmarks/search_quality.py`."""

from __future__ import annotations

import json

import pytest

from benchmarks import search_quality
from benchmarks.recorded import SPACES, Recorded, configurations
from benchmarks.search_quality import PEER, experiment_of, measured, replays

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("study", SPACES)
def test_every_configuration_of_a_study_is_recorded(study: str) -> None:
    table = Recorded.read(study)
    assert list(table.settings) == [*configurations(experiment_of(study, json.dumps({"trials": 4})))]
    assert table.dev.shape == (*table.test.shape, 8) and table.test.min() > 0


@pytest.mark.parametrize("way", ["ours", PEER, "random"])
def test_a_search_is_replayed(way: str) -> None:
    cell = measured(way, "order_mediqa", 12, 3)
    assert cell.made <= 12 and cell.iterations <= 12 * 8
    assert cell.test.tolist() == measured(way, "order_mediqa", 12, 3).test.tolist(), "the seeds decide"


def test_what_is_held_out_takes_no_part_in_the_search() -> None:
    seeds = [seeds for _, seeds in replays("order_mediqa", 24)]
    assert all({one.search, *one.selection, one.held_out} == set(range(len(one.selection) + 2)) for one in seeds)
    assert {one.held_out for one in seeds} == set(range(Recorded.read("order_mediqa").seeds))


def test_a_table_has_gains_and_how_many_times_the_peers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sys.argv", ["search_quality", "--replays", "3", "--trainings", "6", "--studies", "order_mediqa"]
    )
    assert search_quality.main() == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 2 + 3 and "+0.00 (+0.00 to +0.00)" in told[3], "the peer is compared with itself"
