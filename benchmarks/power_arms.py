"""Two arms against each other: how a confirmation spends its trainings, and trainings that collapse.

    python -m benchmarks.power seeds       error and power by what is known of how much seeds vary
    python -m benchmarks.power duel        selection on dev and a duel, against K configurations and one baseline
    python -m benchmarks.power collapse    error and power where one training in six collapses
    python -m benchmarks.power groups      arms that are said to fall into two groups
    python -m benchmarks.power clusters    error where queries are near-duplicates

Confirmations are drawn as the seeds' means and the mean squares, thousands at once: with 150 queries and more, means
over queries are normal. The test is the product's. docs/dev/verdict-simulations.md holds what this prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.power_grid import LEVEL, OF_QUERIES, RESIDUAL, Summary, adjusted, laplace, p_new
from trainables.core.randomness import generator
from trainables.evaluation.significance import (
    CAUTION,
    FEW,
    TINY,
    borrowed,
    clustered,
    collapsed,
    crossed_tests,
    error_and_freedom,
    guarded,
    p_of,
    pooled_prior,
    prior_freedom,
    rare_collapses,
    two_groups,
    welch,
)

SPREADS = ((0.003, 0.003), (0.01, 0.01), (0.03, 0.03), (0.01, 0.03), (0.03, 0.01))  # SD of seeds, plain and other arm
SPLITS = ((150, 150), (800, 800), (300, 5000))  # queries of dev and test
DEV_TEST = 0.9  # correlation of configurations' true values
TODAY = 3  # configurations against one baseline


def mean_squares(
    seeds: np.ndarray | int, queries: int, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares of queries and residual of a difference between two trainings."""
    of_query = 2 * (RESIDUAL**2 + seeds * OF_QUERIES**2) * rng.chisquare(queries - 1, shape) / (queries - 1)
    freedom = (queries - 1) * (np.max(seeds) - 1)
    return of_query, 2 * RESIDUAL**2 * rng.chisquare(freedom, shape) / freedom


def on_split(true: np.ndarray, effects: np.ndarray, queries: int, rng: np.random.Generator) -> np.ndarray:
    """Means over a split's queries, [R, K, N], of configurations with `true` values [R, K] and effects of seeds."""
    of_query = OF_QUERIES / queries**0.5 * rng.standard_normal((*true.shape, 1))
    return true[..., None] + effects + of_query + RESIDUAL / queries**0.5 * rng.standard_normal(effects.shape)


@dataclass(frozen=True)
class Tested:
    """Two arms of R confirmations: mean difference, its error and degrees of freedom, and the mean squares [R]."""

    difference: np.ndarray
    error: np.ndarray
    freedom: np.ndarray
    of_seed: np.ndarray
    of_query: np.ndarray
    residual: np.ndarray
    seeds: int
    queries: int


def tested(
    summary: Summary,
    paired: bool,
    others: tuple[np.ndarray, np.ndarray] | None = None,
    caution: float = CAUTION,
    few: int = FEW,
) -> Tested:
    """The product's test of the first two arms. `others`: variances of the means of other configurations' seeds [R, E],
    and their degrees of freedom [E]."""
    of_arm, queries = summary.seeds - 1.0, summary.queries
    if paired:
        own = summary.of_seeds[:, 0].var(axis=1, ddof=1)[:, None]
        variance, freedom = own[:, 0], np.full(len(own), of_arm)
    else:
        own = summary.means[:, :2].var(axis=2, ddof=1)
        variance, freedom = welch(own, of_arm)
    if others is not None:
        known, freedoms = others
        every = np.concatenate([own, known], axis=1)
        alike = prior_freedom(every, np.append(np.full(own.shape[1], of_arm), freedoms))
        variance, lent = borrowed(variance, freedom, *pooled_prior(known, freedoms, alike, own.shape[1]), caution)
        freedom = freedom + lent
    squares = queries * np.maximum(variance, TINY), summary.of_query[:, 0], summary.residual[:, 0]
    error, free = error_and_freedom(squares, freedom, summary.seeds, queries, few)
    return Tested(summary.difference[:, 0], error, free, *squares, summary.seeds, queries)


