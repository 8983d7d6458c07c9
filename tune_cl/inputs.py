"""What the trainings of a search read, and the files that its trials leave: one class for each kind of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from trainables.baselines.doubts import doubts
from trainables.baselines.label_free import NOTHING, label_free
from trainables.config.keys import TrainingConfig
from trainables.config.objective import OBJECTIVE, AnyRun
from trainables.core.cache import digest_of
from trainables.core.errors import DamagedCheckpoint, DataError, Problem
from trainables.core.files import write_text
from trainables.core.storage import fetched
from trainables.data import load_data
from trainables.data.clusters import cluster_notes, query_clusters
from trainables.data.columns import required_split
from trainables.data.combine import with_retrieved
from trainables.evaluation.per_query import SplitEvaluator, evaluator_of, values_file, write_evaluated
from trainables.evaluation.trec_files import write_per_query
from trainables.training.checkpoint import BEST, best_scores, load_tensors
from trainables.training.device import here
from trainables.training.factory import AnyPrepared, make_training, training_notes, write_best_ranker
from trainables.training.objective import PreparedObjective
from trainables.training.prepared import PreparedData, prepared_for, prepared_key
from trainables.training.progress import read_state
from trainables.training.saves import DAMAGED
from tune_cl.experiment.experiment import Experiment, base_ranker
from tune_cl.history.state import Dev
from tune_cl.model_card import Facts, write_card
from tune_cl.ray.functions import require_sendable
from tune_cl.ray.shared_data import completed, fingerprint, on_cluster, require_unchanged, untrained
from tune_cl.search_result import BEST_RANKER, CONFIG


@contextmanager
def reading(checkpoint: str | Path) -> Iterator[None]:
    """Turns the errors of reading a damaged checkpoint into DamagedCheckpoint."""
    try:
        yield
    except DAMAGED as error:
        raise DamagedCheckpoint(f"{checkpoint} is damaged ({error})") from error


class Artifacts:
    """Writes trials' files to `folder`/TRIAL. A checkpoint is a folder or an address; raises DamagedCheckpoint
    before anything is written."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __call__(self, trial: str, checkpoint: str | Path, run: AnyRun) -> Path:
        """Writes a trial's files from its checkpoint; returns their folder."""
        folder = self.folder / trial
        self.write(folder, checkpoint, run)
        write_text(folder / CONFIG, yaml.safe_dump(run.model_dump(), sort_keys=False))
        return folder

    def write(self, folder: Path, checkpoint: str | Path, run: AnyRun) -> None:
        """Writes what the trial's best iteration gave on dev."""
        raise NotImplementedError

    def ranker(self, checkpoint: str | Path, run: AnyRun) -> Path | None:
        """Saves what a trial's best iteration has trained; returns its folder, or None if there is nothing."""
        raise NotImplementedError

    def describe(self, ranker: Path, trial: str, best: Dev, run: AnyRun, label_free: Mapping[str, Any]) -> None:
        """Writes a card for what `ranker` saved. `label_free`: what needs no training labels, on dev."""
        return


