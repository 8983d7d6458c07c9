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
from functools import cache
from pathlib import Path

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from tune_cl.command_options import Options, option
from tune_cl.process import environment
from tune_cl.ray.address import require_cluster

AUTH_MODE = "RAY_AUTH_MODE"
PREFIX = "tune_ray_"  # not that of cluster.local.yaml's folder, whose processes are ended by its name
OPEN = "r"  # the part that Ray opens to everybody
LOCK = "lock"
LONGEST_SOCKET = 107  # bytes in the path of a Unix socket
SOCKET = f"/{PREFIX}12345678/{OPEN}/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Yields a new folder for Ray, removed at the end; first removes those of searches that were killed. A search locks
    its folder while it runs."""
    parent = _parent()
    _clear(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))  # 0700
    with (folder / "new").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "new").rename(folder / LOCK)  # so that nobody sees a lock that is not taken yet
        try:
            yield folder / OPEN
        finally:
            _remove(folder)


def _parent() -> Path:
    """Where temporary files go, or /tmp if the paths of Ray's sockets would be too long there."""
    ray_tmpdir = os.environ.get("RAY_TMPDIR")
    if ray_tmpdir:
        os.makedirs(ray_tmpdir, exist_ok=True)
    parent = os.path.abspath(ray_tmpdir or tempfile.gettempdir())
    return Path(parent if len(os.fsencode(parent + SOCKET)) <= LONGEST_SOCKET else "/tmp")


def _clear(parent: Path) -> None:
    """Removes our folders that no living process has locked."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError, BlockingIOError):  # removed by another search meanwhile, or in use
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
                with (folder / LOCK).open("r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(folder)


def _remove(folder: Path) -> None:
    """Removes a folder, the lock last: what a process of Ray that ends late still writes is left for the next search to
    remove."""
    shutil.rmtree(folder / OPEN, ignore_errors=True)
    if not (folder / OPEN).exists():
        shutil.rmtree(folder)


def is_open() -> bool:
    """Whether the environment takes the token from a local Ray, as any word but `token` does."""
    return os.environ.get(AUTH_MODE, "token").lower() != "token"


@dataclass(frozen=True, kw_only=True)
class RayOptions(Options):
    """Options for where a search trains."""

    address: str | None = option(None, "of a Ray cluster: auto, or host:port (default: a local Ray)")
    allow_open_ray: bool = option(False, "start a local Ray even if RAY_AUTH_MODE opens it to everybody")

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


@cache
def _token() -> str:
    """The token of this process's local Rays, all alike: that of the home, if there is one, which Ray
    itself wrote for all to read."""
    token = Path.home() / ".ray" / "auth_token"
    with suppress(PermissionError):
        if token.exists() and token.stat().st_uid == os.getuid():
            with suppress(OSError):  # a home that is read-only
                token.chmod(0o600)
            return token.read_text().strip()
    return secrets.token_hex(32)


@contextmanager
def protected_token(folder: Path) -> Iterator[None]:
    """Meanwhile a local Ray finds its token in a file of its private folder. Ray itself would write one to the home,
    which may be read-only, for all to read."""
    if is_open() or os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        yield
        return
    path = folder.parent / "auth_token"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(_token())
    with environment({"RAY_AUTH_TOKEN_PATH": str(path)}):
        yield
