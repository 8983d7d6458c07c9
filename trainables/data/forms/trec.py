"""TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt and, optionally, run.SPLIT.txt, scores.SPLIT.tsv."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS
from trainables.data.files import beginning, first_lines, found, split_files, whole_text
from trainables.data.forms import Form
from trainables.data.forms.beir import named_texts
from trainables.data.judgments import RUN_FILE, SCORES_FILE, judged, runs_of, scores_of
from trainables.data.rows import is_blank, located
from trainables.data.tables import Reading, Tables

COLLECTION = ("collection.tsv", "collection.jsonl")  # the latter as Pyserini and MS MARCO v2 have it
TITLED, ADDRESSED = ("docno", "title", "text"), ("docno", "_URL", "title", "text")  # the latter as MS MARCO's documents
QUERIES = ("queries.{}.tsv", "queries.{}.small.tsv")
TOPICS = ("topics.{}.xml", "topics.{}.txt", "topics.{}.tsv", "queries.{}.xml", "topics.{}")
QRELS = ("qrels.{}.txt", "qrels.{}.tsv", "qrels.{}.small.tsv")
ROWS = {"queries.{}.tsv": "QUERY TAB TEXT", "qrels.{}.txt": "QUERY 0 DOCUMENT GRADE"}
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
    others = [split_files(folder, *names) for names in (QRELS, (RUN_FILE,), (SCORES_FILE,))]
    return [collection, *(path for each in (_queries(folder), *others) for path in each.values())]


def read(folder: Path, reading: Reading) -> Tables:
    """Splits are those that have queries and judgments."""
    topics, qrels = _queries(folder), split_files(folder, *QRELS)
    if not topics and not qrels:
        raise DataError(Problem(str(folder), "no queries", f"give queries.SPLIT.tsv, SPLIT = {', '.join(SPLITS)}"))
    for there, needed, name in ((qrels, topics, "queries.{}.tsv"), (topics, qrels, "qrels.{}.txt")):
        for split in there.keys() - needed.keys():
            reading.problem(folder / name.format(split), "missing file", f"give rows {ROWS[name]}")
    reading.finish()
    return Tables(
        docs=_documents(found(folder, *COLLECTION) or folder, reading),
        queries={split: _texts(path, reading) for split, path in topics.items()},
        qrels={split: judged(qrels[split], reading) for split in topics},
        runs=runs_of(folder, reading, topics),
        scores=scores_of(folder, reading),
        ids_given=True,
    )


def _queries(folder: Path) -> dict[str, Path]:
    """The queries of each split; of MS MARCO's small part, if only that is judged."""
    small = {split for split, path in split_files(folder, *QRELS).items() if ".small." in path.name}
    reduced = split_files(folder, *reversed(QUERIES))
    topics = split_files(folder, *QUERIES, *TOPICS)
    return {split: reduced.get(split, path) if split in small else path for split, path in topics.items()}


def _documents(path: Path, reading: Reading) -> Iterator[pd.DataFrame]:
    """docno, text of the collection, in parts; a title stands before the text."""
    if ".jsonl" in path.name:
        yield from named_texts(path, reading, "docno")
        return
    start = first_lines(path)
    widths = [line.count("\t") + 1 for line in start]
    width = max(widths, key=widths.count, default=2)
    addresses = all("://" in line.split("\t")[1] for line in start if "\t" in line)
    titled = {3: TITLED, 4: ADDRESSED}.get(width) if width < 4 or addresses else None
    if titled:
        form = " TAB ".join(("DOCUMENT", *(name.strip("_").upper() for name in titled[1:])))
        reading.notes.append(f"{path.name}: rows {form}; the title stands before the text")
    for frame in reading.parts(path, titled or ("docno", "text")):
        frame["docno"] = frame["docno"].str.strip()
        if titled:
            whole = (frame["title"] + " " + frame["text"]).str.strip()
            frame["text"] = whole.where(~is_blank(frame["text"]), "")
        yield frame


def _texts(path: Path, reading: Reading) -> pd.DataFrame:
    """qid, text of a file of queries: rows, of the web tracks NUMBER:TEXT, or topics as TREC and CLEF publish them."""
    if beginning(path).lstrip()[:1] == b"<":
        return _topics(path, reading)
    start = first_lines(path)
    colons = bool(start) and not any("\t" in line for line in start) and all(":" in line for line in start)
    frame = reading.table(path, ("qid", "text"), separator=":" if colons else "\t")
    return frame.assign(qid=frame["qid"].str.strip())


def _topics(path: Path, reading: Reading) -> pd.DataFrame:
    """Queries as TREC publishes them: <topic number="1"><query>TEXT</query></topic>, or <top> with <num> and <title>,
    which are not always closed. Markup within a text is taken off."""
    whole, right, rows = whole_text(path), "write the queries with rows QUERY TAB TEXT", []
    for topic in _TOPIC.finditer(whole):
        line = whole.count("\n", 0, topic.start()) + 1
        number, title = _ATTRIBUTE.search(topic[2]) or _NUMBER.search(topic[3]), _TITLE.search(topic[3])
        if number is None or (title is None and "<" in topic[3]):
            lacks = "a number" if number is None else "<query> or <title>"
            reading.problem(f"{path}:{line}", f"a topic without {lacks}", right)
            continue
        text = html.unescape(_TAG.sub("", title[2] if title else topic[3]))
        rows.append((line, html.unescape(number[1]), " ".join(text.split())))
    if not rows and not reading.problems:
        raise DataError(Problem(f"{path}:1", "XML or HTML without topics", right))
    frame = pd.DataFrame(rows, columns=["line", "qid", "text"]).astype({"qid": "str", "text": "str"})
    return located(frame, path, frame["line"])


FORM = Form(files, read)
