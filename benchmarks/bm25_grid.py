"""What the BM25 grid saves: postings gathered once, against a retrieval for each of its 840 points.

    python benchmarks/bm25_grid.py ../shared/data/trec/nfcorpus [--checked 8] [--pyserini 3] [--json]

Times `grid_best` on dev over the whole collection, all included, and two naive ways at some points, spread evenly
over the grid: `Bm25` built anew and searched, and Pyserini searching a finished index. Both are judged by pytrec_eval.
Their time for 840 points is the mean over the points measured, times 840. Pyserini starts a process for each point; the
start, timed by a retrieval for one query, is subtracted. `cpu` compares processor time, which other work on the machine
does not change. Ends in an error if naive BM25 and the grid differ at a point.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from side_by_side import Comparison, tell

from trainables.baselines.lexical import Bm25Baseline, terms
from trainables.baselines.ranking import grid_best
from trainables.config.keys import TrainingConfig
from trainables.data import load_data
from trainables.data.bm25 import Bm25
from trainables.data.candidates import retrieve
from trainables.data.columns import RankingData
from trainables.data.words import index_words, look_up
from trainables.evaluation.metrics import Evaluator, parse_measures
from trainables.evaluation.reported import reported_values
from trainables.evaluation.trec_files import read_qrels

SPLIT = "dev"
Point = Mapping[str, float]
Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # query (row of the split), document, score


def naive(data: RankingData, depth: int) -> Callable[[Point], Found]:
    """BM25 built and searched anew for each point; the texts are analysed once."""
    rows = index_words(" ".join(terms(text)) for text in data.documents)
    queries = look_up((" ".join(terms(text)) for text in split_queries(data)), rows.vocabulary)

    def search(point: Point) -> Found:
        document, score = Bm25(rows, "lucene", point["k1"], point["b"]).top(queries, depth)
        matching = score > 0
        return np.nonzero(matching)[0], document[matching], score[matching]

    return search


def pyserini(data: RankingData, depth: int) -> Callable[[Point], Found]:
    queries = {SPLIT: split_queries(data)}
    return lambda point: retrieve(data.documents, queries, point["k1"], point["b"], depth)[SPLIT]


def split_queries(data: RankingData) -> list[str]:
    return [data.query_text(query) for query in data.splits[SPLIT].query.tolist()]


def judged(data: RankingData, qrels: Mapping[str, Mapping[str, int]], metric: str, found: Found) -> float:
    """The metric's mean by pytrec_eval."""
    names = [data.query_ids[query] for query in data.splits[SPLIT].query.tolist()]
    run: dict[str, dict[str, float]] = {}
    for query, document, score in zip(*(column.tolist() for column in found), strict=True):
        run.setdefault(names[query], {})[data.document_ids[document]] = score
    return float(reported_values(qrels, run, parse_measures([metric]))[metric].mean())


@dataclass(frozen=True)
class Timed:
    """What the calls returned, and the mean seconds of one."""

    values: list[float]
    wall: float
    cpu: float


def timed(work: Callable[[Point], float], points: list[Point]) -> Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    values = [work(point) for point in points]
    count = len(points)
    return Timed(values, (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count)


def spread(count: int) -> list[Point]:
    return [Bm25Baseline.grid[i] for i in np.linspace(0, len(Bm25Baseline.grid) - 1, count).astype(int)]


def grid_values(baseline: Bm25Baseline, points: list[Point]) -> list[float]:
    totals = np.zeros(len(points))
    for pool in baseline.pools(SPLIT):
        score = baseline.scorer(pool.split)
        judge, metric = Evaluator(pool.split, baseline.data.document_ids, depth=pool.depth), baseline.run.metric
        totals += [judge(score(dict(point)), [metric])[metric].sum() for point in points]
    return list(totals / len(baseline.data.splits[SPLIT]))


def compare(options: argparse.Namespace) -> dict[str, Any]:
    tree = {"data": {"source": str(options.folder), "candidates": "qrels"}, "metric": options.metric}
    run = TrainingConfig.model_validate(tree)
    data, depth, count = load_data(run.data), run.data.depth(), len(Bm25Baseline.grid)
    qrels = read_qrels(options.folder / f"qrels.{SPLIT}.txt")

    def measured(search: Callable[[Point], Found], points: list[Point]) -> Timed:
        return timed(lambda point: judged(data, qrels, run.metric, search(point)), points)

    def from_texts(_: Point) -> float:
        return grid_best(Bm25Baseline(data, run, [SPLIT], collection=True), SPLIT).value

    grid = timed(from_texts, [{}])
    baseline = Bm25Baseline(data, run, [SPLIT], collection=True)
    points = spread(options.checked)
    plain = measured(naive(data, depth), points)
    np.testing.assert_allclose(plain.values, grid_values(baseline, points), atol=1e-12)

    some = spread(options.pyserini + 2)[1:-1]
    retrieve(data.documents, {SPLIT: ["index"]}, 0.9, 0.4, depth)  # builds the index
    one = {SPLIT: ["start"]}
    start = timed(lambda point: len(retrieve(data.documents, one, point["k1"], point["b"], depth)), some)
    lucene = measured(pyserini(data, depth), some)
    return {
        "queries": len(data.splits[SPLIT]),
        "points": count,
        "grid": {"seconds": grid.wall, "cpu": grid.cpu, run.metric: grid.values[0]},
        "naive": {
            "points_measured": len(points),
            "seconds_a_point": plain.wall,
            "ratio": plain.wall * count / grid.wall,
            "ratio_cpu": plain.cpu * count / grid.cpu,
        },
        "pyserini": {
            "points_measured": len(some),
            "seconds_a_point": lucene.wall,
            "start_seconds": start.wall,
            "ratio": lucene.wall * count / grid.wall,
            "ratio_without_start": (lucene.wall - start.wall) * count / grid.wall,
            "differences": (np.array(lucene.values) - grid_values(baseline, some)).tolist(),
        },
    }


def rows(found: dict[str, Any], folder: Path) -> list[Comparison]:
    """The comparisons as `benchmarks/all.py` collects them; a peer's time for the whole grid is extrapolated."""
    seconds, work = found["grid"]["seconds"], f"BM25 grid of {found['points']} points on {folder.name}"
    names = {"naive": "the same BM25, a retrieval a point", "pyserini": "Pyserini, a process a point"}
    return [
        Comparison(
            work, f"{name} ({found[key]['points_measured']} measured)", [seconds], [found[key]["ratio"] * seconds]
        )
        for key, name in names.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a TREC folder")
    parser.add_argument("--checked", type=int, default=8, help="points of naive BM25")
    parser.add_argument("--pyserini", type=int, default=3, help="points of Pyserini")
    parser.add_argument("--metric", default="ndcg@10")
    parser.add_argument("--json", action="store_true", help="a line a comparison")
    options = parser.parse_args()
    with TemporaryDirectory() as cache:  # the user's cache may hold retrievals of an earlier call
        os.environ["XDG_CACHE_HOME"] = cache
        found = compare(options)
    if not options.json:
        print(json.dumps(found, indent=1))
        return
    for comparison in rows(found, options.folder):
        tell(comparison, as_json=True)


if __name__ == "__main__":
    main()
