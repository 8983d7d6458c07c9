"""Tiny data folders in every form that has a reader."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

COLLECTION = "d1\tthe cat sat\nd2\tthe dog ran\nd3\ta bird flew\nd4\ta cat and a dog\n"
HEADER = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n"


def trec_files(runs: bool = True) -> dict[str, str]:
    """Two queries a split, with four judged documents; `a` wants d1, `b` wants d2."""
    files = {"collection.tsv": COLLECTION}
    for split in ("train", "dev", "test"):
        files[f"queries.{split}.tsv"] = f"{split}-a\tcat\n{split}-b\tdog running\n"
        files[f"qrels.{split}.txt"] = "".join(
            f"{split}-{query} 0 {document} {int(document == right)}\n"
            for query, right in (("a", "d1"), ("b", "d2"))
            for document in ("d1", "d2", "d3")
        )
        if runs:
            files[f"run.{split}.txt"] = "".join(
                f"{split}-{query} Q0 {document} 1 {score} x\n"
                for query in "ab"
                for document, score in (("d3", 1), ("d2", 2), ("d4", 2))
            )
    return files


def wikiqa_files() -> dict[str, str]:
    """Two answerable questions a split, which share a sentence, and one that has no right sentence."""
    rows = (("1", "who sat ?", "S1", 1), ("1", "who sat ?", "S2", 0), ("2", "who ran ?", "S2", 1),
            ("2", "who ran ?", "S3", 0), ("3", "who flew ?", "S4", 0))  # fmt: skip
    texts = {"S1": "the cat sat", "S2": "the dog ran", "S3": "a bird sang", "S4": "nobody"}
    return {
        f"WikiQA-{split}.tsv": HEADER
        + "".join(
            f"{split}Q{number}\t{question}\tD1\ttitle\t{split}{sentence}\t{texts[sentence]}\t{label}\n"
            for number, question, sentence, label in rows
        )
        for split in ("train", "dev", "test")
    }


FORMS = {"trec": trec_files(), "trec without runs": trec_files(runs=False), "wikiqa": wikiqa_files()}


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw)
    return folder
