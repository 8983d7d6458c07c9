"""Pre-training: on other data, once, from the cache, and as the start of every training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.data_folders import write_folder
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig, validated
from trainables.core.errors import DataError
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.data.combine import joined
from trainables.data.settings import DataConfig
from trainables.evaluation.per_query import evaluator_of
from trainables.training import pretraining as once
from trainables.training.checkpoint import trained_state
from trainables.training.factory import make_training
from trainables.training.prepared import PreparedData, joint_text, load_pretrain_data, prepare, prepared_key, ranker_of
from trainables.training.pretraining import pretraining_run
from trainables.training.trainer import Training
from tune_cl.experiment.load import build
from tune_cl.ray.shared_data import completed, untrained

SMALL: dict[str, dict[str, Any]] = {
    "conv_knrm": {"vector_size": 16, "filters": 16},
    "bidaf_t": {"vector_size": 12, "hidden": 6},
    "bert": {"vocabulary_size": 200},
}


@pytest.fixture(scope="module")
def data() -> RankingData:
    """The target data: few training queries."""
    return tiny_data(queries={"train": 4, "dev": 12, "test": 4}, candidates=5, seed=1)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Related data: other queries in the same made-up language, and more of them."""
    related = tiny_data(queries={"train": 60, "dev": 10, "test": 2}, candidates=5, seed=2)
    return write_trec_folder(related, tmp_path_factory.mktemp("related") / "data")


def make_run(source: Path | None, ranker: str = "conv_knrm", **training: Any) -> TrainingConfig:
    settings = {"max_iterations": 2, "batches_per_iteration": 2, "batch_size": 8, "lr": 5e-3, "pretrain_iterations": 4}
    if source is not None:
        settings |= {"pretrain_data": str(source)}
    return validated({"ranker": {"name": ranker} | SMALL[ranker], "training": settings | training, "seed": 3})


def training_of(run: TrainingConfig, data: RankingData) -> Training:
    return make_training(run, prepare(run, data), device="cpu")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[TrainingConfig]:
    """The pre-trainings that are run, in order."""
    runs: list[TrainingConfig] = []
    without_data = once.without_data
    monkeypatch.setattr(once, "without_data", lambda run: (runs.append(run), without_data(run))[1])
    return runs


def test_two_data_sets_as_one_keep_their_texts(data: RankingData) -> None:
    other = tiny_data(queries=3, seed=5)
    both = joined(data, other)
    assert list(both.documents) == [*data.documents, *other.documents]
    assert list(both.query_texts()) == [*data.query_texts(), *other.query_texts()]
    assert both.turns.tolist() == [*data.turns, *other.turns] and len(both.domain) == len(both.query_ids)
    train, first, second = both.splits["train"], data.splits["train"], other.splits["train"]
    assert len(train) == len(first) + len(second) and train.offsets[-1] == len(train.grade)
    texts = [both.documents[row] for row in train.document]
    assert texts == [data.documents[i] for i in first.document] + [other.documents[i] for i in second.document]
    assert [both.query_text(i) for i in train.query[len(first) :]] == [other.query_text(i) for i in second.query]
    assert both.digest not in (data.digest, other.digest) and both.digest != joined(other, data).digest


@pytest.mark.parametrize("ranker", sorted(SMALL))
def test_both_sides_read_the_same_words_alike(ranker: str, data: RankingData) -> None:
    kind, settings = ranker_of(make_run(None, ranker))
    other = tiny_data(queries=3, seed=5)
    mine, theirs = joint_text(kind, settings, data, other)
    for text, of in ((mine, data), (theirs, other)):
        for tokens, texts in ((text.queries, of.query_texts()), (text.documents, of.documents)):
            read = kind.encode(text.files, settings, texts)
            np.testing.assert_array_equal(tokens.ids, read.ids)
            np.testing.assert_array_equal(tokens.offsets, read.offsets)
    assert dict(mine.files) == dict(theirs.files)


def test_the_pretraining_is_plain_and_has_keys_of_its_own(source: Path) -> None:
    keys = {"pretrain_iterations": 7, "pretrain_lr": 0.5, "pretrain_seed": 1, "pretrain_relevance_level": 2}
    run = make_run(source, **keys)
    run = validated(run.model_dump() | {"curriculum": {"pacing": "root"}, "evaluation": {"relevance_level": 3}})
    plain = pretraining_run(run)
    assert (plain.training.max_iterations, plain.training.lr, plain.training.batch_size) == (7, 0.5, 8)
    assert plain.curriculum.pacing == "none" and plain.evaluation.relevance_level == 2
    assert plain.training.pretrain_data is None and plain.data == DataConfig(source=str(source))
    assert plain.seed not in (run.seed, run.training.pretrain_seed)
    assert pretraining_run(make_run(source, pretrain_lr=5e-3)) == pretraining_run(make_run(source))


