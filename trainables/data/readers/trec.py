"""TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt and, optionally, run.SPLIT.txt, scores.SPLIT.tsv."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS, RankingData, Task
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.collection import read_collection, read_texts
from trainables.data.readers.files import split_file
from trainables.data.readers.judgments import JudgmentReader, optional_files, qrels_of, qrels_rows, run_file
from trainables.data.readers.rows import Rows, first_bytes, plain_or_packed, read_whole
from trainables.data.readers.tables import JsonTable, first_rows, named_objects
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
COLLECTION_FILES = ("collection.tsv", "collection.jsonl")  # the latter as Pyserini has it
COLLECTION = ("DOCUMENT", "TEXT")
WITH_TITLE = {
    3: ("DOCUMENT", "TITLE", "TEXT"),
    4: ("DOCUMENT", "URL", "TITLE", "TEXT"),
}  # MS MARCO's passages, documents
KEYS = ("id", "contents")
QUERIES = ("QUERY", "TEXT")
QUERIES_FILES = ("queries.{}.tsv", "queries.{}.small.tsv")
TOPICS_FILES = ("topics.{}.xml", "topics.{}.txt", "topics.{}.tsv", "queries.{}.xml", "topics.{}")
_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>(.*?)(?=</\1\s*>|<\1\b|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBERED = re.compile(r"\b(?:number|num|id|qid)\s*=\s*[\"']\s*([^\"']+?)\s*[\"']", re.IGNORECASE)
_NUMBER = re.compile(r"<(?:num|number|id|qid)\s*>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<(?:query|title)\s*>(?:\s*Topic:)?([^<]*)", re.IGNORECASE)
QRELS_FILES = ("qrels.{}.txt", "qrels.{}.tsv", "qrels.{}.small.tsv")
TRIPLES = ("QUERY", "POSITIVE", "NEGATIVE")  # ids
TRIPLES_FILES = ("qidpidtriples.{}.tsv", "qidpidtriples.{}.full.tsv", "qidpidtriples.{}.full.2.tsv")
TOP = ("QUERY", "DOCUMENT", "QUERY'S TEXT", "DOCUMENT'S TEXT")
TOP_FILES = ("top1000.{}.tsv", "top1000.{}")


def recognises(folder: Path) -> bool:
    return plain_or_packed(folder, *COLLECTION_FILES).exists()


def files(folder: Path) -> list[Path]:
    paths = [plain_or_packed(folder, *COLLECTION_FILES)]
    for split in SPLITS:
        paths += [_queries(folder, split), _qrels(folder, split), run_file(folder, split), *_pools(folder, split)]
    present = [path for path in paths if path.exists()]
    return present + [path for path in optional_files(folder) if path not in present]


def _qrels(folder: Path, split: str) -> Path:
    return split_file(folder, split, *QRELS_FILES)


def _pools(folder: Path, split: str) -> list[Path]:
    """MS MARCO's candidates without scores, as far as they are given: triples of ids, or 1,000 documents a query."""
    return [split_file(folder, split, *TRIPLES_FILES), split_file(folder, split, *TOP_FILES)]


