"""What a confirmation trains: the candidates of a selection, then the champions and their opponents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tune_cl.confirmation.intersection import twins_of
from tune_cl.confirmation.opponents import opponents_of
from tune_cl.confirmation.request import (
    Configuration,
    Request,
    SeedRun,
    configurations,
    default_configuration,
    new_seeds,
    plain_configurations,
    seed_run,
)
from tune_cl.confirmation.selection import FIRST_SEED, SPLIT, Candidate, candidates_of, champion, seeds_of
from tune_cl.confirmation.verdict import Role, Selected
from tune_cl.experiment.experiment import CURRICULUM, PLAIN, Arm, Experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState


class Lineup:
    """champion, best  the configurations of both arms that are tested: until `choose`, all candidates
    opponents       those of each configuration in `best`, by label
    runs            the trainings of the test, by label and seed
    draws           whether the seed changes any training
    pilot           whether the first trial's configuration alone is trained
    """

    def __init__(
        self,
        search_folder: SearchFolder,
        state: SearchState,
        experiment: Experiment,
        request: Request,
        pilot: bool = False,
    ):
        self.search_folder, self.state, self.experiment = search_folder, state, experiment
        self.request, self.pilot = request, pilot
        self.default = default_configuration(state, experiment)
        arms: dict[Arm, list[Configuration]] = {PLAIN: [self.default]}
        if not pilot:
            arms = candidates_of(state, self.default, request)
        self.champion, self.best = arms[PLAIN][0], arms.get(CURRICULUM, [])
        self.draws = any(self._run(one, 1).run.draws for of_arm in arms.values() for one in of_arm)
        self.candidates = self._candidates(arms)
        self.seeds = new_seeds(request.most, state.search_seeds)
        if not (self.draws or pilot):
            self.seeds = self.seeds[:1]  # all others give the same trainings
        self._set_out()

    def _candidates(self, arms: Mapping[Arm, Sequence[Configuration]]) -> list[Candidate]:
        """What may be a champion, with the trainings by which each arm chooses its own; none where there is no
        choice."""
        chooses = {
            arm: self.draws and len(arms[arm]) > 1 and not (self.request.tests_all and arm == CURRICULUM)
            for arm in arms
        }
        compared = sum(len(arms[arm]) for arm in arms if chooses[arm])
        number = seeds_of(self.request, compared, len(self.state.trials))
        seeds = new_seeds(number, self.state.search_seeds, FIRST_SEED)
        return [
            Candidate(arm, one, [self._run(one, seed, SPLIT) for seed in seeds] if chooses[arm] else [])
            for arm in arms
            for one in arms[arm]
        ]

    def _set_out(self) -> None:
        """The trainings of the test: those of what is tested, and of all opponents."""
        known = [
            *configurations(self.state, self.default).values(),
            *plain_configurations(self.state, self.default),
        ]
        self.opponents = {
            one.label: opponents_of(one, self.champion, self.default, known, self.experiment, self.request)
            for one in self.best
        }
        every = [self.champion, *self.best, *(each.configuration for of in self.opponents.values() for each in of)]
        self.runs = {(one.label, seed): self._run(one, seed) for one in every for seed in self.seeds}

    def _run(self, configuration: Configuration, seed: int, split: str | None = None) -> SeedRun:
        on = split or self.request.split
        return seed_run(self.experiment, configuration, seed, on, self.search_folder, self.request.new_noise)

    def choose(self, selection: Sequence[Selected]) -> None:
        """Keeps the champions of a selection."""
        by_label = {(one.arm, one.configuration.label): one.configuration for one in self.candidates}
        self.champion = by_label[PLAIN, champion(selection, PLAIN)]
        if not self.request.tests_all:
            self.best = [by_label[CURRICULUM, champion(selection, CURRICULUM)]]
        self._set_out()

    @property
    def selects(self) -> bool:
        return any(one.runs for one in self.candidates)

    @property
    def max_seeds(self) -> int | None:
        """The most seeds that there might be with looks; None without looks."""
        return self.request.max_seeds if self.request.until_settled and self.draws else None

    @property
    def of_selection(self) -> list[SeedRun]:
        return [run for one in self.candidates for run in one.runs]

    @property
    def every_run(self) -> list[SeedRun]:
        """All trainings that there may be."""
        tested = [self._run(one.configuration, seed) for one in self.candidates for seed in self.seeds]
        return list({run.trial: run for run in (*self.of_selection, *tested, *self.runs.values())}.values())

    def to_come(self) -> int:
        """How many trainings have no result yet; before a selection, the most that there may be: dev has yet to choose
        the champions, and with them their opponents."""
        every = [*self.of_selection, *([] if self.selects else self.runs.values())]
        left = sum(not (run.folder / run.split).exists() for run in every)
        return left + self._most_configurations() * len(self.seeds) if self.selects else left

    def _most_configurations(self) -> int:
        """How many configurations a test may compare whose champions dev has yet to choose."""
        curricula = [one.configuration for one in self.candidates if one.arm == CURRICULUM]
        tested = len(curricula) if self.request.tests_all else 1
        if self.request.trials or self.request.best_of or self.request.against_trial:
            return tested + len(("champion",))
        filters = sum(self.experiment.config(one.point).filter is not None for one in curricula)
        return tested + len(("champion", "default")) + tested + min(filters, tested)

    def with_opponents(self, tested: Sequence[Configuration]) -> list[Configuration]:
        """The plain champion, those tested, then their opponents."""
        opponents = [each.configuration for one in tested for each in self.opponents[one.label]]
        return list({one.label: one for one in (self.champion, *tested, *opponents)}.values())

    def roles(self, tested: Sequence[Configuration]) -> dict[str, dict[str, tuple[Role, ...]]]:
        """By label of a configuration: its opponents and their roles."""
        return {one.label: {each.label: each.roles for each in self.opponents[one.label]} for one in tested}

    def twins(self, tested: Sequence[Configuration]) -> frozenset[tuple[str, str]]:
        return twins_of(self.roles(tested))
