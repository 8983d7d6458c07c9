"""AWS nodes for `ray up`: on spot where AWS has it, else on demand (`provider.module` in cluster.yaml).

Ray's autoscaler cannot do this with two node types: of a type that AWS refuses it asks for the same again, for ever.
Ray loads this module on the machine of `ray up` and on the head; nothing else of tune_cl does, for it needs boto3.
"""

from __future__ import annotations

from typing import Any

from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
from ray.autoscaler._private.cli_logger import cli_logger
from ray.autoscaler.node_launch_exception import NodeLaunchException

MARKET = "InstanceMarketOptions"
# What EC2 says of spot alone. Not VcpuLimitExceeded and InstanceLimitExceeded, the quotas on demand: the second attempt
# would break the same. Nor what is wrong with the request or the account, which must be seen.
REFUSALS = {
    "InsufficientInstanceCapacity",  # in this zone, now
    "UnfulfillableCapacity",  # the same, said of requests for spot
    "SpotMaxPriceTooLow",
    "MaxSpotInstanceCountExceeded",  # the quota of spot, which is 0 for GPUs in many new accounts
    # A zone without the instance type. Ray tries zones in turn and tells the last one's error only: the others may have
    # had no capacity. If it is no zone's, the same comes back on demand, and is raised.
    "Unsupported",
}


class SpotFirst(AWSNodeProvider):
    """Ray's provider; what spot does not grant of a request is started on demand at once."""

    def _create_node(self, node_config: dict[str, Any], tags: dict[str, str], count: int) -> dict[str, Any]:
        if node_config.get(MARKET, {}).get("MarketType") != "spot":
            return super()._create_node(node_config, tags, count)
        made, why = {}, "fewer than asked for"  # Ray's request is for 1 at least
        try:
            made = super()._create_node(node_config, tags, count)
        except NodeLaunchException as refused:
            if refused.category not in REFUSALS:
                raise
            why = refused.category
        missing = count - len(made)
        if not missing:
            return made
        message = "AWS granted {} of {} {} on spot ({}); starting {} on demand"
        cli_logger.warning(message, len(made), count, node_config["InstanceType"], why, missing)
        on_demand = {key: value for key, value in node_config.items() if key != MARKET}
        return {**made, **super()._create_node(on_demand, tags, missing)}
