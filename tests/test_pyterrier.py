"""A ranker as a transformer of PyTerrier, with the real library."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.support.tiny_ranker import save_tiny_bert

pytestmark = pytest.mark.slow


def test_a_ranker_scores_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyterrier as pt

    from tune_cl.api.rankers import load_ranker
    from tune_cl.integrations.pyterrier import TuneClRanker

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = save_tiny_bert(tmp_path / "ranker")
    rows = [("1", "w1 w2", "a", "w1"), ("1", "w1 w2", "b", "w7 w2"), ("2", "w3", "a", "w1"), ("2", "w3", "c", "w3 w4")]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text"])
    pipeline = TuneClRanker(folder) % 1
    whole = TuneClRanker(load_ranker(folder))(frame)
    expected = load_ranker(folder).predict([(query, text) for _, query, _, text in rows])
    by_pair = {(row.qid, row.docno): row.score for row in whole.itertuples()}
    assert [by_pair[qid, docno] for qid, _, docno, _ in rows] == pytest.approx(expected.tolist())
    assert isinstance(pipeline, pt.Transformer)
    top = pipeline(frame)
    assert sorted(top.qid) == ["1", "2"]
    assert all(by_pair[row.qid, row.docno] == max(by_pair[row.qid, d] for q, d in by_pair if q == row.qid)
               for row in top.itertuples())  # fmt: skip
    assert (whole.groupby("qid")["rank"].min() == 0).all()
