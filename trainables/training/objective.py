"""A training that is a user's own function, seen as any other: iterations, states, and per-query values of a split."""

from __future__ import annotations

import math
import os
import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np

from trainables.config.function import Objective
from trainables.config.objective import ObjectiveRun
from trainables.core.errors import ConfigError, Problem, UserError, WorkFailed, last_line
from trainables.core.prose import counted
from trainables.evaluation.metrics import dev_key
from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import write_per_query
from trainables.loops.curriculum import Curriculum
from trainables.training.calls import Call, Ended
from trainables.training.checkpoint import require_whole, seal, write_folder, write_json
from trainables.training.progress import STATE, Progress

SECONDS = "seconds"  # of an iteration; measured here
CHECKPOINT = "checkpoint"  # the folder of what `save_ranker` writes
CLOSE = 1e-9  # two values of one iteration that differ by more, relative to them, are not of the same training
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
        return f"{self.objective.digest}+{self.data_digest}"


@dataclass(frozen=True)
class Report:
    """One iteration, as the function reported it. `queries`: dev values of the metric by query, if given."""

    metrics: dict[str, float]
    queries: dict[str, float] | None
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
        schedule = {
            key: getattr(keys, key) for key in ("pacing", "n", "stages", "delta", "T", "final_share", "m", "anti")
        }
        named = keys.weighting not in ("none", "difficulty")
        return Curriculum(
            _array_of(difficulty, keys.scoring, "curriculum.scoring", keys.reads_scoring),
            total_steps,
            weighting="none" if named else keys.weighting,
            ease=_array_of(ease, keys.weighting, "curriculum.weighting", True) if named else None,
            seed=self.seed,
            **schedule,
        )

    def report(self, metrics: Mapping[str, float | Values], checkpoint: str | Path | None = None) -> None:
        """Reports an iteration: the dev value of the search's metric (higher = better) and any others, under their own
        names.

        The metric may be {query id: value}: its mean counts. `checkpoint`: a folder from which the function could go
        on; it is copied before this returns. Does not return where the training is to end: it raises TrainingEnded,
        which is no Exception. Raises ConfigError for a report that is wrong.
        """
        self._report(checked_report(metrics, checkpoint, self._run.metric))


def _array_of(choices: Choices, name: str, key: str, needed: bool) -> Any:
    """The array of that name, or the only one."""
    if not isinstance(choices, Mapping):
        if choices is None:
            raise ConfigError(Problem(key, f"the function gives no array for '{name}'", "curriculum(..., ease=...)"))
        return choices
    if name in choices:
        return choices[name]
    if needed:
        raise ConfigError(Problem(key, f"the function has none that is named '{name}'", f"one of {', '.join(choices)}"))
    return next(iter(choices.values()))


def checked_report(metrics: Mapping[str, float | Values], checkpoint: str | Path | None, metric: str) -> Report:
    """Raises ConfigError for what is not a report of the metric."""
    problems = []
    value = metrics.get(metric)
    if value is None:
        right = f"'{metric}' among them, or metric: the name of one of them"
        problems.append(Problem("report", f"reports {', '.join(metrics) or 'nothing'} and not '{metric}'", right))
    queries = {str(query): float(one) for query, one in value.items()} if isinstance(value, Mapping) else None
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None and not folder.is_dir():
        problems.append(
            Problem("report", f"there is no folder {folder}", "checkpoint: a folder that the function wrote")
        )
    others = {name: one for name, one in metrics.items() if name != metric}
    if not queries and value is not None and not _is_number(value):
        problems.append(Problem("report", f"'{metric}' is not a number", "a number, or {query id: number}"))
    problems += _problems_of(others, {SECONDS, dev_key(metric)})
    if problems:
        raise ConfigError(problems)
    dev = float(np.mean(list(queries.values())) if queries else cast(float, value))
    if not math.isfinite(dev):
        raise WorkFailed(f"report: {metric} is {dev}, not a finite number")
    return Report(
        {dev_key(metric): dev, **{name: float(cast(float, one)) for name, one in others.items()}}, queries, folder
    )


def _problems_of(others: Mapping[str, Any], ours: set[str]) -> list[Problem]:
    problems = []
    for name, value in others.items():
        if name in ours:
            problems.append(Problem("report", f"'{name}' is a name of tune-cl's own", "another name"))
        elif not _is_number(value):
            problems.append(Problem("report", f"'{name}' is not a number ({type(value).__name__})", "a number"))
    return problems


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


