"""The cluster files: valid for Ray, closed to the world, and starting what this release was tested with."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.support.project import ROOT, pins

pytestmark = pytest.mark.slow

Config = dict[str, Any]
RAY = str(pins()["ray"])
KUBERNETES = "1.30"


def read(name: str) -> Config:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_head_runs_no_trials() -> None:
    config = read("cluster.yaml")
    head, gpu = config["available_node_types"].values()
    assert head["resources"] == {"CPU": 0}
    assert gpu["resources"] == {"CPU": 8, "GPU": 1} and gpu["min_workers"] == 0
    assert gpu["max_workers"] == config["max_workers"]


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.local.yaml"])
def test_every_node_asks_for_the_token_and_listens_on_loopback(name: str) -> None:
    config = read(name)
    validate_config(prepare_config(config))
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    starts = [*config["head_start_ray_commands"], *config["worker_start_ray_commands"]]
    starts = [command for command in starts if "ray start" in command]
    assert len(starts) == 2 and all("RAY_AUTH_MODE=token" in command for command in starts)
    assert "--dashboard-host=127.0.0.1" in starts[0]
    assert any("-c ~/tune_cl/constraints.txt ~/tune_cl" in command for command in config["setup_commands"])


def test_ray_s_folder_lies_in_one_that_nobody_else_can_enter(tmp_path: Path) -> None:
    """Ray makes its own folder 0777. Who has taken the name first could read and change all that is in it."""
    config = read("cluster.local.yaml")
    [first] = {config[f"{kind}_start_ray_commands"][0] for kind in ("head", "worker")}
    for kind in ("head", "worker"):
        assert "--temp-dir=/tmp/tune_cl_ray_$(id -u)/ray " in config[f"{kind}_start_ray_commands"][-1]
    folder = tmp_path / f"tune_cl_ray_{os.getuid()}"

    def made() -> bool:
        command = first.replace("/tmp/", f"{tmp_path}/")
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        refused = f"{folder} is not a folder of yours; remove it, or have it removed\n"
        assert (done.returncode, done.stderr) in {(0, ""), (1, refused)}
        return done.returncode == 0

    for _ in range(2):
        assert made() and folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o777)
    if os.geteuid() == 0:  # only root can give a folder away
        os.chown(folder, 65534, 65534)
        assert not made()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert not made()


def documents(name: str) -> list[Config]:
    return list(yaml.safe_load_all((ROOT / "deploy" / name).read_text(encoding="utf-8")))


CLAIM, SERVICE, SERVER = documents("kuberay-storage.yaml")
[JOB] = documents("kuberay-rayjob.yaml")
CLUSTER = JOB["spec"]["rayClusterSpec"]
HEAD, (WORKERS,) = CLUSTER["headGroupSpec"], CLUSTER["workerGroupSpecs"]


def test_kubernetes_knows_all_that_it_is_asked_for() -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}} | one["template"] for one in (HEAD, WORKERS)]
    for one in (CLAIM, SERVICE, SERVER, *pods):
        kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_the_rayjob_goes_on_after_a_loss_and_asks_for_every_worker() -> None:
    """A search without search.max_concurrent runs as many trials as there are places: with one GPU, one."""
    spec = JOB["spec"]
    assert spec["backoffLimit"] > 0 and "tune-cl resume" in spec["entrypoint"] and spec["shutdownAfterJobFinishes"]
    assert CLUSTER["authOptions"] == {"mode": "token"} and CLUSTER["rayVersion"] == RAY
    assert HEAD["rayStartParams"]["num-cpus"] == "0"
    assert f"--set search.max_concurrent={WORKERS['maxReplicas']}" in spec["entrypoint"]


@pytest.mark.parametrize("name", ["cluster.yaml", "deploy/Dockerfile"])
def test_every_image_holds_the_ray_of_the_constraints(name: str) -> None:
    images = re.findall(r"rayproject/ray:(\S+)", (ROOT / name).read_text(encoding="utf-8"))
    assert images and all(re.fullmatch(rf"{re.escape(RAY)}-py311-(cpu|gpu)", image) for image in images)
