"""AWS nodes for `ray up`: spot where AWS has it, else on demand (`provider.module` in cluster.yaml).

Defect: with two node types Ray's autoscaler asks for the same type again, for ever, when AWS refuses it. Ray loads this
module on the machine of `ray up` and on the head; nothing else in tune_cl imports it, because it needs boto3.
Test: test_spot_that_is_refused_is_started_on_demand.
"""

from __future__ import annotations

from typing import Any

from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
from ray.autoscaler._private.cli_logger import cli_logger
from ray.autoscaler.node_launch_exception import NodeLaunchException

MARKET = "InstanceMarketOptions"
# Errors of EC2 that concern spot alone: not VcpuLimitExceeded and InstanceLimitExceeded, the quotas on demand, which
# the second attempt would exceed too; nor errors of the request or the account, which the user must see.
REFUSALS = {
    "InsufficientInstanceCapacity",  # in this zone, now
    "UnfulfillableCapacity",  # the same, for requests for spot
    "SpotMaxPriceTooLow",
    "MaxSpotInstanceCountExceeded",  # the spot quota, which is 0 for GPUs in many new accounts
    # A zone without the instance type. Ray tries zones in turn and reports only the last one's error; the others may
    # have lacked capacity. If no zone has the type, the attempt on demand raises the same error.
    "Unsupported",
}


class SpotFirst(AWSNodeProvider):
    """Ray's provider, except that nodes which spot does not grant are started on demand at once."""

    def _create_node(self, node_config: dict[str, Any], tags: dict[str, str], count: int) -> dict[str, Any]:
        if node_config.get(MARKET, {}).get("MarketType") != "spot":
            return super()._create_node(node_config, tags, count)
        created, why = {}, "fewer than asked for"  # Ray accepts any number from 1
        try:
            created = super()._create_node(node_config, tags, count)
        except NodeLaunchException as refused:
            if refused.category not in REFUSALS:
                raise
            why = refused.category
        missing = count - len(created)
        if not missing:
            return created
        message = "AWS granted {} of {} {} on spot ({}); starting {} on demand"
        cli_logger.warning(message, len(created), count, node_config["InstanceType"], why, missing)
        on_demand = {key: value for key, value in node_config.items() if key != MARKET}
        return {**created, **super()._create_node(on_demand, tags, missing)}
