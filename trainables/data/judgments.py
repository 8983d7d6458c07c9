"""Judgments, first-stage runs and a teacher's scores as tables, from files as TREC, BEIR and MS MARCO have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.data.cells import id_of
from trainables.data.columns import grouped_order
from trainables.data.files import ending_of, first_lines
from trainables.data.rows import as_numbers
from trainables.data.tables import Reading

QRELS = ("qid", "_0", "docno", "label")
BEIR_QRELS = ("qid", "docno", "label")
RUN = ("qid", "_Q0", "docno", "rank", "score", "_TAG")
SHORT_RUN = ("qid", "docno", "score")  # or MS MARCO's rank
SCORES = ("qid", "docno", "score")
NAMES = {
    **dict.fromkeys(("query_id", "qid", "query", "topic"), "qid"),
    **dict.fromkeys(("corpus_id", "doc_id", "docid", "docno", "pid", "document"), "docno"),
    **dict.fromkeys(("score", "relevance", "label", "grade", "rel"), "label"),
}  # of columns of judgments, with _ for -


def judged(path: Path, reading: Reading, least: float = 0, pipes: bool = False) -> pd.DataFrame:
    """qid, docno, label of a file of judgments: TREC's four columns, or BEIR's three with or without a header; CSV and
    JSON lines with such columns, too. `least`: what lower grades become."""
    if ending_of(path) in ("csv", "jsonl"):
        frame = reading.rows(path).rename(columns=lambda name: NAMES.get(str(name).lower().replace("-", "_"), name))
        reading.finish()
        if not {"qid", "docno", "label"} <= {*frame.columns}:
            wrong = f"columns {', '.join(frame.columns.drop(['file', 'line']))}"
            raise DataError(Problem(f"{path}:1", wrong, "query-id, corpus-id, score"))
        frame = frame.assign(**{name: frame[name].map(id_of).astype("str") for name in ("qid", "docno")})
        return reading.grades(reading.ids(frame, "qid", "docno"), least=least)
    lines = [] if pipes else first_lines(path)
    tabs = bool(lines) and all(line.count("\t") in (2, 3) for line in lines)
    frame = without_header(
        reading.table(path, QRELS, BEIR_QRELS, separator="\t" if tabs else None, pipes=pipes), "label"
    )
    return reading.grades(reading.ids(frame, "qid", "docno") if tabs else frame, least=least)


def ranked(path: Path, reading: Reading, pipes: bool = False) -> pd.DataFrame:
    """qid, docno, score (and rank) of a run. The rank column is not used, as in trec_eval; of MS MARCO's runs (QUERY
    DOCUMENT RANK) it decides, and the score is its negative."""
    frame = reading.numbers(reading.table(path, RUN, SHORT_RUN, separator=None, pipes=pipes), "score")
    if "rank" not in frame and _are_ranks(frame):
        frame = frame.assign(score=-frame["score"])
    return frame


def scored(path: Path, reading: Reading) -> pd.DataFrame:
    """qid, docno, score of a file of a teacher's scores, with or without a header."""
    return reading.numbers(without_header(reading.table(path, SCORES), "score"), "score")


def without_header(frame: pd.DataFrame, number: str) -> pd.DataFrame:
    """The table without a first line whose `number` is a word that names the column."""
    if len(frame) and frame["line"].iloc[0] == 1 and frame[number].iloc[:1].str.fullmatch(r"[A-Za-z_ -]{4,}").all():
        return frame.iloc[1:]
    return frame


def _are_ranks(frame: pd.DataFrame) -> bool:
    """Whether whole numbers count the documents of each query, from 1 or 0, or all rows of the file. Numbers that fall
    from row to row are scores."""
    score = frame["score"].to_numpy()
    if not len(score) or (score != np.floor(score)).any():
        return False
    queries = frame.groupby("qid", sort=False, observed=True)["score"]
    sizes, falls = queries.size(), queries.apply(lambda each: each.is_monotonic_decreasing)
    if (sizes > 1).any() and falls[sizes > 1].all():
        return False
    counts = queries.agg(["min", "max", "nunique"])
    of_each = counts["min"].isin([0, 1]) & (counts["max"] - counts["min"] + 1 == sizes) & (counts["nunique"] == sizes)
    of_all = score.min() in (0, 1) and score.max() - score.min() + 1 == len(score) == len(np.unique(score))
    return bool(of_each.all() or of_all)


def require_order(frame: pd.DataFrame, reading: Reading) -> None:
    """Notes a problem where the scores of a run order nothing, and in a note that they rise with the rank."""
    if "rank" not in frame or not len(frame):
        return
    path = Path(str(frame["file"].iloc[0]))
    query, rank, score = pd.factorize(frame["qid"])[0], as_numbers(frame["rank"]), frame["score"].to_numpy()
    order = grouped_order(query, rank)
    query, rank, score = query[order], rank[order], score[order]
    pairs = query[1:] == query[:-1]
    if not pairs.any():
        return
    if (score[1:] == score[:-1])[pairs].all() and len(query) > 2:
        reading.problem(path, "the scores of each query are all equal", "scores that fall from rank to rank")
    pairs &= rank[1:] != rank[:-1]
    if pairs.any() and 2 * (score[1:] > score[:-1])[pairs].sum() > pairs.sum():
        rises = "SCORE rises with RANK, as a distance does; documents are ordered by SCORE, highest first"
        reading.notes.append(f"{path.name}: {rises}")
