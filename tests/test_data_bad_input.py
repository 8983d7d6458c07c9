"""Bad input on the console: exit status 2, an `error: PLACE: wrong; right` line for each problem, nothing written."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.support.data_folders import (
    conversation_files,
    letor_files,
    sick_files,
    trec_files,
    wikiqa_files,
    write_folder,
)
from tune_cl.cli import main

TREC = trec_files()
CUT = gzip.compress("".join(f"d{number}\ttext {number}\n" for number in range(99)).encode())[:-20]


def changed(files: dict[str, str], name: str, content: str | bytes) -> dict[str, str | bytes]:
    return {**files, name: content}


def packed(content: bytes) -> dict[str, str | bytes]:
    return {name: text for name, text in TREC.items() if name != "collection.tsv"} | {"collection.tsv.raw": content}


CONVERSATION = conversation_files()["train.tsv"]
BAD: dict[str, tuple[dict[str, str | bytes], str]] = {
    "truncated gzip": (packed(CUT), r"collection\.tsv\.gz:\d+: the gzip data is broken or cut off here"),
    "column count": (changed(TREC, "queries.dev.tsv", "dev-a\tcat\ndev-b\n"), "queries.dev.tsv:2: 1 columns instead"),
    "duplicate document": (changed(TREC, "collection.tsv", TREC["collection.tsv"] + "d2\tx\n"),
                           r"collection.tsv:5: another text for id 'd2' than in \S+/collection.tsv:2; keep"),
    "unknown query": (changed(TREC, "qrels.dev.txt", "nobody 0 d1 1\n"), "qrels.dev.txt:1: unknown query 'nobody'"),
    "candidate without text": (changed(TREC, "run.dev.txt", "dev-a Q0 d9 1 1 x\n"),
                               "run.dev.txt:1: document 'd9' is not in the collection"),
    "two positives first": (changed(conversation_files(), "train.tsv", "1\ta\tx\n1\ta\ty\n"),
                            "train.tsv:2: two right responses first"),
    "empty utterance": (changed(conversation_files(), "train.tsv", CONVERSATION + "0\thello\t\tno\n"),
                        "train.tsv:6: an empty utterance"),
    "a line of 50 MB": (changed(TREC, "collection.tsv", TREC["collection.tsv"] + "d9\t" + "x" * 50_000_000),
                        "collection.tsv:5: a line of more than 16,777,216 bytes"),
    "NaN feature": (changed(letor_files(), "train.txt", "1 qid:1 1:nan\n"), "train.txt:1: feature '1:nan'"),
    "a file without features": (changed(letor_files(), "test.txt", "1 qid:9\n0 qid:9\n"), "test.txt: no features"),
    "qid out of order": (changed(letor_files(), "train.txt", "1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:2\n"),
                         r"train.txt:3: qid 1 comes again \(first in line 1\)"),
    "0 bytes": (changed(TREC, "collection.tsv", ""), "collection.tsv: no rows"),
    "two forms": ({**TREC, **wikiqa_files()}, "could be trec or wikiqa"),
    "two forms of .tsv": ({**conversation_files(), "dev.tsv": "1\ta\tb\t1\n"}, "could be conversation or quora"),
    "XML": (changed(TREC, "collection.tsv", '<?xml version="1.0"?>\n<DOC>\n'), "collection.tsv:1: XML or HTML"),
    "HTML": (changed(sick_files(), "SICK_train.txt", "<!DOCTYPE html>\n<html>\n"), "SICK_train.txt:1: XML or HTML"),
    "no known form": ({"notes.md": "hello"}, "no known form of data"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_in_one_line_each(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files, wrong = BAD[case]
    folder = write_folder(tmp_path / "data", files)
    if (raw := folder / "collection.tsv.raw").exists():
        raw.rename(folder / "collection.tsv.gz")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["data", str(folder), "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines and all(re.fullmatch(r"error: \S.*: .+; .+", line) for line in lines), err
    assert re.search(wrong, lines[0]), err
    assert not list((tmp_path / "here").iterdir())
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_at_most_twenty_problems_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path, changed(TREC, "queries.dev.tsv", "one\n" * 30))
    assert main(["data", str(folder)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "error: and 10 more problems like these"


def test_a_link_that_leads_nowhere_is_no_file_that_was_not_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "data", TREC)
    (folder / ".#run.dev.txt").symlink_to("an-editor@host.1")
    assert main(["data", str(folder)]) == 0
    (folder / "run.dev.txt").unlink(missing_ok=True)
    (folder / "run.dev.txt").symlink_to("../runs/bm25.txt")
    capsys.readouterr()
    assert main(["data", str(folder)]) == 2
    wrong = "leads to ../runs/bm25.txt, which is not there; a link to a file, or none"
    assert capsys.readouterr().err == f"error: {folder / 'run.dev.txt'}: {wrong}\n"
