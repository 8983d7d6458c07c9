"""Workers on AWS: spot where it is granted, on demand where it is not, and no other error swallowed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from ray.autoscaler._private.commands import _set_up_config_for_head_node
from ray.autoscaler._private.providers import _get_node_provider
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.autoscaler.node_launch_exception import NodeLaunchException
from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig
from ray.autoscaler.v2.instance_manager.instance_manager import InstanceManager
from ray.autoscaler.v2.instance_manager.instance_storage import InstanceStorage
from ray.autoscaler.v2.instance_manager.node_provider import NodeProviderAdapter
from ray.autoscaler.v2.instance_manager.reconciler import Reconciler
from ray.autoscaler.v2.instance_manager.storage import InMemoryStorage
from ray.autoscaler.v2.instance_manager.subscribers.cloud_instance_updater import CloudInstanceUpdater
from ray.autoscaler.v2.instance_manager.subscribers.cloud_resource_monitor import CloudResourceMonitor
from ray.autoscaler.v2.scheduler import ResourceDemandScheduler
from ray.autoscaler.v2.utils import ResourceRequestUtil
from ray.core.generated.autoscaler_pb2 import ClusterResourceState, NodeState, NodeStatus, ResourceRequestByCount

from tests.support.cluster_config import Config, aws, filled_in, own_group, read
from tune_cl.ray.aws import SpotFirst

pytestmark = pytest.mark.slow

__all__ = ["aws"]  # the fixture
TAGS = {"ray-node-type": "worker", "ray-user-node-type": "gpu", "ray-node-name": "ray-tune-cl-worker"}
NO_CAPACITY = "InsufficientInstanceCapacity"
OF_SPOT = (NO_CAPACITY, "UnfulfillableCapacity", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded", "Unsupported")
NOT_OF_SPOT = ("InvalidAMIID.NotFound", "UnauthorizedOperation", "VcpuLimitExceeded", "InstanceLimitExceeded")


class Market:
    """EC2 that grants `spot` instances on spot, then refuses; without `demand` it refuses those on demand too."""

    def __init__(self, start: Callable[..., list[Any]], spot: int, error: str, demand: bool = True):
        self.start, self.spot, self.error, self.demand = start, spot, error, demand
        self.asked: list[tuple[str, int]] = []

    def create_instances(self, **request: Any) -> list[Any]:
        wanted, on_spot = request["MaxCount"], "InstanceMarketOptions" in request
        self.asked.append(("spot" if on_spot else "on demand", wanted))
        granted = min(wanted, self.spot) if on_spot else wanted * self.demand
        if not granted:
            raise ClientError({"Error": {"Code": self.error, "Message": "no"}}, "RunInstances")
        self.spot -= granted * on_spot
        return self.start(**request | {"MinCount": granted, "MaxCount": granted})


class Account:
    """A cluster file as `ray up` resolves it, and the node provider made from it."""

    def __init__(self, ec2: Any):
        config = filled_in(read("cluster.yaml"), own_group(ec2))
        config["file_mounts"] = {}
        prepared = prepare_config(config)
        validate_config(prepared)
        self.config: Config = SpotFirst.bootstrap_config(prepared)
        self.ec2, self.node_types = ec2, self.config["available_node_types"]
        self.provider = _get_node_provider(self.config["provider"], "tune-cl", use_cache=False)

    def sells(self, spot: int, error: str = NO_CAPACITY, demand: bool = True) -> Market:
        market = Market(self.ec2.create_instances, spot, error, demand)
        self.provider.ec2_fail_fast = market
        return market

    def start(self, count: int, kind: str = "gpu") -> dict[str, Any]:
        return self.provider.create_node(self.node_types[kind]["node_config"], TAGS, count)

    def running(self) -> list[str]:
        """For each instance, how it was bought."""
        return sorted(instance.instance_lifecycle or "on demand" for instance in self.ec2.instances.all())


@pytest.fixture
def account(aws: Any) -> Account:
    return Account(aws)


def test_spot_that_is_refused_is_started_on_demand(account: Account, capfd: pytest.CaptureFixture[str]) -> None:
    for number, error in enumerate(OF_SPOT, 1):
        market = account.sells(spot=0, error=error)
        made = account.start(3)
        assert len(made) == 3 and market.asked[-1] == ("on demand", 3) and market.asked.count(("on demand", 3)) == 1
        assert account.running() == ["on demand"] * 3 * number
        said = "".join(capfd.readouterr())
        assert said.count(f"AWS granted 0 of 3 g6.2xlarge on spot ({error}); starting 3 on demand") == 1


def test_what_spot_lacks_is_started_on_demand(account: Account, capfd: pytest.CaptureFixture[str]) -> None:
    market = account.sells(spot=2)
    made = account.start(3)
    assert market.asked == [("spot", 3), ("on demand", 1)] and account.running() == ["on demand", "spot", "spot"]
    assert made.keys() == {instance.id for instance in account.ec2.instances.all()}
    tags = [{tag["Key"]: tag["Value"] for tag in instance.tags} for instance in account.ec2.instances.all()]
    assert tags[0] == tags[1] == tags[2] and tags[0]["Name"] == TAGS["ray-node-name"]
    told = "AWS granted 2 of 3 g6.2xlarge on spot (fewer than asked for); starting 1 on demand"
    assert told in "".join(capfd.readouterr())


def test_an_error_that_is_not_spot_s_is_raised(account: Account) -> None:
    for error in NOT_OF_SPOT:
        market = account.sells(spot=0, error=error)
        with pytest.raises(NodeLaunchException, match=error):
            account.start(3)
        assert {kind for kind, _ in market.asked} == {"spot"} and account.running() == []


def test_every_request_tries_spot_first(account: Account) -> None:
    assert type(account.provider) is SpotFirst, "the file names it"
    account.sells(spot=0)
    account.start(1)
    market = account.sells(spot=8)
    account.start(2)
    assert market.asked == [("spot", 2)] and account.running() == ["on demand", "spot", "spot"]
    market.asked.clear()
    account.start(1, "head")
    assert market.asked == [("on demand", 1)], "a node without spot is Ray's own business"


def test_what_nobody_grants_ray_is_told(account: Account) -> None:
    """A reserved block of capacity is not bought on demand."""
    market = account.sells(spot=0, demand=False)
    with pytest.raises(NodeLaunchException, match=NO_CAPACITY):
        account.start(3)
    assert {kind for kind, _ in market.asked} == {"spot", "on demand"}
    market = account.sells(spot=0)
    account.node_types["gpu"]["node_config"]["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    with pytest.raises(NodeLaunchException, match=NO_CAPACITY):
        account.start(1)
    assert "on demand" not in dict(market.asked) and account.running() == []


class AtOnce:
    """Runs work at once, in place of the provider's threads."""

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        work(*arguments)


