"""Small rankings as Hypothesis draws them, as plain dictionaries and as the flat columns of the product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from trainables.data.columns import RankingData, Split, TextColumn

# Ids whose order by bytes differs from their order by number, case or alphabet.
DOCUMENT_IDS = ["d1", "d10", "d2", "D3", "é", "文", "😀", "d", "_9", "0"]
Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]


@st.composite
def rankings(draw: st.DrawFn) -> tuple[Qrels, Run]:
    """Qrels and a run over the same queries, with ties, unjudged candidates, judged documents that are not candidates
    and queries without candidates."""
    documents = st.sampled_from(DOCUMENT_IDS)
    any_score = st.floats(allow_nan=False, allow_infinity=False, width=32)
    scores = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.0 + 1e-12]), any_score)
    qrels: Qrels = {}
    run: Run = {}
    for query in range(draw(st.integers(1, 5))):
        qrels[f"q{query}"] = draw(st.dictionaries(documents, st.integers(-2, 3), min_size=1))
        run[f"q{query}"] = draw(st.dictionaries(documents, scores))
    return qrels, run


def columns(qrels: Qrels, run: Run) -> tuple[RankingData, np.ndarray]:
    """The same rankings as a data set with the split `test`, and its candidates' scores [C]."""
    index = {document: i for i, document in enumerate(DOCUMENT_IDS)}
    candidates = [(query, document) for query in qrels for document in run[query]]
    judged = [list(documents.values()) for documents in qrels.values()]
    count = len(candidates)
    split = Split(
        query=np.arange(len(qrels), dtype=np.int32),
        offsets=_offsets([len(run[query]) for query in qrels]),
        document=np.array([index[document] for _, document in candidates], np.int32),
        grade=np.array([qrels[query].get(document, -1) for query, document in candidates], np.int16),
        rank=np.zeros(count, np.int32),
        score=np.full(count, np.nan),
        judged_grade=np.array([grade for grades in judged for grade in grades], np.int16),
        judged_offsets=_offsets([len(grades) for grades in judged]),
    )
    texts = TextColumn.of(qrels)
    data = RankingData(
        name="cases", digest="", document_ids=TextColumn.of(DOCUMENT_IDS), documents=TextColumn.of(DOCUMENT_IDS),
        query_ids=texts, utterances=texts, utterance_offsets=np.arange(len(qrels) + 1),
        domain=np.zeros(len(qrels), np.int16), domains=("cases",), splits={"test": split},
    )  # fmt: skip
    return data, np.array([run[query][document] for query, document in candidates])


def _offsets(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def write_qrels(path: str | Path, qrels: Qrels) -> None:
    rows = [f"{query} 0 {document} {grade}\n" for query, judged in qrels.items() for document, grade in judged.items()]
    Path(path).write_text("".join(rows), encoding="utf-8")
