"""Pipes and devices among data and rankers are refused in one line, and none is waited for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.data_folders import trec_files, write_folder
from trainables.core.cache import load_array
from trainables.core.errors import DataError
from trainables.core.files import opened, read_text, write_text
from trainables.extras.trees import read_trees
from trainables.training.checkpoint import load_tensors
from tune_cl.cli import main


@pytest.fixture(autouse=True)
def not_for_ever() -> Iterator[None]:
    """A test that waits for a pipe fails, instead of going on for ever."""

    def fail(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(100)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("name", ["collection.tsv", "queries.train.tsv", "qrels.test.txt", "run.dev.txt"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_of_data(name: str, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "data", trec_files())
    path = pipe(folder / name)
    if kind == "device":
        path.unlink()
        path.symlink_to("/dev/zero")
    assert main(["data", str(folder)]) == 2
    assert capfd.readouterr().err == f"error: {path}: not a regular file; a file, or a link to one\n"


def test_a_link_to_a_file_of_data_is_fine(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", trec_files())
    (folder / "collection.tsv").rename(tmp_path / "elsewhere.tsv")
    (folder / "collection.tsv").symlink_to(tmp_path / "elsewhere.tsv")
    assert main(["data", str(folder)]) == 0


@pytest.mark.parametrize("name", ["config.json", "checksums.json"])
def test_of_a_ranker(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    path = pipe(tmp_path / name)
    (tmp_path / "answers.txt").write_text("one\n")
    asked = ["rerank", str(tmp_path), "--query", "q", "--documents", str(tmp_path / "answers.txt")]
    assert main(asked) == 2
    assert capfd.readouterr().err == f"error: {path}: not a regular file; a file, or a link to one\n"


@pytest.mark.parametrize("read", [opened, read_text, load_tensors, load_array, read_trees])
def test_of_every_reader(read, tmp_path: Path) -> None:
    path = pipe(tmp_path / "x.npy")
    with pytest.raises(DataError, match="not a regular file"):
        read(path)


def test_a_file_of_ours_takes_the_place_of_a_pipe(tmp_path: Path) -> None:
    """Opened to write to, it would hold us up until somebody reads."""
    write_text(pipe(tmp_path / "tracking.json"), "{}")
    assert (tmp_path / "tracking.json").read_text() == "{}"
