"""Where searches live: <storage>/<name>."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from trainables.config.function import objective_of_record
from trainables.config.objective import OBJECTIVE
from trainables.core.cache import ROOT, cache_root
from trainables.core.errors import ConfigError, Interrupted, Problem, WorkFailed, nearest
from trainables.core.files import folder_on_the_way, names_folder, require_folder, unwritable
from trainables.core.plugins import plugin_options
from trainables.core.storage import fault_of
from tune_cl.history.journal import FILE, Journal, first_event
from tune_cl.history.tracking_uri import is_users, masked, moved, resolve_tracking_uri
from tune_cl.process import program

WITH_OBJECTIVE = ("resume", "confirm", "effects")  # commands that train
TRIALS = "trials"  # the folder of all trials' files, in that of a search
DEFAULT_STORAGE = "./tune_cl_runs"


@dataclass(frozen=True)
class SearchFolder:
    """The folder of one search. `tracking_uri`: where a command sends its events, for the commands that it prints."""

    storage: Path
    name: str
    tracking_uri: str = ""
    objective: str = ""  # what --objective takes, for a search that trains by a user's function
    elsewhere: str = ""  # the address of Ray's files, if they are not in the folder

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
    def checkpoints(self) -> str:
        """The folder or address of Ray's files."""
        return self.elsewhere or str(self.folder / "ray")

    def open(self) -> Journal:
        """The journal, held by this process. Raises ConfigError if the search is in use, or its folder cannot be
        written to."""
        try:
            return Journal(self.folder)
        except PermissionError:
            raise unwritable("--storage", self.folder) from None

    def exists(self) -> bool:
        """Whether there is a search: a `run` that was stopped before its first event leaves none."""
        return has_event(self.journal)

    def search_names(self) -> list[str]:
        """Names of the searches in the storage."""
        return sorted(path.parent.name for path in self.storage.glob(f"*/{FILE}") if has_event(path))

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
        options = {} if self.storage == Path(DEFAULT_STORAGE).resolve() else {"storage": str(self.storage)}
        usual = not self.tracking_uri or is_users(self.tracking_uri, self.storage)
        return options if usual else options | {"tracking_uri": masked(self.tracking_uri)}


def stops(error: BaseException) -> bool:
    """Whether an error stops work that can go on later: Ctrl-C, or a fault of the machine."""
    return isinstance(error, KeyboardInterrupt) or fault_of(error) is not None


@contextmanager
def named_when_stopped(command: str, call: str) -> Iterator[None]:
    """Around work that can go on later: where it `stops`, the error names what goes on, in a terminal (`command`) and
    in Python (`call`)."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; what is done is saved. Go on with: {command}", call) from None
    except Exception as error:
        if not stops(error):
            raise
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        raise WorkFailed(f"{why}; what is done is saved. Once that is fixed, go on with: {command}") from None


def has_event(journal: Path) -> bool:
    """Whether a journal has an event, that is, a whole line."""
    try:
        with journal.open("rb") as file:
            return file.readline().endswith(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return False


def search_folder_of(storage: str, name: str) -> SearchFolder:
    """The folder of a search of this name in the storage. Raises ConfigError for an address, or if a file is in the way
    of the storage."""
    if "://" in storage:
        raise ConfigError(Problem("--storage", f"'{storage}' is not a folder", "on a cluster, one that all nodes see"))
    path = Path(storage).resolve()
    folder_on_the_way("--storage", path)
    return SearchFolder(path, name)


def new_search_folder(storage: str, name: str | None, space: str) -> SearchFolder:
    """A folder with a free name: the given one, or the space's, numbered if it is taken.

    Raises ConfigError if a search of the given name exists, the name does not suit a folder in the storage, or storage
    or cache cannot be written to.
    """
    wanted, place = (space, "name") if name is None else (name, "--name")
    if not names_folder(wanted):
        raise ConfigError(Problem(place, f"{wanted!r} is not a valid folder name", "letters and digits, no '/'"))
    search_folder = search_folder_of(storage, wanted)
    require_folder("--storage", search_folder.storage)
    require_folder(ROOT, cache_root())
    number = 1
    while name is None and search_folder.exists():
        number += 1
        search_folder = replace(search_folder, name=f"{space}-{number}")
    if search_folder.exists():
        raise name_exists(search_folder)
    return search_folder


def name_exists(search_folder: SearchFolder) -> ConfigError:
    """The error for a new search whose name is taken."""
    wrong = f"a search '{search_folder.name}' exists in {search_folder.storage}"
    return ConfigError(Problem("--name", wrong, f"{search_folder.command('resume')}, or another name"))


def existing_search_folder(storage: str, name: str, tracking_uri: str | None = None) -> SearchFolder:
    """The folder of an existing search, with its tracking address: the given one, else that of its first event. Raises
    ConfigError if there is no such search, DataError if its journal is damaged."""
    if not names_folder(name):
        right = "the name alone; --storage says where the search is"
        raise ConfigError(Problem("NAME", f"{name!r} is not a valid search name", right))
    search_folder = search_folder_of(storage, name)
    if not search_folder.exists():
        names = search_folder.search_names()
        right = nearest(name, names) if names else "tune-cl run starts one"
        raise ConfigError(Problem("NAME", f"no search '{name}' in {search_folder.storage}", right))
    first = first_event(search_folder.journal)
    recorded = moved(first["tracking_uri"], first["storage"], search_folder.storage)
    uri = resolve_tracking_uri(search_folder.storage, tracking_uri, recorded)
    record = first.get(OBJECTIVE)
    objective = objective_of_record(record).option if record else ""
    elsewhere = first.get("checkpoints", "")
    return replace(search_folder, tracking_uri=uri, objective=objective, elsewhere=elsewhere)


def resolve_recorded(recorded: str, folder: Path) -> Path:
    """A file of the search in `folder`, from the path that its journal has: the search may have been copied or moved
    since."""
    path = Path(recorded)
    for number, part in enumerate(path.parts, 1):
        here = folder.joinpath(*path.parts[number:])
        if part == folder.name and here.exists():
            return here
    return path
