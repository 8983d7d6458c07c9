"""The journal keeps every event through kills, and replays into the state of the search."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.journal_events import SEARCH, end, result, trial
from trainables.core.errors import ConfigError, DataError
from tune_cl.history.journal import Event, Journal, read_events
from tune_cl.history.state import Dev, replay


def written(folder: Path, *events: Event) -> Path:
    with Journal(folder) as journal:
        for event in events:
            journal.append(event)
    return journal.path


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())

names = st.text()


@given(payloads=st.lists(st.dictionaries(names, st.one_of(scalars, st.lists(scalars))), max_size=5))
def test_events_read_back_as_written(payloads: list[Event], tmp_path_factory: pytest.TempPathFactory) -> None:
    events = [{**payload, "event": "any"} for payload in payloads]
    path = written(tmp_path_factory.mktemp("journal"), *events)
    assert repr(list(read_events(path))) == repr(events)  # repr: nan differs from itself


def test_values_that_are_not_finite_survive(tmp_path: Path) -> None:
    path = written(tmp_path / "s", SEARCH, trial(0, **{"curriculum.m": math.inf}), result(0, 1, math.nan))
    state = replay(read_events(path))
    assert state.trials["t0000"].params == {"curriculum.m": math.inf}
    assert math.isnan(state.trials["t0000"].results[1]["dev_mrr@10"])
    assert state.best() is None


@pytest.mark.parametrize("keep", [1, 10, -1])
def test_torn_last_line_is_cut_and_said(tmp_path: Path, keep: int) -> None:
    path = written(tmp_path / "s", SEARCH, trial(0))
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole + last[:keep])
    assert len(list(read_events(path))) == 2  # a reader does not wait for the owner's repair
    with Journal(tmp_path / "s") as journal:
        assert journal.note is not None and "dropped" in journal.note
        assert path.read_bytes() == whole
        journal.append(result(0, 1, 0.5))
    with Journal(tmp_path / "s") as journal:
        assert journal.note is None
        assert [event["event"] for event in journal.events()] == ["search", "trial", "result"]


def test_a_last_line_damaged_before_its_end_is_torn_too_and_readers_agree(tmp_path: Path) -> None:
    """A page of the last write never reached the disk, the next one did."""
    path = written(tmp_path / "s", SEARCH, trial(0))
    first, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + bytes(40) + last[40:])
    assert [event["event"] for event in read_events(path)] == ["search"]
    with Journal(tmp_path / "s") as journal:
        assert journal.note is not None and f"({len(last)} bytes)" in journal.note
        assert path.read_bytes() == first


@pytest.mark.parametrize("damaged", [b'{"half\n', b"[1]\n", b'{"trial": "t0001"}\n'])
def test_damage_before_the_last_line_is_refused_and_named(damaged: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "s", SEARCH, trial(0))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + damaged + lines[1])
    with pytest.raises(DataError, match=r"journal\.jsonl:2: "):
        list(read_events(path))


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_failed_write_leaves_no_part_of_a_line(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(tmp_path / "s") as journal:
        journal.append(SEARCH)
        with monkeypatch.context() as patch, pytest.raises(type(error)):
            patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(error))
            journal.append(trial(0))
        assert journal.path.stat().st_size == journal.size
        journal.append(trial(1))
        assert [event.get("number") for event in journal.events()] == [None, 1]


@pytest.mark.slow
def test_second_driver_is_refused_until_the_first_dies(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, tune_cl.history.journal as j; held = j.Journal(pathlib.Path(sys.argv[1])); "
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "s")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ConfigError, match="'s' is in use by another process"):
            Journal(tmp_path / "s")
        other.kill()
        other.wait()
        Journal(tmp_path / "s").close()


def test_replay_gives_the_state_of_the_search() -> None:
    events = [
        SEARCH, {"event": "session", "number": 1, "time": 1.0}, trial(0), trial(1, **{"curriculum.pacing": "root"}),
        result(0, 1, 0.3), result(1, 1, 0.2), result(1, 2, 0.6), result(1, 3, 0.6), trial(2), result(2, 1, 0.9),
        {"event": "checkpoint", "trial": "t0001", "iteration": 2, "path": "p2"}, {"event": "of another reader"},
        end(0, "baseline"), end(2, "failed"),
    ]  # fmt: skip
    state = replay(events)
    best = state.best()
    assert best is not None and best[0].trial == "t0001" and best[1] == Dev(2, 0.6)
    assert (state.iterations, state.sessions) == (5, 1)
    assert [open_trial.trial for open_trial in state.open_trials()] == ["t0001"]
    assert state.trials["t0001"].checkpoints == {2: "p2"}
    baseline = state.baseline_trial()
    assert baseline is not None and baseline.best("mrr@10") == Dev(1, 0.3)


def test_search_end_holds_until_the_next_session() -> None:
    ended = [SEARCH, {"event": "search_end", "best": None, "cost": {}, "seconds": 1.0, "time": 5.0}]
    assert replay(ended).end is not None
    assert replay([*ended, {"event": "session", "number": 2, "time": 6.0}]).end is None


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ([], "journal: "),
        ([trial(0)], "journal:1"),
        ([{key: value for key, value in SEARCH.items() if key != "metric"}], "journal:1: .*'search'"),
        ([SEARCH, result(3, 1, 0.1)], "journal:2: .*t0003"),
    ],
)
def test_journal_that_does_not_fit_is_refused(events: list[Event], place: str) -> None:
    with pytest.raises(DataError, match=place):
        replay(events)