class RankerArtifacts(Artifacts):
    """`prepared`: by prepared_key."""

    def __init__(self, folder: Path, prepared: Mapping[str, PreparedData]):
        super().__init__(folder)
        self.prepared = prepared
        self._evaluators: dict[int, SplitEvaluator] = {}  # of dev, by relevance level: slow to make

    def write(self, folder: Path, checkpoint: str | Path, run: AnyRun) -> None:
        if not isinstance(run, TrainingConfig):
            raise TypeError("not a ranker's training")
        data = next(iter(self.prepared.values())).data  # that of all; the text side may have to be made first
        with reading(checkpoint), fetched(checkpoint) as saved:
            scores, documents = best_scores(saved)
        level = run.evaluation.relevance_level
        if documents is not None:
            data = with_retrieved(data, "dev", documents, scores)
            evaluator = evaluator_of(data, data.splits["dev"], level, run.metric)
        elif level in self._evaluators:
            evaluator = self._evaluators[level]
        else:
            evaluator = self._evaluators[level] = evaluator_of(data, data.splits["dev"], level, run.metric)
        write_evaluated(folder, "dev", data, scores, folder.name, evaluator)

    def ranker(self, checkpoint: str | Path, run: AnyRun) -> Path:
        """The best weights, as a ranker for `tune-cl rerank`."""
        if not isinstance(run, TrainingConfig):
            raise TypeError("not a ranker's training")
        folder, prepared = self.folder / BEST_RANKER, prepared_for(run, self.prepared)
        if run.reads == "features":
            return self._of_state(checkpoint, run, prepared, folder)
        with reading(checkpoint), fetched(checkpoint) as saved:
            weights = load_tensors(saved, BEST)
        write_best_ranker(run, prepared, weights, folder)
        return folder

    def _of_state(self, checkpoint: str | Path, run: TrainingConfig, prepared: PreparedData, folder: Path) -> Path:
        training = make_training(run, prepared)
        with reading(checkpoint), fetched(checkpoint) as saved:
            training.load(saved)
        training.save_ranker(folder)
        return folder

    def describe(self, ranker: Path, trial: str, best: Dev, run: AnyRun, label_free: Mapping[str, Any]) -> None:
        data = next(iter(self.prepared.values())).data
        if isinstance(run, TrainingConfig):
            config = self.folder / trial / CONFIG
            write_card(ranker, Facts(run, data, best.dev, best.iteration, config, label_free=label_free))


class ObjectiveArtifacts(Artifacts):
    def __init__(self, folder: Path, prepared: PreparedObjective):
        super().__init__(folder)
        self.prepared = prepared

    def write(self, folder: Path, checkpoint: str | Path, run: AnyRun) -> None:
        """The dev values of the best iteration, if the function reported them by query."""
        with reading(checkpoint), fetched(checkpoint) as saved:
            values = read_state(saved)["best_queries"]
        if values:
            ids = sorted(values)
            columns = {run.metric: np.array([values[query] for query in ids])}
            write_per_query(values_file(folder, "dev"), ids, columns)

    def ranker(self, checkpoint: str | Path, run: AnyRun) -> Path | None:
        """The checkpoint of the best iteration; None if it has none."""
        training = make_training(run, self.prepared)
        with reading(checkpoint), fetched(checkpoint) as saved:
            if not read_state(saved)["best_checkpoint"]:
                return None
            training.load(saved)
        training.save_ranker(self.folder / BEST_RANKER)
        return self.folder / BEST_RANKER


class Inputs:
    """What the trainings of a search share: here the user's function. Its data is its own; `data.source` may name a
    file or folder, of which a digest is taken.

    Raises DataError or ConfigError, when made, for whatever a training would find wrong with it.
    """

    by_key: Mapping[str, AnyPrepared]

    def __init__(self, experiment: Experiment, judged_on: str | None):
        self.experiment = experiment
        objective = experiment.objective
        if objective is None:
            raise TypeError("the experiment trains rankers")
        require_sendable(objective)
        self.source = experiment.base.run.data.source
        self.prepared = PreparedObjective(objective, digest_of_source(self.source), judged_on)
        self.by_key = {OBJECTIVE: self.prepared}

    def fingerprint(self) -> dict[str, Any]:
        """What the journal records, and `require_unchanged` compares."""
        return {"name": self.source or "its own data", "digest": self.prepared.data_digest}

    def require_unchanged(self, recorded: Mapping[str, Any]) -> None:
        """Raises DataError if anything has changed since the search began. `recorded`: its fingerprint then."""
        require_unchanged(self.fingerprint(), recorded)

    def artifacts(self, folder: Path) -> Artifacts:
        """What writes the trials' files."""
        return ObjectiveArtifacts(folder, self.prepared)

    def complete(self, address: str | None, new_noise: bool = False) -> None:
        """Adds what takes training, on the cluster at `address` or here. `new_noise`: trainings draw their label noise
        by their seeds."""
        return

    def clusters(self, split: str) -> dict[str, int] | None:
        """The cluster of each query of a split, where some queries are near-duplicates; None if none are known."""
        return None

    def draw_noise(self, runs: Sequence[AnyRun]) -> None:
        """Adds the data of trainings whose label noise is drawn anew."""
        return

    def notes(self) -> list[str]:
        """What the user should know about the data."""
        return []

    def warnings(self) -> list[str]:
        """What speaks against the data."""
        return []

    def label_free(self, split: str, chosen: str | None = None) -> dict[str, Any]:
        """What needs no training labels, on a split (`trainables.baselines.label_free`)."""
        return NOTHING

    def require_queries(self, split: str) -> None:
        """Raises DataError if a split is too small for a test, as far as that is known before the trainings."""
        return


