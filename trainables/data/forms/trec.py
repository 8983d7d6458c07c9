"""TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt and, optionally, run.SPLIT.txt, scores.SPLIT.tsv."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from trainables.data.columns import SPLITS
from trainables.data.files import beginning, first_lines, found, split_files, whole_text
from trainables.data.forms import Form
from trainables.data.forms.beir import named_texts
from trainables.data.judgments import judged, ranked, scored
from trainables.data.rows import located
from trainables.data.tables import Reading, Tables

COLLECTION = ("collection.tsv", "collection.jsonl")  # the latter as Pyserini and MS MARCO v2 have it
DOCUMENT = (
    ("docno", "text"),
    ("docno", "title", "text"),
    ("docno", "_URL", "title", "text"),
)  # MS MARCO's: title, address
QUERIES = ("queries.{}.tsv", "queries.{}.small.tsv")
TOPICS = ("topics.{}.xml", "topics.{}.txt", "topics.{}.tsv", "queries.{}.xml", "topics.{}")
QRELS = ("qrels.{}.txt", "qrels.{}.tsv", "qrels.{}.small.tsv")
TRIPLES = ("qidpidtriples.{}.tsv", "qidpidtriples.{}.full.tsv", "qidpidtriples.{}.full.2.tsv")
TOP = ("top1000.{}.tsv", "top1000.{}")
_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>(.*?)(?=</\1\s*>|<\1\b|\Z)", re.DOTALL | re.IGNORECASE)
_ATTRIBUTE = re.compile(r"\b(?:number|num|id|qid)\s*=\s*[\"']\s*([^\"']+?)\s*[\"']", re.IGNORECASE)
_NUMBER = re.compile(r"<(?:num|number|id|qid|identifier)\s*>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<(query|title)\s*>(?:\s*Topic:)?(.*?)(?=</\1\s*>|<(?:desc|narr|description|narrative)\b|\Z)",
                    re.DOTALL | re.IGNORECASE)  # fmt: skip
_TAG = re.compile(r"<[^>]*>")


def files(folder: Path) -> list[Path]:
    collection = found(folder, *COLLECTION)
    if collection is None:
        return []
    others = [_queries(folder), *(split_files(folder, *names) for names in (QRELS, ("run.{}.txt",), TRIPLES, TOP))]
    scores = split_files(folder, "scores.{}.tsv")
    return [collection, *(path for each in (*others, scores) for path in each.values())]


def read(folder: Path, reading: Reading) -> Tables:
    """Splits are those that have queries or judgments. MS MARCO's triples of ids and its 1,000 documents a query are
    candidates without scores; where a split has triples alone, they are its judgments."""
    topics, qrels = _queries(folder), split_files(folder, *QRELS)
    triples, top = split_files(folder, *TRIPLES), split_files(folder, *TOP)
    queries = {split: _texts(path, reading) for split, path in topics.items()}
    for split in SPLITS:
        if split in qrels and split not in topics:
            reading.problem(folder / f"queries.{split}.tsv", "missing file", "give rows QUERY TAB TEXT")
        if split in topics and split not in qrels and split not in triples:
            reading.problem(folder / f"qrels.{split}.txt", "missing file", "give rows QUERY 0 DOCUMENT GRADE")
    if not queries and not reading.problems:
        reading.problem(folder, "no queries", f"give queries.SPLIT.tsv, SPLIT = {', '.join(SPLITS)}")
    pools = {split: _candidates(path, reading) for split, path in triples.items()}
    pools |= {
        split: reading.table(path, ("qid", "docno", "_QUERY'S TEXT", "_DOCUMENT'S TEXT")) for split, path in top.items()
    }
    judgments = {split: judged(path, reading) for split, path in qrels.items() if split in queries}
    judgments |= {split: pools[split] for split in triples if split in queries and split not in qrels}
    runs = split_files(folder, "run.{}.txt") if reading.config.candidates in ("auto", "run") else {}
    return Tables(
        docs=_documents(found(folder, *COLLECTION) or folder, reading),
        queries=queries,
        qrels=judgments,
        runs={split: ranked(path, reading) for split, path in runs.items() if split in queries},
        pools={split: frame for split, frame in pools.items() if split in queries},
        scores={split: scored(path, reading) for split, path in split_files(folder, "scores.{}.tsv").items()},
        ids_given=True,
    )


def _queries(folder: Path) -> dict[str, Path]:
    """The queries of each split; of MS MARCO's small part, if only that is judged."""
    small = {split for split, path in split_files(folder, *QRELS).items() if ".small." in path.name}
    topics = split_files(folder, *QUERIES, *TOPICS)
    reduced = split_files(folder, *reversed(QUERIES))
    return {split: reduced.get(split, path) if split in small else path for split, path in topics.items()}


