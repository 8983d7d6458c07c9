"""`ray up` for real: cluster.local.yaml on fresh machines, a search on them, and a machine that dies meanwhile.

The template's own commands run, unchanged, on machines with empty homes, so that these get the project as a user's
machines do. Weaker than real machines: the machines share kernel and file system and log in as root; pip installs from
wheels that hold the metadata of our dependencies, whose code comes from the running environment
(tests/support/wheel_folder.py), so a package without a wheel for a platform goes unnoticed.

Takes some minutes, and root, namespaces and an SSH server (installed meanwhile in a Debian container): skipped, with
the reason, where one is missing. TUNE_CL_CLUSTER_TESTS=1 fails there instead, TUNE_CL_CLUSTER_TESTS=0 skips everywhere.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import tiny_data
from tests.support.machines import Machine, machines, missing, tools
from tests.support.terminal import outcomes_of
from tests.support.trec_folder import write_trec_folder
from tests.support.wheel_folder import write_wheels
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import has_event
from tune_cl.history.state import replay

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
SPACE = """
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum: {scoring: context_words, pacing: root, n: {choice: [2, 3, 5, 8, 10]}}
training: {batch_size: 8, batches_per_iteration: 20, max_iterations: 8, patience: 8}
search: {searcher: random, trials: 3}
"""
NAME = "toy"

WANTED = os.environ.get("TUNE_CL_CLUSTER_TESTS", "")
PACKAGES = ("tune_cl", "trainables", "search_spaces")
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# What a machine's administrator sets up: the Python that the templates ask for, and where pip finds packages. Ray is to
# notice within seconds that a machine is lost and is back: by itself it takes a minute.
PROFILE = """
export PATH={python}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PIP_NO_INDEX=1 PIP_FIND_LINKS={wheels} PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1
export RAY_health_check_period_ms=500 AUTOSCALER_HEARTBEAT_TIMEOUT_S=10 AUTOSCALER_UPDATE_INTERVAL_S=1
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(WANTED == "0", reason="TUNE_CL_CLUSTER_TESTS is 0")]


def template(name: str) -> str:
    """A template for the Python of this run: machines need the same one everywhere."""
    return (ROOT / name).read_text(encoding="utf-8").replace("python3.11", PYTHON)


