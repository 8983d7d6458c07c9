"""Whether a Ray cluster answers at an address.

Defects: `ray.init` tries for ever, or for 20 seconds with a wrong token. Ray has no public way to ask once with a time
limit, nor to find the Ray of this machine (`auto`) without connecting.
Tests: test_what_answers_must_be_a_ray_that_knows_us, test_where_no_ray_runs_auto_finds_none.
"""

from __future__ import annotations

import socket
import subprocess
import sys

from trainables.core.errors import ConfigError, Problem

CONNECT_SECONDS = 10.0  # for a cluster's head to accept a connection
ANSWER_SECONDS = 30.0  # for it to answer, including the import of Ray
REFUSED = 3
ASK = f"""
import sys
from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
try:
    ensure_token_if_auth_enabled(create_token_if_missing=False)  # without one, the client would abort
    GcsClient(address=sys.argv[1])
except AuthenticationError:
    sys.exit({REFUSED})
"""


def require_cluster(address: str | None) -> None:
    """Raises ConfigError if no cluster's head answers at host:port (Ray would try for ever), if it refuses this
    machine's token, or if `auto` finds no Ray."""
    right = "auto, or host:port of a cluster's head that runs"
    if address == "auto":
        from ray._private.services import canonicalize_bootstrap_address  # here: Ray takes seconds to import

        try:
            address = canonicalize_bootstrap_address("auto")
        except ConnectionError:
            raise ConfigError(Problem("--address", "no Ray runs on this machine", right)) from None
    if address is None or "://" in address:
        return
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
        raise ConfigError(Problem("--address", f"'{address}' is not a host:port", right))
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        raise ConfigError(Problem("--address", f"'{address}' does not answer: {error}", right)) from None
    _require_head(address)


def _require_head(address: str) -> None:
    """Asks the head in a process of its own, for Ray's client heeds neither Ctrl-C nor a time limit."""
    command = [sys.executable, "-c", ASK, address]
    try:
        status = subprocess.run(command, capture_output=True, timeout=ANSWER_SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        status = None
    if status == REFUSED:
        wrong = f"the cluster at '{address}' does not know the token of this machine, or wants one"
        right = "RAY_AUTH_MODE=token, and the cluster's token in ~/.ray/auth_token or RAY_AUTH_TOKEN"
        raise ConfigError(Problem("--address", wrong, right))
    if status != 0:
        right = "the port of its head, 6379 unless `ray start` was told another; not of a dashboard or for Ray clients"
        raise ConfigError(Problem("--address", f"no Ray cluster answers at '{address}'", right))
