"""Judgments, first-stage runs and a teacher's scores as tables, from files as TREC, BEIR and MS MARCO have them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.data.cells import id_of
from trainables.data.columns import grouped_order
from trainables.data.files import ending_of, first_lines, split_files
from trainables.data.rows import PLACE, as_numbers, file_name
from trainables.data.tables import Reading

RUN_FILE, SCORES_FILE = "run.{}.txt", "scores.{}.tsv"
QRELS = ("qid", "_0", "docno", "label")
BEIR_QRELS = ("qid", "docno", "label")
RUN = ("qid", "_Q0", "docno", "rank", "score", "_TAG")
SHORT_RUN = ("qid", "docno", "score")  # or MS MARCO's rank
NAMES = {
    **dict.fromkeys(("query_id", "qid", "query", "topic"), "qid"),
    **dict.fromkeys(("corpus_id", "doc_id", "docid", "docno", "pid", "document"), "docno"),
    **dict.fromkeys(("score", "relevance", "label", "grade", "rel"), "label"),
}  # of columns of judgments, with _ for -


def judged(path: Path, reading: Reading, least: float = 0) -> pd.DataFrame:
    """qid, docno, label of a file of TREC's four columns or BEIR's three; CSV and JSON lines, too. `least`: a grade."""
    if ending_of(path) in ("csv", "jsonl"):
        frame = reading.rows(path).rename(columns=lambda name: NAMES.get(str(name).lower().replace("-", "_"), name))
        if not {"qid", "docno", "label"} <= {*frame.columns}:
            wrong = f"columns {', '.join(frame.columns.drop(PLACE))}"
            raise DataError(Problem(f"{path}:1", wrong, "query-id, corpus-id, score"))
        ids = {name: frame[name].map(id_of).astype("str") for name in ("qid", "docno")}
        return reading.grades(reading.ids(frame.assign(**ids), "qid", "docno"), least)
    start = first_lines(path) if path.is_file() else []  # of a pipe they would be gone
    tabs = bool(start) and all(line.count("\t") in (2, 3) for line in start)
    frame = reading.table(path, QRELS, BEIR_QRELS, separator="\t" if tabs else None)
    frame = without_header(frame, "label")
    return reading.grades(reading.ids(frame, "qid", "docno") if tabs else frame, least)


def ranked(path: Path, reading: Reading) -> pd.DataFrame:
    """qid, docno, score (and rank) of a run. The rank column is not used, as in trec_eval; of MS MARCO's runs (QUERY
    DOCUMENT RANK) it decides, and the score is its negative."""
    frame = reading.numbers(reading.table(path, RUN, SHORT_RUN, separator=None), "score")
    if "rank" not in frame and _are_ranks(frame):
        return frame.assign(score=-frame["score"])
    return frame


def runs_of(folder: Path, reading: Reading, splits: Collection[str]) -> dict[str, pd.DataFrame]:
    """The runs of these splits in a folder, if candidates may come from them."""
    files = split_files(folder, RUN_FILE) if reading.config.candidates in ("auto", "run") else {}
    return {split: ranked(path, reading) for split, path in files.items() if split in splits}


def scores_of(folder: Path, reading: Reading) -> dict[str, pd.DataFrame]:
    """qid, docno, score of a teacher of each split in a folder, from files with or without a header."""
    frames = {}
    for split, path in split_files(folder, SCORES_FILE).items():
        frame = without_header(reading.table(path, SHORT_RUN), "score")
        frames[split] = reading.numbers(frame, "score")
    return frames


def without_header(frame: pd.DataFrame, number: str) -> pd.DataFrame:
    """The table without a first line whose `number` is a word that names the column."""
    first = frame.iloc[:1]
    return frame.iloc[1:] if ((first["line"] == 1) & first[number].str.fullmatch(r"[A-Za-z_ -]{4,}")).any() else frame


def _are_ranks(frame: pd.DataFrame) -> bool:
    """Whether whole numbers count the documents of each query, from 1 or 0, or all rows of the file. Numbers that fall
    from row to row are scores."""
    score = frame["score"].to_numpy()
    if not len(score) or (score != np.floor(score)).any():
        return False
    queries = frame.groupby("qid", sort=False, observed=True)["score"]
    counts = queries.agg(["size", "min", "max", "nunique", lambda each: each.is_monotonic_decreasing])
    several = counts[counts["size"] > 1]
    if len(several) and several.iloc[:, -1].all():
        return False
    of_each = counts["min"].isin([0, 1]) & (counts["max"] - counts["min"] + 1 == counts["size"])
    of_all = score.min() in (0, 1) and score.max() - score.min() + 1 == len(score) == len(np.unique(score))
    return bool((of_each & (counts["nunique"] == counts["size"])).all() or of_all)


def require_order(frame: pd.DataFrame, reading: Reading) -> None:
    """Notes a problem where the scores of a run order nothing, and in a note that they rise with the rank."""
    if "rank" not in frame or not len(frame):
        return
    query, rank, score = pd.factorize(frame["qid"])[0], as_numbers(frame["rank"]), frame["score"].to_numpy()
    order = grouped_order(query, rank)
    query, rank, score = query[order], rank[order], score[order]
    pairs = query[1:] == query[:-1]
    if pairs.any() and (score[1:] == score[:-1])[pairs].all() and len(query) > 2:
        wrong = "the scores of each query are all equal"
        reading.problem(frame["file"].iloc[0], wrong, "scores that fall from rank to rank")
    pairs &= rank[1:] != rank[:-1]
    if pairs.any() and 2 * (score[1:] > score[:-1])[pairs].sum() > pairs.sum():
        rises = "SCORE rises with RANK, as a distance does; documents are ordered by SCORE, highest first"
        reading.notes.append(f"{file_name(frame)}: {rises}")
