"""Addresses in S3, and in which order and how whole files come and go; without a server."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs
import pytest

from trainables.core import storage

OPTIONS = "endpoint_override=host:1&scheme=http"


def test_addresses_keep_their_options_and_hide_odd_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    root = f"s3://bucket/a%20b/?{OPTIONS}"
    address = storage.joined(root, "50% off", "x")
    assert address == f"s3://bucket/a%20b/50%25%20off/x?{OPTIONS}"
    assert storage.addressed(root, "bucket/a b/50% off/x") == address
    buckets: list[str] = []
    monkeypatch.setattr(storage, "_bucket", buckets.append)
    assert storage.opened(address)[1] == "bucket/a b/50% off/x" and storage.opened(root)[1] == "bucket/a b"
    assert buckets == [f"s3://bucket?{OPTIONS}"] * 2, "one client serves the whole bucket"


def test_a_storage_that_is_away_is_tried_every_other_second_for_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def away() -> None:
        raise OSError(errno.EHOSTUNREACH, "no route to host")

    monkeypatch.setattr(storage, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append))
    with pytest.raises(OSError, match="no route"):
        storage.retry_on_fault(away)
    assert slept == [2.0] * 60


def test_files_that_mark_a_folder_as_complete_come_last_and_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.json", "b.json", "deep/b.json", "deep/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    sent: list[str] = []
    monkeypatch.setattr(storage, "upload_file", lambda path, address: sent.append(address))
    storage.upload(tmp_path, "s3://b/x", last=("b.json", "a.json"))
    assert sent == [f"s3://b/x/{name}" for name in ("deep/x", "b.json", "deep/b.json", "a.json")]


def test_a_file_that_comes_only_in_part_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "opened", lambda address: (None, address))
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a").write_text("old")

    def half(source: str, to: str, **_: Any) -> None:
        Path(to).write_text("ne")
        raise OSError("no route to host")

    monkeypatch.setattr(pyarrow.fs, "copy_files", half)
    with pytest.raises(OSError, match="no route"):
        storage.download("root", tmp_path, ["f/a"])
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["a"] and (tmp_path / "f" / "a").read_text() == "old"
