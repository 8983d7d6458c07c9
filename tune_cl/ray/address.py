"""Whether a Ray cluster answers at an address.

Defect: `ray.init` tries for ever, or for 20 seconds with a wrong token, and heeds neither Ctrl-C nor a time limit.
Test: test_what_answers_must_be_a_ray_that_knows_us.
"""

from __future__ import annotations

import socket
import subprocess
import sys

from trainables.core.errors import ConfigError, Problem

CONNECT_SECONDS = 10.0  # for a cluster's head to accept a connection
ANSWER_SECONDS = 30.0  # for it to answer, including the import of Ray
RIGHT = (
    "auto, or host:port of a cluster's head that runs (port 6379 unless it was told another), with the cluster's token "
    "in ~/.ray/auth_token or RAY_AUTH_TOKEN, and RAY_AUTH_MODE=token"
)


def require_cluster(address: str | None) -> None:
    """Raises ConfigError if no Ray of this version answers at host:port, or on this machine (`auto`), or if it refuses
    this machine's token."""
    if address is None or "://" in address:
        return
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:
            raise ConfigError(Problem("--address", f"'{address}' does not answer: {error}", RIGHT)) from None
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        subprocess.run(command, capture_output=True, timeout=ANSWER_SECONDS, check=True)
    except subprocess.SubprocessError:
        wrong = f"no Ray cluster answers at '{address}', or it does not know the token of this machine"
        raise ConfigError(Problem("--address", wrong, RIGHT)) from None
