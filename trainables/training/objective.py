"""A training that is a user's own function, seen as any other: iterations, states, and per-query values of a split."""

from __future__ import annotations

import math
import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from trainables.config.function import Objective
from trainables.config.objective import ObjectiveRun
from trainables.core.errors import ConfigError, Problem, UserError, WorkFailed, last_line
from trainables.evaluation.metrics import dev_key
from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import write_per_query
from trainables.loops.curriculum import Curriculum
from trainables.training.calls import Call, Ended
from trainables.training.checkpoint import STATE, write_folder, write_json
from trainables.training.progress import Progress

SECONDS = "seconds"  # of an iteration; measured here
CHECKPOINT = "checkpoint"  # the folder of what `save_ranker` writes
CURRICULUM_KEYS = ("pacing", "n", "stages", "delta", "T", "final_share", "m", "anti")
VALUES = TypeAdapter(dict[str, float])  # of a metric by query
Values = Mapping[str, float]
Choices = Any  # an array, or a mapping from names to arrays


@dataclass(frozen=True)
class PreparedObjective:
    """What trainings by a function share.

    data_digest    of the files that it is said to read; '' if none are named
    by_query_on    the split on which values by query are wanted of the best iteration, if any: it needs a checkpoint
                   then, or on dev a report by query
    """

    objective: Objective
    data_digest: str = ""
    by_query_on: str | None = None

    @property
    def digest(self) -> str:
        return f"{self.objective.name}+{self.data_digest}"


class Report(NamedTuple):
    """One iteration, as the function reported it. `queries`: dev values of the metric by query, if given."""

    metrics: dict[str, float]
    queries: dict[str, float]
    checkpoint: Path | None


class ObjectiveTrial:
    """What a training function gets beside its configuration.

    seed        of this training
    checkpoint  folder to go on from, as an earlier report gave it; None: start at the beginning
    iteration   how many iterations were reported up to that checkpoint; 0 without one, and where a split is asked for
    split       None: train. Else the function is asked for its values on this split: it loads `checkpoint`, the one of
                its best iteration, and returns {query id: value of the metric}
    """

    def __init__(
        self,
        run: ObjectiveRun,
        report: Callable[[Report], None],
        checkpoint: Path | None = None,
        iteration: int = 0,
        split: str | None = None,
    ):
        self.seed, self.checkpoint, self.iteration, self.split = run.seed, checkpoint, iteration, split
        self._run, self._report = run, report

    def curriculum(self, difficulty: Choices, total_steps: int, ease: Choices = None) -> Curriculum:
        """The curriculum of this configuration: `tune_cl.Curriculum` with its `curriculum.*` keys and seed.

        difficulty   array [I], higher = harder; or {name: array}, of which `curriculum.scoring` names one
        total_steps  batches of the whole training
        ease         for other values of `curriculum.weighting` than none and difficulty: array [I] in [0, 1], or
                     {name: array}, of which it names one

        Raises ConfigError for a name that is not there.
        """
        keys = self._run.curriculum
        options = {key: getattr(keys, key) for key in CURRICULUM_KEYS}
        if keys.weighting in ("none", "difficulty"):
            options["weighting"] = keys.weighting
        else:
            options["ease"] = _named_array(ease, keys.weighting, "curriculum.weighting")
        if isinstance(difficulty, Mapping) and not keys.reads_scoring:
            difficulty = next(iter(difficulty.values()))
        order = _named_array(difficulty, keys.scoring, "curriculum.scoring")
        return Curriculum(order, total_steps, seed=self.seed, **options)

    def report(self, metrics: float | Mapping[str, float | Values], checkpoint: str | Path | None = None) -> None:
        """Reports an iteration: the dev value of the search's metric (higher = better), alone or by its name with any
        others under their own.

        The metric may be {query id: value}: its mean counts. `checkpoint`: a folder from which the function could go
        on; it is copied before this returns. Does not return where the training is to end: it raises TrainingEnded,
        which is no Exception. Raises ConfigError for a report that is wrong.
        """
        self._report(checked_report(metrics, checkpoint, self._run.metric))


def _named_array(choices: Choices, name: str, key: str) -> Any:
    """The array of that name, or the only one."""
    if not isinstance(choices, Mapping):
        if choices is None:
            raise ConfigError(Problem(key, f"the function gives no array for '{name}'", "curriculum(..., ease=...)"))
        return choices
    if name not in choices:
        raise ConfigError(Problem(key, f"the function has none that is named '{name}'", f"one of {', '.join(choices)}"))
    return choices[name]


