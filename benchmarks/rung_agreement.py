"""How well does a look at a rung rank trainings? Kendall's τ over recorded curves, for each value to compare trials by.

    python benchmarks/rung_agreement.py [--curves benchmarks/curves] [--given ../shared/data/curves] [--json]

`best`: best value so far; `last`: the last value; `smoothed`: mean over the last three evaluations, which is what
`search.compare: paired` ranks by (on equal queries the mean of differences is the difference of means); `weighted`: the
same with queries weighted by the inverse of their noise. Each is correlated with the best value of the whole training
(`own`) and with its mean over the other seeds of the configuration (`others`). Means over the studies with several
seeds.

The curves under `--given` (12 configurations x 2 seeds of a cross-encoder on WikiQA) hold only means over queries: they
have all rows but `weighted`, for each seed. If they are missing, a line on stderr says so."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from schedulers import Study, read_studies
from scipy.stats import kendalltau
from simulator import moving_mean

RUNGS = (1, 2, 3, 4, 6, 8)
WHOLE = 27  # iterations of the longest training
WINDOW = 3
AGAINST = ("own", "own smoothed", "others")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, default=Path(__file__).with_name("curves"))
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "curves"
    parser.add_argument("--given", type=Path, default=shared)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    studies = [study for study in read_studies(options.curves) if study.seeds > 1]
    rows = [
        {"of": f"{len(studies)} studies", "rung": rung, "by": by}
        | {against: round(float(np.mean(taus)), 3) for against, taus in found.items()}
        for rung in (*RUNGS, WHOLE)
        for by, found in agreement(studies, rung).items()
    ]
    rows += [row for file in given_files(options.given) for row in of_given(file)]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"| curves | rung | by | {' | '.join(AGAINST)} |\n|---|---|---|---|---|---|")
        for row in rows:
            cells = [row["of"], row["rung"], row["by"], *(f"{row[against]:.2f}" for against in AGAINST)]
            print(f"| {' | '.join(map(str, cells))} |")


def agreement(studies: list[Study], rung: int) -> dict[str, dict[str, list[float]]]:
    """Each study's τ, by what trainings are ranked by and what it is correlated with."""
    found: dict[str, dict[str, list[float]]] = {}
    for study in studies:
        own = [recorded.best(study.last) for recorded in study.pool]
        smooth = [recorded.smoothed(WINDOW).best(study.last) for recorded in study.pool]
        others = [study.on_other_seeds(recorded.name) for recorded in study.pool]
        for by, early in at_rung(study, rung).items():
            row = found.setdefault(by, {against: [] for against in AGAINST})
            for against, late in zip(AGAINST, (own, smooth, others), strict=True):
                row[against].append(tau(early, late))
    return found


def given_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        print(f"{folder} holds no curves: passed over", file=sys.stderr)
    return files


def of_given(file: Path) -> list[dict[str, object]]:
    """Rows of curves that are means over queries, by seed: lines with `seed`, `config` and `dev_map` [iterations]."""
    by_seed: dict[int, dict[str, list[float]]] = {}
    for line in file.read_text().splitlines():
        curve = json.loads(line)
        by_seed.setdefault(curve["seed"], {})[json.dumps(curve["config"], sort_keys=True)] = curve["dev_map"]
    names = sorted(set.intersection(*(set(curves) for curves in by_seed.values())))
    dev = {seed: np.array([curves[name] for name in names]) for seed, curves in by_seed.items()}
    rows = []
    for seed, values in dev.items():
        others = np.mean([dev[other].max(axis=1) for other in dev if other != seed], axis=0)
        rows += [
            {"of": f"{file.stem} seed {seed}", "rung": rung, "by": by}
            | {"own": round(tau(early, values.max(axis=1)), 3), "others": round(tau(early, others), 3)}
            | {"own smoothed": round(tau(early, smoothed(values).max(axis=1)), 3)}
            for rung in RUNGS
            for by, early in ranked_by(values[:, :rung]).items()
        ]
    return rows


def ranked_by(dev: np.ndarray) -> dict[str, np.ndarray]:
    """What trainings are ranked by after the last of these iterations, [trainings]; dev: [trainings, iterations]."""
    means = smoothed(dev)
    return {"best": dev.max(axis=1), "last": dev[:, -1], "smoothed": means[:, -1], "best smoothed": means.max(axis=1)}


def smoothed(dev: np.ndarray) -> np.ndarray:
    """Means over the last WINDOW values up to each, [trainings, iterations]."""
    return moving_mean(dev.T, WINDOW).T


def tau(first: np.ndarray, second: Sequence[float] | np.ndarray) -> float:
    """Kendall's τ-b."""
    return float(np.asarray(kendalltau(first, second))[0])


def at_rung(study: Study, rung: int) -> dict[str, np.ndarray]:
    """What every training of a study is ranked by after `rung` iterations, [trainings]."""
    values = np.stack([recorded.queries[study.last][:rung] for recorded in study.pool])  # [trainings, rung, queries]
    near = values[:, -WINDOW:].mean(axis=1)
    found = ranked_by(values.mean(axis=2))
    if rung > 1:
        noise = np.square(np.diff(values, axis=1)).mean(axis=(0, 1))
        found["weighted"] = np.average(near, axis=1, weights=1 / (noise + noise.mean()))
    return found


if __name__ == "__main__":
    main()