# -- what is known of the seeds --------------------------------------------------------------------------------------

EARLIER = 5, 4.0  # configurations trained before, and the degrees of freedom of each: five seeds
DUEL = 0.02  # true difference


@dataclass(frozen=True)
class Known:
    """A test of two arms. `arms`: others of the same confirmation; `earlier`: whether EARLIER is known."""

    words: str
    paired: bool = False
    arms: int = 0
    earlier: bool = False
    caution: float = CAUTION

    def rates(self, seeds: int, own: Sequence[float], others: Sequence[float] | float, repetitions: int) -> list[float]:
        """Error, and power for DUEL. own: SD of seeds of the two arms; others: those of the rest in turn, or degrees of
        freedom of the inverse chi-squared distribution that all variances come from, .01 squared on average."""
        found, queries = [], 800
        for true in (0.0, DUEL):
            rng = generator(seeds, f"{own} {others} {true}")
            spread = np.empty((repetitions, 2 + self.arms + EARLIER[0]))
            if isinstance(others, float):
                spread[:] = 0.01 * np.sqrt((others - 2) / rng.chisquare(others, spread.shape)) if others > 2 else 0
            else:
                spread[:, :2], spread[:, 2:] = own, np.resize(others, spread.shape[1] - 2)
            arms = spread[:, : 2 + self.arms, None]
            shift = np.zeros((repetitions, 2 + self.arms))
            shift[:, 1] = true
            drawn = arms * rng.standard_normal((*shift.shape, seeds))
            means = on_split(shift, drawn, queries, rng)
            variance = spread[:, 2 + self.arms :] ** 2 + RESIDUAL**2 / queries
            before = variance * rng.chisquare(EARLIER[1], variance.shape) / EARLIER[1]
            known = [means[:, 2:].var(axis=2, ddof=1), *([before] if self.earlier else [])]
            freedoms = [*[seeds - 1.0] * self.arms, *([EARLIER[1]] * EARLIER[0] if self.earlier else [])]
            lent = (np.concatenate(known, axis=1), np.array(freedoms)) if freedoms else None
            squares = mean_squares(seeds, queries, (repetitions, 1), rng)
            one = tested(Summary(means[:, :2], *squares, queries), self.paired, lent, self.caution)
            p = p_of(one.difference, one.error, one.freedom)
            found.append(float(((p <= LEVEL) & ((one.difference > 0) | (true == 0))).mean()))
        return found


TESTS_OF_SEEDS = (
    Known("paired", paired=True),
    Known("unpaired"),
    Known("unpaired, beside two other arms", arms=2),
    *(Known(f"with earlier trainings, caution {caution:g}", earlier=True, caution=caution) for caution in (1, 2, 3, 4)),
    Known("with both", arms=2, earlier=True),
)
WORLDS_OF_SEEDS: dict[str, tuple[Sequence[float], Sequence[float] | float]] = {
    "all .01": ((0.01, 0.01), (0.01,)),
    "one arm .03, others .01 and .03": ((0.01, 0.03), (0.01, 0.03)),
    "drawn, 10 df": ((), 10.0),
    "drawn, 4 df": ((), 4.0),
    "both .015, others .01": ((0.015, 0.015), (0.01,)),
    "both .03, others .01": ((0.03, 0.03), (0.01,)),
    "one .03, all others .01": ((0.01, 0.03), (0.01,)),
}


def seeds(repetitions: int) -> Iterator[str]:
    """Error (power) of a duel on 800 queries, by what is known of how much seeds vary."""
    yield f"| seeds | test | {' | '.join(WORLDS_OF_SEEDS)} |"
    yield "|---:|---|" + "---:|" * len(WORLDS_OF_SEEDS)
    for count in (3, 5, 10):
        for test in TESTS_OF_SEEDS:
            rates = [test.rates(count, own, others, repetitions) for own, others in WORLDS_OF_SEEDS.values()]
            yield f"| {count} | {test.words} | {' | '.join('{:.3f} ({:.2f})'.format(*each) for each in rates)} |"


