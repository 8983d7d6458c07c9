"""What MLflow holds of a search, and a store of MLflow in memory that fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlflow.entities import Metric

from tune_cl.tracking.mlflow_store import Refused, RunStore

PARENT = "mlflow.parentRunId"


@dataclass
class Run:
    """`points`: metric, step, value as text (of NaN, none is as another) and time. `files`: at the top."""

    name: str
    tags: dict[str, str]
    start: int
    end: int | None = None
    status: str = "RUNNING"
    params: dict[str, str] = field(default_factory=dict)
    points: set[tuple[str, int, str, int]] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    data: dict[str, str] = field(default_factory=dict)

    def metric(self, name: str) -> list[tuple[int, float]]:
        return sorted((step, float(value)) for key, step, value, _ in self.points if key == name)


def by_name(runs: Mapping[str, Run]) -> dict[str, Run]:
    """The runs with the tags that tune_cl promises, and the parent's name for its id. Fails where a run is there twice,
    or a step of a metric."""
    found: dict[str, Run] = {}
    for run in runs.values():
        assert run.name not in found, f"a run twice: {run.name}"
        steps = {(metric, step) for metric, step, _, _ in run.points}
        assert len(steps) == len(run.points), f"a step twice: {sorted(run.points)}"
        tags = {key.removeprefix("tune_cl."): value for key, value in run.tags.items() if key.startswith("tune_cl.")}
        parent = {"parent": runs[run.tags[PARENT]].name} if PARENT in run.tags else {}
        found[run.name] = replace(run, tags=tags | parent)
    return found


class Memory(RunStore):
    """Keeps runs in memory, and one of identical points, as MLflow's stores do. `calls`: the methods that were called.
    A call whose number or method is in `fails` takes effect, and raises TimeoutError. `loses`: how many of the next
    points that it takes it does not keep. `spend`: what each call does besides."""

    remote = True

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.deleted: dict[str, Run] = {}
        self.calls: list[str] = []
        self.copied: list[Path] = []
        self.fails: Collection[str | int] = ()
        self.loses = 0
        self.spend: Callable[[], None] = lambda: None

    def done(self, method: str) -> None:
        self.calls.append(method)
        self.spend()
        if method in self.fails or len(self.calls) in self.fails:
            raise TimeoutError("away")

    def named(self, start: str) -> Run:
        [run] = [run for run in self.runs.values() if run.name.startswith(start)]
        return run

    def live(self, run: str) -> Run:
        if run in self.deleted:
            raise Refused("it is deleted")
        return self.runs[run]

    def experiment(self, name: str) -> str:
        self.done("experiment")
        return f"of {name}"

    def tag_experiment(self, experiment: str, key: str, value: str) -> None:
        self.view = (key, value)
        self.done("tag_experiment")

    def exists(self, run: str) -> bool:
        return run in self.runs

    def tagged(self, experiment: str, tag: str, value: str) -> list[Any]:
        return [
            SimpleNamespace(
                info=SimpleNamespace(run_id=key), data=SimpleNamespace(tags=run.tags, metrics=[*run.points])
            )
            for key, run in self.runs.items() if run.tags.get(tag) == value
        ]  # fmt: skip

    def create(self, experiment: str, name: str, tags: Mapping[str, str], start: int) -> str:
        key = f"r{len(self.runs) + len(self.deleted)}"
        self.runs[key] = Run(name, dict(tags), start)
        self.done("create")
        return key

    def log_params(self, run: str, params: Mapping[str, str]) -> None:
        self.live(run).params.update(params)
        self.done("log_params")

    def log_tags(self, run: str, tags: Mapping[str, str]) -> None:
        self.live(run).tags.update(tags)
        self.done("log_tags")

    def log_data(self, run: str, fields: Mapping[str, str]) -> None:
        self.live(run).data = dict(fields)
        self.done("log_data")

    def log_metrics(self, run: str, metrics: Sequence[Metric]) -> None:
        lost, self.loses = min(self.loses, len(metrics)), max(0, self.loses - len(metrics))
        points = {(point.key, point.step, repr(point.value), point.timestamp) for point in metrics[lost:]}
        self.live(run).points |= points
        self.done("log_metrics")

    def steps(self, run: str, metric: str) -> set[int]:
        return {step for step, _ in self.live(run).metric(metric)}

    def log_artifact(self, run: str, path: Path, folder: str | None) -> None:
        inside = {one.name for one in path.iterdir()} if path.is_dir() else {path.name}
        self.live(run).files |= {folder} if folder else inside
        self.copied.append(path)
        self.done("log_artifact")

    def set_status(self, run: str, status: str) -> None:
        self.live(run).status = status
        self.done("set_status")

    def finish(self, run: str, status: str, end: int) -> None:
        self.live(run).status, self.live(run).end = status, end
        self.done("finish")

    def delete(self, run: str) -> None:
        self.deleted[run] = self.runs.pop(run)
