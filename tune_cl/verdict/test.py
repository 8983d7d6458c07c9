"""The verdict's test: values by query go in, what they show comes out.

A curriculum is better only if it is above each of its opponents, each at the full level: an intersection-union test
(Berger 1982). Its p-value is the largest one, and needs no correction over the opponents. Over several curricula p is
corrected by Holm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from trainables.evaluation.crossed import CrossedTest, new_seeds_tests, these_seeds_test
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
    test: CrossedTest
    difference: float
    p: float
    ci95: Interval
    fixed_p: float


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
    fixed = [these_seeds_test(values[duel.curriculum], values[duel.opponent]) for duel in duels]
    at_level = np.minimum(1.0, [test.p * (LEVEL / level) for test in tests])
    p_new = _corrected(at_level, duels)
    p_fixed = _corrected(np.array([test.p for test in fixed]), duels)
    by_curriculum: dict[str, list[Outcome]] = {}
    for place, (duel, test) in enumerate(zip(duels, tests, strict=True)):
        difference = fixed[place].difference
        interval = _interval(test, difference, level)
        outcome = Outcome(duel, test, difference, float(p_new[place]), interval, float(p_fixed[place]))
        by_curriculum.setdefault(duel.curriculum, []).append(outcome)
    return by_curriculum


def _tests(values: Mapping[str, np.ndarray], duels: Sequence[Duel]) -> list[CrossedTest]:
    """Paired duels lend each other the variance of their seeds, and unpaired ones."""
    by_duel: dict[Duel, CrossedTest] = {}
    for paired in (True, False):
        chosen = [duel for duel in duels if duel.paired == paired]
        pairs = [(values[duel.curriculum], values[duel.opponent]) for duel in chosen]
        tests = new_seeds_tests(pairs, [duel.draws for duel in chosen], paired) if chosen else []
        by_duel |= zip(chosen, tests, strict=True)
    return [by_duel[duel] for duel in duels]


def _interval(test: CrossedTest, difference: float, level: float) -> Interval:
    if level == LEVEL or not test.error:
        return test.ci95
    half = float(stdtrit(test.freedom, 1 - level / 2)) * test.error
    return difference - half, difference + half


def _corrected(p: np.ndarray, duels: Sequence[Duel]) -> np.ndarray:
    """Holm's correction over the curricula, each of which has one p, its largest. NaN counts as 1 and stays NaN."""
    largest: dict[str, float] = {}
    for duel, one in zip(duels, p.tolist(), strict=True):
        largest[duel.curriculum] = max(largest.get(duel.curriculum, 0.0), 1.0 if math.isnan(one) else one)
    before = np.array(list(largest.values()))
    factors = np.divide(holm(before), before, out=np.ones_like(before), where=before > 0)
    of_curriculum = dict(zip(largest, factors, strict=True))
    return np.minimum(1.0, p * [of_curriculum[duel.curriculum] for duel in duels])


# -- what the tests of one curriculum say together -----------------------------------------------------------------


def answer(tests: Sequence[Outcome]) -> Answer:
    """better: above every opponent. worse: below champion and twin."""
    if all(outcome.difference > 0 and outcome.p <= LEVEL for outcome in tests):
        return "better"
    harm = _deciding_harm(tests)
    if harm and all(outcome.difference < 0 and outcome.p <= LEVEL for outcome in harm):
        return "worse"
    return "no difference shown"


def least_favourable(tests: Sequence[Outcome]) -> Outcome:
    """The opponent with the least evidence that the curriculum is better: the largest one-sided p. Of a worse one that
    with the least evidence for this, whose p is the verdict's."""
    if answer(tests) == "worse":
        return max(_deciding_harm(tests), key=lambda outcome: outcome.p)
    return max(tests, key=lambda outcome: (_one_sided(outcome), -outcome.difference))


def _deciding_harm(tests: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in tests if DECIDE_HARM & {*outcome.duel.roles}]


def _one_sided(outcome: Outcome) -> float:
    """Above every p where nothing can be said of new trainings."""
    if math.isnan(outcome.p):
        return math.inf
    return outcome.p / 2 if outcome.difference > 0 else 1 - outcome.p / 2


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
    return Configuration(
        label=label,
        trial_id=trial_id,
        params=dict(params or {}),
        values=tuple(means.tolist()),
        mean=float(means.mean()),
        sd=float(means.std(ddof=1)) if len(means) > 1 else None,
    )


def tested(
    tests: Sequence[Outcome], values: Mapping[str, np.ndarray], configurations: Mapping[str, Configuration]
) -> Tested:
    """The tests of one curriculum as a result. values: as in `outcomes`; configurations: by label."""
    first = least_favourable(tests)
    opponents = []
    for outcome in (first, *(other for other in tests if other is not first)):
        of_opponent = configurations[outcome.duel.opponent].model_dump()
        opponents.append(Opponent(**of_opponent, roles=outcome.duel.roles, **compared(outcome).model_dump()))
    for_these = [replace(outcome, p=outcome.fixed_p) for outcome in tests]
    least = least_favourable(for_these)
    differences = (values[least.duel.curriculum] - values[least.duel.opponent]).mean(axis=0)
    return Tested(
        curriculum=configurations[first.duel.curriculum],
        opponents=tuple(opponents),
        verdict=answer(tests),
        fixed_seeds=FixedSeeds(verdict=answer(for_these), ci95=bootstrap_ci(differences), p=least.p),
    )


def compared(outcome: Outcome) -> Comparison:
    if math.isnan(outcome.p):
        return Comparison(difference=outcome.difference, ci95=None, p=None)
    return Comparison(difference=outcome.difference, ci95=outcome.ci95, p=outcome.p)


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
    roles: list[Role] = [role for role in ROLES if role in opponents]
    if not roles or len(roles) < len(opponents):
        raise ValueError(f"opponents {[*opponents]}; one or more of {', '.join(ROLES)}")
    arms = {str(number): one for number, one in enumerate(every)}
    arms |= {role: np.asarray(opponents[role], np.float64) for role in roles}
    if every.ndim != 3 or every.shape[-1] < 2 or {one.shape for one in arms.values()} != {every.shape[1:]}:
        shapes = f"values {given.shape} and {', '.join(f'{role} {arms[role].shape}' for role in roles)}"
        raise ValueError(f"{shapes}; they would be [K, seeds, queries] and [seeds, queries], 2 or more queries")
    if not all(np.isfinite(one).all() for one in arms.values()):
        raise ValueError("values that are not numbers")
    duels = [Duel(str(number), role, (role,), paired) for number in range(len(every)) for role in roles]
    configurations = {label: configuration(label, one.mean(axis=1)) for label, one in arms.items()}
    return tuple(tested(one, arms, configurations) for one in outcomes(arms, duels).values())
