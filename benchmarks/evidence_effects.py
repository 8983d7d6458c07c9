"""What the stored trainings of the study of effects say: of each cell, and over cells."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.special import nctdtrinc, ndtr, stdtrit

import tune_cl
from trainables.core.randomness import generator
from trainables.evaluation.crossed import CrossedTest, crossed_tests, error_and_freedom
from trainables.evaluation.significance import clustered
from tune_cl.results import Effects, Opponent
from tune_cl.verdict.estimates import TAILS, effects_of

FOLDER = Path(__file__).parent / "evidence"
STUDY: Mapping[str, Any] = yaml.safe_load((FOLDER / "effects.yaml").read_text())
BOTH = ("curriculum", "plain")
SCALE = 60_000  # values from 0 to 1 are stored as whole numbers
NORMAL = 1.959964
COMMON, BEST = 24, 8  # curricula that cells share; of them, those that are tried first
PUBLISHED = 9  # the first curricula of each cell of networks
HARMFUL = "hard first, the easiest 30 % never"
KINDS = {  # by what a curriculum does: whether hard pairs come first (`anti`), and whether some never come
    (False, False): "easy first, all pairs in the end",
    (False, True): "easy first, the hardest 30 % never",
    (True, False): "hard first, all pairs in the end",
    (True, True): HARMFUL,
}
Row = Mapping[str, Any]
study_effects = partial(effects_of, bootstrap=False)  # means are pooled by their standard errors


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def values_file(name: str) -> Path:
    return FOLDER / "values" / f"{name}.npz"


def halves(clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The queries of each half of the clusters, which are drawn."""
    kinds = np.unique(clusters)
    first = np.isin(clusters, generator(0, "half of the test queries").permutation(kinds)[: len(kinds) // 2])
    return np.flatnonzero(first), np.flatnonzero(~first)


def best_pair(values: np.ndarray, clusters: np.ndarray) -> int:
    """The pair with the largest difference on the first half of the queries; values [2, P, S, Q]. Each pair has a twin
    of its own, so shrinkage to their mean would not change the order."""
    half = halves(clusters)[0]
    own, plain = values[..., half].astype(float) / SCALE
    return int(clustered_cube(own - plain, clusters[half]).mean(axis=(1, 2)).argmax())


@dataclass(frozen=True)
class CellEffects:
    """A cell that was trained."""

    row: Row

    @cached_property
    def stored(self) -> Mapping[str, np.ndarray]:
        with np.load(values_file(self.row["name"])) as file:
            return dict(file)

    def differences(self, metric: str) -> np.ndarray:
        """Curriculum less twin, [P, S, Q]."""
        values = self.stored[metric].astype(float) / SCALE
        return values[0] - values[1]

    def effects(self, metric: str, by_value: bool = False) -> Effects:
        names = self.row["pairs"]
        settings = self.row["settings"] if by_value else [{}] * len(names)
        return study_effects(names, self.differences(metric), names, settings, clusters=self.stored["clusters"])

    def effects_among(self, pairs: Sequence[int]) -> Effects:
        """Of some of its curricula."""
        cube, names = self.differences(self.row["metric"])[pairs], [str(pair) for pair in pairs]
        return study_effects(names, cube, names, [{}] * len(names), clusters=self.stored["clusters"])

    def kind(self, pair: int) -> str:
        """What the curriculum of a pair does; trees have no such order."""
        settings = self.row["settings"][pair]
        return KINDS.get((settings.get("curriculum.anti"), settings.get("curriculum.final_share", 1) < 1), "")

    def published(self, pair: int) -> bool:
        return int(self.row["pairs"][pair][1:]) < PUBLISHED

    @cached_property
    def main(self) -> Effects:
        """On the cell's own metric, with effects by value."""
        return self.effects(self.row["metric"], by_value=True)

    @cached_property
    def best(self) -> Opponent:
        """The test of the best on the other half of the queries, with fresh seeds."""
        [test] = tune_cl.compare(*self.fresh, paired=True)
        return test.opponents[0]

    @property
    def detectable(self) -> float:
        """The gain of the best that its test would find with a power of .8."""
        own, plain = self.fresh
        (test,), (seeds, queries) = crossed_tests([(own, plain)]), own.shape
        return detectable(test, seeds, queries)

    @property
    def fresh(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of the best curriculum and its twin with fresh seeds on the second half of the queries."""
        half = halves(self.stored["clusters"])[1]
        own, plain = self.stored[f"fresh {self.row['metric']}"][..., half].astype(float) / SCALE
        return clustered(own, self.stored["clusters"][half]), clustered(plain, self.stored["clusters"][half])

    @property
    def median(self) -> float:
        """Of the pairs' differences."""
        return float(np.median(self.differences(self.row["metric"]).mean(axis=(1, 2))))

    @property
    def plain(self) -> float:
        """Mean of plain training on test over all twins."""
        return float(self.stored[self.row["metric"]][1].mean()) / SCALE


def detectable(test: CrossedTest, seeds: int, queries: int) -> float:
    """The smallest difference that a test of this noise shows at .05 with probability .8."""
    residual = test.components.residual
    of_seed, of_query = residual + queries * test.components.of_seed, residual + seeds * test.components.of_query
    error, freedom = error_and_freedom((of_seed, of_query, residual), test.seed_freedom * (seeds - 1), seeds, queries)
    return float(nctdtrinc(freedom, 1 - 0.8, stdtrit(freedom, TAILS[1])) * error)


def clustered_cube(cube: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    return clustered(cube.reshape(-1, cube.shape[-1]), clusters).reshape(*cube.shape[:2], -1)


# -- over cells ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pooled:
    """A mean over cells with its interval, the SD of their true means, and the weight of each."""

    mean: float
    ci95: tuple[float, float]
    sd: float
    weights: tuple[float, ...]


def pooled(means: Sequence[float], intervals: Sequence[tuple[float, float]]) -> Pooled:
    """DerSimonian and Laird (1986), with the interval of Hartung and Knapp, whose variance is at least that which the
    intervals imply (Knapp & Hartung 2003): cells that share data agree more than their errors would have them. The
    variance of each mean is that of a normal distribution with its interval, too large where Student's t made that
    wide."""
    found, errors = np.array(means), np.array([(high - low) / 2 / NORMAL for low, high in intervals])
    count, weight = len(found), errors**-2.0
    if count == 1:
        return Pooled(means[0], intervals[0], 0.0, (1.0,))
    spread = float((weight * (found - (weight * found).sum() / weight.sum()) ** 2).sum())
    between = max(0.0, (spread - (count - 1)) / (weight.sum() - (weight**2).sum() / weight.sum()))
    weight = 1 / (errors**2 + between)
    mean = float((weight * found).sum() / weight.sum())
    scale = max(1.0, float((weight * (found - mean) ** 2).sum()) / (count - 1))
    half = float(stdtrit(count - 1, TAILS[1])) * math.sqrt(scale / float(weight.sum()))
    return Pooled(mean, (mean - half, mean + half), math.sqrt(between), tuple((weight / weight.sum()).tolist()))


def equal_weights(means: Sequence[float]) -> Pooled:
    """With Student's interval."""
    count, mean, sd = len(means), float(np.mean(means)), float(np.std(means, ddof=1))
    half = float(stdtrit(count - 1, TAILS[1])) * sd / math.sqrt(count)
    return Pooled(mean, (mean - half, mean + half), sd, (1 / count,) * count)


@dataclass(frozen=True)
class Group:
    """Some of the curricula. `cells`: those with two of them or more, which an interval needs."""

    curricula: int
    cells: Sequence[tuple[CellEffects, Effects]]

    @classmethod
    def of(cls, cells: Sequence[CellEffects], chosen: Callable[[CellEffects, int], bool]) -> Group:
        among = [[pair for pair in range(len(cell.row["pairs"])) if chosen(cell, pair)] for cell in cells]
        found = [(cell, cell.effects_among(pairs)) for cell, pairs in zip(cells, among, strict=True) if len(pairs) > 1]
        return cls(sum(map(len, among)), found)

    @property
    def data_sets(self) -> dict[str, list[Effects]]:
        found: dict[str, list[Effects]] = {}
        for cell, effects in self.cells:
            found.setdefault(cell.row["data"], []).append(effects)
        return found

    @property
    def over_cells(self) -> Pooled:
        return pooled([one.mean for _, one in self.cells], [one.ci95 for _, one in self.cells])

    @property
    def over_equal_data_sets(self) -> Pooled:
        return equal_weights([float(np.mean([one.mean for one in cells])) for cells in self.data_sets.values()])

    @property
    def p_values(self) -> list[float]:
        """Of the mean in each cell, by a normal distribution with its interval, as `pooled` has it: a little small."""
        halves = [one.ci95[1] - one.mean for _, one in self.cells]
        return [
            float(2 * ndtr(-abs(one.mean) / half * NORMAL)) for (_, one), half in zip(self.cells, halves, strict=True)
        ]

    def weight(self, data: str) -> float:
        """Of a data set among the cells."""
        weights = zip(self.cells, self.over_cells.weights, strict=True)
        return sum(weight for (cell, _), weight in weights if cell.row["data"] == data)


def judged_early(cells: Sequence[CellEffects]) -> tuple[int, int]:
    """How many paced trainings have their checkpoint at or before the end of their pacing, and of how many."""
    early, trainings = 0, 0
    for cell in cells:
        settings = cell.row["settings"]
        paced = [pair for pair, one in enumerate(settings) if one.get("curriculum.pacing", "none") != "none"]
        dev = cell.stored["dev"][0, paced]
        ends = np.array([settings[pair]["curriculum.T"] for pair in paced])[:, None] * dev.shape[-1]
        early += int((dev.argmax(axis=-1) + 1 <= ends).sum())
        trainings += dev[..., 0].size
    return early, trainings


def portfolio(cells: Sequence[CellEffects]) -> Pooled | None:
    """By how much the best of the common curricula on all other data sets exceed all common curricula on a data set
    that was left out: the mean over data sets, with Student's interval. None with fewer than three data sets."""
    groups: dict[str, list[np.ndarray]] = {}
    for cell in cells:
        common = [name for name in cell.row["pairs"] if int(name[1:]) < COMMON]
        if cell.row["ranker"] != "lambdamart" and len(common) == COMMON:
            means = cell.differences(cell.row["metric"]).mean(axis=(1, 2))
            groups.setdefault(cell.row["data"], []).append(means[:COMMON])
    if len(groups) < 3:
        return None
    of_data = {name: np.mean(group, axis=0) for name, group in groups.items()}
    gains = []
    for left_out, means in of_data.items():
        others = np.mean([other for name, other in of_data.items() if name != left_out], axis=0)
        gains.append(float(means[np.argsort(-others)[:BEST]].mean() - means.mean()))
    return equal_weights(gains)
