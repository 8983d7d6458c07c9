"""What trainings read: the data, the ranker's text side of it, a teacher's scores; of a pre-training as well."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainables.config.keys import TrainingConfig
from trainables.core.cache import digest_of
from trainables.core.errors import DataError, Problem
from trainables.core.plugins import sources_of
from trainables.core.randomness import generator
from trainables.data import load_data
from trainables.data.columns import RankingData, Split, require_features, require_texts
from trainables.data.combine import joined, some_queries
from trainables.data.settings import DataConfig
from trainables.rankers import load_ranker
from trainables.rankers.ranker import Ranker, TextSide, Tokens
from trainables.rankers.settings import TRAINED_VECTORS, RankerSettings

KEY = "training.pretrain_data"
HELD_OUT = 0.1  # of the training queries, where the data has no dev split


def load_pretrain_data(run: TrainingConfig, target: RankingData) -> RankingData:
    """The data that `training.pretrain_data` names, with the splits train and dev.

    Without a training split, the only split serves as one; without a dev split, a fixed tenth of the training queries
    does. Candidates are chosen by the defaults of `data`. Raises DataError, placed at the key, for data that is
    unknown, of another kind than the target's, or too small.
    """
    source = run.training.pretrain_data or ""
    try:
        data = load_data(DataConfig(source=source))
        require_texts(data)
    except DataError as error:
        in_file = f"{source}/"
        raise DataError(
            problem if problem.location.startswith(in_file) else replace(problem, location=KEY)
            for problem in error.problems
        ) from None
    if (data.task, data.classes) != (target.task, target.classes):
        wrong = f"'{data.name}' is for another task than '{target.name}'"
        raise DataError(Problem(KEY, wrong, "data of the same task, with the same classes where there are any"))
    return replace(data, splits=_splits(data))


def _splits(data: RankingData) -> dict[str, Split]:
    filled = {name: split for name, split in data.splits.items() if len(split)}
    train = filled.get("train") or (next(iter(filled.values())) if len(filled) == 1 else None)
    if train is None:
        wrong = f"'{data.name}' has no training split, and more than one other"
        raise DataError(Problem(KEY, wrong, "data with training queries, or with one split"))
    if dev := filled.get("dev") if "train" in filled else None:
        return {"train": train, "dev": dev}
    if len(train) < 2:
        raise DataError(Problem(KEY, f"'{data.name}' has one query only", "data with at least two"))
    order = generator(0, "pre-training dev").permutation(len(train))
    size = max(1, round(HELD_OUT * len(train)))
    return {"train": some_queries(train, np.sort(order[size:])), "dev": some_queries(train, np.sort(order[:size]))}


def joint_text(ranker: Ranker, settings: Any, target: RankingData, other: RankingData) -> tuple[TextSide, TextSide]:
    """The text sides of two data sets under one vocabulary and one set of word vectors, both learned from both.

    Thus what a ranker learned on one of them means the same on the other.
    """
    whole = ranker.prepare(joined(target, other), settings, seed=0)
    queries, documents = len(target.query_ids), len(target.documents)
    return (
        replace(whole, queries=_rows(whole.queries, 0, queries), documents=_rows(whole.documents, 0, documents)),
        replace(
            whole,
            queries=_rows(whole.queries, queries, len(whole.queries)),
            documents=_rows(whole.documents, documents, len(whole.documents)),
        ),
    )


def _rows(tokens: Tokens, start: int, end: int) -> Tokens:
    offsets = tokens.offsets[start : end + 1]
    return Tokens(tokens.ids[offsets[0] : offsets[-1]], offsets - offsets[0])


NO_TEXTS = TextSide(Tokens.of(()), Tokens.of(()), files={})  # the text side of a ranker of features


@dataclass(frozen=True)
class PreparedData:
    """The data and the ranker's text side of it, both as flat arrays.

    teachers  teachers' scores of the training candidates, as TEACHERS names them; a key is missing where they are
              not trained yet. teacher: float32 [C] or [C, K], those that the data gives (NaN where it gives none) or
              those of a search's teacher; the others: see `training.teachers`
    start     the trained tensors of a search's pre-training by name (see `pretraining`), or None
    taught_as  the training whose teachers all trainings of a seed share, if they are yet to be trained; None: their own
    pretrain_digest  of the pre-training data, whose words the text side covers too; None without pre-training
    """

    data: RankingData
    text: TextSide
    teachers: Mapping[str, np.ndarray] = field(default_factory=dict)
    start: Mapping[str, np.ndarray] | None = None
    pretrain_digest: str | None = None
    taught_as: TrainingConfig | None = None

    def given_teachers(self) -> dict[str, Callable[[], np.ndarray]]:
        """The teachers' scores as functions, which a scoring and the choice of negatives call."""
        return {need: partial(np.asarray, scores) for need, scores in self.teachers.items()}

    @property
    def digest(self) -> str:
        """Identifies all data that this was prepared from."""
        return self.data.digest if self.pretrain_digest is None else f"{self.data.digest}+{self.pretrain_digest}"


