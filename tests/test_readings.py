"""The memory of what was read of a split: the same queries in any form, files that others share, damage or fill."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder
from trainables.core.errors import UserError
from trainables.core.prose import heard_by
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.data.forms.frames import as_source
from trainables.data.settings import DataConfig
from tune_cl.confirmation.readings import FILE, earlier_readings, record_reading, split_digest

GOOD = json.dumps({"split": "s", "reader": "one", "verdict": "better"})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tune_cl"


def of(source: Any) -> RankingData:
    return load_data(DataConfig(source=str(as_source(source))))


def frames_of(data: RankingData) -> dict[str, pd.DataFrame]:
    """The judged pairs of each split, in another order, with the case of queries changed."""
    frames = {}
    for name, split in data.splits.items():
        rows = [
            {"query": data.query_text(int(split.query[query])).upper() + " ?", "document": data.documents[document],
             "label": int(grade)}
            for query, document, grade in zip(split.owner, split.document, split.grade, strict=True)
        ]  # fmt: skip
        frames[name] = pd.DataFrame(rows[::-1])
    return frames


def test_the_same_queries_are_known_in_another_form(tmp_path: Path) -> None:
    made = tiny_data(queries={"train": 6, "dev": 5, "test": 5}, candidates=4, turns=1)
    folder, frames = of(write_trec_folder(made, tmp_path / "data")), of(frames_of(made))
    assert set(folder.query_ids).isdisjoint(frames.query_ids)
    assert split_digest(folder, "test") == split_digest(frames, "test") != split_digest(frames, "dev")
    split = made.splits["test"]
    graded = replace(made, splits={"test": replace(split, grade=(2 * split.grade).astype(np.int16))})
    other = replace(made, splits={"test": replace(split, document=np.roll(split.document, 1))})
    fewer = replace(made, documents=type(made.documents).of(["x" * (at % 9 + 1) for at in range(len(made.documents))]))
    assert split_digest(graded, "test") == split_digest(made, "test")
    assert len({split_digest(one, "test") for one in (made, other, fewer)}) == 3


def test_a_reading_is_known_before_its_verdict_and_once_for_each_reader(tmp_path: Path, cache: Path) -> None:
    for verdict in (None, "better", None, "better", "worse"):
        record_reading("s", "one", verdict, tmp_path)
    record_reading("s", "two", None, None)
    record_reading("other", "three", "better", tmp_path)
    assert earlier_readings("s", "two", tmp_path) == [{"split": "s", "reader": "one", "verdict": "worse"}]
    assert [one["reader"] for one in earlier_readings("s", "", tmp_path)] == ["one", "two"]
    assert [one["reader"] for one in earlier_readings("s", "", cache)] == ["one", "two"]
    assert len((cache / FILE).read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"split": "s", "rea\n' + GOOD.encode() + b"\n", 1),
        (GOOD.encode() + b'\n{"split": "s", "rea' + GOOD.encode() + b"\n", 2),
        (GOOD.encode() + b"\n\xff\xfe\n", 2),
        (b"[" * 100_000 + b"\n", 1),
        (b'{"split": "s"}\n', 1),
        (b"7\n", 1),
    ],
    ids=["torn", "swallowed", "bad bytes", "deep", "incomplete", "a number"],
)
def test_a_damaged_line_is_named(content: bytes, line: int, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    for read in (lambda: earlier_readings("s", "", tmp_path), lambda: record_reading("s", "two", None, tmp_path)):
        with pytest.raises(UserError) as caught:
            read()
        assert [problem.location for problem in caught.value.problems] == [f"{tmp_path / FILE}:{line}"]
    assert (tmp_path / FILE).read_bytes() == content


def linked(path: Path) -> None:
    path.with_name("target").write_text("not ours")
    path.symlink_to(path.with_name("target"))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, linked], ids=["pipe", "folder", "link"])
def test_what_is_no_file_is_refused_and_not_written_through(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / FILE)
    for read in (lambda: earlier_readings("s", "", tmp_path), lambda: record_reading("s", "two", None, tmp_path)):
        with pytest.raises(UserError, match=str(tmp_path / FILE)):
            read()
    assert not (tmp_path / "target").exists() or (tmp_path / "target").read_text() == "not ours"


@pytest.mark.parametrize(
    ("tail", "kept"), [('{"split": "s", "rea', 1), (GOOD.replace("one", "three"), 2), ("\ufffd", 1)]
)
def test_a_last_line_that_was_cut_short_swallows_no_reading(tail: str, kept: int, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(f"{GOOD}\n{tail}")
    assert len(earlier_readings("s", "", tmp_path)) == kept
    told: list[str] = []
    with heard_by(told.append):
        record_reading("s", "two", None, tmp_path)
    assert any(str(tmp_path / FILE) in line for line in told) == (kept == 1)
    own = [json.loads(line)["reader"] for line in (tmp_path / FILE).read_text().splitlines()]
    assert own == [*["one", "three"][:kept], "two"]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text(GOOD + "\n")
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, line, at: write(handle, line[:9], at))
    told: list[str] = []
    with heard_by(told.append):
        record_reading("s", "two", None, tmp_path)
    assert any(os.strerror(errno.ENOSPC) in line and str(tmp_path / FILE) in line for line in told)
    assert (tmp_path / FILE).read_text() == GOOD + "\n"


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as writers:
        for done in [writers.submit(record_reading, "s", str(number), None, tmp_path) for number in range(100)]:
            done.result(60)
    assert len((tmp_path / FILE).read_text().splitlines()) == len(earlier_readings("s", "", tmp_path)) == 100
