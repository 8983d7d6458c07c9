"""The cache: digests tell parts apart, entries are whole or absent, columns come back as they were."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import tiny_data
from trainables.core.cache import _locked, cache_root, cached, digest_of, load_arrays, save_arrays
from trainables.data import columns
from trainables.data.columns import Split, TextColumn
from trainables.data.data_cache import load_data_folder, save_data

PARTS = st.lists(st.one_of(st.text(max_size=3), st.integers(-2, 2), st.booleans(), st.none(), st.binary(max_size=2)))


def test_cache_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "tune_cl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path.home() / ".cache" / "tune_cl"


@given(PARTS, PARTS)
def test_digests_are_equal_only_for_equal_parts(left: list, right: list) -> None:
    same = [(type(part), part) for part in left] == [(type(part), part) for part in right]
    assert (digest_of(*left) == digest_of(*right)) == same


def test_digests_of_files_arrays_and_nested_parts(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"text")
    two.write_bytes(b"text")
    assert digest_of(one) == digest_of(two) != digest_of("text")
    assert digest_of(["a"], ["b"]) != digest_of(["a", "b"])
    assert digest_of({"k": 1}) != digest_of({"k": 2})
    assert digest_of(np.zeros(2, np.int32)) != digest_of(np.zeros(1, np.int64))
    with pytest.raises(TypeError):
        digest_of(object())


def test_an_entry_is_built_once() -> None:
    built = []

    def build(folder: Path) -> None:
        built.append(folder)
        (folder / "file").write_text("content")

    entries = [cached("test", digest_of("built once"), build) for _ in range(2)]
    assert len(built) == 1
    assert [(entry / "file").read_text() for entry in entries] == ["content"] * 2


def test_a_failed_build_leaves_nothing() -> None:
    def build(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        cached("failing", digest_of("fails"), build)
    assert list((cache_root() / "failing").iterdir()) == []


def test_what_killed_builds_left_is_removed() -> None:
    """A build that goes on is left alone, however old its folder is."""
    kind = cache_root() / "killed"
    old, running, young = (kind / name for name in (".aaaa-1", ".bbbb-2", ".cccc-3"))
    for folder in (old, running, young):
        folder.mkdir(parents=True)
        (folder / "half").write_text("")
    for folder in (old, running):
        os.utime(folder, (0, 0))
    with _locked(running):
        entry = cached("killed", digest_of("whole"), lambda folder: None)
    assert sorted(kind.iterdir()) == sorted([running, young, entry])


def test_two_builders_at_once_get_one_whole_entry() -> None:
    together = Barrier(2, timeout=30)

    def get(name: str) -> str:
        def build(folder: Path) -> None:
            (folder / "by").write_text(name)
            together.wait()

        return (cached("race", digest_of("race"), build) / "by").read_text()

    with ThreadPoolExecutor(2) as threads:
        got = list(threads.map(get, ["first", "second"]))
    assert got[0] == got[1]
    assert len(list((cache_root() / "race").iterdir())) == 1


def test_arrays_come_back_mapped(tmp_path: Path) -> None:
    arrays = {"ids": np.arange(5, dtype=np.int32), "none": np.empty((0, 3)), "a.b": np.array([np.nan, 1.5])}
    save_arrays(tmp_path / "arrays", arrays)
    loaded = load_arrays(tmp_path / "arrays")
    assert loaded.keys() == arrays.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(loaded[name], values)
        assert loaded[name].dtype == values.dtype
        assert not loaded[name].flags.writeable
    assert isinstance(loaded["ids"].base, np.memmap)


def test_data_comes_back_as_it_was(tmp_path: Path) -> None:
    data = tiny_data()
    save_data(data, tmp_path)
    loaded = load_data_folder(tmp_path)
    assert (loaded.name, loaded.digest, loaded.domains, loaded.notes) == (
        data.name, data.digest, data.domains, data.notes,
    )  # fmt: skip
    for name in ("documents", "document_ids", "query_ids", "utterances"):
        assert list(getattr(loaded, name)) == list(getattr(data, name))
    np.testing.assert_array_equal(loaded.turns, data.turns)
    np.testing.assert_array_equal(loaded.domain, data.domain)
    assert list(loaded.splits) == list(data.splits)
    for name, split in data.splits.items():
        for field in fields(Split):
            np.testing.assert_array_equal(getattr(loaded.splits[name], field.name), getattr(split, field.name))


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_a_column_gives_the_same_texts_in_any_way(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_TEXTS_A_BLOCK", at_once)
    texts = ["", "größer", "", "漢字 x", "plain", ""]
    column = TextColumn.of(texts)
    assert list(column) == texts == [column[row] for row in range(len(column))]
    for part in (slice(1, 4), slice(None), slice(4, 1), slice(-2, 99), slice(None, None, -2), slice(3, 3)):
        assert column[part] == texts[part]
    assert list(TextColumn.of([])) == [] == TextColumn.of([])[:5]


def test_empty_texts_come_back(tmp_path: Path) -> None:
    column = TextColumn.of([])
    save_arrays(tmp_path, {"data": column.data, "offsets": column.offsets})
    assert list(TextColumn(**load_arrays(tmp_path))) == []
