"""A ranking that needs no training, from start to end: `tune_cl.baseline` and `tune-cl baseline`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trainables.baselines import load_baseline
from trainables.baselines.lexical import Baseline, Params
from trainables.baselines.ranking import grid_best, rank
from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError, Problem
from trainables.core.files import output_file, require_file
from trainables.core.prose import say
from trainables.data import load_data
from trainables.data.columns import SPLITS, RankingData, Split, required_split
from trainables.evaluation.metrics import ACCURACY, METRICS
from trainables.evaluation.per_query import Accuracy, write_predictions
from trainables.evaluation.reported import split_values
from trainables.evaluation.trec_files import write_run
from tune_cl.command_options import Options, option
from tune_cl.experiment.load import Overrides, load_training_run, parse_overrides

Setting = Literal["default", "tuned", "optimized_on_test"]
CHOSEN_ON = {"tuned": "dev", "optimized_on_test": "test"}


@dataclass(frozen=True, kw_only=True)
class BaselineRequest(Options):
    """The options of `tune-cl baseline`, of the baseline of a name."""

    name: str
    split: str = option("test", "whose queries are ranked", choices=SPLITS)
    tune: bool = option(False, "the best parameters of a grid on dev")
    optimize_on_test: bool = option(
        False, "the best parameters of the grid on test: an upper bound, not a fair baseline"
    )
    retrieve: bool = option(False, "rank the whole collection in place of the candidates")
    output: Path | None = option(None, "run file (default: BASELINE.SETTING.SPLIT.run.txt)")

    def setting(self, kind: type[Baseline]) -> Setting:
        """Raises ConfigError for options that exclude each other."""
        problems, tunes, flag = [], self.tune and bool(kind.grid), "--optimize-on-test"
        if self.optimize_on_test and not kind.grid:
            problems.append(Problem(flag, f"{self.name} has no parameters to tune", f"leave {flag} out"))
        if self.optimize_on_test and self.tune:
            problems.append(Problem(flag, "beside --tune", "one of the two"))
        if self.optimize_on_test and self.split != "test":
            problems.append(Problem(flag, f"reports test, not {self.split}", "leave --split out"))
        if self.retrieve and not kind.retrieves:
            problems.append(Problem("--retrieve", f"{self.name} ranks candidates only", "leave --retrieve out"))
        if problems:
            raise ConfigError(problems)
        if tunes and self.split == "dev":
            say("note: --tune used dev itself: its dev values are a bound, not a fair baseline")
        return "tuned" if tunes else "optimized_on_test" if self.optimize_on_test else "default"


@dataclass(frozen=True)
class Chosen:
    """What was chosen from a grid by `metric`: its value there, and the number of points."""

    metric: str
    value: float
    points: int


@dataclass(frozen=True)
class BaselineRun:
    """A split as a baseline ranks it.

    metrics          means over the queries
    params           all parameters
    setting          default, tuned (on dev) or optimized_on_test
    queries          how many were ranked
    ranked           candidates, collection, or pairs (which are classified)
    chosen           how the parameters were chosen; None for the default ones
    run_file         the TREC run, or the predictions of pairs; None if none was asked for
    data, of, scores what was ranked: the split with its candidates, and their scores, float64 [C]
    """

    metrics: Mapping[str, float]
    params: Params
    setting: Setting
    split: str
    queries: int
    ranked: str
    chosen: Chosen | None
    seconds: float
    run_file: Path | None
    data: RankingData
    of: Split
    scores: np.ndarray

    @cached_property
    def run(self) -> dict[str, dict[str, float]]:
        """{query: {document: score}}, as `tune_cl.evaluate` takes it."""
        found: dict[str, dict[str, float]] = {}
        rows = zip(self.of.query[self.of.owner].tolist(), self.of.document.tolist(), self.scores.tolist(), strict=True)
        for query, document, score in rows:
            found.setdefault(self.data.query_ids[query], {})[self.data.document_ids[document]] = score
        return found

    @property
    def document(self) -> dict[str, Any]:
        """That of `tune-cl baseline --json`."""
        kept = ("params", "setting", "split", "queries", "ranked", "seconds")
        return {
            "metrics": {**self.metrics},
            "run_file": self.run_file and str(self.run_file),
            "chosen": self.chosen and vars(self.chosen),
            **{name: getattr(self, name) for name in kept},
        }


def rank_baseline(request: BaselineRequest, data: str | Path | None, overrides: Overrides, writes: bool) -> BaselineRun:
    """Ranks a split of the data, or classifies its pairs. `writes`: whether to write the run, to `output` or a file
    that is named after the baseline. Raises ConfigError or DataError for what cannot be done."""
    kind = load_baseline(request.name)
    setting = request.setting(kind)
    ranking = _output(request.output, f"{request.name}.{setting}.{request.split}.run.txt", writes)
    run = load_training_run(None, overrides, data, kind.ranker)
    started = time.perf_counter()
    baseline = _prepared(kind, run, request, setting)
    if request.tune and setting == "default" and baseline.data.task == "ranking":
        say(f"note: nothing to tune: {request.name} has no parameters to tune")
    _note_idle(kind, setting, overrides)
    if baseline.data.task == "classification":
        predictions = _output(request.output, f"{request.name}.tuned.{request.split}.predictions.tsv", writes)
        return _classified(baseline, request, predictions, started)
    return _ranked(baseline, request, setting, ranking, started)


def _output(given: Path | None, otherwise: str, writes: bool) -> Path | None:
    """The file to write: the given one, else one of that name. Raises ConfigError if it cannot be a file."""
    path = given or (Path(otherwise) if writes else None)
    if path:
        require_file("--output", path)
    return path


def _note_idle(kind: type[Baseline], setting: Setting, overrides: Overrides) -> None:
    read = ("data.", "evaluation.", *(() if setting == "default" else ("metric",)))
    read += ("ranker.",) if kind.ranker else ()
    if idle := [key for key in parse_overrides(overrides) if not key.startswith(read)]:
        say(f"note: without effect on this baseline: {', '.join(idle)}")


def _prepared(kind: type[Baseline], run: TrainingRun, request: BaselineRequest, setting: Setting) -> Baseline:
    """The baseline over its data."""
    data = None if request.retrieve else load_data(run.data, run.evaluation.relevance_level)
    collection = data is None or (data.retrieved and kind.retrieves)
    if data is None or collection:
        data = load_data(run.data.model_copy(update={"candidates": "qrels"}), run.evaluation.relevance_level)
    on_dev = setting == "tuned" or data.task == "classification"
    splits = list(dict.fromkeys(["dev", request.split] if on_dev else [request.split]))
    for name in splits:
        required_split(data, name)
    for note in [] if collection else data.notes:
        say(f"note: {note}")
    return kind(data, run, splits, collection)


def _ranked(
    baseline: Baseline, request: BaselineRequest, setting: Setting, output: Path | None, started: float
) -> BaselineRun:
    run, tuned = baseline.run, None
    if chosen_on := CHOSEN_ON.get(setting):
        say(f"trying {len(baseline.grid)} settings on {chosen_on}")
        tuned = grid_best(baseline, chosen_on)
    params = tuned.params if tuned else baseline.defaults()
    split, scores = rank(baseline, request.split, params)
    data = baseline.data
    values = split_values(split, data, scores, METRICS, run.evaluation.relevance_level)
    if output:
        with output_file(output) as file:
            write_run(file, split, data, scores, request.name)
    return BaselineRun(
        metrics={name: float(column.mean()) for name, column in values.items()},
        params=params,
        setting=setting,
        split=request.split,
        queries=len(split),
        ranked="collection" if baseline.collection else "candidates",
        chosen=tuned and Chosen(run.metric, tuned.value, tuned.points),
        seconds=time.perf_counter() - started,
        run_file=output,
        data=data,
        of=split,
        scores=scores,
    )


def _classified(baseline: Baseline, request: BaselineRequest, output: Path | None, started: float) -> BaselineRun:
    """Pairs classified by the threshold that is best on dev."""
    from trainables.baselines.word_embeddings import best_threshold

    data, params = baseline.data, baseline.defaults()
    dev, split = data.splits["dev"], data.splits[request.split]
    on_dev, scores = baseline.scorer(dev)(params), baseline.scorer(split)(params)
    threshold, sides = best_threshold(on_dev, dev.grade, len(data.classes))
    logits = np.log(sides + 1.0)[(scores >= threshold).astype(int)]
    if output:
        with output_file(output) as file:
            write_predictions(file, split, data, logits)
    return BaselineRun(
        metrics={ACCURACY: float(Accuracy(split)(logits)[ACCURACY].mean())},
        params=params | {"threshold": threshold},
        setting="tuned",
        split=request.split,
        queries=len(split),
        ranked="pairs",
        chosen=Chosen(ACCURACY, float(sides.max(1).sum() / len(dev)), len(np.unique(on_dev))),
        seconds=time.perf_counter() - started,
        run_file=output,
        data=data,
        of=split,
        scores=scores,
    )
