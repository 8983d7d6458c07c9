"""`--output` may be a device, a pipe or an open file such as /dev/stdout: nothing takes its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.data_folders import trec_files, write_folder
from trainables.core.files import output_file, require_file, write_text
from tune_cl.cli import main


def write_output(path: str | Path, text: str) -> None:
    with output_file(Path(path)) as file:
        write_text(file, text)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.fixture
def open_file(tmp_path: Path) -> Iterator[Path]:
    """A path that leads to an open file as /dev/stdout does."""
    with (tmp_path / "opened").open("w") as file:
        (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{file.fileno()}")
        yield tmp_path / "stdout"


def test_a_pipe_is_written_to(pipe: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", trec_files())
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # else writing would wait for one
    try:
        assert main(["score", str(folder), "turns", "--output", str(pipe)]) == 0
        assert pipe.is_fifo()
        assert {len(row.split("\t")) for row in os.read(reader, 60_000).decode().splitlines()} == {3}
    finally:
        os.close(reader)


def test_a_descriptor_is_written_to(open_file: Path) -> None:
    """As `--output >(gzip > run.gz)` gives one, in a folder where no file can be made."""
    descriptor = Path("/dev/fd", open_file.readlink().name)
    require_file("--output", descriptor)
    write_output(descriptor, "a run\n")
    assert (open_file.parent / "opened").read_text() == "a run\n"


def test_a_device_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def refuse(old: Path, path: Path) -> None:
        if path in (Path(os.devnull), Path("/dev/full")):
            pytest.fail(f"{path} is replaced")
        replace(old, path)

    monkeypatch.setattr(os, "replace", refuse)  # as root it would replace the machine's own
    require_file("--output", Path(os.devnull))
    write_output(os.devnull, "a run\n")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_output("/dev/full", "a run\n")
    assert Path(os.devnull).is_char_device() and Path("/dev/full").is_char_device()


def test_another_link_is_replaced_as_before(tmp_path: Path) -> None:
    """A storage may lie on a disk that others write to: what is written there does not follow their links."""
    (tmp_path / "theirs").write_text("kept")
    (tmp_path / "report.html").symlink_to(tmp_path / "theirs")
    write_text(tmp_path / "report.html", "ours")
    assert (tmp_path / "report.html").read_text() == "ours" and (tmp_path / "theirs").read_text() == "kept"
