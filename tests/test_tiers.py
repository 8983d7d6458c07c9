"""The quick tests are held to what their name says."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", ""]


def test_a_quick_test_starts_no_process_and_opens_no_port() -> None:
    with pytest.raises(AssertionError, match="mark it slow"):
        subprocess.run(COMMAND, check=True)
    with pytest.raises(AssertionError, match="mark it slow"):
        socket.create_server(("127.0.0.1", 0))


@pytest.mark.smoke
def test_a_smoke_test_may() -> None:
    subprocess.run(COMMAND, check=True)
    socket.create_server(("127.0.0.1", 0)).close()