def _documents(path: Path, reading: Reading) -> Iterator[pd.DataFrame]:
    """docno, text of the collection, in parts; a title stands before the text."""
    if ".jsonl" in path.name:
        yield from named_texts(path, reading, "docno")
        return
    lines = first_lines(path)
    widths = [line.count("\t") + 1 for line in lines]
    usual = max(widths, key=widths.count, default=2)
    addresses = all("://" in line.split("\t")[1] for line in lines if "\t" in line)
    columns = DOCUMENT if usual < 4 or addresses else DOCUMENT[:1]
    noted = False
    for frame in reading.parts(path, *columns):
        frame["docno"] = frame["docno"].str.strip()
        if "title" in frame:
            whole = (frame["title"] + " " + frame["text"]).str.strip()
            frame["text"] = whole.where(frame["text"].str.strip() != "", "")
            if not noted:
                form = "DOCUMENT TAB TITLE TAB TEXT" if usual == 3 else "DOCUMENT TAB URL TAB TITLE TAB TEXT"
                reading.notes.append(f"{path.name}: rows {form}; the title stands before the text")
                noted = True
        yield frame


def _texts(path: Path, reading: Reading) -> pd.DataFrame:
    """qid, text of a file of queries: rows, or topics as TREC and CLEF publish them."""
    lines = first_lines(path)
    if beginning(path).lstrip()[:1] == b"<":
        return _topics(path, reading)
    if lines and not any("\t" in line for line in lines) and all(":" in line for line in lines):
        frame = reading.table(path, ("qid", "text"), separator=":")  # NUMBER:TEXT, of the web tracks
    else:
        frame = reading.table(path, ("qid", "text"))
    frame["qid"] = frame["qid"].str.strip()
    return frame


def _topics(path: Path, reading: Reading) -> pd.DataFrame:
    """Queries as TREC publishes them: <topic number="1"><query>TEXT</query></topic>, or <top> with <num> and <title>,
    which are not always closed. Markup within a text is taken off."""
    whole = whole_text(path)
    form = "rows QUERY TAB TEXT"
    lines, names, texts = [], [], []
    for topic in _TOPIC.finditer(whole):
        line = whole.count("\n", 0, topic.start()) + 1
        number, title = _ATTRIBUTE.search(topic[2]) or _NUMBER.search(topic[3]), _TITLE.search(topic[3])
        if number is None or (title is None and "<" in topic[3]):
            lacks = "a number" if number is None else "<query> or <title>"
            reading.problem(f"{path}:{line}", f"a topic without {lacks}", f"write the topics with {form}")
            continue
        text = html.unescape(_TAG.sub("", title[2] if title else topic[3]))
        lines.append(line)
        names.append(html.unescape(number[1]))
        texts.append(" ".join(text.split()))
    if not lines and not reading.problems:
        reading.problem(f"{path}:1", "XML or HTML without topics", f"write the queries with {form}")
    return located(pd.DataFrame({"qid": names, "text": texts}, dtype="str"), path, lines)


def _candidates(path: Path, reading: Reading) -> pd.DataFrame:
    """The relevant document of each triple of ids with grade 1, and the other with grade 0."""
    frame = reading.table(path, ("qid", "positive", "negative"))
    parts = [frame.drop(columns=["positive", "negative"]).assign(docno=frame[name], label=grade)
             for name, grade in (("positive", 1), ("negative", 0))]  # fmt: skip
    return pd.concat(parts).sort_index(kind="stable").drop_duplicates(["qid", "docno", "label"], ignore_index=True)


FORM = Form(files, read)
