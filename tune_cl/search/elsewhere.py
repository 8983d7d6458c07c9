"""Computes what all trials share, which may take a GPU hours, on the cluster that the trials run on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from trainables.errors import UserError, WorkFailed, last_line
from trainables.prose import say
from trainables.training.device import Compute, take
from tune_cl.ray_session import ray_session
from tune_cl.search.config import Resources
from tune_cl.search.places import Room, first_ended


def on_cluster(address: str, resources: Resources) -> Compute:
    """Runs functions as tasks with a trial's resources, each in a session of its own: cached results need none.

    Raises the function's own UserError or WorkFailed, and WorkFailed for anything else.
    """

    def compute(function: Callable[..., Any], *arguments: Any) -> Any:
        name = function.__name__.replace("_", " ")
        print(f"{name}: computed on the cluster, which all trials wait for", file=sys.stderr, flush=True)
        with ray_session(address):
            task = ray.remote(num_cpus=resources.cpu, num_gpus=resources.gpu)(_task)
            try:
                started = task.remote(function, arguments, resources.threads, resources.gpu)
                return ray.get(first_ended([started], Room(resources, say)))
            except RayError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, UserError | WorkFailed):
                    raise cause from None
                raise WorkFailed(f"{name}: {last_line(error)}") from error

    return compute


def _task(function: Callable[..., Any], arguments: tuple[Any, ...], threads: int, gpu: float) -> Any:
    take(threads, gpu)
    return function(*arguments)
