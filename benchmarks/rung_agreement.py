"""How well does a look at a rung rank trainings? Kendall's τ over recorded curves, by what trials are compared by.

    python benchmarks/rung_agreement.py [--curves benchmarks/curves] [--json]

`best`: best value so far; `last`: the last value; `smoothed`: mean over the last three evaluations, which is what
`search.compare: paired` ranks by (on equal queries the mean of differences is the difference of means); `weighted`: the
same with queries weighted by the inverse of their noise. Each is correlated with the best value of the whole training
(`own`) and with its mean over the other seeds of the configuration (`others`). Means over studies."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from benchmarks.schedulers import Study, read_study

RUNGS = (1, 2, 3, 4, 6, 8)
WINDOW = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, default=Path(__file__).with_name("curves"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    studies = [study for file in sorted(options.curves.glob("*.jsonl*")) if (study := read_study(file))]
    rows = [
        {"rung": rung, "by": by, **{against: round(float(np.mean(taus)), 3) for against, taus in found.items()}}
        for rung in RUNGS
        for by, found in agreement(studies, rung).items()
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print("| rung | by | own | others |\n|---|---|---|---|")
        print("\n".join(f"| {row['rung']} | {row['by']} | {row['own']:.2f} | {row['others']:.2f} |" for row in rows))


def agreement(studies: list[Study], rung: int) -> dict[str, dict[str, list[float]]]:
    """τ of each study, by what is compared and against what."""
    found: dict[str, dict[str, list[float]]] = {}
    for study in studies:
        own = [recorded.best(study.last) for recorded in study.pool]
        others = [study.on_other_seeds(recorded.name) for recorded in study.pool]
        for by, early in at_rung(study, rung).items():
            row = found.setdefault(by, {"own": [], "others": []})
            row["own"].append(tau(early, own))
            row["others"].append(tau(early, others))
    return found


def tau(first: np.ndarray, second: list[float]) -> float:
    """Kendall's τ-b."""
    return float(np.asarray(kendalltau(first, second))[0])


def at_rung(study: Study, rung: int) -> dict[str, np.ndarray]:
    """What every training of a study is ranked by after `rung` iterations, [trainings]."""
    values = np.stack([recorded.queries[study.last][:rung] for recorded in study.pool])  # [trainings, rung, queries]
    dev = values.mean(axis=2)
    near = values[:, -WINDOW:].mean(axis=1)
    found = {"best": dev.max(axis=1), "last": dev[:, -1], "smoothed": near.mean(axis=1)}
    if rung > 1:
        noise = np.square(np.diff(values, axis=1)).mean(axis=(0, 1))
        found["weighted"] = np.average(near, axis=1, weights=1 / (noise + noise.mean()))
    return found


if __name__ == "__main__":
    main()
