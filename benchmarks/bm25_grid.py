"""What the BM25 grid saves: what queries and candidates share is gathered once for all of its 840 points.

    python benchmarks/bm25_grid.py ../shared/data/trec/msmarco-dl [--checked 8] [--json]

Times the grid on dev, all included, against `Bm25` built anew and applied at some points, spread evenly over the grid;
its time for 840 points is the mean over these, times 840. Ends in an error if the two differ at a point.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from side_by_side import Comparison, tell

from trainables.baselines.lexical import Bm25Baseline, terms
from trainables.config.keys import TrainingConfig
from trainables.data import load_data
from trainables.data.bm25 import Bm25
from trainables.data.words import index_words, look_up

SPLIT = "dev"


def compared(folder: Path, metric: str, checked: int) -> Comparison:
    run = TrainingConfig.model_validate({"data": {"source": str(folder)}, "metric": metric})
    data, count = load_data(run.data), len(Bm25Baseline.grid)
    started = time.perf_counter()
    Bm25Baseline(data, run, [SPLIT]).grid_best(SPLIT)
    ours = time.perf_counter() - started

    split = data.splits[SPLIT]
    score = Bm25Baseline(data, run, [SPLIT]).scorer(split)
    rows = index_words(" ".join(terms(text)) for text in data.documents)  # the texts are analysed once
    texts = (" ".join(terms(data.query_text(query))) for query in split.query.tolist())
    queries, seconds = look_up(texts, rows.vocabulary), []
    for place in np.linspace(0, count - 1, checked).astype(int):
        point, started = Bm25Baseline.grid[place], time.perf_counter()
        naive = Bm25(rows, "lucene", point["k1"], point["b"]).pair_scores(queries, split.owner, split.document)
        seconds.append(time.perf_counter() - started)
        np.testing.assert_allclose(naive, score(point), atol=1e-12)
    work = f"BM25 grid of {count} points on {folder.name}"
    return Comparison(
        work, f"the same BM25, built a point ({checked} measured)", [ours], [float(np.mean(seconds)) * count]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a TREC folder")
    parser.add_argument("--checked", type=int, default=8, help="points of naive BM25")
    parser.add_argument("--metric", default="ndcg@10")
    parser.add_argument("--json", action="store_true", help="a line a comparison")
    options = parser.parse_args()
    tell(compared(options.folder, options.metric, options.checked), as_json=options.json)


if __name__ == "__main__":
    main()
