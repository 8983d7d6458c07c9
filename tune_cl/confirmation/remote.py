"""A confirmation's training whose folder is in S3: it works in a temporary folder and uploads what it leaves.

While it trains, the storage has its state as `state.tar`, one object that is replaced after each iteration and so whole
at any moment.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from trainables import storage
from trainables.config import TrainingRun
from trainables.training.checkpoint import SEAL, write_folder
from trainables.training.materials import Materials
from tune_cl.confirmation.training import RANKER, RESULT, STATE, TRAINING, confirm_run

PACKED = "state.tar"


def confirm_at(run: TrainingRun, materials: Materials, folder: str, split: str) -> None:
    """`confirm_run` in a folder on this machine or in S3; raises what that raises."""
    if not storage.is_remote(folder):
        confirm_run(run, materials, Path(folder), split)
        return
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        own = Path(scratch) / "training"
        storage.patiently(lambda: take_up(folder, own))
        confirm_run(run, materials, own, split, lambda: storage.patiently(lambda: keep_state(own, folder)))
        storage.patiently(lambda: storage.upload(own, folder, last=(TRAINING, RESULT)))
        storage.patiently(lambda: storage.remove(storage.joined(folder, PACKED)))


def take_up(address: str, folder: Path) -> None:
    """Fetches what an earlier attempt left: the trained ranker, else the state after its last iteration, else
    nothing."""
    if storage.exists(storage.joined(address, TRAINING)):
        names = storage.files_below(address)
        left = [name for name in names if name in (TRAINING, SEAL) or name.startswith(f"{RANKER}/")]
        storage.download(address, folder, left)
    elif storage.exists(storage.joined(address, PACKED)):
        with storage.fetched(address, PACKED) as copy, tarfile.open(copy / PACKED) as archive:
            archive.extractall(folder, filter="data")


def keep_state(folder: Path, address: str) -> None:
    """Uploads the folder's present state for `take_up`, in place of any earlier one."""
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        packed = Path(scratch) / PACKED
        with tarfile.open(packed, "w") as archive:
            archive.add(folder / STATE, STATE)
        storage.upload_file(packed, storage.joined(address, PACKED))


def fetch_results(address: str, folder: Path) -> None:
    """Copies what a training left, except its ranker, to a folder on this machine."""
    names = [name for name in storage.files_below(address) if not name.startswith(f"{RANKER}/") and name != PACKED]
    write_folder(folder, lambda temporary: storage.download(address, temporary, names))