# -- how to spend the trainings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arm:
    """What a search has of an arm's trials: true values on test and on dev, and dev values found with one seed."""

    test: np.ndarray
    dev: np.ndarray
    found: np.ndarray
    of_seeds: float

    def best(self, count: int) -> Arm:
        places = np.argsort(-self.found, axis=1)[:, :count]
        test, dev, found = (np.take_along_axis(each, places, axis=1) for each in (self.test, self.dev, self.found))
        return Arm(test, dev, found, self.of_seeds)


@dataclass(frozen=True)
class World:
    """`spread`: SD of configurations' true values in the plain and the other arm; `trials` in each."""

    name: str
    spread: tuple[float, float]
    trials: tuple[int, int] = (12, 12)

    def arms(
        self, of_seeds: Sequence[float], queries: int, shift: float, repetitions: int, rng: np.random.Generator
    ) -> list[Arm]:
        arms = []
        for number, (spread, trials) in enumerate(zip(self.spread, self.trials, strict=True)):
            shape = repetitions, trials
            test = spread * rng.standard_normal(shape)
            other = spread * (1 - DEV_TEST**2) ** 0.5 * rng.standard_normal(shape)
            dev = DEV_TEST * test + other + OF_QUERIES / queries**0.5 * rng.standard_normal(shape) + number * shift
            noise = (of_seeds[number] ** 2 + RESIDUAL**2 / queries) ** 0.5
            arms.append(Arm(test + number * shift, dev, dev + noise * rng.standard_normal(shape), of_seeds[number]))
        return arms


WORLDS = (
    World("all alike", (0.0, 0.0)),
    World("SD .003", (0.003, 0.003)),
    World("SD .01", (0.01, 0.01)),
    World("SD .03", (0.03, 0.03)),
    World("plain .003, other .01", (0.003, 0.01)),
    World("plain .003, other .03, 50 trials", (0.003, 0.03), (50, 50)),
    World("default alone, other .01, 50 trials", (0.0, 0.01), (1, 50)),
)


