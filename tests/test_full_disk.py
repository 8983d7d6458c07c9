"""A disk that is full: the error names the file, whichever library was writing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lightgbm.basic import LightGBMError
from safetensors import SafetensorError

from tests.support.data_folders import trec_files, write_folder
from trainables.core.cache import cached, digest_of, entry_of
from trainables.core.files import replacing
from trainables.training.checkpoint import write_folder as write_state
from tune_cl.cli import main

FULL = Path("/dev/full")  # a device on which there is never space


def text(folder: Path) -> None:
    (folder / "text").symlink_to(FULL)
    (folder / "text").write_text("some text")


def arrays(folder: Path) -> None:
    (folder / "a.npy").symlink_to(FULL)
    np.save(folder / "a.npy", np.zeros(100_000))


def half_an_array(folder: Path) -> None:
    """What NumPy says where the first part still found space."""
    raise OSError(f"271166 requested and 165856 written ({folder})")


def tensors(_: Path) -> None:
    """What safetensors says."""
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def trees(folder: Path) -> None:
    """What LightGBM says."""
    raise LightGBMError(f"Cannot write binary data to {folder}/model.txt, wrote 0 of 59305 bytes")


@pytest.mark.parametrize("write", [text, arrays, half_an_array, tensors, trees])
def test_a_full_disk_is_named(write: Callable[[Path], None], tmp_path: Path) -> None:
    digest = digest_of("full", write.__name__)
    (tmp_path / "parts").mkdir()
    for place, work in (
        (tmp_path / "state", lambda: write_state(tmp_path / "state", write)),
        (entry_of("full", digest), lambda: cached("full", digest, write)),
    ):
        with pytest.raises(OSError, match="No space left on device") as caught:
            work()
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(place))
        assert not place.exists()
    with pytest.raises(OSError, match="No space left on device") as caught, replacing(tmp_path / "file"):
        write(tmp_path / "parts")
    assert caught.value.filename == str(tmp_path / "file")


def test_other_errors_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="wrong"), replacing(tmp_path / "file"):
        raise ValueError("wrong")
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "file"):
        (tmp_path / "nothing").read_text()
    assert caught.value.filename == str(tmp_path / "nothing")


def test_the_command_says_which_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, output = write_folder(tmp_path / "data", trec_files()), tmp_path / "turns.tsv"
    monkeypatch.setattr("trainables.core.files.uuid4", lambda: type("Fixed", (), {"hex": "x"}))
    (tmp_path / f".{output.name}.x").symlink_to(FULL)
    assert main(["score", str(data), "turns", "--output", str(output)]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == f"error: OSError: [Errno 28] No space left on device: '{output}'; --debug shows where"
    assert not output.exists()
