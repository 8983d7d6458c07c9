"""The verdict's test: values by query go in, what they show comes out.

A curriculum is better only if it is above each of its opponents, each at the full level: an intersection-union test
(Berger 1982). Its p-value is the largest one, and needs no correction over the opponents. Over several curricula p is
corrected by Holm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from trainables.evaluation.crossed import SeededTest, seeded_tests
from trainables.evaluation.significance import bootstrap_ci, clustered, holm
from tune_cl.results import LEVEL, Answer, Comparison, Configuration, FixedSeeds, Interval, Opponent, Role, Tested

if TYPE_CHECKING:
    import pandas as pd

LOOKS = (0.05, 0.0063, 0.0024, 0.001)  # levels of the first test of a search on a split, and of further ones
ROLES: tuple[Role, ...] = ("champion", "twin", "default", "filter")
DECIDE_HARM: frozenset[Role] = frozenset({"champion", "twin"})  # below the default it may owe that to its learning rate


@dataclass(frozen=True)
class Duel:
    """A curriculum and one of its opponents, by label.

    paired  whether equal seeds make pairs (`crossed_tests`)
    draws   whether the seed changes either training
    """

    curriculum: str
    opponent: str
    roles: tuple[Role, ...]
    paired: bool = False
    draws: bool = True


@dataclass(frozen=True)
class Outcome:
    """The test of a duel. p, ci95: for new trainings on new queries, at the level of the look; NaN where nothing can be
    said of these. fixed_p: for these trainings alone. Both p are corrected over the curricula."""

    duel: Duel
    test: SeededTest
    p: float
    ci95: Interval
    fixed_p: float

    @property
    def difference(self) -> float:
        return self.test.difference


P = Callable[[Outcome], float]


def level_of(look: int) -> float:
    """The level of the test with this number, from 1, of the same search and split. All together err with probability
    .055 at most, however often one asks (docs/dev/verdict-simulations.md)."""
    return LOOKS[look - 1] if look <= len(LOOKS) else LOOKS[-1] / 2 ** (look - len(LOOKS))


def values_by_label(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """Values [seeds, queries] of each label; seeds and queries in the order in which they come first."""
    seeds, queries = frame["seed"].unique(), frame["query"].unique()
    table = frame.pivot(index=["label", "seed"], columns="query", values="value")
    return {
        label: table.loc[label].reindex(index=seeds, columns=queries).to_numpy(np.float64)
        for label in frame["label"].unique()
    }


def values_by_cluster(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """Values [seeds, clusters] of each label, near-duplicate queries as one."""
    clusters = frame.drop_duplicates("query")["cluster"].to_numpy()
    return {label: clustered(values, clusters) for label, values in values_by_label(frame).items()}


def outcomes(values: Mapping[str, np.ndarray], duels: Sequence[Duel], level: float = LEVEL) -> dict[str, list[Outcome]]:
    """The tests of each curriculum against its opponents, in the order of the duels.

    values: [seeds, queries] by label, rows of the same seeds; near-duplicate queries as `clustered` has them.
    """
    tests = _tests(values, duels)
    weight = LEVEL / level
    p_new = [min(1.0, test.new.p * weight) if not math.isnan(test.new.p) else math.nan for test in tests]
    p_fixed = [test.p_value for test in tests]
    curricula = [duel.curriculum for duel in duels]
    factors_new, factors_fixed = _holm_factors(p_new, curricula), _holm_factors(p_fixed, curricula)
    by_curriculum: dict[str, list[Outcome]] = {}
    for duel, test, p, fixed in zip(duels, tests, p_new, p_fixed, strict=True):
        p = min(1.0, p * factors_new[duel.curriculum]) if not math.isnan(p) else p
        fixed = min(1.0, fixed * factors_fixed[duel.curriculum])
        by_curriculum.setdefault(duel.curriculum, []).append(Outcome(duel, test, p, _interval(test, level), fixed))
    return by_curriculum


def _tests(values: Mapping[str, np.ndarray], duels: Sequence[Duel]) -> list[SeededTest]:
    """Paired duels lend each other the variance of their seeds, and unpaired ones."""
    by_duel: dict[Duel, SeededTest] = {}
    for paired in (True, False):
        chosen = [duel for duel in duels if duel.paired == paired]
        pairs = [(values[duel.curriculum], values[duel.opponent]) for duel in chosen]
        tests = seeded_tests(pairs, [duel.draws for duel in chosen], paired) if chosen else []
        by_duel |= zip(chosen, tests, strict=True)
    return [by_duel[duel] for duel in duels]


def _interval(test: SeededTest, level: float) -> Interval:
    new, difference = test.new, test.difference
    if level == LEVEL or not new.error:
        return new.ci95
    half = float(stdtrit(new.freedom, 1 - level / 2)) * new.error
    return difference - half, difference + half


def _holm_factors(p_values: Sequence[float], curricula: Sequence[str]) -> dict[str, float]:
    """What Holm's correction multiplies each curriculum's p with: each has one, its largest."""
    largest: dict[str, float] = {}
    for p, curriculum in zip(p_values, curricula, strict=True):
        largest[curriculum] = max(largest.get(curriculum, 0.0), 1.0 if math.isnan(p) else p)
    before = np.array(list(largest.values()))
    after = holm(before)
    factors = np.divide(after, before, out=np.ones_like(before), where=before > 0)
    return {curriculum: float(factor) for curriculum, factor in zip(largest, factors, strict=True)}


# -- what the tests of one curriculum say together -----------------------------------------------------------------


def p_of(outcome: Outcome) -> float:
    """p for new trainings; above every p where nothing can be said of these."""
    return math.inf if math.isnan(outcome.p) else outcome.p


def fixed_p_of(outcome: Outcome) -> float:
    return outcome.fixed_p


def answer(tests: Sequence[Outcome], p: P = p_of) -> Answer:
    """better: above every opponent. worse: below champion and twin."""
    if all(outcome.difference > 0 and p(outcome) <= LEVEL for outcome in tests):
        return "better"
    harm = _deciding_harm(tests)
    if harm and all(outcome.difference < 0 and p(outcome) <= LEVEL for outcome in harm):
        return "worse"
    return "no difference shown"


def least_favourable(tests: Sequence[Outcome], p: P = p_of) -> Outcome:
    """The opponent with the least evidence that the curriculum is better: the largest one-sided p. Of a worse one that
    with the least evidence for this, whose p is the verdict's."""
    if answer(tests, p) == "worse":
        return max(_deciding_harm(tests), key=p)
    return max(tests, key=lambda outcome: (_one_sided(outcome, p), -outcome.difference))


