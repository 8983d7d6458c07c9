"""The cluster files, and an AWS account simulated on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws
from moto.ec2.models import amis
from moto.iam import models as iam

from tests.support.project import ROOT

Config = dict[str, Any]
IMAGE = "ami-12c6146b"
POLICIES = ("AmazonEC2FullAccess", "AmazonS3FullAccess")  # of those that AWS has, what Ray gives the head


def read(name: str) -> Config:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """EC2 of an empty account, simulated on this machine; Ray's key pair goes to a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(key, "testing")
    monkeypatch.setattr("ray.autoscaler._private.aws.config.time.sleep", lambda seconds: None)
    monkeypatch.setenv("MOTO_AMIS_PATH", "")  # moto would make 1,300 images in each region, in seconds
    monkeypatch.setattr(amis, "AMIS", [image for image in amis.AMIS if image["ami_id"] == IMAGE])
    every = json.loads(iam.aws_managed_policies_data)
    monkeypatch.setattr(iam, "aws_managed_policies_data", json.dumps({name: every[name] for name in POLICIES}))
    with mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
        yield boto3.resource("ec2", region_name=read("cluster.yaml")["provider"]["region"])


def own_group(ec2: Any) -> str:
    """The security group that docs/how-to/cluster.md makes: SSH from one address, anything from within."""
    vpc = next(iter(ec2.vpcs.all()))
    group = ec2.create_security_group(GroupName="tune-cl", Description="tune_cl", VpcId=vpc.id)
    group.authorize_ingress(IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="203.0.113.7/32")
    within = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group.id}]}]
    group.authorize_ingress(IpPermissions=within)
    return group.id


def filled_in(config: Config, group: str) -> Config:
    """The cluster file, filled in as a user does it."""
    text = yaml.safe_dump(config).replace("sg-REPLACE", group).replace("ami-REPLACE", IMAGE)
    return yaml.safe_load(text.replace("fs-REPLACE", "fs-1234"))
