"""`--output` may be a device, a pipe or an open file such as /dev/stdout: nothing takes its place."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.support.data_folders import trec_files, write_folder
from trainables.core.files import require_file, write_text
from tune_cl.cli import main


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    folder, pipe = write_folder(tmp_path / "data", trec_files()), tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # else writing would wait for one
    try:
        assert main(["score", str(folder), "turns", "--output", str(pipe)]) == 0
        assert pipe.is_fifo()
        assert {len(row.split("\t")) for row in os.read(reader, 60_000).decode().splitlines()} == {3}
    finally:
        os.close(reader)


def test_a_descriptor_is_written_to(tmp_path: Path) -> None:
    """As `--output >(gzip > run.gz)` gives one, in a folder where no file can be made."""
    with (tmp_path / "opened").open("w") as file:
        descriptor = Path("/dev/fd", str(file.fileno()))
        require_file("--output", descriptor)
        write_text(descriptor, "a run\n")
    assert (tmp_path / "opened").read_text() == "a run\n"


def test_a_device_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def refuse(old: Path, path: Path) -> None:
        if path in (Path(os.devnull), Path("/dev/full")):
            pytest.fail(f"{path} is replaced")
        replace(old, path)

    monkeypatch.setattr(os, "replace", refuse)  # as root it would replace the machine's own
    require_file("--output", Path(os.devnull))
    write_text(os.devnull, "a run\n")
    with pytest.raises(OSError, match="No space left on device"):
        write_text("/dev/full", "a run\n")
    assert Path(os.devnull).is_char_device() and Path("/dev/full").is_char_device()


def test_a_pipe_is_read(tmp_path: Path) -> None:
    folder, pipe = write_folder(tmp_path / "data", trec_files()), tmp_path / "run"
    os.mkfifo(pipe)
    content = (folder / "run.test.txt").read_text()
    threading.Thread(target=lambda: pipe.write_text(content), daemon=True).start()
    assert main(["evaluate", str(folder / "qrels.test.txt"), str(pipe)]) == 0
