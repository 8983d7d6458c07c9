"""`ray up` for real: cluster.local.yaml on machines of their own, a search on them, and a machine that dies meanwhile.

Takes some minutes, and root, namespaces and an SSH server: skipped, with the reason, where one is missing.
TUNE_CL_CLUSTER_TESTS=1 fails there instead, TUNE_CL_CLUSTER_TESTS=0 skips everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import tiny_data
from tests.support.machines import Machine, machines, missing
from tests.support.trec_folder import write_trec_folder
from tune_cl.history.journal import read_events
from tune_cl.history.state import replay

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
SPACE = """
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum: {scoring: context_words, pacing: root, n: {choice: [2, 3, 5, 8, 10]}}
training: {batch_size: 8, batches_per_iteration: 20, max_iterations: 12, patience: 12}
search: {searcher: random, trials: 4}
"""
NAME = "toy"

WANTED = os.environ.get("TUNE_CL_CLUSTER_TESTS", "")
WHY_NOT = {"0": "TUNE_CL_CLUSTER_TESTS is 0", "1": None}.get(WANTED, missing())

pytestmark = [pytest.mark.slow, pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")]


class Cluster:
    """A head and workers under `ray up`, as docs/how-to/cluster.md starts them."""

    def __init__(self, folder: Path, nodes: list[Machine]):
        self.folder, self.head, self.workers = folder, nodes[0], nodes[1:]
        self.home = folder / "home"
        self.config = folder / "cluster.local.yaml"
        self.storage = folder / "runs"
        template = (ROOT / "cluster.local.yaml").read_text().replace("192.168.1.10", self.head.address)
        config = yaml.safe_load(template)
        config["cluster_name"] = f"tune-cl-{os.getpid()}"
        config["provider"]["worker_ips"] = [one.address for one in self.workers]
        config["auth"] = {"ssh_user": "root", "ssh_private_key": str(self.head.key)}
        config["file_mounts"] = {"~/.ray/auth_token": str(self.home / ".ray" / "auth_token")}
        config["setup_commands"] = ["chmod 600 ~/.ray/auth_token", f"ln -sfn {BIN.parent} ~/tune_cl_env"]
        self.config.write_text(yaml.safe_dump(config))

    def ray(self, *arguments: str, seconds: float = 240) -> subprocess.CompletedProcess[str]:
        """Runs `ray ARGUMENTS` with a home, a token and a temporary folder of its own."""
        environment = os.environ | {"HOME": str(self.home), "RAY_TMPDIR": str(self.folder / "ray"),
                                    "RAY_UP_enable_autoscaler_v2": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # fmt: skip
        return subprocess.run(
            [str(BIN / "ray"), *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=seconds,
            check=False,
        )  # fmt: skip

    def up(self) -> None:
        (self.home / ".ray").mkdir(parents=True)
        made = self.ray("get-auth-token", "--generate")
        assert made.returncode == 0 and (self.home / ".ray" / "auth_token").is_file(), made.stderr
        started = self.ray("up", "-y", "--no-config-cache", str(self.config))
        assert started.returncode == 0, started.stdout + started.stderr

    def on_head(self, command: str) -> subprocess.Popen[str]:
        """Starts a shell command on the head, in the environment that docs/how-to/cluster.md sets there."""
        shell = f"export PATH=$HOME/tune_cl_env/bin:$PATH RAY_AUTH_MODE=token OMP_NUM_THREADS=1; {command}"
        options = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
        login = ("ssh", *options, "-i", str(self.head.key), f"root@{self.head.address}")
        return subprocess.Popen([*login, shell], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def nodes(self) -> dict[str, bool]:
        """The address of each node there ever was, and whether it is alive."""
        program = "import ray, json; ray.init('auto', logging_level=40, log_to_driver=False); "
        program += "print(json.dumps([[n['NodeManagerAddress'], n['Alive']] for n in ray.nodes()]))"
        asked = self.on_head(f'python -c "{program}"')
        out, err = asked.communicate(timeout=120)
        assert asked.returncode == 0, err
        alive: dict[str, bool] = {}
        printed = next(line for line in out.splitlines() if line.startswith("[["))  # Ray adds remarks before and after
        for address, lives in json.loads(printed):
            alive[address] = alive.get(address, False) or lives
        return alive

    def down(self) -> None:
        self.ray("down", "-y", str(self.config))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    write_trec_folder(tiny_data(queries={"train": 60, "dev": 20, "test": 20}, candidates=8, turns=1), folder / "data")
    (folder / f"{NAME}.yaml").write_text(SPACE)
    with machines(3, folder) as nodes:
        started = Cluster(folder, nodes)
        started.up()
        yield started
        started.down()


def until(condition: Any, what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def ran_trials(machine: Machine) -> bool:
    """Whether a trial's process was started on the machine: its log names the actor."""
    logs = (machine.folder / "tmp" / f"tune_cl_ray_{os.getuid()}" / "ray").glob("session_*/logs/worker-*.out")
    return any("actor_name:RankerTrainable" in log.read_text() for log in logs)


def test_a_search_on_a_cluster_survives_the_loss_of_a_machine(cluster: Cluster) -> None:
    addresses = {machine.address for machine in (cluster.head, *cluster.workers)}
    until(lambda: set(cluster.nodes()) == addresses, "the workers do not come up")
    command = f"cd {cluster.folder} && tune-cl run {NAME}.yaml --data data --storage runs --address auto --json"
    command += f" --set search.resources.cpu={os.cpu_count()}"
    running = cluster.on_head(command)
    journal = cluster.storage / NAME / "journal.jsonl"

    def iterations() -> int:
        return replay(read_events(journal)).iterations if journal.exists() else 0

    until(lambda: running.poll() is not None or iterations() >= 12, "the search makes no progress")
    assert running.poll() is None, running.communicate()[1]
    assert [ran_trials(machine) for machine in (cluster.head, *cluster.workers)] == [False, True, True]
    lost = cluster.workers[1]
    lost.cut_power()
    until(lambda: not cluster.nodes()[lost.address], "the loss goes unnoticed")
    lost.boot()
    out, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    document = json.loads(out)
    assert (document["trials"], document["errored"], document["iterations"]) == (4, 0, 4 * 12)
    for trial in replay(read_events(journal)).by_number():
        assert sorted(trial.results) == list(range(1, 13)) and trial.outcome in ("baseline", "completed")
    until(lambda: cluster.nodes()[lost.address], "the machine does not come back")
