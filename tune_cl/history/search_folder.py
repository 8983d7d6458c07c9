"""Where searches live: <storage>/<name>, in a folder or in S3."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from trainables.config.function import option_of
from trainables.config.objective import OBJECTIVE
from trainables.core.cache import ROOT, cache_root, digest_of
from trainables.core.errors import ConfigError, DataError, Interrupted, Problem, WorkFailed, nearest
from trainables.core.files import folder_on_the_way, lines_of, names_folder, opened, require_folder, unwritable
from trainables.core.plugins import plugin_options
from trainables.core.storage import exists, fault_of, folders_in, is_remote, joined, size
from tune_cl.command_options import Options, option
from tune_cl.history.journal import FILE, Journal, first_event
from tune_cl.history.s3_mirror import WATCH_SECONDS, MirroredJournal, pull
from tune_cl.history.tracking_uri import ARTIFACTS, DATABASE, is_users, masked, moved, resolve_tracking_uri
from tune_cl.process import program

WITH_OBJECTIVE = ("resume", "confirm", "effects", "plan")  # commands that train
TRIALS = "trials"  # the folder of all trials' files, in that of a search
DEFAULT_STORAGE = "./tune_cl_runs"
STORAGE_HELP = f"where state lives: a folder or s3://BUCKET/FOLDER (default {DEFAULT_STORAGE})"
TRACKING_HELP = "MLflow (default: $MLFLOW_TRACKING_URI, else a SQLite file in the storage)"
REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}  # errors of writing to a folder of others


@dataclass(frozen=True)
class SearchFolder:
    """The folder of one search. `remote`: the storage's S3 address, if any; `storage` is then this machine's copy.
    `tracking_uri`: where a command sends its events, for the commands that it prints."""

    storage: Path
    name: str
    remote: str | None = None
    tracking_uri: str = ""
    objective: str = ""  # what --objective takes, for a search that trains by a user's function

    @property
    def folder(self) -> Path:
        return self.storage / self.name

    @property
    def journal(self) -> Path:
        return self.folder / FILE

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def address(self) -> str:
        """The storage as users name it."""
        return self.remote or str(self.storage)

    @property
    def remote_folder(self) -> str | None:
        """The search's S3 address; None if it lives in a folder."""
        return joined(self.remote, self.name) if self.remote else None

    def below(self, *parts: str) -> str:
        """An address in the search's folder that every node of a cluster can use."""
        return joined(self.remote_folder, *parts) if self.remote_folder else str(self.folder.joinpath(*parts))

    def open(self, watch: float = WATCH_SECONDS) -> Journal:
        """The journal, held by this process. In S3, the folder's copy is mirrored to the storage as long as it is open.

        `watch`: seconds in which a driver on another machine may show that it is alive. Raises ConfigError if the
        search is in use, or its folder cannot be written to.
        """
        with self.writing():
            if self.remote_folder:
                return MirroredJournal(self.folder, self.remote_folder, watch)
            return Journal(self.folder)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns a refused write to the folder into a ConfigError."""
        try:
            yield
        except OSError as error:
            if error.errno not in REFUSED:
                raise
            raise unwritable(self.option, self.folder, error) from None

    @property
    def option(self) -> str:
        """The option or variable that puts the folder elsewhere."""
        return ROOT if self.remote else "--storage"

    def exists(self) -> bool:
        """Whether there is a search: a `run` that was stopped before its first event leaves none."""
        return has_event(self.journal) or (self.remote_folder is not None and bool(size(self.below(FILE))))

    def pull(self) -> None:
        """In S3: brings this machine's copy up to date. Raises ConfigError if copy and storage cannot be reconciled."""
        if self.remote_folder:
            with self.writing():
                pull(self.folder, self.remote_folder)

    def search_names(self) -> list[str]:
        """Names of the searches there."""
        if not self.remote:
            return [path.parent.name for path in self.storage.glob(f"*/{FILE}") if has_event(path)]
        return [name for name in folders_in(self.remote) if size(joined(self.remote, name, FILE))]

    def elsewhere(self, tracking_uri: str) -> str:
        """The tracking address that the journal gives other machines: empty for a database within this machine's copy,
        for they build their own from the journal."""
        return "" if self.remote and str(self.storage) in tracking_uri else tracking_uri

    def command(self, command: str, address: str | None = None) -> str:
        """What a user types to apply `command` to this search, with the plug-ins of this process; `address`: the Ray
        cluster to run on."""
        given = self._opened_by | ({"address": address} if address else {})
        given |= {"objective": self.objective} if self.objective and command in WITH_OBJECTIVE else {}
        options = "".join(f" --{name.replace('_', '-')} {quote(value)}" for name, value in given.items())
        return f"{program('tune-cl')} {command} {quote(self.name)}{options}{plugin_options()}"

    def call(self, method: str, **options: Any) -> str:
        """What a user writes in Python to apply a method to this search; options that are None are left out."""
        name = ", ".join([repr(self.name), *(f"{key}={value!r}" for key, value in self._opened_by.items())])
        given = ", ".join(f"{key}={value!r}" for key, value in options.items() if value is not None)
        return f"tune_cl.open_search({name}).{method}({given})"

    @property
    def _opened_by(self) -> dict[str, str]:
        """The options that find the search and its runs, where they are not the usual ones."""
        options = {} if self.address == str(Path(DEFAULT_STORAGE).resolve()) else {"storage": self.address}
        usual = not self.tracking_uri or is_users(self.tracking_uri, self.storage)
        return options if usual else options | {"tracking_uri": masked(self.tracking_uri)}


