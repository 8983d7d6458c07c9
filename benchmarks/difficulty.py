"""What difficulties cost: for a million synthetic instances, against rank_bm25 on real ones, and from the cache.

    python benchmarks/difficulty.py [--instances 1000000] [--dialogs ../shared/data/conversation/dailydialogpp]
    python benchmarks/difficulty.py --dialogs ../shared/data/conversation/dailydialogpp --json

The synthetic data has one instance and 10 candidates per query, as many documents as queries, and words in Zipf's
distribution. `cpu` is processor time, which other work on the machine does not change; `peak` is the most memory that
the process has held so far, the data included. Ends in an error if rank_bm25 gives other values. With `--json`, only
the comparison with rank_bm25 runs, over each context's own candidates as in Penha & Hauff's script. Needs the extra
`bench`.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rank_bm25 import BM25Okapi  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from side_by_side import Comparison, compare, tell

from trainables.core.randomness import generator
from trainables.curriculum.pacing import Schedule
from trainables.curriculum.sampler import Sampler, easy_first
from trainables.curriculum.scoring import BM25_B, BM25_K1, SCORINGS, TEACHERS, Scored, difficulty
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.data.columns import RankingData, Split, TextColumn
from trainables.data.instances import make_instances
from trainables.data.words import words

WORD = 6  # bytes of a made-up word and its space
VOCABULARY = 20_000
TURNS, TURN_WORDS, DOCUMENT_WORDS = 2, 8, 10
CANDIDATES = 10
DRAWS, BATCH, WINDOW = 2_000, 32, 8
WHOLE_CORPUS_QUERIES = 40
MORE_THAN_DATA = {*TEACHERS, "file"}  # what some scorings need


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--dialogs", type=Path, help="folder with train.tsv.gz, for the comparison with rank_bm25")
    parser.add_argument("--json", action="store_true", help="the comparison alone, as one line")
    options = parser.parse_args()
    with TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        if options.json:
            tell(of_dialogs(read_dialogs(options.dialogs / "train.tsv.gz")), as_json=True)
            return
        all_difficulties(options.instances)
        heuristics(queries=10_000, candidates=1_000)
        if options.dialogs:
            against_rank_bm25(read_dialogs(options.dialogs / "train.tsv.gz"))


def timed(label: str, work: Callable[[], object]) -> tuple[float, float]:
    """Runs the work and prints its cost; returns seconds of wall clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{label:<48} {wall:9.3f} s  cpu {cpu:9.3f} s  peak {peak:5.2f} GiB", flush=True)
    return wall, cpu


# -- synthetic instances ---------------------------------------------------------------------------------------------


def all_difficulties(instances: int) -> None:
    """Every scoring of the data alone, then again from the cache, then batches drawn by one of them."""
    print(f"{instances:,} instances of {CANDIDATES} candidates")
    made: list[Scored] = []
    timed("  data made", lambda: made.append(synthetic(instances)))
    names = [name for name in SCORINGS if not SCORINGS[name].needs & MORE_THAN_DATA]
    for name in names:
        timed(f"  {name}", lambda name=name: difficulty(name, made[0]))
    for name in names:
        timed(f"  {name}, second call", lambda name=name: require_cached(name, made[0]))
    values, _ = difficulty("context_words", made[0])
    sampler = Sampler(easy_first(values), Schedule("root", DRAWS), seed=0)
    wall, _ = timed(f"  {DRAWS} batches of {BATCH} drawn", lambda: draw(sampler))
    print(f"  {wall / DRAWS * 1e3:.4f} ms a batch")


def require_cached(name: str, scored: Scored) -> None:
    if not difficulty(name, scored)[1]:
        raise SystemExit(f"error: {name} was computed anew")


def draw(sampler: Sampler) -> None:
    for step in range(0, DRAWS, WINDOW):
        sampler.draw(step, WINDOW, BATCH)


def synthetic(queries: int) -> Scored:
    """Data with one relevant candidate per query, so that there is one instance per query."""
    random = generator(0, "synthetic data")
    split = synthetic_split(random, queries, CANDIDATES, documents=queries)
    data = RankingData(
        name="synthetic",
        digest=f"synthetic {queries}",
        document_ids=texts(random, queries, 1),
        documents=texts(random, queries, DOCUMENT_WORDS),
        query_ids=texts(random, queries, 1),
        utterances=texts(random, TURNS * queries, TURN_WORDS),
        utterance_offsets=np.arange(0, TURNS * queries + 1, TURNS),
        domain=np.zeros(queries, np.int16),
        domains=("all",),
        splits={"train": split},
    )
    return Scored(data, split, make_instances(split, True, 1, 1), seed=0)


def synthetic_split(random: np.random.Generator, queries: int, candidates: int, documents: int) -> Split:
    """Each query's candidates by falling score; the third is relevant."""
    score = -np.sort(-random.gamma(2.0, 3.0, (queries, candidates)), axis=1)
    grade = np.tile(np.arange(candidates) == 2, queries).astype(np.int16)
    offsets = np.arange(0, len(grade) + 1, candidates)
    return Split(
        query=np.arange(queries, dtype=np.int32),
        offsets=offsets,
        document=random.integers(0, documents, len(grade), np.int32),
        grade=grade,
        rank=np.tile(np.arange(1, candidates + 1, dtype=np.int32), queries),
        score=score.ravel(),
        judged_grade=grade,
        judged_offsets=offsets,
    )