class Cluster:
    """A head and workers under `ray up`, as docs/how-to/cluster.md starts them."""

    def __init__(self, folder: Path, nodes: list[Machine]):
        self.folder, self.head, self.workers = folder, nodes[0], nodes[1:]
        self.home = folder / "home"
        self.config = folder / "cluster.local.yaml"
        self.storage = folder / "runs"
        config = yaml.safe_load(template("cluster.local.yaml").replace("192.168.1.10", self.head.address))
        config["cluster_name"] = self.name = f"tune-cl-{os.getpid()}"
        config["provider"]["worker_ips"] = [one.address for one in self.workers]
        config["auth"] = {"ssh_user": "root", "ssh_private_key": str(self.head.key)}
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

    def on(self, machine: Machine, command: str) -> subprocess.Popen[str]:
        """Starts a shell command on a machine."""
        options = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
        login = ("ssh", *options, "-i", str(self.head.key), f"root@{machine.address}")
        shell = f". ~/.profile; export OMP_NUM_THREADS=1; {command}"
        pipe = subprocess.PIPE
        return subprocess.Popen([*login, shell], text=True, stdin=pipe, stdout=pipe, stderr=pipe)

    def down(self) -> None:
        """Ends Ray, and removes the folder in which it shares SSH connections."""
        self.ray("down", "-y", str(self.config))
        user, name = (sha256(text.encode()).hexdigest()[:10] for text in (getpass.getuser(), self.name))
        shutil.rmtree(f"/tmp/ray_ssh_{user}/{name}", ignore_errors=True)
        with suppress(OSError):  # another cluster of this user has connections
            os.rmdir(f"/tmp/ray_ssh_{user}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    write_trec_folder(tiny_data(queries={"train": 60, "dev": 20, "test": 20}, candidates=8, turns=1), folder / "data")
    (folder / f"{NAME}.yaml").write_text(SPACE)
    write_wheels(folder / "wheels", without="tune-cl")
    profile = PROFILE.format(python=Path(sys.base_prefix) / "bin", wheels=folder / "wheels")
    with tools():
        if reason := missing():
            (pytest.fail if WANTED == "1" else pytest.skip)(reason)
        with machines(3, folder, profile) as nodes:
            started = Cluster(folder, nodes)
            try:
                started.up()
                yield started
            finally:
                started.down()


def until(condition: Any, what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def has_ray(cluster: Cluster, machine: Machine) -> bool:
    return cluster.on(machine, "pgrep -x raylet").wait() == 0


def ran_trials(machine: Machine) -> bool:
    """Whether a trial's process was started on the machine: its log names the actor."""
    logs = (machine.folder / "tmp" / f"tune_cl_ray_{os.getuid()}" / "ray").glob("session_*/logs/worker-*.out")
    return any("actor_name:RankerTrainable" in log.read_text() for log in logs)


def installed(cluster: Cluster, machine: Machine, python: str) -> str:
    """Where `python` of the machine finds tune_cl, whose files must be those of the checkout."""
    asked = cluster.on(machine, f'cd /; {python} -c "import tune_cl; print(tune_cl.__file__)"')
    out, err = asked.communicate(timeout=120)
    assert asked.returncode == 0, err
    packages = Path(out.strip()).parents[1].relative_to("/root")
    for package in PACKAGES:
        sources = [path for path in (ROOT / package).rglob("*") if path.suffix in (".py", ".yaml")]
        assert len(sources) > 1
        for source in sources:
            copy = machine.folder / "home" / packages / source.relative_to(ROOT)
            assert copy.read_bytes() == source.read_bytes(), copy
    return str(packages)


def test_a_fresh_machine_gets_the_project_from_the_setup_commands(cluster: Cluster) -> None:
    for machine in (cluster.head, *cluster.workers):
        until(lambda machine=machine: has_ray(cluster, machine), f"{machine.name} does not come up")
        where = installed(cluster, machine, "~/tune_cl_env/bin/python")
        assert where == f"tune_cl_env/lib/{PYTHON}/site-packages"
        token = machine.folder / "home" / ".ray" / "auth_token"
        assert token.stat().st_mode & 0o777 == 0o600


def begun_as_on_aws(cluster: Cluster, machine: Machine) -> subprocess.Popen[str]:
    """The setup commands for AWS on a machine that has what Ray brought there, and a Python of its own in place of the
    image's."""
    config = yaml.safe_load(template("cluster.yaml"))
    commands = [*config["setup_commands"], *config["worker_setup_commands"]]
    image = f"{PYTHON} -m venv ~/image && export PATH=~/image/bin:$PATH"
    return cluster.on(machine, " && ".join([image, *(f"({command})" for command in commands)]))


def test_a_search_on_a_cluster_survives_the_loss_of_a_machine(cluster: Cluster) -> None:
    """The machine comes back. Meanwhile the other one runs the setup commands for AWS, too."""
    command = f"tune-cl run {NAME}.yaml --data data --storage runs --address auto --json"
    command += f" --set search.resources.cpu={os.cpu_count()}"  # a trial a machine
    shell = "export PATH=$HOME/tune_cl_env/bin:$PATH RAY_AUTH_MODE=token"  # as docs/how-to/cluster.md has it
    running = cluster.on(cluster.head, f"{shell}; cd {cluster.folder} && {command}")
    journal = cluster.storage / NAME / "journal.jsonl"

    def both_train() -> bool:
        iterations = replay(read_events(journal)).iterations if has_event(journal) else 0
        return iterations >= 4 and all(map(ran_trials, cluster.workers))

    until(lambda: running.poll() is not None or both_train(), "the search makes no progress")
    assert running.poll() is None, running.communicate()[1]
    lost = cluster.workers[1]
    lost.cut_power()
    as_on_aws = begun_as_on_aws(cluster, cluster.workers[0])
    lost.boot()
    out, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    document = json.loads(out)
    assert "failed" not in outcomes_of(document) and (len(document["trials"]), document["iterations"]) == (3, 3 * 8)
    for trial in replay(read_events(journal)).by_number():
        assert sorted(trial.results) == list(range(1, 9)) and trial.outcome in ("baseline", "completed")
    assert not ran_trials(cluster.head)
    out, err = as_on_aws.communicate(timeout=240)
    assert as_on_aws.returncode == 0, out + err
    assert installed(cluster, cluster.workers[0], "~/image/bin/python").startswith("image/")
    until(lambda: has_ray(cluster, lost), "the machine does not come back")
