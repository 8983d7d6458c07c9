"""Tiny data folders in every form that has a reader: those of tests/goldens/forms.json."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np

from trainables.data.columns import RankingData, Split

Files = dict[str, str]
FOR_GOLDENS_ALONE = {"graded trec", "pairs without negatives", "quoted CSV", "scores of a teacher"}
STORED = json.loads((Path(__file__).parents[1] / "goldens/forms.json").read_text())
# {form: {file: text}}; two queries a split in most, of which `a` wants "the cat sat" and `b` "the dog ran".
FORMS: dict[str, Files] = {
    form: files
    for form, files in STORED.items()
    if form not in FOR_GOLDENS_ALONE and all(isinstance(content, str) for content in files.values())
}
BINARY_FORMS: dict[str, dict[str, bytes]] = {
    form: {
        name: content.encode() if isinstance(content, str) else b64decode(content["base64"])
        for name, content in STORED[form].items()
    }
    for form in STORED.keys() - FORMS.keys() - FOR_GOLDENS_ALONE
}
COLLECTION = FORMS["trec"]["collection.tsv"]
HEADER = FORMS["wikiqa"]["WikiQA-dev.tsv"].partition("\n")[0] + "\n"
SICK_WHOLE = FORMS["sick as published"]["SICK.txt"].partition("\n")[0].split("\t")


def trec_files(runs: bool = True) -> Files:
    """Two queries per split, with three judged documents; `a` wants d1, `b` wants d2."""
    return dict(FORMS["trec" if runs else "trec without runs"])


def triple_rows(split: str) -> list[dict[str, str]]:
    """Two queries; the first has two rows, with three documents, the second one."""
    return [json.loads(line) for line in FORMS["triples"][f"{split}.jsonl"].splitlines()]


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw)
    return folder


def assert_equal(one: RankingData, other: RankingData) -> None:
    for column in ("document_ids", "documents", "query_ids", "utterances"):
        assert list(getattr(one, column)) == list(getattr(other, column)), column
    assert list(one.splits) == list(other.splits)
    for name, split in one.splits.items():
        for column in (field.name for field in fields(Split)):
            mine, theirs = getattr(split, column), getattr(other.splits[name], column)
            assert (mine is None) == (theirs is None), column
            if mine is not None:
                np.testing.assert_array_equal(mine, theirs, err_msg=f"{name}.{column}")
