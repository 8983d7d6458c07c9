"""How far a search has come: its state, sampler, scheduler, race and audit, all of them functions of its events.

Live and on replay alike: a search that stopped is rebuilt by taking in its journal's events again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from trainables.evaluation.metrics import dev_key
from tune_cl.experiment import Experiment
from tune_cl.journal import Event
from tune_cl.search.audit import Audit
from tune_cl.search.repeats import Race
from tune_cl.search.samplers import Observation, Outcome, make_sampler
from tune_cl.search.schedulers import Decision, make_scheduler
from tune_cl.state import RAN_TO_THE_END, SearchState, TrialState, as_chosen, begun

BASELINE_TRIAL = "t0000"
PAUSED = "paused"  # stands in place of an outcome
TOLD: dict[str, Outcome] = {
    "completed": "completed",
    "stopped_early": "pruned",
    "failed": "failed",
}  # outcomes as the sampler calls them


@dataclass(frozen=True)
class Stop:
    """The decision to end a trial once it has reported `iteration`."""

    iteration: int
    outcome: str
    reason: str


class Course:
    """`events`: all events so far, of which the first is `search`."""

    def __init__(self, experiment: Experiment, events: Iterator[Event]):
        search = experiment.search
        self.metric = experiment.metric
        self.experiment = experiment
        self.audit = Audit(search.audit, experiment.seed, experiment.trials, search.reduction_factor)
        self.sampler = make_sampler(experiment)
        self.scheduler = make_scheduler(experiment)
        self.race = Race(search.repeats, BASELINE_TRIAL)
        self.stops: dict[str, Stop] = {}
        self.asked: dict[str, int] = {}  # the sampler's number for each trial: 0 for the baseline, none for repeats
        self.state: SearchState = begun(next(events))
        for event in events:
            self.take_in(event)

    def take_in(self, event: Event) -> None:
        """Takes in one more event."""
        kind, trial = event["event"], event.get("trial", BASELINE_TRIAL)
        before = self.state.trials.get(trial)
        was_paused = before is not None and before.paused
        known = kind == "result" and before is not None and event["iteration"] in before.results
        self.state.apply(event)
        if kind == "warm_start":
            observed = [seen | {"chosen": as_chosen(seen["chosen"])} for seen in event["observations"]]
            self.sampler.warm_up([Observation(**seen) for seen in observed])
        elif kind == "trial" and before is None:
            self._begun(self.state.trials[trial])
            self.scheduler.all_begun = self._are_all_begun()
        elif kind == "trial" and was_paused:
            self.stops.pop(trial, None)
            self.scheduler.resumed(trial, event["chosen"])
        elif kind == "result" and not known:
            self._reported(self.state.trials[trial], event)
        elif kind == "pause":
            self._tell(trial, "stopped_early")  # provisional: told again when the trial ends
        elif kind == "end":
            self._over(self.state.trials[trial])

    def _are_all_begun(self) -> bool:
        """Whether no new configuration comes: all trials have begun, repeats included, or the space is used up."""
        combinations = self.experiment.space.combinations()
        used_up = combinations is not None and len(self.asked) > combinations  # the baseline was asked for as well
        return used_up or len(self.state.trials) >= self.experiment.trials

    def _begun(self, trial: TrialState) -> None:
        if self.race.seeds > 1:
            self.race.begun(trial.trial, trial.configuration)
        if trial.repeat_of:
            return
        number = self.asked[trial.trial] = len(self.asked)
        if trial.trial == BASELINE_TRIAL:
            return
        self.sampler.replay(number, trial.chosen)
        grace, end = self.experiment.grace(trial.chosen), self.experiment.curriculum_end(trial.chosen)
        self.scheduler.start(trial.trial, grace, end, trial.chosen)

    def _reported(self, trial: TrialState, event: Event) -> None:
        if self.race.seeds > 1:
            self.race.result(trial.trial, event["iteration"], event["queries"])
        if trial.trial in self.asked and trial.trial != BASELINE_TRIAL and trial.trial not in self.audit.taken:
            self._judge(trial.trial, event)

    def _over(self, trial: TrialState) -> None:
        """A trial ended. Its configuration may train again; the sampler is told of configurations that will not."""
        if trial.trial in self.audit.taken:  # the sampler was told at the stop
            return
        if trial.trial in self.asked and trial.trial != BASELINE_TRIAL:
            self.scheduler.ended(trial.trial, trial.outcome == "completed")
            if trial.outcome == "failed":
                self.scheduler.forget(trial.trial)
        best = trial.best(self.metric) if trial.outcome in RAN_TO_THE_END else None
        iteration = best.iteration + trial.offset if best else None
        if self.race.seeds > 1:
            over = self.race.ended(trial.trial, trial.configuration, iteration)
        else:
            over = [trial.trial] if trial.trial != BASELINE_TRIAL else []
        for configuration in over:  # unless it is named after this trial, its first training ran to the end
            self._tell(configuration, str(trial.outcome) if configuration == trial.trial else "completed")

    def _judge(self, trial: str, event: Event) -> None:
        """Decides what a new result means for its trial."""
        at, value = event["iteration"], event["metrics"][dev_key(self.metric)]
        decision = self.scheduler.judge(trial, at - self.state.trials[trial].offset, value, event.get("queries"))
        if event.get("done") and not self.scheduler.renews:  # ended by itself: nothing to stop
            return
        if decision is Decision.PAUSE:
            self.stops[trial] = Stop(at, PAUSED, f"waits at iteration {at}")
        elif decision is Decision.STOP:
            self._stop(trial, at)

    def _stop(self, trial: str, iteration: int) -> None:
        """Carries out a stop. A trial taken by the audit goes on; for sampler and scheduler it ends here."""
        if self.audit.takes(trial, iteration):
            self.scheduler.ended(trial, completed=False)
            self._tell(trial, "stopped_early")
        else:
            self.stops[trial] = Stop(iteration, "stopped_early", f"not among the best at iteration {iteration}")

    def _tell(self, trial: str, outcome: str) -> None:
        """Tells the sampler about a configuration: its curve, or if it was repeated its trainings' mean best value."""
        dev = self.state.trials[trial].dev(self.metric)
        finals = self.state.finals().get(trial, []) if self.race.seeds > 1 else []
        values = {max(dev): fmean(finals)} if len(finals) > 1 else dev
        self.sampler.tell(self.asked[trial], values, TOLD[outcome])
