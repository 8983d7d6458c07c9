"""What is compared on one split, and what the tests decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from trainables.core.errors import WorkFailed
from trainables.core.prose import counted
from trainables.evaluation.significance import FEW, Seeds, bootstrap_ci, clustered
from tune_cl.confirmation.decisions import (
    Corrected,
    Power,
    collapses,
    corrected_tests,
    difference_of,
    first_level,
    in_two_groups,
    power_of,
)
from tune_cl.confirmation.intersection import Opposed, corrected_over, leader_of, verdict_on
from tune_cl.confirmation.looks import at_reading, over_looks
from tune_cl.confirmation.request import FIRST_LOOK, SeedRun
from tune_cl.confirmation.training import ended_result, values_by_query
from tune_cl.confirmation.verdict import (
    ComparedResult,
    ConfigurationResult,
    Decision,
    Difference,
    Failure,
    Fair,
    OpponentResult,
    PairResult,
    Role,
    Trained,
    TrainingResult,
)
from tune_cl.experiment.experiment import ARMS, PLAIN
from tune_cl.history.state import SearchState, differences
from tune_cl.space.space import Flat

Runs = Sequence[SeedRun]
Opponents = Mapping[str, Mapping[str, tuple[Role, ...]]]
"""By label of a configuration: the labels of its opponents, champion first, and the roles of each."""
SHOWN = 3  # ids in a message


@dataclass(frozen=True)
class Compared:
    """What is compared on one split. `runs`: by label, of the same seeds; all have ended. `max_seeds`: with looks after
    each seed, the most seeds that there might be; None without looks. `readings`: numbers of seeds with which the same
    was read before, ascending. `clusters`: the cluster of each query, if near-duplicates are to count as one. `twins`:
    labels of configurations and of those that differ from them in what the search is about alone."""

    runs: Mapping[str, Runs]
    split: str
    metric: str
    correction: str
    max_seeds: int | None = None
    readings: tuple[int, ...] = ()
    clusters: Mapping[str, int] | None = None
    twins: Set[tuple[str, str]] = frozenset()

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Per-query values, [seeds, queries]."""
        every = {label: [self._values(run) for run in runs] for label, runs in self.runs.items()}
        first = next(iter(every.values()))[0]
        for label, runs in self.runs.items():
            for run, values in zip(runs, every[label], strict=True):
                require_same_queries(run, first.keys(), values.keys())
        return {
            label: np.array([[values[query] for query in first] for values in rows]) for label, rows in every.items()
        }

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in next(iter(self.runs.values()))]

    @cached_property
    def tested(self) -> dict[str, np.ndarray]:
        """What is tested: `values`, by cluster if there are clusters."""
        if self.clusters is None:
            return self.values
        of_queries = [self.clusters[query] for query in self._values(next(iter(self.runs.values()))[0])]
        return {label: clustered(values, of_queries) for label, values in self.values.items()}

    def _values(self, run: SeedRun) -> dict[str, float]:
        """By query. Raises WorkFailed for NaN, naming the training."""
        by_query = values_by_query(run.folder, self.split, self.metric)
        values = np.array(list(by_query.values()))
        if wrong := int(np.count_nonzero(~np.isfinite(values))):
            which = f"{run.name}: {self.metric} on {self.split}"
            raise WorkFailed(f"{which} is not a number for {counted(wrong, 'query')} (see {run.folder})")
        return by_query

    def opposed(self, opponents: Opponents, dropped: int, over_looks: bool = True) -> dict[str, Opposed]:
        """The tests of each configuration against its opponents, corrected over the configurations (`dropped`: see
        `corrected_over`), over all looks and over earlier readings with fewer seeds; or of this look alone."""
        groups = [[(label, opponent) for opponent in roles] for label, roles in opponents.items()]
        pairs = [pair for group in groups for pair in group]
        tests = iter(self._over_looks(pairs, len(groups) + dropped) if over_looks else self._tests(pairs))
        corrected = corrected_over([[next(tests) for _ in group] for group in groups], self.correction, dropped)
        return {
            label: Opposed(roles, dict(zip(roles, group, strict=True)))
            for (label, roles), group in zip(opponents.items(), corrected, strict=True)
        }

    def over_looks(self, pairs: Sequence[tuple[str, str]]) -> list[Corrected]:
        """The test of the first of each pair against the second, corrected over the pairs, over all looks and earlier
        readings."""
        tests = self._over_looks(pairs, len(pairs))
        return [one for group in corrected_over([[test] for test in tests], self.correction) for one in group]

    def _over_looks(self, pairs: Sequence[tuple[str, str]], configurations: int) -> list[Corrected]:
        """Not corrected over the `configurations`, of which the looks know."""
        seeds = len(next(iter(self.values.values())))
        if self.max_seeds is None:
            return at_reading(self._tests(pairs), (*self.readings, seeds))
        among = 1 if self.correction == "none" else configurations
        by_look = [self._tests(pairs, look) for look in range(FIRST_LOOK, seeds + 1)]
        return over_looks(by_look, self.max_seeds, self.readings, among)

    def _tests(self, pairs: Sequence[tuple[str, str]], seeds: int | None = None) -> list[Corrected]:
        """Not corrected, of the first `seeds` seeds; None: of all."""
        tests: dict[int, Corrected] = {}
        for paired in (True, False):
            places = [place for place, labels in enumerate(pairs) if self.in_pairs(*labels) == paired]
            of_places = [pairs[place] for place in places]
            values = [(self.tested[label][:seeds], self.tested[reference][:seeds]) for label, reference in of_places]
            matters = [self.seed_matters(*labels) for labels in of_places]
            taken = replace(self.taken, paired=paired)
            tests |= zip(places, corrected_tests(values, "none", matters, taken) if places else [], strict=True)
        return [tests[place] for place in range(len(pairs))]

    def in_pairs(self, label: str, other: str) -> bool:
        """Whether equal seeds make pairs of two configurations: where all trainings start from the same weights, or the
        two share initial weights and most batches, because they differ in their curricula alone or are twins that
        differ in nothing of the ranker."""
        if self.starts_alike:
            return True
        also = differences(self.params(label), self.params(other))["also_differs"]
        return not also or ((label, other) in self.twins and not any(key.startswith("ranker.") for key in also))

    @property
    def taken(self) -> Seeds:
        """How the tests take the seeds: in pairs where all trainings start from the same weights."""
        few = FEW if self.max_seeds is None else FIRST_LOOK
        return Seeds(self.starts_alike, few)

    @property
    def starts_alike(self) -> bool:
        """Whether all trainings start from the same pretrained weights."""
        return all(runs[0].run.starts_alike for runs in self.runs.values())

    def seed_matters(self, *labels: str) -> bool:
        """Whether the seed changes any of these trainings."""
        return any(self.runs[label][0].run.draws for label in labels)

    def params(self, label: str) -> Flat:
        return self.runs[label][0].configuration.params

    def row(self, label: str) -> Trained:
        """Its runs and means."""
        of_seeds, configuration = self.values[label].mean(axis=1), self.runs[label][0].configuration
        mean, sd = spread(of_seeds)
        return Trained(
            label=label,
            trial_id=configuration.trial if configuration.of_search else None,
            params=configuration.params,
            runs=tuple(_run(run, float(one), self.split) for run, one in zip(self.runs[label], of_seeds, strict=True)),
            mean=mean,
            sd=sd,
        )

    def comparison(self, label: str, reference: str, corrected: Corrected) -> Difference:
        """The figures of a test."""
        interval = bootstrap_ci((self.tested[label] - self.tested[reference]).mean(axis=0))
        return difference_of(corrected, interval, self.seed_matters(label, reference))

    def power(self, label: str, reference: str, corrected: Corrected, tested: int) -> Power:
        """`tested`: how many configurations p is corrected for."""
        seeds, queries = self.tested[label].shape
        level = first_level(self.correction, tested)
        return power_of(corrected, seeds, queries, level, self.seed_matters(label, reference))


