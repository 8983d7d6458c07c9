"""What the difficulty bm25_std costs, against rank_bm25 over each context's own candidates, as in Penha & Hauff's code.

    python benchmarks/difficulty.py ../shared/data/conversation/dailydialogpp [--repeats 2] [--json]

The folder has train.tsv.gz. Ends in an error if rank_bm25 gives other values. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from side_by_side import Comparison, compare, tell

from trainables.curriculum.scoring import BM25_B, BM25_K1, SCORINGS, Scored
from trainables.data.columns import RankingData, Split, TextColumn
from trainables.data.instances import make_instances
from trainables.data.words import words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tell(of_dialogs(read_dialogs(options.data / "train.tsv.gz"), options.repeats), options.json)


def read_dialogs(path: Path) -> Scored:
    """Contexts with their responses; each row (label, utterances..., response) is a document of its own."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row[1:-1])]
    offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    grade = np.array([int(row[0]) for row in rows], np.int16)
    contexts = [group[0][1:-1] for group in groups]
    split = Split(
        query=np.arange(len(groups), dtype=np.int32),
        offsets=offsets,
        document=np.arange(len(rows), dtype=np.int32),
        grade=grade,
        rank=np.zeros(len(rows), np.int32),
        score=np.full(len(rows), np.nan),
        judged_grade=grade,
        judged_offsets=offsets,
    )
    data = RankingData(
        name="dialogs",
        digest=str(path),
        document_ids=TextColumn.of(map(str, range(len(rows)))),
        documents=TextColumn.of(row[-1] for row in rows),
        query_ids=TextColumn.of(map(str, range(len(groups)))),
        utterances=TextColumn.of(utterance for context in contexts for utterance in context),
        utterance_offsets=np.concatenate([[0], np.cumsum([len(context) for context in contexts])]),
        domain=np.zeros(len(groups), np.int16),
        domains=("all",),
        splits={"train": split},
    )
    return Scored(data, split, make_instances(split, True, 1, 1), seed=0)


def of_dialogs(scored: Scored, repeats: int) -> Comparison:
    """bm25_std from texts, by us and by rank_bm25 alternately."""
    ours: list[np.ndarray] = []
    theirs: list[np.ndarray] = []

    def by_rank_bm25() -> None:
        theirs.append(np.array(list(deviations(index_by_rank_bm25(scored.data), scored))))

    work, peer = f"bm25_std of {len(scored.split):,} dialogues", "rank_bm25 over the own candidates"
    found = compare(work, peer, lambda: ours.append(SCORINGS["bm25_std"](scored)), by_rank_bm25, repeats, warm_up=0)
    wrong = np.abs(scored.of_queries(theirs[0]) - ours[0]).max()
    if wrong > 1e-9:
        raise SystemExit(f"error: the values differ by up to {wrong:g}")
    return found


def index_by_rank_bm25(data: RankingData) -> BM25Okapi:
    return BM25Okapi([words(text) for text in data.documents], k1=BM25_K1, b=BM25_B, epsilon=0.25)


def deviations(model: BM25Okapi, scored: Scored) -> Iterator[float]:
    split = scored.split
    for place, query in enumerate(split.query.tolist()):
        rows = split.document[split.offsets[place] : split.offsets[place + 1]].tolist()
        scores = model.get_batch_scores(words(scored.data.query_text(query)), rows)
        yield float(np.std(scores, ddof=1))


if __name__ == "__main__":
    main()
