"""Training labels that are exchanged (`data.label_noise`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import tiny_data
from tests.support.console import Console
from tests.support.letor_data import letor_data
from tests.support.pair_data import pair_folder
from tests.support.trec_folder import write_trec_folder
from trainables.core.errors import ConfigError, DataError
from trainables.data import load_data
from trainables.data.columns import Split
from trainables.data.labels import bm25_scores, with_training_labels
from trainables.data.settings import DataConfig

DATA = tiny_data(queries={"train": 30, "dev": 6, "test": 6}, candidates=6, turns=1)
KINDS = st.sampled_from(["swap", "random", "hard"])


def settings_of(**noise: Any) -> DataConfig:
    return DataConfig.model_validate({"label_noise": noise})


def exchanged(before: Split, after: Split) -> np.ndarray:
    """The relevant candidates that are no longer relevant."""
    return np.flatnonzero((before.grade >= 1) & (after.grade < 1))


def of_query(split: Split, query: int) -> slice:
    return slice(int(split.offsets[query]), int(split.offsets[query + 1]))


@given(KINDS, st.floats(0.01, 1), st.integers(0, 5))
def test_a_share_of_the_relevant_training_candidates_is_exchanged(kind: str, share: float, seed: int) -> None:
    noisy = with_training_labels(DATA, settings_of(share=share, kind=kind, seed=seed), 1)
    before, after = DATA.splits["train"], noisy.splits["train"]
    relevant = int((before.grade >= 1).sum())
    assert len(exchanged(before, after)) == round(share * relevant)  # each query here has more wrong candidates
    assert all(
        sorted(before.grade[of_query(before, query)]) == sorted(after.grade[of_query(after, query)])
        for query in range(len(before))
    )
    assert noisy.splits["dev"] is DATA.splits["dev"] and noisy.splits["test"] is DATA.splits["test"]
    assert f"{round(share * relevant)} of {relevant} relevant training candidates" in noisy.notes[-1]


@given(KINDS, st.integers(0, 3))
def test_more_noise_exchanges_what_less_does_too(kind: str, seed: int) -> None:
    some, more = (
        set(exchanged(DATA.splits["train"], with_training_labels(DATA, config, 1).splits["train"]).tolist())
        for config in (settings_of(share=0.2, kind=kind, seed=seed), settings_of(share=0.6, kind=kind, seed=seed))
    )
    assert some < more


def test_the_same_noise_is_the_same_data_and_other_noise_is_other_data() -> None:
    configs = [settings_of(share=share, kind=kind, seed=seed)
               for share in (0.2, 0.4) for kind in ("swap", "random", "hard") for seed in (0, 1)]  # fmt: skip
    digests = [with_training_labels(DATA, config, 1).digest for config in configs]
    assert len({*digests, DATA.digest}) == len(configs) + 1
    again = with_training_labels(DATA, configs[2], 1)
    assert again.digest == digests[2]
    assert np.array_equal(
        again.splits["train"].document, with_training_labels(DATA, configs[2], 1).splits["train"].document
    )
    assert with_training_labels(DATA, DataConfig(), 1) is DATA


def test_hard_noise_makes_the_best_wrong_candidate_of_bm25_relevant() -> None:
    config = settings_of(share=1, kind="hard")
    before, after = DATA.splits["train"], with_training_labels(DATA, config, 1).splits["train"]
    scores = bm25_scores(DATA, before, config)
    for query in range(len(before)):
        rows = of_query(before, query)
        wrong = np.flatnonzero(before.grade[rows] < 1)
        count = int((before.grade[rows] >= 1).sum())
        best = wrong[np.argsort(-scores[rows][wrong], kind="stable")[:count]]
        assert set(np.flatnonzero(after.grade[rows] >= 1)) == set(best)


@given(st.integers(0, 20))
def test_random_noise_brings_documents_that_were_no_candidates(seed: int) -> None:
    before = DATA.splits["train"]
    after = with_training_labels(DATA, settings_of(share=0.5, kind="random", seed=seed), 1).splits["train"]
    brought = np.flatnonzero(before.document != after.document)
    assert len(brought) == len(exchanged(before, after)) and (after.grade[brought] >= 1).all()
    for query in range(len(before)):
        documents = after.document[of_query(after, query)]
        assert len(set(documents)) == len(documents)


@given(st.integers(0, 20), st.floats(0, 1))
def test_the_run_does_not_tell_which_positives_are_random_documents(seed: int, unlisted: float) -> None:
    """A random document is in the run where the relevant one was, at the rank that BM25 gives it."""
    data = tiny_data(queries={"train": 30, "dev": 6, "test": 6}, candidates=6, turns=1)
    before = data.splits["train"]
    out = (before.grade >= 1) & (np.random.default_rng(seed).random(len(before.grade)) < unlisted)
    before.rank[out], before.score[out] = 0, np.nan
    config = settings_of(share=0.5, kind="random", seed=seed)
    after = with_training_labels(data, config, 1).splits["train"]
    scores = bm25_scores(data, after, config)
    for query in range(len(before)):
        rows = of_query(before, query)
        assert ((before.rank[rows] > 0) & (before.grade[rows] >= 1)).sum() == (
            (after.rank[rows] > 0) & (after.grade[rows] >= 1)
        ).sum()
        listed = rows.start + np.flatnonzero(after.rank[rows])
        listed = listed[np.argsort(after.rank[listed])]
        assert len(set(after.rank[listed])) == len(listed)
        assert (np.diff(after.score[listed]) <= 0).all() and not np.isnan(after.score[listed]).any()
        for row in listed[before.document[listed] != after.document[listed]]:
            kept = listed[before.document[listed] == after.document[listed]]
            assert (after.rank[kept] < after.rank[row]).sum() == (scores[kept] > scores[row]).sum()


def test_a_query_without_a_wrong_candidate_keeps_its_labels() -> None:
    data = tiny_data(queries={"train": 4, "dev": 2, "test": 2}, candidates=3, turns=1)
    train = data.splits["train"]
    train.grade[: train.offsets[1]] = 1
    noisy = with_training_labels(data, settings_of(share=1), 1)
    assert (noisy.splits["train"].grade[: train.offsets[1]] == 1).all()
    assert "more have no candidate left to exchange with" in noisy.notes[-1]


def test_the_level_says_what_is_relevant() -> None:
    data = tiny_data(queries={"train": 8, "dev": 2, "test": 2}, candidates=4, turns=1)
    data.splits["train"].grade[::4] = 2
    below = (data.splits["train"].grade == 1).sum()
    after = with_training_labels(data, settings_of(share=1), 2).splits["train"]
    assert (after.grade[::4] < 2).all() and (after.grade == 2).sum() == 8 and (after.grade == 1).sum() == below


def test_features_take_swapped_labels_alone(tmp_path: Path) -> None:
    features = letor_data()
    swapped = with_training_labels(features, settings_of(share=0.3), 1)
    assert len(exchanged(features.splits["train"], swapped.splits["train"]))
    with pytest.raises(ConfigError, match=r"data\.label_noise\.kind: 'letor' holds features, no texts.*; swap"):
        with_training_labels(features, settings_of(share=0.3, kind="hard"), 1)
    with pytest.raises(DataError, match=r"data\.label_noise: .* is pairs to classify"):
        load_data(DataConfig.model_validate({"source": str(pair_folder(tmp_path)), "label_noise": {"share": 0.3}}))


def test_the_data_command_says_what_was_exchanged(console: Console) -> None:
    folder = write_trec_folder(DATA, Path("data"))
    clean, noisy = (console.document(f"data {folder}{more}") for more in ("", " --set data.label_noise.share=0.5"))
    assert clean["digest"] != noisy["digest"]
    assert any(note.startswith("label noise: ") for note in noisy["notes"])
