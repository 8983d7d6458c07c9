"""Synthetic data as a TREC folder, for tests that start where a user does."""

from __future__ import annotations

from pathlib import Path

from trainables.data.columns import RankingData


def write_trec_folder(data: RankingData, folder: Path) -> Path:
    """Collection, queries, qrels and runs of all splits; utterances are joined."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = zip(data.document_ids, data.documents, strict=True)
    (folder / "collection.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in documents))
    for name, split in data.splits.items():
        queries, qrels, run = [], [], []
        for position, query in enumerate(split.query):
            queries.append(f"{data.query_ids[query]}\t{data.query_text(query)}\n")
            for row in range(split.offsets[position], split.offsets[position + 1]):
                document = data.document_ids[split.document[row]]
                run.append(f"{data.query_ids[query]} Q0 {document} {split.rank[row]} {float(split.score[row])!r} x\n")
                if split.grade[row] >= 0:
                    qrels.append(f"{data.query_ids[query]} 0 {document} {split.grade[row]}\n")
        (folder / f"queries.{name}.tsv").write_text("".join(queries))
        (folder / f"qrels.{name}.txt").write_text("".join(qrels))
        (folder / f"run.{name}.txt").write_text("".join(run))
    return folder
