"""What all trials of a search share and a GPU may take hours for, computed on the cluster that the trials run on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from trainables.errors import UserError, WorkFailed
from trainables.training.device import Compute, take
from tune_cl.ray_session import ray_session
from tune_cl.search.config import Resources


def on_cluster(address: str, resources: Resources) -> Compute:
    """Runs a function as a task with a trial's resources, in a session of its own: what the cache holds needs none.

    Raises what the function raises of our errors, WorkFailed for anything else.
    """

    def compute(function: Callable[..., Any], *arguments: Any) -> Any:
        name = function.__name__.replace("_", " ")
        print(f"{name}: computed on the cluster, which all trials wait for", file=sys.stderr, flush=True)
        with ray_session(address):
            task = ray.remote(num_cpus=resources.cpu, num_gpus=resources.gpu)(_task)
            try:
                return ray.get(task.remote(function, arguments, max(1, int(resources.cpu)), resources.gpu))
            except RayError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, UserError | WorkFailed):
                    raise cause from None
                raise WorkFailed(f"{name}: {str(error).strip().splitlines()[-1]}") from error

    return compute


def _task(function: Callable[..., Any], arguments: tuple[Any, ...], threads: int, gpu: float) -> Any:
    take(threads, gpu)
    return function(*arguments)
