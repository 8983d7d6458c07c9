"""Who can reach a local Ray: its folder and its token are for its user alone.

Ray makes its own folders writable for everybody: where others reach them, any user of the machine could put a link in
place of its logs, and Ray would write where that leads."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from tune_cl.ray.address import require_cluster

AUTH_MODE, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"
PREFIX = "tune_ray_"  # not that of cluster.local.yaml's folder, whose processes are ended by its name
TOKEN = "auth_token"
LONGEST_SOCKET = 107  # bytes in the path of a Unix socket
SOCKET = "/00/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"


def private_folder() -> Path:
    """The folder of this user's local Rays, below the one for temporary files, or below /tmp if the paths of Ray's
    sockets would be too long there."""
    temporary = os.path.abspath(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    name = f"{PREFIX}{os.getuid()}"
    fits = len(os.fsencode(f"{temporary}/{name}{SOCKET}")) <= LONGEST_SOCKET
    return Path(temporary if fits else "/tmp", name)


def require_private(folder: Path) -> None:
    """Makes the private folder, which stays: the processes of a search that was killed may write there for some seconds
    more. Raises ConfigError if others can enter what has its name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        wrong = f"{folder} is not a folder that only you can enter"
        raise ConfigError(Problem("RAY_TMPDIR", wrong, "remove it, or another folder in this variable"))


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Yields a path for Ray's own folder, removed at the end; first removes those of searches that were killed. A
    search locks its folder's number while it runs."""
    private = private_folder()
    require_private(private)
    _clear(private)
    folders = (private / str(number) for number in count())
    folder, lock = next((folder, lock) for folder in folders if (lock := _locked(folder)))
    with lock:
        try:
            yield folder
        finally:
            _remove(folder)


def _clear(private: Path) -> None:
    """Removes the folders whose numbers no living process has locked."""
    for folder in private.iterdir():
        if folder.is_dir() and (lock := _locked(folder)):
            with lock:
                _remove(folder)


def _remove(folder: Path) -> None:
    """Removes a folder, or what can be: what a process of Ray that ends late still writes goes with the next search."""
    shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> IO[str] | None:
    """The lock of a folder's number, held until it is closed; None if another process holds it."""
    lock = folder.with_suffix(".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def is_open() -> bool:
    """Whether the environment takes the token from a local Ray, as any word but `token` does."""
    return os.environ.get(AUTH_MODE, "token").lower() != "token"


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Where a search trains."""

    address: str | None = None
    allow_open_ray: bool = False

    def require(self) -> None:
        """Raises ConfigError if the cluster does not answer, or if the environment opens a local Ray to everybody and
        the user has not allowed it."""
        require_cluster(self.address)
        if self.address is None and is_open():
            mode = repr(os.environ[AUTH_MODE])
            wrong = f"{mode} opens the local Ray: whoever reaches this machine over the network can run code as you"
            if not self.allow_open_ray:
                raise ConfigError(Problem(AUTH_MODE, wrong, "unset it, or add --allow-open-ray"))
            say(f"warning: {AUTH_MODE}: {wrong}")


def own_token_path() -> Path | None:
    """The file in the private folder with the token of local Rays; None if Ray finds another one: in the environment,
    or in the home."""
    if is_open() or os.environ.get("RAY_AUTH_TOKEN") or os.environ.get(TOKEN_PATH) or _home_token():
        return None
    return private_folder() / TOKEN


def _home_token() -> Path | None:
    """The token's file in the home, which Ray itself wrote for all to read, if it is the user's."""
    token = Path.home() / ".ray" / TOKEN
    with suppress(PermissionError):
        return token if token.exists() and token.stat().st_uid == os.getuid() else None


def require_token() -> None:
    """Sees to it that nobody else can read the token of a local Ray: makes the file that `own_token_path` names, if
    that is where Ray will look. Ray itself would write one to the home, which may be read-only, for all to read."""
    own = private_folder() / TOKEN
    if os.environ.get(TOKEN_PATH) != str(own):
        if home := _home_token():
            with suppress(OSError):  # a home that is read-only
                home.chmod(0o600)
        return
    if not own.exists():
        with tempfile.NamedTemporaryFile("w", dir=own.parent) as new:  # 0600
            new.write(secrets.token_hex(32))
            new.flush()
            with suppress(FileExistsError):  # of another search that starts
                os.link(new.name, own)
    own.touch()  # no cleaner of old files takes it away while Ray runs
