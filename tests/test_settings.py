"""Options that several commands share: keys of an experiment, and the address of a cluster."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from argparse import ArgumentParser, Namespace

import pytest

from trainables.core.errors import ConfigError
from tune_cl.cli.options import add_experiment, add_overrides, add_split, experiment_options
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import requested_experiment
from tune_cl.ray import address as module
from tune_cl.ray.address import require_cluster

pytestmark = pytest.mark.slow


def parsed(*given: str) -> Namespace:
    parser = ArgumentParser()
    add_experiment(parser)
    add_overrides(parser)
    return parser.parse_args(["quickstart", *given])


def experiment_of(options: Namespace) -> Experiment:
    return requested_experiment(**experiment_options(options))


def test_options_are_keys_of_the_experiment() -> None:
    made = experiment_of(parsed("--trials", "7", "--max-iterations", "3", "--seed", "5", "--ranker", "knrm"))
    run = made.base_run()
    assert (made.trials, run.training.max_iterations, made.seed, run.ranker["name"]) == (7, 3, 5, "knrm")
    assert experiment_of(parsed("--seed", "5", "--set", "seed=9", "--set", "seed=8")).seed == 8, "the last one counts"


def test_an_option_of_nought_is_no_option_left_out() -> None:
    with pytest.raises(ConfigError, match=r"search\.trials: 0 is below 1"):
        experiment_of(parsed("--trials", "0"))


def test_a_split_is_one_of_three_and_has_the_command_s_default() -> None:
    for default in ("test", "dev"):
        add_split(parser := ArgumentParser(), default, "candidates are ranked")
        assert parser.parse_args([]).split == default
        for name in ("train", "dev", "test"):
            assert parser.parse_args(["--split", name]).split == name
        with pytest.raises(SystemExit):
            parser.parse_args(["--split", "vali"])


# -- the address of a cluster ------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["h", ":6379", "h:", "h:head", "h:²", "h:0", "h:65536", "h:" + 5000 * "1"])
def test_an_address_has_a_host_and_the_number_of_a_port(address: str) -> None:
    with pytest.raises(ConfigError, match=f"--address: '{address}' is no host:port; auto, or host:port of a cluster's"):
        require_cluster(address)


def test_a_host_that_no_machine_can_be_does_not_answer() -> None:
    with pytest.raises(ConfigError, match=f"--address: '{64 * 'x'}:1' does not answer: "):
        require_cluster(f"{64 * 'x'}:1")


CLUSTER = """
import sys
import ray
head = ray.init(address="local", include_dashboard=False, num_cpus=1, logging_level=40)
print(head["gcs_address"], flush=True)
sys.stdin.read()
"""


def test_a_host_in_brackets_is_an_ipv6_address(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    monkeypatch.setattr(module, "_require_head", print)  # what listens there is not Ray
    with server:
        require_cluster(f"[::1]:{server.getsockname()[1]}")


def test_what_answers_must_be_a_ray_that_knows_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would ask a dashboard's port for ever, and a cluster that refuses its token for 20 seconds."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            ConfigError, match=f"--address: no Ray cluster answers at '{address}'; the port of its head"
        ):
            require_cluster(address)
    locked = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}
    cluster = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(cluster, env=locked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as head:
        assert head.stdin and head.stdout
        address = head.stdout.readline().strip()
        for name in ("ANSWER_SECONDS", "CONNECT_SECONDS"):
            monkeypatch.setattr(module, name, 60.0)
        with pytest.raises(
            ConfigError, match=f"the cluster at '{address}' does not know the token of this machine, or"
        ):
            require_cluster(address)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        monkeypatch.setenv("RAY_AUTH_TOKEN", "a" * 64)
        require_cluster(address)
        head.stdin.close()


def test_a_local_ray_and_ray_s_own_client_are_asked_nothing() -> None:
    require_cluster(None)
    require_cluster("ray://127.0.0.1:1")


def test_where_no_ray_runs_auto_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(address: str) -> str:
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.setattr("ray._private.services.canonicalize_bootstrap_address", none)
    with pytest.raises(ConfigError, match="--address: no Ray runs on this machine; auto, or host:port of a cluster's"):
        require_cluster("auto")