def texts(random: np.random.Generator, count: int, length: int) -> TextColumn:
    """Random texts of `length` words, made without a Python object for each."""
    vocabulary = np.frombuffer("".join(f"w{word:04x} " for word in range(VOCABULARY)).encode(), np.uint8)
    weights = 1 / np.arange(1, VOCABULARY + 1)
    chosen = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(count * length))
    data = vocabulary.reshape(VOCABULARY, WORD)[np.minimum(chosen, VOCABULARY - 1)].reshape(count, length * WORD)
    size = length * WORD - 1  # without the last space
    return TextColumn(np.ascontiguousarray(data[:, :size]).ravel(), np.arange(0, count * size + 1, size))


def heuristics(queries: int, candidates: int) -> None:
    """Times the weighting heuristics on a first-stage run."""
    print(f"{queries:,} queries of {candidates:,} candidates")
    split = synthetic_split(generator(0, "run"), queries, candidates, documents=1_000_000)
    for name, heuristic in WEIGHTINGS.items():
        if heuristic is not None:
            timed(f"  {name}", lambda heuristic=heuristic: heuristic(split))


# -- against rank_bm25 -----------------------------------------------------------------------------------------------


def read_dialogs(path: Path) -> Scored:
    """Contexts with their responses; each row (label, utterances..., response) is a document of its own."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row[1:-1])]
    offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    grade = np.array([int(row[0]) for row in rows], np.int16)
    contexts = [group[0][1:-1] for group in groups]
    split = Split(
        query=np.arange(len(groups), dtype=np.int32),
        offsets=offsets,
        document=np.arange(len(rows), dtype=np.int32),
        grade=grade,
        rank=np.zeros(len(rows), np.int32),
        score=np.full(len(rows), np.nan),
        judged_grade=grade,
        judged_offsets=offsets,
    )
    data = RankingData(
        name="dialogs",
        digest=str(path),
        document_ids=TextColumn.of(map(str, range(len(rows)))),
        documents=TextColumn.of(row[-1] for row in rows),
        query_ids=TextColumn.of(map(str, range(len(groups)))),
        utterances=TextColumn.of(utterance for context in contexts for utterance in context),
        utterance_offsets=np.concatenate([[0], np.cumsum([len(context) for context in contexts])]),
        domain=np.zeros(len(groups), np.int16),
        domains=("all",),
        splits={"train": split},
    )
    return Scored(data, split, make_instances(split, True, 1, 1), seed=0)


def against_rank_bm25(scored: Scored) -> None:
    """bm25_std from texts, by us and by rank_bm25, which scores own candidates or, as usual, the whole corpus."""
    data, split = scored.data, scored.split
    print(f"{len(split):,} contexts of {split.sizes.mean():.1f} candidates, {len(scored.instances):,} instances")
    ours: list[np.ndarray] = []
    theirs: list[np.ndarray] = []
    models: list[BM25Okapi] = []
    own = timed("  bm25_std", lambda: ours.append(SCORINGS["bm25_std"](scored)))
    build = timed("  rank_bm25, index", lambda: models.append(index_by_rank_bm25(data)))
    model = models[0]
    own_only = timed("  rank_bm25, own candidates", lambda: theirs.append(np.array(list(deviations(model, scored)))))
    wrong = np.abs(scored.of_queries(theirs[0]) - ours[0]).max()
    if wrong > 1e-9:
        raise SystemExit(f"error: the values differ by up to {wrong:g}")
    sample = split.query[:: max(1, len(split) // WHOLE_CORPUS_QUERIES)]
    part = timed(f"  rank_bm25, whole corpus, {len(sample)} contexts", lambda: whole_corpus(model, data, sample))
    for kind, clock in enumerate(("wall clock", "processor")):
        whole = build[kind] + part[kind] * len(split) / len(sample)
        print(
            f"  the same values (within {wrong:.1g}); by {clock} {(build[kind] + own_only[kind]) / own[kind]:.1f} times"
            f" faster than rank_bm25 over own candidates, {whole / own[kind]:,.0f} than over the whole corpus"
        )


def of_dialogs(scored: Scored, repeats: int = 2) -> Comparison:
    """bm25_std from texts, by us and by rank_bm25 alternately."""
    ours: list[np.ndarray] = []
    theirs: list[np.ndarray] = []

    def by_rank_bm25() -> None:
        theirs.append(np.array(list(deviations(index_by_rank_bm25(scored.data), scored))))

    work, peer = f"bm25_std of {len(scored.split):,} dialogues", "rank_bm25 over the own candidates"
    found = compare(work, peer, lambda: ours.append(SCORINGS["bm25_std"](scored)), by_rank_bm25, repeats, warm_up=0)
    wrong = np.abs(scored.of_queries(theirs[0]) - ours[0]).max()
    if wrong > 1e-9:
        raise SystemExit(f"error: the values differ by up to {wrong:g}")
    return found


def index_by_rank_bm25(data: RankingData) -> BM25Okapi:
    return BM25Okapi([words(text) for text in data.documents], k1=BM25_K1, b=BM25_B, epsilon=0.25)


def deviations(model: BM25Okapi, scored: Scored) -> Iterator[float]:
    split = scored.split
    for place, query in enumerate(split.query.tolist()):
        rows = split.document[split.offsets[place] : split.offsets[place + 1]].tolist()
        scores = model.get_batch_scores(words(scored.data.query_text(query)), rows)
        yield float(np.std(scores, ddof=1))


def whole_corpus(model: BM25Okapi, data: RankingData, queries: np.ndarray) -> None:
    for query in queries.tolist():
        model.get_scores(words(data.query_text(query)))


if __name__ == "__main__":
    main()