def checked_report(metrics: Any, checkpoint: str | Path | None, metric: str) -> Report:
    """Raises ConfigError for what is not a report of the metric, WorkFailed for a dev value that is not finite."""
    metrics = dict(metrics) if isinstance(metrics, Mapping) else {metric: metrics}
    folder = None if checkpoint is None else Path(checkpoint)
    wrong = None
    if metric not in metrics:
        wrong = f"{', '.join(metrics) or 'nothing'} and not '{metric}'", f"'{metric}' among them"
    elif own := metrics.keys() & {SECONDS, dev_key(metric)}:
        wrong = f"'{own.pop()}' is a name of tune-cl's own", "another name"
    elif folder is not None and not folder.is_dir():
        wrong = f"there is no folder {folder}", "a folder that the function wrote"
    if wrong:
        raise ConfigError(Problem("report", *wrong))
    dev, queries = metrics.pop(metric), {}
    try:
        if isinstance(dev, Mapping):
            queries = VALUES.validate_python({str(query): value for query, value in dev.items()})
            dev = np.mean(list(queries.values()))
        numbers = VALUES.validate_python({metric: dev, **metrics})
    except ValidationError as error:
        names = ", ".join(str(one["loc"][0]) for one in error.errors())
        raise ConfigError(Problem("report", f"not a number: {names}", "numbers by name")) from None
    numbers[dev_key(metric)] = dev = numbers.pop(metric)
    if not math.isfinite(dev):
        raise WorkFailed(f"report: {metric} is {dev}, not a finite number")
    return Report(numbers, queries, folder)


