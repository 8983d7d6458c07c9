"""The cluster files: valid for Ray, closed to the world, and starting what this release was tested with."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from mlflow.server.security_utils import is_allowed_host_header
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.support.project import ROOT, pins

pytestmark = pytest.mark.slow

Config = dict[str, Any]
RAY = str(pins()["ray"])
KUBERNETES = "1.30"


def read(name: str) -> Config:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_head_runs_no_trials_and_workers_are_spot_first() -> None:
    config = read("cluster.yaml")
    head, gpu = config["available_node_types"].values()
    assert head["resources"] == {"CPU": 0} and "InstanceMarketOptions" not in head["node_config"]
    assert gpu["resources"] == {"CPU": 8, "GPU": 1} and gpu["min_workers"] == 0
    assert gpu["max_workers"] == config["max_workers"]
    assert gpu["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert config["provider"]["module"] == "tune_cl.ray.aws.SpotFirst"  # tested in tests/test_aws.py


def test_no_key_is_left_to_defaults_that_ray_has_for_its_own_provider_alone() -> None:
    config = read("cluster.yaml")
    own = prepare_config(config | {"provider": {"type": "aws", "region": "us-west-2"}})
    prepared = prepare_config(config)
    differ = {key for key in own if prepared.get(key) != own[key] and (key in prepared or own[key])}
    assert differ == {"provider"}


def test_data_in_the_checkout_is_not_sent_along_with_it() -> None:
    """Only the folder `data` at its top: trainables/data is code."""
    assert all("/data" in read(name)["rsync_exclude"] for name in ("cluster.yaml", "cluster.local.yaml"))
    assert "data" in (ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines()


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
PODS = {
    name: owner["template"]["spec"] for name, owner in (("mlflow", SERVER["spec"]), ("head", HEAD), ("gpu", WORKERS))
}


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


def test_every_pod_may_write_to_the_volume() -> None:
    assert CLAIM["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod in PODS.values():
        ((container,), (volume,)) = pod["containers"], pod["volumes"]
        assert [mount["name"] for mount in container["volumeMounts"]] == [volume["name"]]
        assert volume["persistentVolumeClaim"]["claimName"] == CLAIM["metadata"]["name"]
        assert pod["securityContext"] == {"fsGroup": 100}


def test_the_driver_and_a_forwarded_port_reach_mlflow() -> None:
    (uri,) = re.findall(r"--tracking-uri (\S+)", JOB["spec"]["entrypoint"])
    assert urlsplit(uri).netloc == f"{SERVICE['metadata']['name']}:{SERVICE['spec']['ports'][0]['port']}"
    assert SERVICE["spec"]["selector"] == SERVER["spec"]["template"]["metadata"]["labels"]
    command = PODS["mlflow"]["containers"][0]["command"]
    (hosts,) = (option.removeprefix("--allowed-hosts=").split(",") for option in command if "allowed-hosts" in option)
    here, there = ("127.0.0.1:5000", urlsplit(uri).netloc), "elsewhere:5000"
    assert all(is_allowed_host_header(hosts, host) for host in here) and not is_allowed_host_header(hosts, there)
    assert SERVER["spec"]["replicas"] == 1 and SERVER["spec"]["strategy"] == {"type": "Recreate"}
    assert not PODS["mlflow"]["enableServiceLinks"]  # else MLFLOW_PORT would be tcp://...


@pytest.mark.parametrize("name", ["cluster.yaml", "deploy/Dockerfile"])
def test_every_image_holds_the_ray_of_the_constraints(name: str) -> None:
    images = re.findall(r"rayproject/ray:(\S+)", (ROOT / name).read_text(encoding="utf-8"))
    assert images and all(re.fullmatch(rf"{re.escape(RAY)}-py311-(cpu|gpu)", image) for image in images)