def spread(of_seeds: np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation over seeds (NaN for one seed)."""
    return float(of_seeds.mean()), float(of_seeds.std(ddof=1)) if len(of_seeds) > 1 else math.nan


def require_same_queries(run: SeedRun, expected: Set[str], given: Set[str]) -> None:
    """Raises WorkFailed if a training has values of other queries: the tests are paired."""
    for more, queries in (("values of", given - expected), ("no value of", expected - given)):
        if queries:
            named = ", ".join(sorted(queries)[:SHOWN]) + (", ..." if len(queries) > SHOWN else "")
            raise WorkFailed(
                f"{run.name} has {more} {counted(len(queries), 'query')} unlike the first training: {named} (see "
                f"{run.folder}); all trainings need the same queries"
            )


def decide(
    compared: Compared, champion: str, opponents: Opponents, recommended: str, dropped: Sequence[str]
) -> Decision:
    """`champion`: the label of the plain arm's choice. `opponents`: those of each configuration, best on dev first.
    `recommended`: the label of the best on dev, tested or not. `dropped`: the labels of those that got no more
    seeds."""
    opposed = compared.opposed(opponents, len(dropped))
    leader = leader_of(opposed)
    rows = {label: _configuration(compared, label, one) for label, one in opposed.items()}
    top, against = opposed[leader], opposed[leader].least_favourable
    labels = list(dict.fromkeys([champion, *(each for one in opposed.values() for each in one.tests), *rows]))
    values = {label: compared.values[label] for label in labels}
    return Decision(
        configurations=(rows.pop(leader), *rows.values()),
        correction=compared.correction,
        queries=compared.values[leader].shape[1],
        clusters=compared.tested[leader].shape[1],
        readings_of_seeds=compared.readings,
        collapsed=collapses(values, compared.seeds),
        two_groups=in_two_groups(values),
        verdict=verdict_on(opposed, recommended),
        these_seeds=verdict_on(opposed, recommended, new_seeds=False),
        default=_default(compared, champion, top.roles),
        **vars(compared.power(leader, against, top.tests[against], len(opposed) + len(dropped))),
    )


def _configuration(compared: Compared, label: str, opposed: Opposed) -> ConfigurationResult:
    """A configuration beside its least favourable opponent, and all its opponents."""
    against = opposed.least_favourable
    test = replace(compared.comparison(label, against, opposed.tests[against]), marks=opposed.marks)
    differing = differences(compared.params(label), compared.params(against))
    opponents = tuple(
        OpponentResult(
            roles=opposed.roles[one], **vars(compared.row(one)), **vars(compared.comparison(label, one, of_one))
        )
        for one, of_one in opposed.tests.items()
    )
    return ConfigurationResult(
        against=against,
        has_curriculum=differing["has_curriculum"],
        also_differs=tuple(differing["also_differs"]),
        opponents=opponents,
        **vars(compared.row(label)),
        **vars(test),
    )


def _default(compared: Compared, champion: str, roles: Mapping[str, Sequence[Role]]) -> ComparedResult | None:
    """The first trial's configuration against the plain champion, what tuning was worth; None if it is that, or was not
    trained."""
    default = next((label for label, of_label in roles.items() if "default" in of_label), None)
    if default is None or default == champion:
        return None
    [test] = compared.over_looks([(default, champion)])
    return ComparedResult(**vars(compared.row(default)), **vars(compared.comparison(default, champion, test)))


def among_each_other(compared: Compared, labels: Sequence[str]) -> tuple[PairResult, ...]:
    """A row for each two configurations, the first against the second; corrected over all of these."""
    pairs = list(combinations(labels, 2))
    tests = zip(pairs, compared.over_looks(pairs) if pairs else [], strict=True)
    return tuple(
        PairResult(label=one, other=other, **vars(compared.comparison(one, other, test)))
        for (one, other), test in tests
    )


def _run(run: SeedRun, value: float, split: str) -> TrainingResult:
    result = ended_result(run.folder, split)
    kept = "dev", "best_iteration", "iterations", "seconds", "metrics"
    file, curve = str(run.folder / split / result["run_file"]), tuple(result["dev_by_iteration"])
    return TrainingResult(run.seed, value, file, dev_by_iteration=curve, **{key: result[key] for key in kept})


def fair_of(state: SearchState) -> Fair:
    """How hard the opponent was tuned."""
    trials = {arm: sum(trial.arm == arm for trial in state.trials.values()) for arm in ARMS}
    return Fair(trials[PLAIN] > 1, tuple(state.opened_in(PLAIN)), trials)


def failure(run: SeedRun, reason: str) -> Failure:
    return Failure(run.configuration.label, run.seed, reason, str(run.folder))
