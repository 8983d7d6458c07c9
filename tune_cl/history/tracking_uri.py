"""The tracking address, and how it is shown without its secrets."""

from __future__ import annotations

import os
import re
from importlib.metadata import entry_points
from pathlib import Path
from shlex import quote
from urllib.parse import unquote

from trainables.core.errors import ConfigError, Problem

# A user with a password, which may hold /, @, # and spaces, ends at the last @ of the address; one alone before a /.
USER = re.compile(r'(?<=://)(?:[^:/@"\n]*:(?:(?!://)[^"\n])*|[^/\s"]+)@')
QUERY = re.compile(r"([?&][\w.-]*(?:password|passwd|pwd|token|secret|api_?key)=)[^&\s\"']+", re.IGNORECASE)
_ADDRESS = re.compile(r"([\w+.-]+://)[^:/@]*:.*@([^@]*)", re.DOTALL)  # a whole one, with a user and a password
RELATIVE = re.compile(r"(sqlite[+\w]*:///)(?!:memory:|file:)([^/?].*)")
SQLITE = "sqlite:///"  # before the path of a file
SERVERS = ("http", "databricks")
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
DATABASE, ARTIFACTS = "mlflow.db", "mlartifacts"  # in a storage, beside its searches' folders


def resolve_tracking_uri(storage: Path, given: str | None = None, recorded: str = "") -> str:
    """The address in force: `given`, else `recorded`, else MLFLOW_TRACKING_URI, else a SQLite file in the storage. A
    relative path becomes absolute: the next command of the search may be given in another folder.

    `recorded`: where an earlier session of the search sent its events; not used if a part of it had to be hidden.

    Raises ConfigError for `recorded` if it is not the user's own (`is_users`): whoever handed over the search would get
    the events and files. Also for a plain folder, which MLflow refuses since 3.13, for a scheme that MLflow does not
    know, and for a storage whose path cannot be written in an address.
    """
    usable = recorded if "***" not in recorded else ""
    if usable and not given and not is_users(usable, storage):
        wrong = f"the search's journal names {masked(usable)}, which is neither MLFLOW_TRACKING_URI nor in this storage"
        right = f"--tracking-uri {quote(masked(usable))} if that is where you want it sent, or another address of yours"
        raise ConfigError(Problem("--tracking-uri", wrong, right))
    uri = given or usable or os.environ.get("MLFLOW_TRACKING_URI") or beside_runs(storage.resolve())
    option = "--tracking-uri" if given else "MLFLOW_TRACKING_URI"
    right = "sqlite:///PATH/mlflow.db or http://HOST:PORT"
    if ("://" not in uri and not uri.startswith("databricks")) or uri.startswith("file:"):
        shown = f"***@{uri.rpartition('@')[2]}" if "@" in uri else uri
        raise ConfigError(
            Problem(option, f"'{shown}' is a folder, and MLflow keeps no runs in folders any more", right)
        )
    plugins = tuple(plugin.name for plugin in entry_points(group="mlflow.tracking_store"))
    if not uri.startswith((*SERVERS, *DATABASES, *plugins)):
        raise ConfigError(Problem(option, f"MLflow knows no '{masked(uri)}'", right))
    return absolute(uri)


def moved(uri: str, from_storage: str, storage: Path) -> str:
    """The address that a journal names, after its storage was copied or moved: a database beside the search moves with
    it. `from_storage`: the storage that the journal names."""
    return beside_runs(storage.resolve()) if uri == f"{SQLITE}{Path(from_storage) / DATABASE}" else uri


def absolute(uri: str) -> str:
    """The address, with an absolute path if it has one."""
    relative = RELATIVE.fullmatch(uri)
    return f"{relative[1]}{Path(relative[2]).absolute()}" if relative else uri


def is_users(uri: str, storage: Path) -> bool:
    """Whether an address is the one that commands use unless told otherwise: MLFLOW_TRACKING_URI, or the SQLite file in
    the storage."""
    default = f"{SQLITE}{storage.resolve() / DATABASE}"
    return masked(uri) in (masked(absolute(os.environ.get("MLFLOW_TRACKING_URI", ""))), default)


def beside_runs(storage: Path) -> str:
    """The address of a SQLite file in the folder; raises ConfigError for a path to be quoted, which MLflow does not
    unquote."""
    path = str(storage / DATABASE)
    if "?" in path or unquote(path) != path:
        wrong = f"MLflow would not find its database in '{storage}', for the '?' or '%' in the path"
        raise ConfigError(Problem("--storage", wrong, "a folder without, or --tracking-uri"))
    return f"{SQLITE}{path}"


def artifact_location(uri: str, storage: Path) -> str | None:
    """Where a new experiment keeps its artifacts: as a server decides (None), else beside the searches in the storage.

    MLflow's default for a database is a folder in the working directory, which may differ at each start.
    """
    return None if uri.startswith(SERVERS) else (storage.resolve() / ARTIFACTS).as_uri()


def masked(text: str) -> str:
    """The text with user, password and other secrets hidden in every address. Rather too much is hidden than too
    little: clients differ in where a password ends."""
    if text.count("://") == 1 and (address := _ADDRESS.fullmatch(text)) and not text.startswith("sqlite"):
        text = f"{address[1]}***@{address[2]}"
    return QUERY.sub(r"\1***", USER.sub("***@", text))