class Autoscaler:
    """Ray's v2 autoscaler as the head runs it, without the steps that log in to nodes."""

    def __init__(self, account: Account):
        _, sent = _set_up_config_for_head_node(deepcopy(account.config), account.provider, no_restart=False)
        shutil.copy(account.config["auth"]["ssh_private_key"], Path.home() / "ray_bootstrap_key.pem")
        self.config = AutoscalingConfig(json.loads(Path(sent.name).read_text()), skip_content_hash=True)
        reader: Any = SimpleNamespace(get_cached_autoscaling_config=lambda: self.config)
        self.cloud = NodeProviderAdapter(account.provider, reader)
        self.cloud._main_executor = self.cloud._node_launcher_executors = AtOnce()
        self.monitor = CloudResourceMonitor()
        updater = CloudInstanceUpdater(self.cloud)
        storage = InstanceStorage("tune-cl", InMemoryStorage())
        self.instances = InstanceManager(storage, instance_status_update_subscribers=[updater, self.monitor])
        self.scheduler = ResourceDemandScheduler()

    def round(self, number: int, trials: int) -> None:
        """One round of the autoscaler, with trials that wait for a GPU each."""
        heads = [key for key, one in self.cloud.get_non_terminated().items() if one.node_type == "head"]
        head = NodeState(
            node_id=b"h", status=NodeStatus.RUNNING, ray_node_type_name="head", instance_id=heads[0],
            total_resources={"node:__internal_head__": 1}, available_resources={"node:__internal_head__": 1},
        )  # fmt: skip
        waiting = ResourceRequestByCount(request=ResourceRequestUtil.make({"CPU": 1, "GPU": 1}), count=trials)
        state = ClusterResourceState(
            cluster_resource_state_version=number, node_states=[head], pending_resource_requests=[waiting]
        )
        Reconciler.reconcile(
            instance_manager=self.instances,
            scheduler=self.scheduler,
            cloud_provider=self.cloud,
            cloud_resource_monitor=self.monitor,
            ray_cluster_resource_state=state,
            non_terminated_cloud_instances=self.cloud.get_non_terminated(),
            autoscaling_config=self.config,
            cloud_provider_errors=self.cloud.poll_errors(),
            ray_install_errors=[],
            ray_stop_errors=[],
        )


def test_the_autoscaler_gets_its_workers_whatever_spot_grants(account: Account) -> None:
    account.sells(spot=3)
    head = account.node_types["head"]["node_config"]
    account.provider.create_node(head, TAGS | {"ray-node-type": "head", "ray-user-node-type": "head"}, 1)
    autoscaler = Autoscaler(account)
    for number in range(1, 5):
        autoscaler.round(number, trials=8)
    assert account.running() == ["on demand"] * (1 + 8 - 3) + ["spot"] * 3


def test_the_autoscaler_finds_the_image_of_every_node(account: Account) -> None:
    """Ray 2.60 looks up `image` even if `worker_image` is given; if it is missing, no worker is ever set up."""
    images = {kind: Autoscaler(account).config.get_docker_config(kind)["image"] for kind in ("head", "gpu")}
    assert images["head"].endswith("-cpu") and images["gpu"].endswith("-gpu")