class ObjectiveTraining(Progress):
    """A training by a function. The function is called in a thread, and waits between its reports (`Call`).

    Of its checkpoints, the last one and that of the best iteration are kept, in copies. A training that resumes calls
    the function again, with the last checkpoint; iterations that it repeats because they were reported after that are
    compared with what was reported then, and count once.
    """

    run: ObjectiveRun

    def __init__(self, run: ObjectiveRun, prepared: PreparedObjective):
        super().__init__(prepared.digest)
        self.run, self.prepared = run, prepared
        self.function = prepared.objective.required()
        self.last = 0  # the iteration of the last checkpoint; 0: there is none
        self.best_checkpoint = 0  # that of the best iteration; 0: it has none
        self.best_queries: dict[str, float] | None = None
        self.returned = False
        self._applied: Path | None = None  # the folder of `restore_ranker`
        self._scratch = TemporaryDirectory(prefix="tune_cl-objective-", ignore_cleanup_errors=True)
        self._call: Call[Report] | None = None
        self._next = 0  # the iteration that the function reports next

    @property
    def finished(self) -> bool:
        return self.returned or super().finished

    # -- one iteration -------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """Lets the function go on until it reports an iteration that is new. Where it returns instead, the training is
        finished, and the last metrics are returned again. Raises WorkFailed for whatever the function raises."""
        call = self._call = self._call or self._called()
        started = time.perf_counter()
        while isinstance(report := self._answer(call), Report):
            self._next += 1
            if self._next > self.iteration:
                return self._add_report(report, time.perf_counter() - started)
            self._compare(report)
        self.returned = True
        if not self.history:
            raise WorkFailed(f"{self.prepared.objective.name} returned without a report")
        return self.history[-1]

    def _called(self) -> Call[Report]:
        self._next = self.last
        folder = self._folder(self.last) if self.last else None

        def call(report: Callable[[Report], None]) -> Any:
            return self.function(self.run.config(), ObjectiveTrial(self.run, report, folder, self.last))

        return Call(call)

    def _answer(self, call: Call[Report]) -> Report | Ended:
        """Raises FunctionFailed for what the function raised."""
        answer = call.next()
        if isinstance(answer, Ended) and answer.error is not None:
            raise FunctionFailed(answer.error)
        return answer

    def _add_report(self, report: Report, seconds: float) -> dict[str, float]:
        number, metrics = self._next, report.metrics | {SECONDS: seconds}
        if report.checkpoint:
            shutil.copytree(report.checkpoint, self._folder(number))
            self.last = number
        value = metrics[dev_key(self.run.metric)]
        if value > self.best_value:
            self.best_iteration, self.best_queries = number, report.queries
            self.best_checkpoint = number if report.checkpoint else 0
            self._require_values(report, number)
        self.dev_values = np.array(
            [report.queries[query] for query in sorted(report.queries)] if report.queries else []
        )
        self.history.append(metrics)
        self._delete_older()
        return metrics

    def _require_values(self, best: Report, number: int) -> None:
        """Raises WorkFailed if a new best iteration leaves nothing to get the values by query from."""
        split = self.prepared.by_query_on
        if split is None or best.checkpoint or (split == "dev" and best.queries):
            return
        raise WorkFailed(self._no_checkpoint(number, split))

    def _no_checkpoint(self, iteration: int, split: str) -> str:
        reported = "values by query, or " if split == "dev" else ""
        return (
            f"{self.prepared.objective.name} reported iteration {iteration}, its best on dev, without {reported}a "
            f"checkpoint: report(metrics, checkpoint=FOLDER) is what is applied to the {split} queries"
        )

    def _compare(self, report: Report) -> None:
        """Notes an iteration that came out otherwise than before the stop. What was reported first counts."""
        key = dev_key(self.run.metric)
        before, now = self.history[self._next - 1][key], report.metrics[key]
        if abs(before - now) > CLOSE * max(abs(before), abs(now)) and not self.notes:
            self.notes.append(
                f"iteration {self._next} gave {self.run.metric} {now:.6g} again after a stop, and {before:.6g} before "
                "it: the function does not depend on config and seed alone, or its checkpoints lack something"
            )

    # -- its checkpoints -----------------------------------------------------------------------------------------

    def _folder(self, iteration: int) -> Path:
        return Path(self._scratch.name) / _name(iteration)

    @property
    def _needed(self) -> set[int]:
        return {self.last, self.best_checkpoint} - {0}

    def _delete_older(self) -> None:
        for folder in Path(self._scratch.name).iterdir():
            if folder.name not in map(_name, self._needed):
                shutil.rmtree(folder)

    def snapshot(self) -> Callable[[Path], None]:
        """Links to the copied checkpoints, which nobody changes, stay until they are written."""
        copies = TemporaryDirectory(prefix="tune_cl-objective-", ignore_cleanup_errors=True)
        for iteration in self._needed:
            target = Path(copies.name) / _name(iteration)
            shutil.copytree(self._folder(iteration), target, copy_function=os.link)
        document = self.document()

        def write(folder: Path) -> None:
            with copies:
                shutil.copytree(copies.name, folder, dirs_exist_ok=True)
            write_json(folder / STATE, document)
            seal(folder)

        return write

    def document(self) -> dict[str, Any]:
        progress = {"last": self.last, "best_checkpoint": self.best_checkpoint, "returned": self.returned}
        return super().document() | progress | {"best_queries": self.best_queries}

    def load(self, folder: Path) -> None:
        state = self.restore_progress(folder)
        self.last, self.best_checkpoint, self.returned = state["last"], state["best_checkpoint"], state["returned"]
        self.best_queries = state["best_queries"]
        for iteration in self._needed:
            shutil.copytree(folder / _name(iteration), self._folder(iteration))

    # -- what is trained -----------------------------------------------------------------------------------------

    @property
    def has_ranker(self) -> bool:
        return self.best_checkpoint > 0

    def save_ranker(self, folder: Path) -> None:
        """Copies the checkpoint of the best iteration, which must have one."""
        self.close()

        def write(temporary: Path) -> None:
            shutil.copytree(self._folder(self.best_checkpoint), temporary / CHECKPOINT)
            seal(temporary)

        write_folder(folder, write)

    def restore_ranker(self, folder: Path) -> None:
        """The checkpoint is copied when the function is called with it."""
        require_whole(folder)
        self._applied = folder / CHECKPOINT
        if not self._applied.is_dir():
            raise FileNotFoundError(self._applied)

    def apply(self, split: str, folder: Path) -> tuple[dict[str, np.ndarray], Path]:
        """Calls the function with the split and a copy of the checkpoint that `restore_ranker` took. Without one, dev
        has the values that the best iteration reported; of a mean alone no file is written."""
        self.close()
        path = values_file(folder, split)
        values = self._values_of(split, self._applied) if self._applied else self._reported_on(split)
        if not values:
            return {self.run.metric: np.array([self.best_value])}, path
        ids = sorted(values)
        columns = {self.run.metric: np.array([values[query] for query in ids])}
        write_per_query(path, ids, columns)
        return columns, path

    def _reported_on(self, split: str) -> dict[str, float]:
        """The values by query of the best iteration; none if it reported their mean. Raises WorkFailed for another
        split than dev."""
        if split != "dev":
            raise WorkFailed(self._no_checkpoint(self.best_iteration, split))
        return self.best_queries or {}

    def _values_of(self, split: str, checkpoint: Path) -> dict[str, float]:
        """What the function returns for a split."""
        name = self.prepared.objective.name
        with TemporaryDirectory(prefix="tune_cl-objective-") as scratch:
            scratch_folder = Path(scratch) / CHECKPOINT  # the function may write there
            shutil.copytree(checkpoint, scratch_folder)
            call = Call(partial(self._asked, split, scratch_folder))
            answer = self._answer(call)
            call.close()
        if isinstance(answer, Report):
            raise WorkFailed(
                f"{name} trains where it is asked for '{split}': where trial.split is set, it returns values"
            )
        return _values_by_query(answer.value, name, split)

    def _asked(self, split: str, checkpoint: Path, report: Callable[[Report], None]) -> Any:
        trial = ObjectiveTrial(self.run, report, checkpoint=checkpoint, split=split)
        return self.function(self.run.config(), trial)

    def close(self) -> None:
        """Ends the function, which waits in its last report."""
        if self._call is not None:
            self._call.close()
            self._call = None


class FunctionFailed(WorkFailed):
    """What a user's function raised. `trace`: the traceback, of the function's own frames."""

    def __init__(self, error: BaseException):
        in_our_words = isinstance(error, UserError | WorkFailed)  # whose text says it all
        last = last_line(error) if isinstance(error, Exception) else str(error)
        super().__init__(str(error) if in_our_words else f"{type(error).__name__}: {last}")
        self.trace = "".join(traceback.format_exception(error))


def _name(iteration: int) -> str:
    return f"checkpoint-{iteration:05d}"


def _values_by_query(answer: Any, name: str, split: str) -> dict[str, float]:
    """Raises WorkFailed for an answer that is not {query id: value} of two queries or more."""
    if not isinstance(answer, Mapping):
        raise WorkFailed(
            f"{name} returned {type(answer).__name__} for '{split}': where trial.split is set, it returns "
            "{query id: value of the metric}"
        )
    if len(answer) < 2:
        raise WorkFailed(
            f"{name} returned {counted(len(answer), 'query')} for '{split}': a paired test takes two or more"
        )
    if odd := [query for query, value in answer.items() if not _is_number(value) or "\t" in str(query)]:
        raise WorkFailed(
            f"{name} returned no number for {counted(len(odd), 'query')} of '{split}', the first {odd[0]!r}"
        )
    return {str(query): float(value) for query, value in answer.items()}