def prepared_key(run: TrainingConfig) -> str:
    """Equal keys mean equal prepared data. The key covers the data and what the ranker reads of its texts. Pre-training
    adds its keys and all settings of the ranker, because a pre-trained start fits only one ranker."""
    kind, pretraining = type(run.ranker), run.training.pretraining()
    ranker = kind.model_validate(run.ranker.model_dump()).model_dump()  # as from a file: a default of 1 is 1.0 there
    data = DataConfig.model_validate(run.data.model_dump()).model_dump()
    text = {key: ranker[key] for key in kind.text_keys}
    parts = [data, kind.text_side, text, [ranker, pretraining] if pretraining else None]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def prepared_for(run: TrainingConfig, by_key: Mapping[str, PreparedData]) -> PreparedData:
    """A run's prepared data, of that `by_key`. It is prepared now, from the same data, for ranker settings that the
    search did not foresee: values of a long or continuous range on which the text side or the pre-training depends."""
    existing = by_key.get(prepared_key(run))
    return existing if existing is not None else prepare(run, next(iter(by_key.values())).data if by_key else None)


def ranker_of(run: TrainingConfig) -> tuple[Ranker, RankerSettings]:
    """The configured network and its settings."""
    return load_ranker(run.ranker.name), run.ranker


def read_of(run: TrainingConfig, prepared: PreparedData) -> list[object]:
    """What a training reads besides its configuration, for a cache key: data, vectors, vocabulary and the weights that
    it starts from, and the code of parts of one's own. A file that changed under the same name is another file."""
    ranker, settings = ranker_of(run)
    read = [prepared.digest, prepared.text.files, prepared.text.arrays, ranker.weights_identity(settings)]
    return [*read, *sources_of(run.model_dump())]


def files_of(runs: Iterable[TrainingConfig]) -> dict[str, str]:
    """{path: digest} of the files, of word vectors and of difficulty, that trainings read besides their data."""
    named: set[str] = set()
    for run in runs:
        rankers = run.ranker, run.curriculum.teacher.ranker
        named |= {str(getattr(ranker, "vectors", TRAINED_VECTORS)) for ranker in rankers}
        named |= {name for name in (run.curriculum.vectors, run.curriculum.file) if name}
    return {name: digest_of(Path(name)) for name in sorted(named - {TRAINED_VECTORS}) if Path(name).is_file()}


def changed_files(now: Mapping[str, str], recorded: Mapping[str, str]) -> list[str]:
    """The files in `recorded` whose content is another `now`, or that are gone; both as `files_of` gives them."""
    return [path for path, digest in recorded.items() if now.get(path) != digest]


def prepare(run: TrainingConfig, data: RankingData | None = None) -> PreparedData:
    """Reads the data (unless given) and prepares the ranker's text side.

    The text side does not depend on a trial's seed: vocabulary and word vectors belong to the collection, so that
    trials with different seeds differ in training alone.
    """
    data = data or load_data(run.data, run.evaluation.relevance_level)
    if run.reads == "features":
        require_features(data, run.ranker.name)
        return PreparedData(data, NO_TEXTS)
    require_texts(data)
    ranker, settings = ranker_of(run)
    if run.training.pretrain_data is None:
        train = data.splits.get("train")
        given = {} if train is None or train.teacher is None else {"teacher": train.teacher}
        return PreparedData(data, ranker.prepare(data, settings, seed=0), given)
    other = load_pretrain_data(run, data)
    return PreparedData(data, joint_text(ranker, settings, data, other)[0], pretrain_digest=other.digest)
