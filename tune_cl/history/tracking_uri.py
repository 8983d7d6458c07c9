"""The tracking address, and how it is shown without its secrets."""

from __future__ import annotations

import os
import re
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import unquote

from trainables.core.errors import ConfigError, Problem

# A user with a password, which may hold /, @, quotes and spaces, ends at the last @ of the line; one alone before a /.
USER = re.compile(r"(?<=://)(?:[^:/@\n]*:(?:(?!://)[^\n])*|[^/\s]+)@")
OPTIONS = re.compile(r"(://[^?\n]*\?)(\S+?)(?=[\"')\]}>,.:]*(?:\s|$))")  # in a text: without the marks that end them
# A text that is an address, or an option with one, and nothing more.
WHOLE = re.compile(r"(\S*://)((?:[^:/@]*:.*|[^/\s]+)@)?([^?]*\??)(.*)", re.DOTALL)
BEARER = re.compile(r"(?<=Bearer )[^\s\"']+")  # a token, as an error quotes the header it is in
NAME = re.compile(r"[\w.-]+")
HARMLESS = {  # options of databases
    "user", "host", "port", "dbname", "database", "driver", "charset", "collation", "client_encoding", "use_unicode",
    "application_name", "target_session_attrs", "timeout", "connect_timeout", "read_timeout", "write_timeout",
    "sslmode", "sslrootcert", "ssl_ca", "ssl_disabled", "ssl_verify_cert", "ssl_verify_identity", "encrypt",
    "trustservercertificate", "trusted_connection", "autocommit", "isolation_level", "mode", "uri", "cache",
    "immutable", "nolock", "vfs", "check_same_thread",
}  # fmt: skip
IN_MEMORY = re.compile(r"sqlite[+\w]*://(/?(\?.*)?|/(file:)?:memory:.*|.*[?&]mode=memory\b.*)")
WITHOUT_SCHEME = re.compile(r"(.*@)?[\w.-]+:\d+(/.*)?")
RELATIVE = re.compile(r"(sqlite[+\w]*:///)(?!:memory:|file:)([^/?].*)")
SQLITE = "sqlite:///"  # before the path of a file
SERVERS = ("http", "databricks")
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
DATABASE, ARTIFACTS = "mlflow.db", "mlartifacts"  # in a storage, beside its searches' folders


def resolve_tracking_uri(storage: Path, given: str | None = None, recorded: str = "") -> str:
    """The address in force: `given`, else `recorded`, else MLFLOW_TRACKING_URI, else a SQLite file in the storage. A
    relative path becomes absolute: the next command of the search may be given in another folder.

    `recorded`: where an earlier session of the search sent its events; not used if a part of it had to be hidden.

    Raises ConfigError for a plain folder, which MLflow refuses since 3.13, for a scheme that MLflow does not know, for
    a database in memory, and for a storage whose path cannot be written in an address.
    """
    usable = recorded if "***" not in recorded else ""
    uri = given or usable or os.environ.get("MLFLOW_TRACKING_URI") or beside_runs(storage.resolve())
    option = "--tracking-uri" if given else "MLFLOW_TRACKING_URI"
    right = "sqlite:///PATH/mlflow.db or http://HOST:PORT"
    if ("://" not in uri and not uri.startswith("databricks")) or uri.startswith("file:"):
        shown = masked(f"://{uri}").removeprefix("://")
        if WITHOUT_SCHEME.fullmatch(uri):
            raise ConfigError(Problem(option, f"'{shown}' lacks http://", f"http://{shown}"))
        raise ConfigError(
            Problem(option, f"'{shown}' is a folder, and MLflow keeps no runs in folders any more", right)
        )
    if IN_MEMORY.fullmatch(uri):
        wrong = f"'{masked(uri)}' is a database in memory, which is gone when the command ends"
        raise ConfigError(Problem(option, wrong, right))
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
    """The text with what may be secret hidden in every address: the user with the password, and all options but those
    known to be harmless. Rather too much is hidden than too little: clients differ in where a password ends."""
    whole = WHOLE.fullmatch(text) if text.count("://") == 1 else None
    if whole:
        scheme, user, place, options = whole.groups()
        text = f"{scheme}{'***@' if user else ''}{place}{_options(options)}"
    else:
        text = OPTIONS.sub(lambda found: found[1] + _options(found[2]), USER.sub("***@", text))
    return BEARER.sub("***", text)


def _options(given: str) -> str:
    """`NAME=VALUE&NAME=VALUE`, with the values hidden that may be secret."""
    return "&".join(map(_option, given.split("&")))


def _option(given: str) -> str:
    name, sign, _ = given.partition("=")
    if not given or (name.lower() in HARMLESS and ";" not in given):
        return given
    return f"{name}=***" if sign and NAME.fullmatch(name) else "***"