class RankerInputs(Inputs):
    """Data and text sides, by prepared_key."""

    def __init__(self, experiment: Experiment, judged_on: str | None):
        self.experiment, self.confirms = experiment, judged_on is not None
        self.by_key: dict[str, PreparedData] = untrained(experiment)

    @property
    def first(self) -> PreparedData:
        return next(iter(self.by_key.values()))

    def fingerprint(self) -> dict[str, Any]:
        return fingerprint(self.experiment, self.by_key)

    def artifacts(self, folder: Path) -> Artifacts:
        return RankerArtifacts(folder, self.by_key)

    def complete(self, address: str | None, new_noise: bool = False) -> None:
        """Adds each ranker's pre-trained start and the search's one teacher. In a confirmation the first training of a
        seed trains the teacher of that seed, unless one is fixed and learns from the same labels."""
        fixed = base_ranker(self.experiment).curriculum.teacher.seed != "training"
        later = self.confirms and (new_noise or not fixed)
        compute = on_cluster(address, self.experiment.search.resources) if address else here
        self.by_key = completed(self.experiment, self.by_key, compute, later)

    def clusters(self, split: str) -> dict[str, int] | None:
        return query_clusters(self.first.data, split, base_ranker(self.experiment).data.query_clusters)

    def draw_noise(self, runs: Sequence[AnyRun]) -> None:
        """Adds the data of trainings with noise of their own: the same texts under other training labels."""
        for run in runs:
            if isinstance(run, TrainingConfig) and prepared_key(run) not in self.by_key:
                same_texts = run.model_copy(update={"data": base_ranker(self.experiment).data})
                shared = prepared_for(same_texts, self.by_key)
                self.by_key[prepared_key(run)] = replace(
                    shared, data=load_data(run.data, run.evaluation.relevance_level)
                )

    def notes(self) -> list[str]:
        run, data = base_ranker(self.experiment), self.first.data
        alike = cluster_notes(data, run.data.query_clusters)
        return [*data.notes, *alike, *training_notes(run, self.first)]

    def warnings(self) -> list[str]:
        run, data = base_ranker(self.experiment), self.first.data
        return doubts(data, run.evaluation.relevance_level)

    def label_free(self, split: str, chosen: str | None = None) -> dict[str, Any]:
        texts = (prepared.text for prepared in self.by_key.values())
        words = next((text for text in texts if "vectors" in text.arrays), None)
        return label_free(self.first.data, base_ranker(self.experiment), split, words, chosen)

    def require_queries(self, split: str) -> None:
        if len(required_split(self.first.data, split)) < 2:
            raise DataError(Problem("--split", f"'{split}' has one query only", "two or more, for a paired test"))


def digest_of_source(source: str | None) -> str:
    """Of a file, or of all files in a folder; '' for what is neither."""
    path = Path(source) if source else None
    if path is None or not path.exists():
        return ""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return digest_of({str(file.relative_to(path)): file for file in files})


def inputs_of(experiment: Experiment, judged_on: str | None = None) -> Inputs:
    """The inputs of a search's trials or, with the split that it judges on, of its confirmation."""
    kind = Inputs if experiment.objective else RankerInputs
    return kind(experiment, judged_on)
