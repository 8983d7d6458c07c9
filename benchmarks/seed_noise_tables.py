"""Tables of the study of the noise of seeds (benchmarks/seed_noise.py), from its recorded trainings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainables.core.randomness import generator

PURPOSES = ("weights", "order", "negatives", "dropout")
OTHER = 100  # added to the seed of a purpose that has another one
WINDOW = 3  # iterations that a smoothed dev value is the mean of
FEWEST = 8  # seeds that a study must have to be in a table
DRAWS = 2000  # of the bootstrap over seeds
Line = Mapping[str, Any]
DEFAULT, AVERAGED = "best on dev", "average, horizon 3, last"


def smoothed(dev: list[float]) -> np.ndarray:
    """Mean of each value and the WINDOW - 1 before it, as far as there are any."""
    return np.array([np.mean(dev[max(0, end - WINDOW) : end]) for end in range(1, len(dev) + 1)])


def best(values: Iterable[float]) -> int:
    """The iteration, from 1, with the highest value; the first of equal ones."""
    return int(np.argmax(list(values))) + 1


def on_test(weights: str, choose: Callable[[list[float]], int]) -> Callable[[Line], float]:
    """The test value of these weights at the iteration chosen by their dev values."""
    return lambda line: line["test"][weights][str(choose(line["dev"][weights]))]


def only(weights: str) -> Callable[[Line], float]:
    """The test value of weights that were applied once, in the end."""
    return lambda line: list(line["test"][weights].values())[-1]


VARIANTS: dict[str, Callable[[Line], float]] = {
    DEFAULT: on_test("own", best),
    "best on smoothed dev": on_test("own", lambda dev: best(smoothed(dev))),
    "last": on_test("own", len),
    "average, horizon 1, last": only("ema1"),
    "average, horizon 3, best on dev": on_test("ema3", best),
    AVERAGED: on_test("ema3", len),
    "mean weights of the second half": only("second half"),
}
SHOWN = (list(VARIANTS).index(DEFAULT), list(VARIANTS).index(AVERAGED))


@dataclass(frozen=True)
class Pairs:
    """Plain training and a curriculum at equal seeds: test values, float64 [variants, seeds] each."""

    plain: np.ndarray
    curriculum: np.ndarray

    @property
    def difference(self) -> np.ndarray:
        return self.curriculum - self.plain


def pairs(lines: Iterable[Line], curriculum: str, shared: bool = False) -> Pairs | None:
    """The pairs among some trainings; None if there are fewer than FEWEST."""
    values: dict[str, dict[tuple[int, ...], list[float]]] = {"plain": {}, curriculum: {}}
    for line in lines:
        job = line["job"]
        if job["curriculum"] in values and job["shared"] == shared:
            values[job["curriculum"]][tuple(job["seeds"])] = [value(line) for value in VARIANTS.values()]
    both = sorted(values["plain"].keys() & values[curriculum].keys())
    if len(both) < FEWEST:
        return None
    return Pairs(*(np.array([values[name][seeds] for seeds in both]).T for name in ("plain", curriculum)))


def with_equal_seeds(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if len(set(line["job"]["seeds"])) == 1]


def with_another(lines: Iterable[Line], purpose: int) -> list[Line]:
    """Trainings in which one purpose has another seed, as if it had the seed of the rest."""
    changed = []
    for line in lines:
        seeds = np.array(line["job"]["seeds"])
        seeds[purpose] -= OTHER
        if len(set(seeds)) == 1:
            changed.append({**line, "job": {**line["job"], "seeds": seeds.tolist()}})
    return changed


def tables(lines: Sequence[Line]) -> str:
    """All tables, as Markdown."""
    names = dict.fromkeys(f"{line['job']['data']}-{line['job']['ranker']}" for line in lines)
    studies = {
        name: [line for line in lines if f"{line['job']['data']}-{line['job']['ranker']}" == name] for name in names
    }
    equal = {name: found for name, those in studies.items() if (found := pairs(with_equal_seeds(those), "paced"))}
    parts = [
        ("SD over seeds of the difference, paced less plain", by_variant(equal, lambda p: sd(p.difference))),
        ("SD over seeds of plain training", by_variant(equal, lambda p: sd(p.plain))),
        ("Mean of plain training", by_variant(equal, lambda p: p.plain.mean(axis=1))),
        ("Mean difference", by_variant(equal, lambda p: p.difference.mean(axis=1))),
        ("Ratio to the default, over the studies", ratios(equal)),
        ("What equal seeds share", sharing(studies)),
        ("One purpose of the seed at a time", purposes(studies)),
    ]
    return "\n\n".join(f"{title}\n\n{rows}" for title, rows in parts)


def sd(values: np.ndarray) -> np.ndarray:
    """Over seeds, of each variant."""
    return values.std(axis=1, ddof=1)


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def by_variant(studies: Mapping[str, Pairs], of: Callable[[Pairs], np.ndarray]) -> str:
    columns = {name: of(found) for name, found in studies.items()}
    head = ["", *(f"{name} ({studies[name].plain.shape[1]})" for name in columns)]
    rows = ([name, *(f"{column[index]:.4f}" for column in columns.values())] for index, name in enumerate(VARIANTS))
    return table(head, rows)


def ratios(studies: Mapping[str, Pairs]) -> str:
    """SDs of the difference divided by the default's: geometric mean over studies with a 95 % bootstrap interval over
    seeds; and in how many studies the SD falls by a quarter, and by how much test rises on average."""
    if not studies:
        return ""
    rng, found = generator(0, "seed noise bootstrap"), list(studies.values())
    sizes = [one.plain.shape[1] for one in found]
    drawn = [mean_log_ratio(found, [rng.integers(size, size=size) for size in sizes]) for _ in range(DRAWS)]
    low, high = np.exp(np.nanpercentile(drawn, [2.5, 97.5], axis=0))
    center = np.exp(mean_log_ratio(found, [np.arange(size) for size in sizes]))
    quarter = np.sum([sd(one.difference) <= 0.75 * sd(one.difference)[0] for one in found], axis=0)
    means = np.mean([(one.plain + one.curriculum).mean(axis=1) / 2 for one in found], axis=0)
    rows = (
        [
            name,
            f"{center[at]:.2f} [{low[at]:.2f}, {high[at]:.2f}]",
            f"{quarter[at]} of {len(found)}",
            f"{means[at] - means[0]:+.4f}",
        ]
        for at, name in enumerate(VARIANTS)
    )
    return table(["", "SD of the difference, ratio", "a quarter less in", "mean test value"], rows)


def mean_log_ratio(studies: list[Pairs], seeds: list[np.ndarray]) -> np.ndarray:
    """Mean over studies of log(SD / the default's SD), with these seeds of each, float64 [variants]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(sd(one.difference[:, chosen])) for one, chosen in zip(studies, seeds, strict=True)]
        return np.mean([log - log[0] for log in logs], axis=0)


def sharing(studies: Mapping[str, list[Line]]) -> str:
    """SD of the difference at equal seeds and, from the variances, at different ones."""
    ways = {
        ("paced", False): "equal seeds",
        ("paced", True): "and draws by sample",
        ("weighted", False): "weights alone",
    }
    rows = []
    for name, lines in studies.items():
        for (curriculum, shared), words in ways.items():
            if found := pairs(with_equal_seeds(lines), curriculum, shared):
                own, apart = sd(found.difference), np.hypot(sd(found.plain), sd(found.curriculum))
                cells = [f"{own[at]:.4f} / {apart[at]:.4f}" for at in SHOWN]
                rows.append([name, words, str(found.plain.shape[1]), *cells])
    return table(["", "", "seeds", *(f"{list(VARIANTS)[at]}: equal / different" for at in SHOWN)], rows)


def purposes(studies: Mapping[str, list[Line]]) -> str:
    """What share of the variance another seed for one purpose makes up: half the mean squared change, divided by the
    variance over all these trainings (the total effect of Jansen 1999). Effects overlap, so shares may sum to more than
    100 %; 0 % means that the purpose plays no part."""
    rows = []
    for name, lines in studies.items():
        if not (equal := pairs(with_equal_seeds(lines), "paced")):
            continue
        found = {purpose: pairs(with_another(lines, index), "paced") for index, purpose in enumerate(PURPOSES)}
        changed = {key: one for key, one in found.items() if one and one.plain.shape == equal.plain.shape}
        for purpose, one in changed.items():
            shares = []
            for part in ("difference", "plain"):
                before, after = getattr(equal, part), getattr(one, part)
                everything = np.hstack([before, *(getattr(other, part) for other in changed.values())])
                effect = np.square(after - before).mean(axis=1) / 2 / everything.var(axis=1, ddof=1)
                shares += [f"{effect[at]:.0%}" for at in SHOWN]
            rows.append([name, purpose, str(one.plain.shape[1]), *shares])
    columns = [f"{part}, {list(VARIANTS)[at]}" for part in ("difference", "plain") for at in SHOWN]
    return table(["", "another seed for", "seeds", *columns], rows)
