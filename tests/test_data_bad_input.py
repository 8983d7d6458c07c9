"""Bad input on the console: exit status 2, an `error: PLACE: wrong; right` line for each problem, nothing written."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.support.data_folders import (
    beir_files,
    conversation_files,
    letor_files,
    sick_files,
    trec_files,
    triple_files,
    wikiqa_files,
    write_folder,
)
from tune_cl.cli import main

TREC = trec_files()
CUT = gzip.compress("".join(f"d{number}\ttext {number}\n" for number in range(99)).encode())[:-20]


def changed(files: dict[str, str], name: str, content: str | bytes) -> dict[str, str | bytes]:
    return {**files, name: content}


def without(files: dict[str, str], start: str) -> dict[str, str | bytes]:
    return {name: text for name, text in files.items() if not name.startswith(start)}


def raw(files: dict[str, str], name: str, content: bytes) -> dict[str, str | bytes]:
    """The file replaced by these bytes under the name NAME.gz."""
    return {**without(files, name), f"{name}.raw": content}


def packed(content: bytes) -> dict[str, str | bytes]:
    return raw(TREC, "collection.tsv", content)


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
    "0 bytes": (changed(TREC, "collection.tsv", ""), "collection.tsv: no rows"),
    "two forms": ({**TREC, **wikiqa_files()}, "could be trec or wikiqa"),
    "two forms of .tsv": ({**conversation_files(), "dev.tsv": "1\ta\tb\t1\n"}, "could be conversation or quora"),
    "XML": (changed(TREC, "collection.tsv", '<?xml version="1.0"?>\n<DOC>\n'), "collection.tsv:1: XML or HTML"),
    "HTML": (changed(sick_files(), "SICK_train.txt", "<!DOCTYPE html>\n<html>\n"), "SICK_train.txt:1: XML or HTML"),
    "no known form": ({"notes.md": "hello"}, "no known form of data"),
}  # fmt: skip
BEIR, TRIPLES, TABLE = beir_files(), triple_files("jsonl"), triple_files("csv")
QRELS_HEAD = "query-id\tcorpus-id\tscore\n"
CUT_JSON = gzip.compress("".join(f'{{"_id": "d{n}", "text": "text {n}"}}\n' for n in range(99)).encode())[:-20]
CUT_CSV = gzip.compress(b"query,positive\n" + b"".join(b"a %d,b %d\n" % (n, n * n) for n in range(999)))[:-20]
BAD |= {
    "BEIR: truncated gzip": (raw(BEIR, "corpus.jsonl", CUT_JSON), r"corpus\.jsonl\.gz:\d+: the gzip data is broken"),
    "BEIR: not UTF-8": (changed(BEIR, "queries.jsonl", b'{"_id": "a\xff", "text": "b"}\n'),
     "queries.jsonl:1: byte 0xff is"),
    "BEIR: empty query": (changed(BEIR, "queries.jsonl", '{"_id": "dev-a", "text": " "}\n'),
                          "queries.jsonl:1: 'dev-a' has an empty text"),
    "BEIR: no id": (changed(BEIR, "corpus.jsonl", '{"id": "d1", "text": "a"}\n'),
                    "corpus.jsonl:1: not a JSON object with _id, title, text"),
    "BEIR: text is no text": (changed(BEIR, "corpus.jsonl", '{"_id": "d1", "text": 1}\n'),
     "corpus.jsonl:1: not a JSON object"),
    "BEIR: broken JSON": (changed(BEIR, "corpus.jsonl", BEIR["corpus.jsonl"] + '{"_id": \n'),
     "corpus.jsonl:5: not a JSON object with _id"),
    "BEIR: id with a space": (changed(BEIR, "corpus.jsonl", '{"_id": "d 1", "text": "a"}\n'),
                              "corpus.jsonl:1: id 'd 1' is empty or holds white space"),
    "BEIR: no header": (changed(BEIR, "qrels/dev.tsv", "dev-a\td1\t1\n"),
     "qrels/dev.tsv:1: not the header of BEIR's qrels"),
    "BEIR: fields": (changed(BEIR, "qrels/dev.tsv", QRELS_HEAD + "dev-a 0 d1 1\n"),
     "qrels/dev.tsv:2: 1 columns instead of 3"),
    "BEIR: grade": (changed(BEIR, "qrels/dev.tsv", QRELS_HEAD + "dev-a\td1\thigh\n"), "qrels/dev.tsv:2: grade 'high'"),
    "BEIR: unknown query": (changed(BEIR, "qrels/dev.tsv", QRELS_HEAD + "x\td1\t1\n"),
     "qrels/dev.tsv:2: unknown query 'x'"),
    "BEIR: unknown document": (changed(beir_files(runs=False), "qrels/dev.tsv", QRELS_HEAD + "dev-a\tx\t1\n"),
                               "qrels/dev.tsv:2: document 'x' is not in the collection"),
    "BEIR: another text": (changed(BEIR, "corpus.jsonl", BEIR["corpus.jsonl"] + '{"_id": "d2", "text": "x"}\n'),
                           r"corpus.jsonl:5: another text for id 'd2' than in \S+/corpus.jsonl:2; keep"),
    "BEIR: 0 bytes": (changed(BEIR, "corpus.jsonl", ""), "corpus.jsonl: no rows"),
    "BEIR: no queries": (without(BEIR, "queries"), "queries.jsonl: missing file"),
    "BEIR: no qrels": (without(BEIR, "qrels"), "no judgments; give qrels/SPLIT.tsv"),
    "BEIR: HTML": (changed(BEIR, "corpus.jsonl", "<html>\n"), "corpus.jsonl:1: XML or HTML"),
    "BEIR and TREC": ({**BEIR, **TREC}, "could be trec or beir"),
    "pairs: truncated gzip": (raw(TABLE, "train.csv", CUT_CSV),
     r"train\.csv\.gz:\d+: the gzip data is broken or cut off"),
    "pairs: no gzip": (raw(TABLE, "train.csv", b"plain"), r"train\.csv\.gz: not a gzip file"),
    "pairs: not UTF-8": (changed(TABLE, "dev.csv", b"query,positive\na,b\xff\n"), "dev.csv:2: byte 0xff is not UTF-8"),
    "pairs: empty query": (changed(TABLE, "dev.csv", "query,positive\n ,b\n"), "dev.csv:2: an empty 'query'"),
    "pairs: column is missing": (changed(TABLE, "dev.csv", "query,negative\na,b\n"),
     "dev.csv:1: no form of pairs has the columns"),
    "pairs: fields": (changed(TABLE, "dev.csv", "query,positive\na,b,c\n"), "dev.csv:2: 3 columns instead of 2"),
    "pairs: open quote": (changed(TABLE, "dev.csv", 'query,positive\na,b\nc,"d\n'),
     "dev.csv:3: quotation marks or fields that"),
    "pairs: broken JSON": (changed(TRIPLES, "dev.jsonl", TRIPLES["dev.jsonl"] + "{"), "dev.jsonl:4: not a JSON object"),
    "pairs: key is missing": (changed(TRIPLES, "dev.jsonl", TRIPLES["dev.jsonl"] + '{"query": "a"}'),
     "dev.jsonl:4: no 'positive'"),
    "pairs: label": (changed(TABLE, "dev.csv", "query,document,label\na,b,0.7\n"),
     r"dev.csv:2: label '0.7'; write a whole number"),
    "pairs: contradiction": (changed(TABLE, "dev.csv", "query,document,label\na,b,0\na,b,1\n"),
                             r"dev.csv:3: grade 1 for a query and document that have grade 0 in \S+/dev.csv:2; keep"),
    "pairs: 0 bytes": (changed(TABLE, "dev.csv", ""), "dev.csv: no rows"),
    "pairs: header alone": (changed(TABLE, "dev.csv", "query,positive\n"), "dev.csv: no rows behind the header"),
    "pairs: two forms": ({**TABLE, **TREC}, "could be trec or pairs"),
    "pairs: two files of a split": ({**TABLE, "dev.jsonl": "{}"}, "dev.jsonl and dev.csv are all the dev split"),
    "pairs: HTML": (changed(TABLE, "dev.csv", "<html>\n"), "dev.csv:1: XML or HTML"),
    "pairs: a line of 50 MB": (changed(TABLE, "dev.csv", "query,positive\na," + "x" * 50_000_000),
     "dev.csv:2: a line of more than"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_in_one_line_each(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files, wrong = BAD[case]
    folder = write_folder(tmp_path / "data", files)
    for path in folder.glob("*.raw"):
        path.rename(path.with_suffix(".gz"))
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
