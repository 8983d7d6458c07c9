"""Training labels of which some are exchanged (label noise).

Dev and test are never touched. All trials and seeds of a search train on the same labels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.randomness import generator
from trainables.data.bm25 import candidate_scores
from trainables.data.columns import NO_RANK, RankingData, Split, required_split
from trainables.data.settings import DataConfig, LabelNoise

NOISE = "data.label_noise"


def with_training_labels(data: RankingData, config: DataConfig, level: int) -> RankingData:
    """The data with the training labels that `data.label_noise` asks for, and a note of what was changed; the data
    itself if it asks for nothing. `level`: the lowest relevant grade.

    Raises DataError for data without texts where texts are needed, without documents to rank, or without training
    queries.
    """
    noise = config.label_noise
    if not noise.share:
        return data
    _require(data, noise)
    key: list[str | int | float] = [data.digest, "labels", level]
    key += [NOISE, noise.share, noise.kind, noise.seed, config.bm25.k1, config.bm25.b]
    key += ["in the run"] if noise.kind == "random" else []
    return replace(_noisy(data, config, level), digest=digest_of(*key))


def _require(data: RankingData, noise: LabelNoise) -> None:
    required_split(data, "train")
    if data.task == "classification":
        wrong = f"'{data.name}' is pairs to classify, and labels are exchanged between the candidates of a query"
        raise DataError(Problem(NOISE, wrong, "data with several candidates a query"))
    if data.features is not None and noise.kind != "swap":
        raise ConfigError(Problem(f"{NOISE}.kind", f"'{data.name}' holds features, no texts, which this needs", "swap"))


def _noisy(data: RankingData, config: DataConfig, level: int) -> RankingData:
    """`share` of the relevant training candidates exchange their grade with a candidate of their query that is not
    relevant. A larger share under the same seed exchanges those of a smaller one too."""
    split, noise = data.splits["train"], config.label_noise
    relevant = np.flatnonzero(split.grade >= level)
    chosen = generator(noise.seed, "label noise").permutation(relevant)[: round(noise.share * len(relevant))]
    wrong = np.flatnonzero(split.grade < level)
    draws = generator(noise.seed, "label noise, partner")
    by = -bm25_scores(data, split, config) if noise.kind == "hard" else draws.random(len(split.grade))
    chosen, partner = _partners(split, chosen, wrong[np.lexsort((by[wrong], split.owner[wrong]))])
    changed = replace(split, grade=split.grade.copy())
    changed.grade[chosen], changed.grade[partner] = split.grade[partner], split.grade[chosen]
    if noise.kind == "random":
        changed = _of_any_documents(data, changed, chosen, partner, config)
    count = round(noise.share * len(relevant))
    note = f"label noise: {len(chosen):,} of {len(relevant):,} relevant training candidates exchanged ({noise.kind})"
    if count > len(chosen):
        note += f"; {count - len(chosen):,} more have no candidate left to exchange with"
    return replace(data, splits=data.splits | {"train": changed}, notes=(*data.notes, note))


def _partners(split: Split, chosen: np.ndarray, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chosen rows that find a partner, and their partners: of each query the first of its rows in `wrong`, each
    used once. `wrong` is ordered by query."""
    owner = split.owner
    chosen = chosen[np.argsort(owner[chosen], kind="stable")]
    of_chosen, of_wrong = owner[chosen], owner[wrong]
    first = np.searchsorted(of_wrong, of_chosen)
    position = first + np.arange(len(chosen)) - np.searchsorted(of_chosen, of_chosen)
    has_one = position < np.searchsorted(of_wrong, of_chosen, side="right")
    return chosen[has_one], wrong[position[has_one]]


def _of_any_documents(
    data: RankingData, split: Split, chosen: np.ndarray, rows: np.ndarray, config: DataConfig
) -> Split:
    """The split with other documents in these rows, which are ordered by query. A query with more than half of all
    documents as candidates keeps its own. A document is in the first stage's run if the one that it replaces as
    relevant (in the row `chosen`) is: otherwise the run would tell which labels are wrong."""
    enough = 2 * split.sizes[split.owner[rows]] <= len(data.documents)
    chosen, rows = chosen[enough], rows[enough]
    document, rank, score = split.document.copy(), split.rank.copy(), split.score.copy()
    document[rows] = _other_documents(split, rows, len(data.documents), config.label_noise.seed)
    rank[rows], score[rows] = NO_RANK, np.nan
    teacher = None if split.teacher is None else split.teacher.copy()
    if teacher is not None:
        teacher[rows] = np.nan
    changed = replace(split, document=document, rank=rank, score=score, teacher=teacher)
    listed = rows[split.rank[chosen] != NO_RANK]
    scores, owners = bm25_scores(data, changed, config), split.owner[listed]
    for query in np.unique(owners).tolist():
        added = listed[np.searchsorted(owners, query) : np.searchsorted(owners, query, side="right")]
        candidates = slice(int(split.offsets[query]), int(split.offsets[query + 1]))
        _insert_in_run(changed, candidates, added, scores, split.rank[added])
    return changed


def _other_documents(split: Split, rows: np.ndarray, documents: int, seed: int) -> np.ndarray:
    """A document for each of these rows, drawn from all that are not candidates of its query."""
    keys, draws = split.owner * documents, generator(seed, "label noise, documents")
    present, drawn = keys + split.document, np.zeros(len(rows), np.int64)
    wrong = np.ones(len(rows), bool)
    while wrong.any():
        drawn[wrong] = draws.integers(documents, size=int(wrong.sum()))
        pairs = keys[rows] + drawn
        wrong = np.isin(pairs, present)
        wrong[np.setdiff1d(np.arange(len(rows)), np.unique(pairs, return_index=True)[1])] = True
    return drawn


def _insert_in_run(split: Split, candidates: slice, added: np.ndarray, by: np.ndarray, freed: np.ndarray) -> None:
    """Gives the rows `added` of a query a rank and a score in its run, in place: below all that BM25 (`by`) puts above
    them, with a score between its neighbours', so that the scorer of the run need not be known. `freed`: their rows'
    former ranks. The run has at least the relevant documents that they replace."""
    listed = candidates.start + np.flatnonzero(split.rank[candidates] != NO_RANK)
    listed = listed[np.argsort(split.rank[listed], kind="stable")]
    above = (by[listed] > by[added][:, None]).sum(axis=1)
    scores, last = split.score[listed], len(listed) - 1
    split.score[added] = (scores[np.maximum(above - 1, 0)] + scores[np.minimum(above, last)]) / 2
    together = np.concatenate([listed, added])
    position = np.concatenate([np.arange(len(listed)) + 0.5, above])
    free_ranks = np.sort(np.concatenate([split.rank[listed], freed[freed != NO_RANK]]))
    more = free_ranks[-1] + 1 + np.arange(len(together) - len(free_ranks))
    split.rank[together[np.lexsort((-by[together], position))]] = np.concatenate([free_ranks, more])


def bm25_scores(data: RankingData, split: Split, config: DataConfig) -> np.ndarray:
    """BM25 of each candidate for its query, float64 [C], over the collection of the split's candidates."""
    return candidate_scores(data, split, slice(None), "lucene", config.bm25.k1, config.bm25.b)
