"""The address of a cluster: what answers there must be a Ray that knows us. Addresses that are none, and those at
which nothing answers, are in test_bad_configuration.py."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trainables.core.errors import ConfigError
from tune_cl.ray import address as module
from tune_cl.ray.address import require_cluster

pytestmark = pytest.mark.slow
CLUSTER = """
import sys
import ray
head = ray.init(address="local", include_dashboard=False, num_cpus=1, logging_level=40)
print(head["gcs_address"], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_what_answers_must_be_a_ray(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would ask a dashboard's port for ever. A host in brackets is an IPv6 address."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.1)
    family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
    try:
        server = socket.create_server((host.strip("[]"), 0), family=family)
    except OSError:
        pytest.skip(f"no {host} here")
    with server:
        address = f"{host}:{server.getsockname()[1]}"
        with pytest.raises(ConfigError, match="--address: no Ray") as refused:
            require_cluster(address)
        assert f"'{address}'" in str(refused.value)


def test_what_answers_must_be_a_ray_that_knows_us(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ray itself would ask a cluster that refuses its token for 20 seconds, and abort where it finds none."""
    locked = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}
    cluster = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(cluster, env=locked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as head:
        assert head.stdin and head.stdout
        address = head.stdout.readline().strip()
        for name in ("ANSWER_SECONDS", "CONNECT_SECONDS"):
            monkeypatch.setattr(module, name, 60.0)
        monkeypatch.setenv("HOME", str(tmp_path))
        for mode in ("disabled", "token"):
            monkeypatch.setenv("RAY_AUTH_MODE", mode)
            with pytest.raises(ConfigError, match=f"'{address}'.* token"):
                require_cluster(address)
        monkeypatch.setenv("RAY_AUTH_TOKEN", "a" * 64)
        require_cluster(address)
        head.stdin.close()
