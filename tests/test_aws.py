"""cluster.yaml in a simulated AWS account: closed to the world, its workers bought on spot where that is granted,
else on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.ec2.models import amis
from moto.iam import models as iam
from ray.autoscaler._private.providers import _get_node_provider
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.support.project import ROOT
from tune_cl.ray.aws import SpotFirst

pytestmark = pytest.mark.slow
FILE = (ROOT / "cluster.yaml").read_text(encoding="utf-8")
IMAGE = "ami-12c6146b"
POLICIES = ("AmazonEC2FullAccess", "AmazonS3FullAccess")  # of those that AWS has, what Ray gives the head
TAGS = {"ray-node-type": "worker", "ray-user-node-type": "gpu", "ray-node-name": "ray-tune-cl-worker"}
NO_CAPACITY = "InsufficientInstanceCapacity"


@pytest.fixture(scope="module")
def ec2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """EC2 of an empty account, simulated on this machine; Ray's key pair goes to a home of its own."""
    every = json.loads(iam.aws_managed_policies_data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            patch.setenv(key, "testing")
        patch.setattr("ray.autoscaler._private.aws.config.time.sleep", lambda seconds: None)
        patch.setenv("MOTO_AMIS_PATH", "")  # moto would make 1,300 images in each region, in seconds
        patch.setattr(amis, "AMIS", [image for image in amis.AMIS if image["ami_id"] == IMAGE])
        patch.setattr(iam, "aws_managed_policies_data", json.dumps({name: every[name] for name in POLICIES}))
        with mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
            yield boto3.resource("ec2", region_name=yaml.safe_load(FILE)["provider"]["region"])


def resolved(text: str) -> dict[str, Any]:
    """A cluster file as `ray up` resolves it."""
    prepared = prepare_config(yaml.safe_load(text) | {"file_mounts": {}})
    validate_config(prepared)
    return SpotFirst.bootstrap_config(prepared)


@pytest.fixture(scope="module")
def filled_in(ec2: Any) -> str:
    """The file, with the group that docs/how-to/cluster.md makes: SSH from one address, anything from within."""
    group = ec2.create_security_group(GroupName="own", Description="own", VpcId=next(iter(ec2.vpcs.all())).id)
    group.authorize_ingress(IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="203.0.113.7/32")
    within = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group.id}]}]
    group.authorize_ingress(IpPermissions=within)
    return FILE.replace("sg-REPLACE", group.id).replace("ami-REPLACE", IMAGE).replace("fs-REPLACE", "fs-1234")


def test_the_file_starts_a_cluster_that_is_closed_to_the_world(ec2: Any, filled_in: str) -> None:
    """Without a group of one's own Ray opens port 22 to everybody."""
    ready = resolved(filled_in)
    for node in [kind["node_config"] for kind in ready["available_node_types"].values()]:
        assert node["SecurityGroupIds"][0] in filled_in and node["SubnetIds"] and node["KeyName"]
    assert "Arn" in ready["head_node"]["IamInstanceProfile"]
    assert list(ec2.instances.all()) == []
    rules = [rule for group in ec2.security_groups.all() for rule in group.ip_permissions]
    assert rules and not {one["CidrIp"] for rule in rules for one in rule["IpRanges"]} & {"0.0.0.0/0", "::/0"}


class Market:
    """EC2 that grants `spot` instances on spot, or else refuses; on demand it grants all, or without `demand` none."""

    def __init__(self, ec2: Any, filled_in: str):
        self.create, self.asked = ec2.create_instances, []
        config = resolved(filled_in)
        self.kinds = {name: kind["node_config"] for name, kind in config["available_node_types"].items()}
        self.provider = _get_node_provider(config["provider"], "tune-cl", use_cache=False)
        self.provider.ec2_fail_fast = self

    def start(self, spot: int, error: str, demand: bool = True, **node: Any) -> dict[str, Any]:
        """What Ray's autoscaler gets for three nodes."""
        self.spot, self.error, self.demand = spot, error, demand
        return self.provider.create_node_with_resources_and_labels(self.kinds["gpu"] | node, TAGS, 3, {}, {})

    def create_instances(self, **request: Any) -> list[Any]:
        wanted, kind = request["MaxCount"], request.get("InstanceMarketOptions", {}).get("MarketType", "on demand")
        self.asked.append((kind, wanted))
        granted = min(wanted, self.spot) if kind == "spot" else wanted * self.demand
        if not granted:
            raise ClientError({"Error": {"Code": self.error, "Message": "no"}}, "RunInstances")
        return self.create(**request | {"MinCount": granted, "MaxCount": granted})


@pytest.fixture
def market(ec2: Any, filled_in: str) -> Market:
    return Market(ec2, filled_in)


@pytest.mark.parametrize(("spot", "why"), [(0, NO_CAPACITY), (0, "Unsupported"), (2, "fewer than asked for"), (3, "")])
def test_spot_that_is_refused_is_started_on_demand(
    spot: int, why: str, market: Market, ec2: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert type(market.provider) is SpotFirst, "the file names it"
    made = market.start(spot, why)
    assert market.asked[0] == ("spot", 3) and market.asked.count(("on demand", 3 - spot)) == (spot < 3)
    tags = [{tag["Key"]: tag["Value"] for tag in ec2.Instance(key).tags} for key in made]
    assert [tag["Name"] for tag in tags] == [TAGS["ray-node-name"]] * 3
    said = f"AWS granted {spot} of 3 g6.2xlarge on spot ({why}); starting {3 - spot} on demand"
    assert "".join(capfd.readouterr()).count(said) == (spot < 3)
