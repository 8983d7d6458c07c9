"""One training from start to end, without a search and without Ray: `tune_cl.train` and `tune-cl train`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import yaml

from trainables.config.keys import NEEDS, TrainingConfig, without_effect
from trainables.core.errors import ConfigError, Interrupted, Problem
from trainables.core.files import require_folder, write_text
from trainables.core.plugins import Names, load_plugins, sources_of
from trainables.core.prose import say
from trainables.core.validation import with_needs
from trainables.data import require_source
from trainables.data.columns import required_split
from trainables.data.forms.frames import Data, as_source
from trainables.evaluation.metrics import dev_key
from trainables.rankers.hub import require_model
from trainables.rankers.settings import TINY
from tune_cl.api.rankers import Ranker, load_ranker
from tune_cl.api.session import working
from tune_cl.experiment.load import Overrides, SpaceSource, load_training_run, parse_overrides
from tune_cl.experiment.paths import absolute
from tune_cl.history.search_folder import DEFAULT_STORAGE
from tune_cl.model_card import Facts, write_card
from tune_cl.process import stop_if_asked
from tune_cl.results import Result
from tune_cl.space.space import Flat

if TYPE_CHECKING:
    from trainables.training.factory import RankerTraining
    from trainables.training.prepared import PreparedData

STATES = "state"  # folder within the output
RANKER = "ranker"  # likewise, of the trained ranker
CONFIG = "config.yaml"  # the complete configuration, in the output


class Training(Result):
    """A training that has ended.

    folder              of its ranker, run and state
    dev, dev_best       the metric on dev after each iteration, and its best value
    best_iteration      the iteration (from 1) that reached it
    test                all metrics on test; None if the training was not asked to read it
    run_file            the ranking of dev, or of test if that was asked for, as a TREC run; of classes, predictions
    checkpoint          the folder of the ranker with the best weights
    samples_per_second  mean over the iterations
    """

    folder: Path
    metric: str
    dev: tuple[float, ...]
    dev_best: float
    best_iteration: int
    test: dict[str, float] | None
    run_file: Path
    checkpoint: Path
    samples_per_second: float

    @property
    def ranker(self) -> Ranker:
        """The ranker with the weights that were best on dev."""
        return load_ranker(self.checkpoint)


def train(
    space: SpaceSource | None = None,
    data: Data = None,
    ranker: str | None = None,
    overrides: Overrides | None = None,
    output: str | Path | None = None,
    progress: bool = True,
    plugins: Names = (),
    test: bool = False,
) -> Training:
    """One training, no search, no Ray.

        tune-cl train --data ../data/wikiqa --ranker conv_knrm
        tune-cl train --data docstrings --ranker bert --set curriculum.pacing=root --output root

    The same call again continues a training that was stopped, from the last saved iteration.

    space      the configuration to start from: a shipped space, a YAML file, in Python also a mapping; ranges give the
               baseline's values
    data       docstrings, ir_datasets:NAME, hf:NAME, or a folder in one of the formats of tune-cl list data; in Python
               also tables
    ranker     see tune-cl list rankers
    overrides  configuration keys with values or ranges (VALUE is YAML), repeatable
    output     folder for the ranker, its run and its state; by default one for each configuration
    progress   False: nothing is printed
    plugins    files and modules with parts of one's own, one or several
    test       evaluate the best weights on test, which is not read otherwise

    Raises ConfigError or DataError before the training begins, WorkFailed if the loss is no longer a number,
    Interrupted (a KeyboardInterrupt) when stopped.
    """
    load_plugins(plugins)
    overridden = parse_overrides(overrides or {})
    with working(progress):
        run = load_training_run(space, overridden, as_source(data), ranker)
        require_source(run.data.source)
        require_model(run.ranker)
        folder = default_output(run) if output is None else Path(output).expanduser()
        source = absolute("data.source", run.data.source)  # so that the ranker finds its data from any folder
        run = run.model_copy(update={"data": run.data.model_copy(update={"source": source})})
        require_folder("--output", folder)
        ranked = "test" if test else "dev"
        try:
            training = _started(run, overridden, folder, ranked)
            _train(training, folder)
            return _finished(training, folder, ranked)
        except KeyboardInterrupt:
            raise Interrupted("", call="the same call of tune_cl.train") from None


def default_output(run: TrainingConfig) -> Path:
    """A folder that only this configuration trains in, with the plug-ins as they are."""
    content = "".join([run.model_dump_json(), *sources_of(run.model_dump())])
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Path(DEFAULT_STORAGE) / f"train-{run.ranker.name}-{digest[:8]}"


def _started(run: TrainingConfig, overridden: Flat, output: Path, ranked: str) -> RankerTraining:
    """The training, which continues from the last saved state, if there is a sound one. `ranked`: the split that is
    ranked at the end. Raises ConfigError if `output` holds another training."""
    from trainables.training.checkpoint import latest_iteration  # these import torch: input first
    from trainables.training.factory import make_training, training_notes
    from trainables.training.prepared import prepare
    from trainables.training.saves import resumed_or_new

    prepared = prepare(run)
    required_split(prepared.data, ranked)
    notes = [*unused(run, overridden), *prepared.data.notes, *training_notes(run, prepared), *untrained(run)]
    _require_own(run, prepared, output, latest_iteration(output / STATES))
    training = resumed_or_new(lambda: make_training(run, prepared), output / STATES, notes.append)
    for note in notes:  # printed only now that all input has been accepted
        say(f"note: {note}")
    say(training.machine)
    stop_if_asked()
    return training


def unused(run: TrainingConfig, overridden: Flat) -> list[str]:
    """A note on the keys that the user gives but this training does not read."""
    idle = without_effect(overridden, run.in_force())
    return [f"without effect on this training: {with_needs(idle, NEEDS)}"] if idle else []


def untrained(run: TrainingConfig) -> list[str]:
    """A note where the model begins with random weights although its kind of ranker is known for pretrained ones."""
    if getattr(run.ranker, "model", None) != TINY:
        return []
    pretrained = "--set ranker.model=NAME (of the hub, or a folder) starts from a pretrained model"
    return [f"{run.ranker.name} is model {TINY}: two layers with random weights; {pretrained}"]


def _require_own(run: TrainingConfig, prepared: PreparedData, output: Path, state: Path | None) -> None:
    """Raises ConfigError if the state is of another training. A damaged state passes: no training continues from it."""
    from trainables.training.checkpoint import read_json, write_json
    from trainables.training.prepared import changed_files, files_of
    from trainables.training.progress import is_of, read_state
    from trainables.training.saves import DAMAGED

    read, files = output / "files.json", files_of([run])
    if state is None:
        if files or read.exists():
            write_json(read, files)
        return
    try:
        own = is_of(read_state(state), run, prepared.digest)
    except DAMAGED:
        own = True
    if not own or changed_files(files, read_json(read) if read.exists() else {}):
        wrong = f"{output} contains another training: of other keys, data or vectors"
        raise ConfigError(Problem("--output", wrong, "another folder, or remove that one"))


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


def _finished(training: RankerTraining, output: Path, name: str) -> Training:
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
    return Training(
        folder=output,
        metric=run.metric,
        dev=tuple(row[dev_key(run.metric)] for row in training.history),
        dev_best=dev,
        best_iteration=training.best_iteration,
        test=tested,
        run_file=run_file,
        checkpoint=output / RANKER,
        samples_per_second=fmean(row["samples_per_second"] for row in training.history) if training.history else 0.0,
    )