def test_a_training_starts_from_what_was_learned_on_related_data(
    data: RankingData, source: Path, trained: list[TrainingConfig]
) -> None:
    run = make_run(source, pretrain_lr=1e-2, pretrain_iterations=6, batches_per_iteration=24, patience=20)
    started = training_of(run, data)
    fresh = Training(make_run(None), started.prepared, device="cpu")
    before, after = trained_state(fresh.module), trained_state(started.module)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert len(trained) == 1
    values = [map_of_what_was_learned(run, data, training) for training in (fresh, started)]
    assert values[1] > values[0] + 0.03, values


def map_of_what_was_learned(run: TrainingConfig, data: RankingData, training: Training) -> float:
    """MAP of a training's weights on the queries that its pre-training learned from."""
    other = load_pretrain_data(run, data)
    _, text = joint_text(*ranker_of(run), data, other)
    related = Training(pretraining_run(run), PreparedData(other, text), device="cpu")
    related.module.load_state_dict(training.module.state_dict())
    learned = other.splits["train"]
    return float(evaluator_of(other, learned, 1)(related.score(learned), ["map"])["map"].mean())


def test_equal_settings_train_once_and_other_seeds_of_trials_share_the_start(
    data: RankingData, source: Path, trained: list[TrainingConfig]
) -> None:
    run = make_run(source, pretrain_seed=10)
    first = training_of(run, data)
    again = training_of(run.model_copy(update={"seed": 4}), data)
    assert len(trained) == 1
    for name, weights in trained_state(first.module).items():
        assert torch.equal(weights, trained_state(again.module)[name])
    assert first.iterate()["train_loss"] != again.iterate()["train_loss"]
    other = training_of(make_run(source, pretrain_seed=11), data)
    assert len(trained) == 2
    assert not torch.equal(trained_state(first.module)["score.weight"], trained_state(other.module)["score.weight"])


def test_the_trials_of_a_search_share_one_start_a_ranker(
    source: Path, tmp_path: Path, trained: list[TrainingConfig]
) -> None:
    folder = write_trec_folder(tiny_data(queries=4, candidates=4, seed=6), tmp_path / "target")
    tree = {
        "data": str(folder),
        "ranker": {"name": "conv_knrm", "vector_size": 16, "filters": 4},
        "training": {
            "lr": {"choice": [2e-3, 1e-3]},
            "loss": {"choice": ["pairwise", "hinge"]},
            "batches_per_iteration": 2,
            "pretrain_data": {"choice": [None, str(source)]},
            "pretrain_iterations": 1,
        },
    }
    experiment = build("test", tree, {})
    prepared = completed(experiment, untrained(experiment))
    assert len(trained) == 1 and len(prepared) == 2
    chosen = {"training.lr": 1e-3, "training.loss": "hinge", "training.pretrain_data": str(source)}
    run = experiment.config(chosen).run
    made = prepared[prepared_key(run)]
    assert made.start is not None and trained[0].training.lr == 2e-3 and trained[0].training.loss == "pairwise"
    training = make_training(run, made, device="cpu")
    np.testing.assert_array_equal(trained_state(training.module)["score.weight"], made.start["score.weight"])
    plain = experiment.config(chosen | {"training.pretrain_data": None}).run
    assert prepared[prepared_key(plain)].start is None
    assert len(trained) == 1


def test_data_without_a_training_split_is_divided(data: RankingData, tmp_path: Path) -> None:
    """Like XQuAD, one file of questions. Nine tenths train, one tenth chooses the best iteration."""
    answers = [{"text": "It", "answer_start": len("The lake is deep. ")}]
    paragraphs = [
        {
            "context": f"The lake is deep. It lies in place{i}. Nobody knows who found it.",
            "qas": [{"id": f"q{i}", "question": f"Where is lake {i}?", "answers": answers}],
        }
        for i in range(20)
    ]
    folder = write_folder(tmp_path, {"mine.json": json.dumps({"data": [{"paragraphs": paragraphs}]})})
    assert set(load_data(DataConfig(source=str(folder))).splits) == {"test"}
    other = load_pretrain_data(make_run(folder), data)
    assert {name: len(split) for name, split in other.splits.items()} == {"train": 18, "dev": 2}
    assert sorted([*other.splits["train"].query, *other.splits["dev"].query]) == list(range(20))


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        (None, "does not exist"),
        ({"a.txt": "x"}, "no known form"),
        ({"train.txt": "1 qid:1 1:2\n0 qid:1 1:1\n", "test.txt": "1 qid:2 1:2\n0 qid:2 1:1\n"}, "holds features"),
    ],
)
def test_data_that_cannot_be_used_is_an_error_at_the_key(
    data: RankingData, tmp_path: Path, files: dict[str, str] | None, wrong: str
) -> None:
    folder = tmp_path / "none" if files is None else write_folder(tmp_path, files)
    with pytest.raises(DataError, match=wrong) as caught:
        prepare(make_run(folder), data)
    assert [problem.location for problem in caught.value.problems] == ["training.pretrain_data"]
