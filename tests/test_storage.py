"""Faults of the storage, which are told from all else, and checkpoints at an address."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from ray.exceptions import ActorDiedError, ObjectStoreFullError, RayTaskError
from safetensors import SafetensorError

from trainables.core import storage
from trainables.core.errors import WorkFailed
from trainables.core.storage import fault_of, fetched
from trainables.training.objective import FunctionFailed

AWAY = [
    OSError("AWS Error NETWORK_CONNECTION"),
    OSError(errno.ESTALE, "stale file handle"),
    OSError(errno.ENOSPC, "no space"),
]


def behind(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


FULL = OSError(errno.ENOSPC, "no space")
OF_MACHINE = [
    *AWAY,
    OSError("When reading x: AWS Error UNKNOWN (HTTP status 503) during GetObject operation"),
    shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")]),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    behind(WorkFailed("the training failed"), FULL),
    ObjectStoreFullError(),
    ActorDiedError(RayTaskError("init", "OSError: [Errno 122] Disk quota exceeded", FULL)),
]
OF_WORK = [
    FileNotFoundError(errno.ENOENT, "gone"),
    OSError("We couldn't find such a model"),
    ValueError("[Errno 28] in a text"),
    FunctionFailed(FULL),
    ActorDiedError(RayTaskError("init", "RuntimeError: there is no such model", RuntimeError())),
]


def test_faults_of_the_machine_are_told_from_all_else() -> None:
    assert [error for error in OF_MACHINE if fault_of(error) is None] == []
    assert [error for error in OF_WORK if fault_of(error) is not None] == []


def test_checkpoints_at_an_address(tmp_path: Path) -> None:
    """Of any file system that PyArrow knows."""
    for number in range(3):
        (tmp_path / f"checkpoint_{number:06d}").mkdir()
    (tmp_path / "checkpoint_000001" / "state.json").write_text("{}")
    root = f"file://{tmp_path}"
    last = f"{root}/checkpoint_000002"
    with fetched(f"{root}/checkpoint_000001") as folder:
        assert (folder / "state.json").read_text() == "{}" and not folder.is_relative_to(tmp_path)
    with pytest.raises(FileNotFoundError), fetched(f"{root}/gone"):
        pass
    for _ in range(2):  # one that is gone is no error
        storage.remove(last)
    assert [storage.exists(f"{root}/checkpoint_00000{number}") for number in (1, 2)] == [True, False]
    assert storage.address_of("bucket/x", "s3://bucket/runs?scheme=http") == "s3://bucket/x?scheme=http"
