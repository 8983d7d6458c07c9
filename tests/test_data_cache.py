"""The cache: digests tell parts apart, entries are whole or absent, columns come back as they were."""

from __future__ import annotations

from pathlib import Path
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import tiny_data
from tests.support.data_folders import assert_equal
from trainables.core.cache import cache_root, digest_of
from trainables.data import data_cache
from trainables.data.columns import RankingData, TextColumn
from trainables.data.data_cache import TextWriter, cached_data, load_data_folder, save_data
from trainables.data.rows import rows_of

PARTS = st.lists(st.one_of(st.text(max_size=3), st.integers(-2, 2), st.booleans(), st.none(), st.binary(max_size=2)))


def test_cache_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "tune_cl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path.home() / ".cache" / "tune_cl"


def test_data_that_another_version_of_the_store_wrote_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lack a column, as the built-in data of 0.1 lacks how its words are cut."""
    built: list[int] = []

    def read(_folder: Path) -> RankingData:
        built.append(data_cache.STORE)
        return tiny_data(queries=4)

    cached_data(digest_of("of one version"), "digest", read)
    cached_data(digest_of("of one version"), "digest", read)
    monkeypatch.setattr(data_cache, "STORE", data_cache.STORE + 1)
    cached_data(digest_of("of one version"), "digest", read)
    assert built == [data_cache.STORE - 1, data_cache.STORE]


@given(PARTS, PARTS)
def test_digests_are_equal_only_for_equal_parts(left: list, right: list) -> None:
    same = [(type(part), part) for part in left] == [(type(part), part) for part in right]
    assert (digest_of(*left) == digest_of(*right)) == same


def test_data_comes_back_as_it_was(tmp_path: Path) -> None:
    data = tiny_data()
    save_data(data, tmp_path)
    loaded = load_data_folder(tmp_path)
    assert_equal(loaded, data)
    for name in ("name", "digest", "domains", "notes", "task", "classes"):
        assert getattr(loaded, name) == getattr(data, name)
    np.testing.assert_array_equal(loaded.turns, data.turns)
    np.testing.assert_array_equal(loaded.domain, data.domain)


@pytest.mark.parametrize("times", [1, 10_000])
def test_a_column_gives_the_same_texts_in_any_way(times: int) -> None:
    """Of many texts, 16,384 are decoded at once."""
    texts = ["", "größer", "", "漢字 x", "plain", ""] * times
    column = TextColumn.of(texts)
    assert list(column) == texts and [column[row] for row in range(6)] == texts[:6]
    for part in (slice(1, 4), slice(None), slice(4, 1), slice(-2, 99), slice(None, None, -2), slice(3, 3)):
        assert column[part] == texts[part]
    assert list(TextColumn.of([])) == [] == TextColumn.of([])[:5]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_growing_text_column_holds_what_was_appended(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    writer = TextWriter(tmp_path_factory.mktemp("column"), "documents")
    for part in (texts[:2], texts[2:]):
        writer.extend(TextColumn.of(part))
    assert list(writer.finish()) == texts


@given(st.lists(st.text("aé", max_size=3)), st.lists(st.text("ae\u0301", max_size=3)))
def test_ids_are_found_in_either_form_of_unicode(names: list[str], wanted: list[str]) -> None:
    rows = rows_of(pd.Series(wanted, dtype="str"), pd.Series(names, dtype="str"))
    composed = [normalize("NFC", name) for name in wanted]
    assert rows.tolist() == [names.index(name) if name in names else -1 for name in composed]