class ObjectiveTraining(Progress):
    """A training by a function. The function is called in a thread, and waits between its reports (`Call`).

    Of its checkpoints, the last one and that of the best iteration are kept, in copies. A training that resumes calls
    the function again, with the last checkpoint; of iterations that it repeats, because they were reported after that,
    the first report counts.
    """

    run: ObjectiveRun

    def __init__(self, run: ObjectiveRun, prepared: PreparedObjective):
        super().__init__(prepared.digest)
        self.run, self.prepared = run, prepared
        self.function, self.name = prepared.objective.required(), prepared.objective.name
        self.last = 0  # the iteration of the last checkpoint; 0: there is none
        self.best_checkpoint = 0  # that of the best iteration; 0: it has none
        self.best_queries: dict[str, float] = {}
        self.returned = False
        self._applied: Path | None = None  # the folder of `restore_ranker`
        self._scratch = TemporaryDirectory(prefix="tune_cl-objective-", ignore_cleanup_errors=True)
        self._call: Call[Report] | None = None
        self._next = 0  # the iteration that the function reports next

    @property
    def finished(self) -> bool:
        return self.returned or super().finished

    def iterate(self) -> dict[str, float]:
        """Lets the function go on until it reports an iteration that is new. Where it returns instead, the training is
        finished, and the last metrics are returned again. Raises FunctionFailed for whatever the function raises."""
        if self._call is None:
            self._next, folder = self.last, self._folder(self.last) if self.last else None
            self._call = self._called(checkpoint=folder, iteration=self.last)
        started = time.perf_counter()
        while isinstance(report := _answer(self._call), Report):
            self._next += 1
            if self._next > self.iteration:
                return self._add_report(report, time.perf_counter() - started)
        self.returned = True
        if not self.history:
            raise WorkFailed(f"{self.name} returned without a report")
        return self.history[-1]

    def _called(self, **options: Any) -> Call[Report]:
        """The function, which begins once its first report is asked for."""
        return Call(lambda report: self.function(self.run.config(), ObjectiveTrial(self.run, report, **options)))

    def _add_report(self, report: Report, seconds: float) -> dict[str, float]:
        number, metrics = self._next, report.metrics | {SECONDS: seconds}
        if report.checkpoint:
            shutil.copytree(report.checkpoint, self._folder(number))
            self.last = number
        if metrics[dev_key(self.run.metric)] > self.best_value:
            self.best_iteration, self.best_queries = number, report.queries
            self.best_checkpoint = number if report.checkpoint else 0
            split = self.prepared.by_query_on
            if split and not report.checkpoint and not (split == "dev" and report.queries):
                raise self._no_checkpoint(split)
        self.dev_values = np.array([report.queries[query] for query in sorted(report.queries)])
        self.history.append(metrics)
        for folder in Path(self._scratch.name).iterdir():
            if folder not in self._checkpoints:
                shutil.rmtree(folder)
        return metrics

    def _no_checkpoint(self, split: str) -> WorkFailed:
        return WorkFailed(
            f"{self.name} reported iteration {self.best_iteration}, its best on dev, without a checkpoint: "
            f"report(metrics, checkpoint=FOLDER) is what is applied to the {split} queries"
        )

    def close(self) -> None:
        """Ends the function, which waits in its last report."""
        if self._call is not None:
            self._call.close()
            self._call = None

    # -- its checkpoints -----------------------------------------------------------------------------------------

    def _folder(self, iteration: int) -> Path:
        return Path(self._scratch.name, f"checkpoint-{iteration:05d}")

    @property
    def _checkpoints(self) -> list[Path]:
        return [self._folder(iteration) for iteration in {self.last, self.best_checkpoint} - {0}]

    def save(self, folder: Path) -> None:
        for source in self._checkpoints:
            shutil.copytree(source, folder / source.name)
        write_json(folder / STATE, self.document())

    def document(self) -> dict[str, Any]:
        progress = {"last": self.last, "best_checkpoint": self.best_checkpoint, "returned": self.returned}
        return super().document() | progress | {"best_queries": self.best_queries}

    def load(self, folder: Path) -> None:
        state = self.restore_progress(folder)
        self.last, self.best_checkpoint, self.returned = state["last"], state["best_checkpoint"], state["returned"]
        self.best_queries = state["best_queries"]
        for target in self._checkpoints:
            shutil.copytree(folder / target.name, target)

    # -- what is trained -----------------------------------------------------------------------------------------

    @property
    def has_ranker(self) -> bool:
        return self.best_checkpoint > 0

    def save_ranker(self, folder: Path) -> None:
        """Copies the checkpoint of the best iteration, which must have one."""
        self.close()
        best = self._folder(self.best_checkpoint)
        write_folder(folder, lambda temporary: shutil.copytree(best, temporary / CHECKPOINT))

    def restore_ranker(self, folder: Path) -> None:
        """The checkpoint is copied when the function is called with it."""
        self._applied = folder / CHECKPOINT
        if not self._applied.is_dir():
            raise FileNotFoundError(self._applied)

    def apply(self, split: str, folder: Path) -> tuple[dict[str, np.ndarray], Path]:
        """Calls the function with the split and a copy of the checkpoint that `restore_ranker` took. Without one, dev
        has the values that the best iteration reported; of a mean alone no file is written."""
        self.close()
        path, metric = values_file(folder, split), self.run.metric
        if self._applied is None and split != "dev":
            raise self._no_checkpoint(split)
        values = self._values_of(split, self._applied) if self._applied else self.best_queries
        if not values:
            return {metric: np.array([self.best_value])}, path
        ids = sorted(values)
        columns = {metric: np.array([values[query] for query in ids])}
        write_per_query(path, ids, columns)
        return columns, path

    def _values_of(self, split: str, checkpoint: Path) -> dict[str, float]:
        """What the function returns for a split. Raises WorkFailed for what is not {query id: value} of two queries or
        more."""
        with TemporaryDirectory(prefix="tune_cl-objective-") as scratch:
            copy = shutil.copytree(checkpoint, Path(scratch, CHECKPOINT))  # the function may write there
            call = self._called(checkpoint=copy, split=split)
            answer = _answer(call)
            call.close()
        returns = "where trial.split is set, it returns {query id: value of the metric}, for two queries or more"
        if isinstance(answer, Report):
            raise WorkFailed(f"{self.name} trains where it is asked for '{split}': {returns}")
        try:
            values = VALUES.validate_python({str(query): value for query, value in answer.value.items()})
        except (AttributeError, ValidationError):
            raise WorkFailed(f"{self.name} returned {str(answer.value)[:80]} for '{split}': {returns}") from None
        if len(values) < 2:
            raise WorkFailed(f"{self.name} returned {len(values)} values for '{split}': {returns}")
        return values


def _answer(call: Call[Report]) -> Report | Ended:
    """What the function reports or comes to. Raises FunctionFailed for what it raised."""
    answer = call.next()
    if isinstance(answer, Ended) and answer.error is not None:
        raise FunctionFailed(answer.error)
    return answer


class FunctionFailed(WorkFailed):
    """What a user's function raised. `trace`: the traceback, of the function's own frames."""

    def __init__(self, error: BaseException):
        in_our_words = isinstance(error, UserError | WorkFailed)  # whose text says it all
        last = last_line(error) if isinstance(error, Exception) else str(error)
        super().__init__(str(error) if in_our_words else f"{type(error).__name__}: {last}")
        self.trace = "".join(traceback.format_exception(error))
