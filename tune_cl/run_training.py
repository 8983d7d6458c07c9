"""One training from start to end, without a search: `tune_cl.train` and `tune-cl train`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import yaml

from trainables.config.keys import NEEDS, TrainingRun, without_effect
from trainables.core.errors import ConfigError, Problem
from trainables.core.files import write_text
from trainables.core.plugins import sources_of
from trainables.core.prose import say
from trainables.core.validation import with_needs
from trainables.data.columns import required_split
from trainables.evaluation.metrics import dev_key
from tune_cl.history.search_folder import DEFAULT_STORAGE
from tune_cl.model_card import Facts, write_card
from tune_cl.process import stop_if_asked
from tune_cl.space.space import Flat

if TYPE_CHECKING:
    from trainables.training.factory import RankerTraining
    from trainables.training.prepared import PreparedData


STATES = "state"  # folder within the output
RANKER = "ranker"  # likewise, of the trained ranker
CONFIG = "config.yaml"  # the complete configuration, in the output


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """The fields of `tune-cl train --json`.

    dev, dev_best       the metric on dev after each iteration, and its best value
    best_iteration      the iteration (from 1) that reached it
    test                all metrics on test; None if the training was not asked to read it
    run_file            the ranking of dev, or of test if that was asked for, as a TREC run; of classes, predictions
    checkpoint          the folder of the ranker with the best weights
    samples_per_second  mean over the iterations
    """

    metric: str
    dev: list[float]
    dev_best: float
    best_iteration: int
    test: dict[str, float] | None
    run_file: Path
    checkpoint: Path
    samples_per_second: float

    @property
    def document(self) -> dict[str, Any]:
        """For --json."""
        facts = {one.name: getattr(self, one.name) for one in fields(TrainingFacts)}
        facts |= {"run_file": str(self.run_file), "checkpoint": str(self.checkpoint)}
        return {name: value for name, value in facts.items() if name != "test" or value is not None}


def train_and_rank(run: TrainingRun, output: Path, overrides: Flat, test: bool) -> TrainingFacts:
    """Trains, or goes on from the last saved iteration, then ranks dev by the best weights or, with `test`, the test
    split, and evaluates that. `overrides`: the keys that the user gave one by one, for a note on those without
    effect."""
    from trainables.training.factory import training_notes  # imports torch: input first
    from trainables.training.prepared import prepare

    prepared = prepare(run)
    if test:
        required_split(prepared.data, "test")
    notes = [*unused(run, overrides), *prepared.data.notes, *training_notes(run, prepared)]
    training = _new_or_resumed(run, prepared, output, notes.append)
    for note in notes:  # printed only now that all input has been accepted
        say(f"note: {note}")
    say(training.machine)
    stop_if_asked()
    _train(training, output)
    return _finish(training, output, "test" if test else "dev")


def unused(run: TrainingRun, overrides: Flat) -> list[str]:
    """A note on the keys that the user gives but this training does not read."""
    idle = without_effect(overrides, run.in_force())
    return [f"without effect on this training: {with_needs(idle, NEEDS)}"] if idle else []


def default_output(run: TrainingRun) -> Path:
    """A folder that only this configuration trains in, with the plug-ins as they are."""
    content = "".join([run.model_dump_json(), *sources_of(run.model_dump())])
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Path(DEFAULT_STORAGE) / f"train-{run.ranker.name}-{digest[:8]}"


def _new_or_resumed(
    run: TrainingRun, prepared: PreparedData, output: Path, say: Callable[[str], None]
) -> RankerTraining:
    """A training that continues from the last saved state, if there is a sound one.

    Raises ConfigError if `output` holds a training of another configuration, or of other data or vectors.
    """
    from trainables.training.checkpoint import latest_iteration, read_json, write_json
    from trainables.training.factory import make_training
    from trainables.training.prepared import changed_files, files_of
    from trainables.training.saves import resumed_or_new

    read, files = output / "files.json", files_of([run])
    if latest := latest_iteration(output / STATES):
        recorded = read_json(read) if read.exists() else {}
        if not _fits(run, prepared, latest) or changed_files(files, recorded):
            raise ConfigError(
                Problem(
                    "--output",
                    f"{output} contains another training: of other keys, data or vectors",
                    "another folder, or remove that one",
                )
            )
    elif files or read.exists():  # left by a training that ended before its first state
        write_json(read, files)
    return resumed_or_new(lambda: make_training(run, prepared), output / STATES, say)


def _fits(run: TrainingRun, prepared: PreparedData, state: Path) -> bool:
    """Whether a state is of this training; a damaged one is too, since no training can continue from it."""
    from trainables.training.progress import is_of
    from trainables.training.saves import DAMAGED

    try:
        return is_of(state, run, prepared.digest)
    except DAMAGED:
        return True


def _train(training: RankerTraining, output: Path) -> None:
    """Trains to the end, saving states."""
    from trainables.training.saves import iterations

    if training.iteration:
        state = "this training had ended" if training.finished else "going on"
        say(f"{state} after iteration {training.iteration}")
    if not training.finished:
        say("*: the best dev value so far; open: the fraction of the training data in use")
    for metrics in iterations(training, output / STATES):
        for note in training.pop_notes():
            say(f"note: {note}")
        say(_progress(training, metrics))
        stop_if_asked()


def _progress(training: RankerTraining, metrics: dict[str, float]) -> str:
    metric = training.run.metric
    star = " *" if training.best_iteration == training.iteration else ""
    return (
        f"iteration {training.iteration}/{training.run.training.max_iterations}: "
        f"dev {metric} {metrics[dev_key(metric)]:.4f}{star}, loss {metrics['train_loss']:.4f}, "
        f"open {metrics['available_share']:.0%}, {metrics['samples_per_second']:.0f} pairs/s"
    )


def _finish(training: RankerTraining, output: Path, name: str) -> TrainingFacts:
    """Ranks the split `name` by the best weights, once, and saves the run and the ranker."""
    from trainables.evaluation.per_query import evaluator_of, scores_file, write_scores
    from trainables.training.trainer import test_metrics

    run = training.run
    training.save_ranker(output / RANKER)
    data, scores = training.ranked(name)
    split = data.splits[name]
    run_file = scores_file(output, name, data)
    write_scores(run_file, split, data, scores, run.ranker.name)
    tested = test_metrics(run, training.prepared, split, scores) if name == "test" else None
    write_text(output / CONFIG, yaml.safe_dump(run.model_dump(), sort_keys=False))
    dev = training.best_value
    if not training.has_best:  # it was not trained
        ranked, of_dev = training.ranked("dev")
        dev = training.evaluate(of_dev, evaluator_of(ranked, ranked.splits["dev"], run.evaluation.relevance_level))
    write_card(output / RANKER, Facts(run, data, dev, training.best_iteration, output / CONFIG, tested))
    return TrainingFacts(
        metric=run.metric,
        dev=[row[dev_key(run.metric)] for row in training.history],
        dev_best=dev,
        best_iteration=training.best_iteration,
        test=tested,
        run_file=run_file,
        checkpoint=output / RANKER,
        samples_per_second=fmean(row["samples_per_second"] for row in training.history) if training.history else 0.0,
    )