def _queries(folder: Path, split: str) -> Path:
    """The queries of a split; of MS MARCO's small part, if only that is judged."""
    small = ".small." in _qrels(folder, split).name
    return split_file(folder, split, *(reversed(QUERIES_FILES) if small else QUERIES_FILES), *TOPICS_FILES)


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """The folder's splits: those that have queries or qrels.

    Documents of runs and qrels must be in the collection, but for a few: a run's are left out, those of the qrels count
    among the judged ones.
    Raises DataError with every problem of collection and queries, then of qrels, runs and scores.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    if ".jsonl" in (path := plain_or_packed(folder, *COLLECTION_FILES)).suffixes:
        lines = JsonTable(path, problems, KEYS)
        documents = named_objects(lines, KEYS)
    else:
        lines = Rows(path, COLLECTION, "\t", problems)
        documents = _documents(lines, notes)
    collection = read_collection(lines, documents, notes, workspace, config.strict)
    queries = {}
    topics = sorted(path.name for path in folder.glob("topics*"))
    for split in _splits(folder):
        rows = Rows(_queries(folder, split), QUERIES, "\t", problems)
        if topics and not rows.path.exists():
            right = f"write the topics as {rows.path.name}, with rows {rows.form}"
            rows.file_problem(f"missing file; {', '.join(topics)[:100]} not read", right)
        else:
            topics_there = first_bytes(rows.path).lstrip()[:1] == b"<"
            named = _topics(rows) if topics_there else _named(rows)
            queries[split] = read_texts(rows, named, notes, config.strict)
    if not queries and not problems:
        problems.append(Problem(str(folder), "no queries", f"give queries.SPLIT.tsv, SPLIT = {', '.join(SPLITS)}"))
    if problems:  # unknown ids in qrels and runs would only repeat these
        raise DataError(problems)
    reader = JudgmentReader(folder, config.candidates, collection.index, problems, notes, config.strict)
    splits = {split: _read_split(reader, split, texts) for split, texts in queries.items()}
    if problems:
        raise DataError(problems)
    notes += _repeated(queries)
    return assemble(Raw(folder.name, collection.ids, collection.texts, splits, tuple(notes), collection.index), config)


def _splits(folder: Path) -> list[str]:
    return [split for split in SPLITS if _qrels(folder, split).exists() or _queries(folder, split).exists()]


def _named(rows: Rows) -> Iterator[tuple[int, str, str]]:
    for number, (name, text) in rows:
        yield number, name.strip(), text


def _topics(rows: Rows) -> Iterator[tuple[int, str, str]]:
    """Queries as TREC publishes them: <topic number="1"><query>TEXT</query></topic>, or <top> with <num> and <title>,
    which are not always closed."""
    whole = read_whole(rows.path, rows.problems) or ""
    for topic in _TOPIC.finditer(whole):
        rows.count += 1
        line = whole.count("\n", 0, topic.start()) + 1
        number = _NUMBERED.search(topic[2]) or _NUMBER.search(topic[3])
        text = _TITLE.search(topic[3])
        if number is None or (text is None and "<" in topic[3]):
            lacks = "a number" if number is None else "<query> or <title>"
            rows.problem(line, f"a topic without {lacks}", f"write the topics with rows {rows.form}")
        else:
            words = html.unescape(text[1] if text else topic[3]).split()
            yield line, html.unescape(number[1]), " ".join(words)
    if not rows.count:
        rows.problem(1, "XML or HTML without topics", f"each row is {rows.form}")


def _documents(rows: Rows, notes: list[str]) -> Iterator[tuple[int, str, str]]:
    """The documents of a collection, in which most rows have two columns, or a title too, or that and an address."""
    first = [len(fields) for fields in first_rows(rows.path)]
    usual = max(first, key=first.count, default=0)
    if usual == len(WITH_TITLE) + 2 and not all(
        "://" in fields[1] for fields in first_rows(rows.path) if len(fields) > 1
    ):
        usual = 0
    rows.columns = WITH_TITLE.get(usual, COLLECTION)
    if usual in WITH_TITLE:
        rows.form = rows.advice = " TAB ".join(rows.columns)
        notes.append(f"{rows.path.name}: rows {rows.form}; the title stands before the text")
    for number, (name, *_, text) in rows if usual not in WITH_TITLE else _with_titles(rows):
        yield number, name.strip(), text


def _with_titles(rows: Rows) -> Iterator[tuple[int, list[str]]]:
    for number, (name, *_, title, text) in rows:
        yield number, [name, f"{title} {text}".strip() if text.strip() else ""]


def _repeated(queries: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """A note on query ids that are in several splits, which would make test results too good."""
    names = [name for texts in queries.values() for name in texts]
    count = len(names) - len(set(names))
    return (f"{count:,} query ids stand in more than one split",) if count else ()


def _read_split(reader: JudgmentReader, split: str, texts: Mapping[str, str]) -> RawSplit:
    """The split with its qrels and what else is given of it."""
    queries = {query: row for row, query in enumerate(texts)}
    path, (triples, top) = _qrels(reader.folder, split), _pools(reader.folder, split)
    pool = None
    if top.exists():
        rows = Rows(top, TOP, "\t", reader.problems)
        pool = reader.pool(rows, ((number, fields[0], fields[1], "") for number, fields in rows), queries)
    elif triples.exists():
        rows = Rows(triples, TRIPLES, "\t", reader.problems)
        pool = reader.pool(rows, _of_triples(rows), queries)
    if triples.exists() and not path.exists():
        rows = Rows(triples, TRIPLES, "\t", reader.problems)
        qrels = reader.qrels(rows, _of_triples(rows), queries, split)
    else:
        rows = qrels_of(path, reader.problems)
        qrels = reader.qrels(rows, qrels_rows(rows), queries, split)
    run, teacher = reader.run(split, queries), reader.teacher(split, queries)
    return RawSplit(list(texts), [(text,) for text in texts.values()], qrels, run, pool, teacher)


def _of_triples(rows: Rows) -> Iterator[tuple[int, str, str, str]]:
    """The relevant document of a triple with grade 1, and the other with grade 0."""
    for number, (query, *documents) in rows:
        for document, grade in zip(documents, "10", strict=True):
            yield number, query, document, grade