def _deciding_harm(tests: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in tests if DECIDE_HARM & {*outcome.duel.roles}]


def _one_sided(outcome: Outcome, p: P) -> float:
    two_sided = p(outcome)
    return two_sided / 2 if outcome.difference > 0 or math.isinf(two_sided) else 1 - two_sided / 2


def leader(tests: Mapping[str, Sequence[Outcome]]) -> str:
    """The curriculum that the verdict is about: of the better ones that furthest above its least favourable opponent,
    else the first."""
    better = [label for label, of_label in tests.items() if answer(of_label) == "better"]
    first = next(iter(tests))
    return max(better, key=lambda label: least_favourable(tests[label]).difference, default=first)


# -- as results ----------------------------------------------------------------------------------------------------


def configuration(
    label: str, means: np.ndarray, trial_id: str | None = None, params: Mapping[str, Any] | None = None
) -> Configuration:
    """means: over the queries [seeds]."""
    sd = float(means.std(ddof=1)) if len(means) > 1 else None
    return Configuration(
        label=label,
        trial_id=trial_id,
        params=dict(params or {}),
        values=tuple(means.tolist()),
        mean=float(means.mean()),
        sd=sd,
    )


def tested(
    tests: Sequence[Outcome], values: Mapping[str, np.ndarray], configurations: Mapping[str, Configuration]
) -> Tested:
    """The tests of one curriculum as a result. values: as in `outcomes`; configurations: by label."""
    first = least_favourable(tests)
    in_order = [first, *(outcome for outcome in tests if outcome is not first)]
    fixed = least_favourable(tests, fixed_p_of)
    differences = values[fixed.duel.curriculum] - values[fixed.duel.opponent]
    interval = bootstrap_ci(differences.mean(axis=0))
    return Tested(
        curriculum=configurations[first.duel.curriculum],
        opponents=tuple(_opponent(outcome, configurations[outcome.duel.opponent]) for outcome in in_order),
        verdict=answer(tests),
        fixed_seeds=FixedSeeds(verdict=answer(tests, fixed_p_of), ci95=interval, p=fixed.fixed_p),
    )


def _opponent(outcome: Outcome, configurations: Configuration) -> Opponent:
    shown = compared(outcome)
    return Opponent(
        **configurations.model_dump(), roles=outcome.duel.roles, difference=shown.difference, ci95=shown.ci95, p=shown.p
    )


def compared(outcome: Outcome) -> Comparison:
    unknown = math.isnan(outcome.p)
    return Comparison(
        difference=outcome.difference, ci95=None if unknown else outcome.ci95, p=None if unknown else outcome.p
    )


def compare(
    values: np.ndarray, baseline: np.ndarray | Mapping[str, np.ndarray], paired: bool = False
) -> tuple[Tested, ...]:
    """The verdict's test for values from anywhere: of each of K configurations against a baseline, or against several
    opponents.

    values    [K, seeds, queries], or [seeds, queries] of one configuration
    baseline  [seeds, queries] of the same queries, or such values by role: champion, twin, default, filter
    paired    whether equal seeds make pairs, as where all trainings start from the same pretrained weights; else
              configuration and opponent are two samples of trainings

    p is corrected over the configurations, which are called "0", "1", ... Raises ValueError for shapes that do not
    match, values that are not numbers, another role, no opponent, or one query.
    """
    given = np.asarray(values, np.float64)
    every = given[None] if given.ndim == 2 else given
    opponents = baseline if isinstance(baseline, Mapping) else {"champion": baseline}
    arms = {str(number): one for number, one in enumerate(every)}
    for role, opponent in opponents.items():
        arms[role] = np.asarray(opponent, np.float64)
        if every.ndim != 3 or arms[role].shape != every.shape[1:] or every.shape[-1] < 2:
            shapes = f"values {given.shape} and {role} {arms[role].shape}"
            raise ValueError(f"{shapes}; they would be [K, seeds, queries] and [seeds, queries], 2 or more queries")
    if not opponents:
        raise ValueError("no opponent: a mapping of roles to values has at least one")
    if not all(np.isfinite(one).all() for one in arms.values()):
        raise ValueError("values that are not numbers")
    if unknown := opponents.keys() - {*ROLES}:
        raise ValueError(f"'{min(unknown)}' is not a role: {', '.join(ROLES)}")
    roles: list[Role] = [role for role in ROLES if role in opponents]
    duels = [Duel(str(number), role, (role,), paired) for number in range(len(every)) for role in roles]
    configurations = {label: configuration(label, one.mean(axis=1)) for label, one in arms.items()}
    return tuple(tested(one, arms, configurations) for one in outcomes(arms, duels).values())
