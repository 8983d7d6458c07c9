"""The tracking address, and how it is shown without its secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from trainables.core.errors import ConfigError, Problem

USER = re.compile(r"(?<=://)(?:[^/\s:@]*:\S*|[^/\s]+)@")  # with the password, which may hold / and @
OPTION = re.compile(r"(?i)(?<=[?&;])([\w.-]*(?:pass|pwd|secret|token|key|sig|odbc_connect)[\w.-]*=)[^&\s'\"]+")
BEARER = re.compile(r"(?<=Bearer )[^\s\"']+")  # a token, as an error quotes the header it is in
RELATIVE = re.compile(r"(sqlite[+\w]*:///)([^/?].*)")
SQLITE = "sqlite:///"  # before the path of a file
SERVERS = ("http", "databricks")
DATABASE, ARTIFACTS = "mlflow.db", "mlartifacts"  # in a storage, beside its searches' folders


def resolve_tracking_uri(storage: Path, given: str | None = None, recorded: str = "") -> str:
    """The address in force: `given`, else `recorded`, else MLFLOW_TRACKING_URI, else a SQLite file in the storage. A
    relative path becomes absolute: the next command of the search may be given in another folder.

    `recorded`: where an earlier session of the search sent its events; not used if a part of it had to be hidden.

    Raises ConfigError for what is no address, such as a plain folder, which MLflow refuses since 3.13, for a database
    in memory, and for a storage whose path cannot be written in an address.
    """
    usable = recorded if "***" not in recorded else ""
    uri = given or usable or os.environ.get("MLFLOW_TRACKING_URI") or beside_runs(storage.resolve())
    is_address = "://" in uri or uri.startswith("databricks")
    if not is_address or uri.startswith("file:") or uri == "sqlite://" or ":memory:" in uri:
        option = "--tracking-uri" if given else "MLFLOW_TRACKING_URI"
        shown = masked(f"://{uri}").removeprefix("://")
        wrong = f"'{shown}' is not the address of a server or of a database that lasts"
        raise ConfigError(Problem(option, wrong, "http://HOST:PORT or sqlite:///PATH/mlflow.db"))
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
    """The text with what may be secret hidden in every address: the user with the password, and options that are named
    like secrets."""
    hidden = OPTION.sub(r"\1***", USER.sub("***@", text))
    return BEARER.sub("***", hidden)