@dataclass(frozen=True)
class Design:
    """`candidates` of each arm with `selecting` seeds on dev, then the champions with `seeds` on test. `reuse`: the
    champions' trainings of the selection also count there. seeds alone: today's way, TODAY against one."""

    seeds: int
    candidates: int = 0
    selecting: int = 0
    reuse: bool = False

    def results(
        self, arms: Sequence[Arm], queries: tuple[int, int], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Adjusted p, difference and true difference, each [R, configurations]."""
        if not self.candidates:
            rivals = [arms[0].best(1), arms[1].best(TODAY)]
            shapes = [(*rival.test.shape, self.seeds) for rival in rivals]
            effects = [rival.of_seeds * rng.standard_normal(each) for rival, each in zip(rivals, shapes, strict=True)]
        else:
            rivals, effects = zip(*(self._champion(arm, queries[0], rng) for arm in arms), strict=True)
        means = [on_split(rival.test, each, queries[1], rng) for rival, each in zip(rivals, effects, strict=True)]
        both = np.concatenate(means, axis=1)
        squares = mean_squares(both.shape[2], queries[1], rivals[1].test.shape, rng)
        summary = Summary(both, *squares, queries[1])
        return adjusted(p_new(summary)), summary.difference, rivals[1].test - rivals[0].test

    def _champion(self, arm: Arm, queries: int, rng: np.random.Generator) -> tuple[Arm, np.ndarray]:
        """The champion, and what the seeds of its duel do to it."""
        best = arm.best(self.candidates)
        seen = best.of_seeds * rng.standard_normal((*best.dev.shape, self.selecting))
        noise = RESIDUAL / (queries * max(self.selecting, 1)) ** 0.5 * rng.standard_normal(best.dev.shape)
        values = best.dev + seen.mean(axis=2) + noise if self.selecting else best.found
        place = values.argmax(axis=1)[:, None]
        test, dev, found = (np.take_along_axis(each, place, axis=1) for each in (best.test, best.dev, values))
        champion = Arm(test, dev, found, arm.of_seeds)
        fresh = arm.of_seeds * rng.standard_normal((len(place), 1, self.seeds))
        again = np.take_along_axis(seen, place[..., None], axis=1)
        return champion, np.concatenate([again, fresh], axis=2) if self.reuse else fresh

    @property
    def words(self) -> str:
        if not self.candidates:
            return f"today: {TODAY} against one, {self.seeds} seeds"
        again = ", and again" if self.reuse else ""
        chosen = f"{self.candidates} an arm, {self.selecting} seed{'s' * (self.selecting > 1)}{again}; "
        return f"{chosen if self.selecting else 'no selection; '}duel of {self.seeds}"


DESIGNS = {
    12: (Design(3), Design(6, 1), Design(4, 2, 1), Design(3, 3, 1), Design(4, 2, 1, reuse=True)),
    20: (
        Design(5), Design(10, 1), Design(8, 2, 1), Design(7, 3, 1), Design(6, 2, 2), Design(4, 3, 2),
        Design(7, 3, 1, reuse=True), Design(4, 3, 2, reuse=True), Design(8, 2, 1, reuse=True),
    ),
    40: (
        Design(10), Design(20, 1), Design(18, 2, 1), Design(17, 3, 1), Design(14, 3, 2), Design(11, 3, 3),
        Design(11, 3, 3, reuse=True),
    ),
}  # fmt: skip


def shares(
    design: Design, arms: Sequence[Arm], queries: tuple[int, int], rng: np.random.Generator
) -> tuple[float, float]:
    """Shares in which some difference is shown though there is none, or one in the other direction; and in which the
    other arm is rightly shown to be better."""
    p, difference, true = design.results(arms, queries, rng)
    shown = p <= LEVEL
    wrong = shown & (difference * true <= 0)
    return float(wrong.any(axis=1).mean()), float((shown & (difference > 0) & (true > 0)).any(axis=1).mean())


def half_found(world: World, design: Design, of_seeds: Sequence[float], queries: tuple[int, int]) -> float:
    """The advantage of the other arm that `design` shows in half of the cases."""
    low, high = -0.1, 0.3
    for _ in range(10):
        middle = (low + high) / 2
        arms = world.arms(of_seeds, queries[0], middle, 1000, generator(0, "half"))
        found = shares(design, arms, queries, generator(1, "half"))[1]
        low, high = (middle, high) if found < 0.5 else (low, middle)
    return (low + high) / 2


def duel(repetitions: int) -> Iterator[str]:
    yield "| trainings | | largest error | " + " | ".join(world.name for world in WORLDS) + " | mean |"
    yield "|---:|---|---:|" + "---:|" * (len(WORLDS) + 1)
    for trainings, designs in DESIGNS.items():
        errors: dict[Design, list[float]] = {design: [] for design in designs}
        power: dict[tuple[Design, World], list[float]] = {(design, world): [] for design in designs for world in WORLDS}
        for world in WORLDS:
            for of_seeds in SPREADS:
                for queries in SPLITS:
                    shift = half_found(world, designs[0], of_seeds, queries)
                    rng = generator(trainings, f"{world.name} {of_seeds} {queries}")
                    none, true = (world.arms(of_seeds, queries[0], by, repetitions, rng) for by in (0.0, shift))
                    for design in designs:
                        errors[design].append(shares(design, none, queries, rng)[0])
                        power[design, world].append(shares(design, true, queries, rng)[1])
        for design in designs:
            found = [float(np.mean(power[design, world])) for world in WORLDS]
            cells = " | ".join(f"{each:.2f}" for each in (*found, np.mean(found)))
            yield f"| {trainings} | {design.words} | {max(errors[design]):.3f} | {cells} |"


# -- trainings that collapse -----------------------------------------------------------------------------------------

RATE = 1 / 6
FALLS = (0.1, 0.15, 0.2, 0.3)
SHAPES = ("normal", "laplace", "t3")  # of the effects of seeds
ARMS = ((0,), (1,), (0, 1))  # that collapse: plain, the other, both


def effects(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> np.ndarray:
    """Standard deviation 1."""
    if kind == "t3":
        return rng.standard_t(3, shape) / 3**0.5
    return rng.standard_normal(shape) if kind == "normal" else rng.laplace(scale=0.5**0.5, size=shape)


def guarded_p(means: np.ndarray, queries: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p_new without and with the guard against collapses, and the difference, [R]; means [R, 2, N]."""
    summary = Summary(means, *mean_squares(means.shape[2], queries, (len(means), 1), rng), queries)
    before, difference = p_new(summary)[:, 0], summary.difference[:, 0]
    per_seed = summary.of_seeds[:, 0]
    keep = ~rare_collapses(means).any(axis=1)
    count = np.maximum(keep.sum(axis=1), 2)
    mean = (per_seed * keep).sum(axis=1) / count
    of_seed = queries * ((per_seed - mean[:, None]) ** 2 * keep).sum(axis=1) / (count - 1)
    of_query, residual = summary.of_query[:, 0], summary.residual[:, 0]
    parts = RESIDUAL**2 + count * OF_QUERIES**2, RESIDUAL**2 + means.shape[2] * OF_QUERIES**2
    few = np.maximum(of_seed, TINY), of_query * parts[0] / parts[1], residual
    all_seeds = queries * per_seed.var(axis=1, ddof=1)
    every = error_and_freedom((all_seeds, of_query, residual), means.shape[2] - 1, means.shape[2], queries)
    p, _, _ = guarded((difference, *every), (mean, *error_and_freedom(few, count - 1, count, queries)))
    sound = keep.sum(axis=1)
    now = np.where(sound == means.shape[2], before, p)
    return before, np.where(sound > 1, now, 1.0), difference


def collapsing(
    repetitions: int, seeds: int, queries: int, of_seeds: Sequence[float], fall: float, arms: Sequence[int],
    rng: np.random.Generator, kind: str = "normal", on_average: bool = False, rate: float = RATE,
) -> np.ndarray:  # fmt: skip
    """Means of trainings [R, 2, N] that are alike but for collapses, or on average (`on_average`)."""
    moved = np.array(of_seeds)[:, None] * effects((repetitions, 2, seeds), kind, rng)
    for arm in arms:
        moved[:, arm] += on_average * rate * fall - fall * (rng.random((repetitions, seeds)) < rate)
    return on_split(np.full((repetitions, 2), 0.5), moved, queries, rng)


def errors(
    repetitions: int, seeds: int, spreads: Sequence[Sequence[float]], fall: float, on_average: bool
) -> tuple[float, float]:
    """Largest error before and now over queries, arms that collapse, and SDs of seeds."""
    rates = []
    for queries in (150, 800, 5000):
        for of_seeds in spreads:
            for arms in ARMS:
                rng = generator(seeds, f"{queries} {of_seeds} {arms} {fall}")
                means = collapsing(repetitions, seeds, queries, of_seeds, fall, arms, rng, on_average=on_average)
                rates.append([(p <= LEVEL).mean() for p in guarded_p(means, queries, rng)[:2]])
    before, now = np.max(rates, axis=0)
    return float(before), float(now)


def collapse(repetitions: int) -> Iterator[str]:
    counts = (3, 5, 10, 20)
    yield "| alike | SD of seeds | fall | " + " | ".join(f"{seeds} seeds" for seeds in counts) + " |"
    yield "|---|---|---:|" + "---:|" * len(counts)
    groups = {"to .01": SPREADS[:2], ".03 in some arm": SPREADS[2:]}
    for on_average, words in ((False, "but for collapses"), (True, "on average")):
        for name, spreads in groups.items():
            for fall in FALLS:
                found = [errors(repetitions, seeds, spreads, fall, on_average) for seeds in counts]
                cells = " | ".join(f"{now:.3f} ({before:.3f})" for before, now in found)
                yield f"| {words} | {name} | {fall:g} | {cells} |"
    yield ""
    yield (
        "| none collapses: SD, shape | "
        + " | ".join(f"{seeds}: power | error | an arm named" for seeds in counts)
        + " |"
    )
    yield "|---|" + "---:|" * (3 * len(counts))
    for sd in (0.01, 0.03):
        for kind in SHAPES:
            cells = " | ".join(cell for seeds in counts for cell in without_collapse(repetitions, seeds, sd, kind))
            yield f"| {sd:g}, {kind} | {cells} |"
    yield ""
    yield from often_fails(repetitions)


OFTEN_FAILS = 0.35  # of plain trainings


def often_fails(repetitions: int) -> Iterator[str]:
    """Power where plain training falls by .2 in 35 % of its trainings and the other arm never does."""
    counts = (5, 10, 20, 40)
    yield "| SD of seeds | " + " | ".join(f"{seeds} seeds" for seeds in counts) + " |"
    yield "|---:|" + "---:|" * len(counts)
    for sd in (0.01, 0.03):
        cells = []
        for seeds in counts:
            rng = generator(seeds, f"often fails {sd}")
            means = collapsing(repetitions, seeds, 800, (sd, sd), 0.2, (0,), rng, rate=OFTEN_FAILS)
            before, now, _ = guarded_p(means, 800, rng)
            cells.append(f"{(now <= LEVEL).mean():.2f} ({(before <= LEVEL).mean():.2f})")
        yield f"| {sd:g} | {' | '.join(cells)} |"


def without_collapse(repetitions: int, seeds: int, sd: float, kind: str) -> list[str]:
    """Power, error and false alarms; before in brackets."""
    queries = 800
    rng = generator(seeds, f"{sd} {kind}")
    means = collapsing(repetitions, seeds, queries, (sd, sd), 0.0, (), rng, kind)
    error = (2 * (sd**2 / seeds + RESIDUAL**2 / queries / seeds + OF_QUERIES**2 / queries)) ** 0.5
    true = means + np.array([[0.0], [3 * error]])
    cells = []
    for each in (true, means):
        before, now, _ = guarded_p(each, queries, rng)
        cells.append(f"{(now <= LEVEL).mean():.3f} ({(before <= LEVEL).mean():.3f})")
    return [*cells, f"{collapsed(means).any(axis=2).mean():.3f}"]


def groups(repetitions: int) -> Iterator[str]:
    """How often an arm is said to fall into two groups: where none does, and where three of five trainings fall."""
    yield "| SD of seeds | 4 seeds: none | three of five fall by .1 | by .2 | 5 | .1 | .2 | 10 | .1 | .2 |"
    yield "|---:|" + "---:|" * 9
    for sd in (0.01, 0.03, 0.05):
        cells = []
        for count in (4, 5, 10):
            for fall in (0.0, 0.1, 0.2):
                rng = generator(count, f"groups {sd} {fall}")
                means = 0.5 + sd * rng.standard_normal((repetitions, count))
                means -= fall * (rng.random(means.shape) < 0.6)
                cells.append(f"{two_groups(means).mean():.3f}")
        yield f"| {sd:g} | {' | '.join(cells)} |"


def clusters(repetitions: int) -> Iterator[str]:
    """Nine tenths of what makes a query's difference is shared by its cluster."""
    yield "| queries | clusters of | 5 seeds | 10 seeds |"
    yield "|---:|---|---:|---:|"
    for queries in (150, 800):
        sizes = generator(queries, "sizes").geometric(0.2, queries)
        unequal = np.repeat(np.arange(queries), sizes)[:queries]
        for name, ids in (
            ("5", np.arange(queries) // 5),
            ("20", np.arange(queries) // 20),
            ("1 to 20, mean 5", unequal),
        ):
            cells = []
            for seeds in (5, 10):
                rng = generator(seeds, f"{queries} {name}")
                found = np.zeros(2)
                for _ in range(repetitions):
                    drawn = 2**0.5 * (OF_QUERIES * _near(1, ids, rng) + RESIDUAL * _near(seeds, ids, rng))
                    drawn = drawn + 2**0.5 * 0.01 * rng.standard_normal((seeds, 1))
                    tests = [crossed_tests([(one, 0 * one)])[0] for one in (drawn, clustered(drawn, ids))]
                    found += [test.p <= LEVEL for test in tests]
                cells.append("{:.3f} ({:.3f})".format(*(found / repetitions)[::-1]))
            yield f"| {queries} | {name} | {' | '.join(cells)} |"


def _near(rows: int, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    shared = laplace((rows, int(ids.max()) + 1), rng)[:, ids]
    return 0.9**0.5 * shared + 0.1**0.5 * laplace((rows, len(ids)), rng)