def stops(error: BaseException) -> bool:
    """Whether an error stops work that can go on later: Ctrl-C, or a fault of the machine."""
    return isinstance(error, KeyboardInterrupt) or fault_of(error) is not None


def stopped(error: BaseException, command: str, call: str) -> Interrupted | WorkFailed:
    """What an error that `stops` comes to where there is something to go on with, in a terminal (`command`) and in
    Python (`call`)."""
    if isinstance(error, KeyboardInterrupt):
        return Interrupted(f"stopped; what is done is saved. Go on with: {command}", call)
    why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    return WorkFailed(f"{why}; what is done is saved. Once that is fixed, go on with: {command}")


def has_event(journal: Path) -> bool:
    """Whether a journal has an event, that is, a whole line."""
    try:
        with opened(journal) as file:
            return next(lines_of(file, journal), b"").endswith(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        return os.path.exists(journal)  # another user's search


def search_folder_of(storage: str, name: str) -> SearchFolder:
    """The folder of a search of this name in the storage. Raises ConfigError for a storage that cannot be used."""
    if not is_remote(storage):
        return SearchFolder(local(storage), name)
    address = reachable_bucket(storage)
    return SearchFolder(cache_root() / "storage" / digest_of(address)[:16], name, address)


def new_search_folder(storage: str, name: str | None, space: str) -> SearchFolder:
    """A folder with a free name: the given one, or the space's, numbered if it is taken.

    Raises ConfigError if a search of the given name exists, the name does not suit a folder in the storage, or storage
    or cache cannot be written to.
    """
    wanted, option = (space, "name") if name is None else (name, "--name")
    if not names_folder(wanted):
        raise ConfigError(Problem(option, f"{wanted!r} is not a valid folder name", "letters and digits, no '/'"))
    if wanted in (DATABASE, ARTIFACTS):
        raise ConfigError(Problem(option, f"'{wanted}' is what MLflow keeps in the storage", "another name"))
    search_folder = search_folder_of(storage, wanted)
    require_folder(search_folder.option, search_folder.storage)
    require_folder(ROOT, cache_root())
    number = 1
    while name is None and search_folder.exists():
        number += 1
        search_folder = replace(search_folder, name=f"{space}-{number}")
    if search_folder.exists():
        raise name_exists(search_folder)
    folder_on_the_way(search_folder.option, search_folder.folder)  # a file may have the name
    return search_folder


def name_exists(search_folder: SearchFolder) -> ConfigError:
    """The error for a new search whose name is taken."""
    wrong = f"a search '{search_folder.name}' exists in {search_folder.address}"
    return ConfigError(Problem("--name", wrong, f"{search_folder.command('resume')}, or another name"))


def existing_search_folder(storage: str, name: str) -> SearchFolder:
    """The folder of an existing search; in S3, with this machine's copy brought up to date.

    Raises ConfigError if there is no such search.
    """
    if not names_folder(name):
        right = "the name alone; --storage says where the search is"
        raise ConfigError(Problem("NAME", f"{name!r} is not a valid search name", right))
    search_folder = search_folder_of(storage, name)
    search_folder.pull()
    if not has_event(search_folder.journal):
        names = search_folder.search_names()
        right = nearest(name, names) if names else "tune-cl run starts one"
        raise ConfigError(Problem("NAME", f"no search '{name}' in {search_folder.address}", right))
    require_own(search_folder.folder)
    return search_folder


def with_tracking(search_folder: SearchFolder, given: str | None) -> SearchFolder:
    """An existing search with its tracking address: the given one, else that of its first event."""
    first = first_event(search_folder.journal)
    named = moved(first["tracking_uri"], first["storage"], search_folder.storage)
    uri = resolve_tracking_uri(search_folder.storage, given, named)
    return replace(search_folder, tracking_uri=uri, objective=option_of(first.get(OBJECTIVE)))


@dataclass(frozen=True, kw_only=True)
class StorageOptions(Options):
    """Options for where a search's state and MLflow's runs are."""

    storage: str = option(DEFAULT_STORAGE, STORAGE_HELP)
    tracking_uri: str | None = option(None, TRACKING_HELP)

    def existing(self, name: str) -> SearchFolder:
        """The folder of an existing search, with its tracking address. Raises ConfigError if there is none of this
        name, DataError if its journal is damaged."""
        return with_tracking(existing_search_folder(self.storage, name), self.tracking_uri)


def local(storage: str) -> Path:
    """The absolute path of a storage folder. Raises ConfigError for an address, or if a file is in the way."""
    if "://" in storage:
        right = "a path; on a cluster, one that all nodes see; or s3://BUCKET/FOLDER"
        raise ConfigError(Problem("--storage", f"'{storage}' is not a folder", right))
    path = Path(storage).resolve()
    folder_on_the_way("--storage", path)
    return path


def reachable_bucket(address: str) -> str:
    """An S3 address without a slash at the end. Raises ConfigError if its bucket does not exist or is out of reach."""
    try:
        split = urlsplit(address)
    except ValueError:  # its message may quote the address, which may contain a key
        raise ConfigError(Problem("--storage", "is not an address", "s3://BUCKET/FOLDER")) from None
    if "@" in split.netloc:
        right = "s3://BUCKET/FOLDER; keys come from the environment, as for the AWS tools"
        raise ConfigError(Problem("--storage", "has a key in it", right))
    try:
        bucket_exists = exists(urlunsplit(split._replace(path="")))
    except (OSError, ValueError) as error:
        wrong = f"'{address}' cannot be opened: {error}"
        raise ConfigError(Problem("--storage", wrong, "an address in reach")) from None
    if not bucket_exists:
        right = "s3://BUCKET/FOLDER with a bucket that exists"
        raise ConfigError(Problem("--storage", f"there is no bucket '{split.netloc}'", right))
    return urlunsplit(split._replace(path=split.path.rstrip("/")))


def require_own(folder: Path) -> None:
    """Raises DataError if a folder of a search, which a stranger may have handed over, holds links that lead out of it,
    pipes or devices: we would write to files elsewhere, send them to MLflow, or wait for ever."""
    if problems := list(foreign(folder, folder)):
        raise DataError(problems)


def foreign(below: Path, folder: Path) -> Iterator[Problem]:
    """A problem for each link below a path that leads out of a search's folder, and for each pipe and device."""
    home = folder.resolve()
    for at, folders, files in os.walk(below):
        for name in (*folders, *files):
            path = Path(at, name)
            if path.is_symlink() and not path.resolve().is_relative_to(home):
                yield Problem(
                    str(path), f"a link that leads out of the search's folder to {path.resolve()}", "remove it"
                )
            elif name in files and path.exists() and not path.is_file():
                yield Problem(str(path), "not a regular file", "remove it")


def resolve_recorded(recorded: str, folder: Path) -> Path:
    """A file of the search in `folder`, from its recorded path, which may be that of another machine's copy, or of the
    search that this one is a copy of. Raises DataError for one that is not below the folder: a stranger's journal may
    name any file."""
    path, home = Path(recorded), folder.resolve()
    after = [number + 1 for number, part in enumerate(path.parts) if part == home.name]
    candidates = [path, *(folder.joinpath(*path.parts[start:]) for start in reversed(after))]
    in_home = [candidate for candidate in candidates if candidate.resolve().is_relative_to(home)]
    if not in_home:
        wrong = f"is not below the search's folder {folder}"
        raise DataError(Problem(recorded, wrong, "a file that the search itself left there"))
    return next((candidate for candidate in in_home if candidate.exists()), in_home[0])


def own_checkpoint(recorded: str, search_folder: SearchFolder) -> str | None:
    """The address of a checkpoint of the search, from the recorded one, which may be that of another copy; None for one
    that is not below the search's folder, or in S3 below its prefix."""
    if search_folder.remote_folder is None:
        try:
            return None if is_remote(recorded) else str(resolve_recorded(recorded, search_folder.folder))
        except DataError:
            return None
    here, split = urlsplit(search_folder.remote_folder), urlsplit(recorded)
    root, path = PurePosixPath(unquote(here.path)), PurePosixPath(unquote(split.path))
    if (
        (split.scheme, split.netloc) != (here.scheme, here.netloc)
        or not path.is_relative_to(root)
        or ".." in path.parts
    ):
        return None
    return search_folder.below(*path.relative_to(root).parts)
