"""Dense retrieval as an evaluation: exact search over the whole collection, judged by all judgments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.training_runs import make_run, start
from tests.support.trec_folder import write_trec_folder
from trainables.data import load_data
from trainables.data.columns import RankingData, Split
from trainables.data.settings import DataConfig
from trainables.evaluation.measures import qrels_of, run_of
from trainables.evaluation.metrics import Evaluator, parse_measures
from trainables.evaluation.reported import reported_values
from trainables.rankers.ranker import DualEncoder
from trainables.training import checkpoint, scoring
from trainables.training.trainer import Training
from tune_cl.inputs import RankerArtifacts

METRICS = ["ndcg@10", "recall@20", "map"]
SHORT = {"max_iterations": 2, "batches_per_iteration": 2, "precision": "fp32"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> RankingData:
    """A TREC folder whose runs hold two candidates a query, so that some relevant documents are in none."""
    folder = write_trec_folder(tiny_data(queries=12, candidates=6, seed=5), tmp_path_factory.mktemp("trec"))
    return load_data(DataConfig(source=str(folder), top_k=2))


def everything(split: Split, data: RankingData) -> Split:
    """The split with all documents as candidates, with grades by the judgments, one query after the other."""
    count, queries = len(data.documents), len(split)
    grade = np.full((queries, count), -1, np.int16)
    for query in range(queries):
        rows = slice(split.judged_offsets[query], split.judged_offsets[query + 1])
        assert split.judged_document is not None
        grade[query, split.judged_document[rows]] = split.judged_grade[rows]
    return replace(
        split,
        offsets=np.arange(queries + 1) * count,
        document=np.tile(np.arange(count, dtype=np.int32), queries),
        grade=grade.ravel(),
        rank=np.ones(queries * count, np.int32),
        score=np.zeros(queries * count),
    )


def training_on(data: RankingData, retrieve: int | None = 20, **sections: Any) -> Training:
    sections = {"training": SHORT, "evaluation": {"retrieve": retrieve}, "metric": "ndcg@10", **sections}
    return start(make_run("bi_encoder", **sections), data)


def test_the_reader_keeps_which_documents_are_judged(data: RankingData) -> None:
    for split in data.splits.values():
        assert split.judged_document is not None
        judged = np.repeat(np.arange(len(split)), np.diff(split.judged_offsets))
        grade = dict(zip(zip(judged.tolist(), split.judged_document.tolist(), strict=True), split.judged_grade))  # noqa: B905
        for query, document, value in zip(split.owner.tolist(), split.document.tolist(), split.grade, strict=True):
            assert grade.get((query, document), -1) == value
        assert (split.judged_grade >= 1).sum() > (split.grade >= 1).sum()


@pytest.mark.parametrize("blocks", [(1 << 16, 1 << 25), (7, 30)])
def test_search_is_exact(blocks: tuple[int, int], data: RankingData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "DOCUMENTS_A_BLOCK", blocks[0])
    monkeypatch.setattr(scoring, "SCORES_A_BLOCK", blocks[1])
    training = training_on(data)
    dev = data.splits["dev"]
    retrieved = training.retrieve(dev)
    assert retrieved is not None and isinstance(training.module, DualEncoder)
    documents, scores = (side.reshape(len(dev), 20) for side in retrieved)
    right = training.score(everything(dev, data)).reshape(len(dev), -1)
    assert scores == pytest.approx(-np.sort(-right, axis=1)[:, :20], abs=1e-5)
    assert np.take_along_axis(right, documents, 1) == pytest.approx(scores, abs=1e-5)
    assert all(len(set(row)) == 20 for row in documents.tolist())


def test_dev_and_test_judge_what_is_retrieved(data: RankingData, tmp_path: Path) -> None:
    training = training_on(data)
    training.iterate()
    for name in ("dev", "test"):
        whole = everything(data.splits[name], data)
        scores = training.score(whole)
        twentieth = -np.sort(-scores.reshape(len(whole), -1), axis=1)[:, 19]
        run = run_of(whole, data.document_ids, np.where(scores >= twentieth[whole.owner], scores, -np.inf))
        first = {query: {name: score for name, score in row.items() if score > -np.inf} for query, row in run.items()}
        values = reported_values(qrels_of(whole, data.document_ids), first, parse_measures(METRICS))
        view, scores = training.ranked(name)
        got = Evaluator(view.splits[name], data.document_ids)(scores, METRICS)
        for metric in METRICS:
            assert got[metric] == pytest.approx(values[metric])
        if name == "dev":
            assert training.history[0]["dev_ndcg@10"] == pytest.approx(values["ndcg@10"].mean())
    _, run = training.apply("test", tmp_path)
    assert len(run.read_text().splitlines()) == 20 * len(data.splits["test"])
    candidates = Evaluator(data.splits["test"], data.document_ids)(training.score(data.splits["test"]), METRICS)
    assert (candidates["recall@20"] < got["recall@20"]).any()  # of documents that the run lacks


def test_what_is_retrieved_is_saved_and_a_resumed_training_goes_on(data: RankingData, tmp_path: Path) -> None:
    unbroken, first, second = training_on(data), training_on(data), training_on(data)
    unbroken.iterate()
    unbroken.iterate()
    first.iterate()
    (tmp_path / "state").mkdir()
    first.save(tmp_path / "state")
    second.load(tmp_path / "state")
    assert np.array_equal(np.asarray(second.best_documents), np.asarray(first.best_documents))
    second.iterate()
    assert [row["dev_ndcg@10"] for row in second.history] == [row["dev_ndcg@10"] for row in unbroken.history]
    artifacts = RankerArtifacts(tmp_path, {"one": first.prepared})
    (tmp_path / "t0001").mkdir()
    artifacts.write(tmp_path / "t0001", tmp_path / "state", first.run)
    run = (tmp_path / "t0001" / "dev.run.txt").read_text().splitlines()
    assert len(run) == 20 * len(data.splits["dev"])
    assert checkpoint.best_scores(tmp_path / "state")[1] is not None
