"""What an experienced colleague would say of a search's results, each a fact with its number. Doubts about data, before
anything is trained, are in trainables/baselines/doubts.py."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainables.config.keys import TrainingConfig
from trainables.config.objective import AnyRun
from trainables.core.errors import ConfigError
from trainables.core.prose import counted, short
from trainables.curriculum.scoring import CONSTANT
from tune_cl.experiment.arms import ARMS, CURRICULUM, PLAIN
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.state import RAN_TO_THE_END, Dev, SearchState, TrialState
from tune_cl.results import Remark
from tune_cl.schedulers.scheduler import curriculum_ends
from tune_cl.space.parameters import Parameter
from tune_cl.space.wording import below_label_free, label_free_of, label_free_rows, setting

AT_AN_END = 0.05  # of a continuous range, on its scale: the part on either side that counts as its end
FEWEST_VALUES = 3  # of a list of values that has ends
LOGARITHMIC = 8.0  # largest by smallest of positive values, from which on they are taken to grow by factors
MOST_NAMES = 3  # of what failed for one reason
FALL, RETURN = 0.5, 0.75  # of the best value so far: what it falls to, and what it comes back to


def remarks(state: SearchState, experiment: Experiment) -> list[Remark]:
    """All remarks on a search, finished or not, warnings first."""
    made = [remark for remark in (find(state, experiment) for find in FINDERS) if remark]
    return sorted(made, key=lambda remark: not remark.warning)


def _below(state: SearchState, experiment: Experiment) -> Remark | None:
    best = _champions(state)
    rows = label_free_rows(*label_free_of(state.label_free))
    text = below_label_free(rows, state.metric, [at.dev for _, at in best])
    return Remark(kind="below label-free", text=text, trials=_names(best), warning=True) if text else None


def _no_question(state: SearchState, experiment: Experiment) -> Remark | None:
    if experiment.arms.compares:
        return None
    text = "the space asks no question: no searched key is in `baseline`, so all trials are of one kind and `confirm` "
    return Remark(kind="no question", text=f"{text}can only compare their settings")


def _no_checkpoint(state: SearchState, experiment: Experiment) -> Remark | None:
    if not (state.objective and state.end) or state.end.get("checkpoint") or not (best := state.best()):
        return None
    text = (
        f"the function reported the best iteration of {best[0].trial} without a checkpoint, and `confirm` needs one of "
        "each training to judge it on test: report(metrics, checkpoint=FOLDER)"
    )
    return Remark(kind="no checkpoint", text=text, trials=(best[0].trial,), warning=True)


def _does_nothing(state: SearchState, experiment: Experiment) -> Remark | None:
    return _of_curricula("does nothing", ("is", "are"), "plain training", idle, state, experiment)


def _never_ends(state: SearchState, experiment: Experiment) -> Remark | None:
    return _of_curricula("never ends", ("has", "have"), "a curriculum that never ends", endless, state, experiment)


def _of_curricula(
    kind: str,
    verb: tuple[str, str],
    what: str,
    why_of: Callable[[AnyRun], str | None],
    state: SearchState,
    experiment: Experiment,
) -> Remark | None:
    """Names the trials of the curriculum arm of which `why_of` says something, with the reason of the first."""
    trials = state.trials_of(CURRICULUM) if experiment.arms.compares else []
    found = {trial.trial: why for trial in trials if (why := why_of(experiment.config(trial.point).run))}
    if not found:
        return None
    text = f"{len(found)} of {counted(len(trials), 'curriculum trial')} {verb[len(found) > 1]} {what}"
    first, why = next(iter(found.items()))
    return Remark(kind=kind, text=f"{text}: in {first} {why}", trials=tuple(found), warning=len(found) == len(trials))


def idle(run: AnyRun) -> str | None:
    """Why a configured curriculum changes nothing in a training; None if it does, or none is configured."""
    if not isinstance(run, TrainingConfig):
        return None
    curriculum = run.curriculum
    if "curriculum.switch" in run.in_force():
        rounds = run.training.max_iterations * run.ranker.rounds_per_iteration
        late = f"the switch after tree {curriculum.switch} comes after the last of {rounds} trees"
        return late if curriculum.switch >= rounds else None
    others = (curriculum.weighting, curriculum.objective_switch, curriculum.negatives.schedule)
    if curriculum.pacing == "none" or any(other != "none" for other in others):
        return None
    if curriculum.schedule(1).share(0) < 1:
        return None
    return f"all training data is available from the first step ({setting('curriculum.delta', curriculum.delta)})"


def endless(run: AnyRun) -> str | None:
    """Which part of a curriculum lasts beyond the training although it has an end; None if none does."""
    if not isinstance(run, TrainingConfig) or run.reads == "features":
        return None
    last = run.training.max_iterations
    for key, end in curriculum_ends(run).items():
        if last < end < math.inf:
            return f"{setting(key, end)} is beyond the last iteration ({last}), as {setting(key, math.inf)} is"
    return None


def _constant_difficulty(state: SearchState, experiment: Experiment) -> Remark | None:
    trials = [trial for trial, texts in state.notes.items() if any(CONSTANT in text for text in texts)]
    if not trials:
        return None
    scorings = {str(state.trials[trial].params.get("curriculum.scoring")) for trial in trials}
    text = (
        f"{CONSTANT} under {', '.join(sorted(scorings))} in {counted(len(trials), 'trial')}: their order means nothing"
    )
    return Remark(kind="constant difficulty", text=text, trials=tuple(trials), warning=True)


# -- ends of ranges --------------------------------------------------------------------------------------------------


def _at_ends(state: SearchState, experiment: Experiment) -> Remark | None:
    """The best values of each arm that lie at the end of their range, with a range to try."""
    found: dict[tuple[str, str], list[str]] = {}
    for arm in ARMS:
        leaves = (experiment.arms.shared_space if arm == PLAIN else experiment.space).parameters
        ranked = state.ranked_of(arm)
        if len(ranked) > 1 and len({value for _, value in ranked}) == 1:
            continue  # every value is as good
        for trial, _ in ranked[:1]:
            for key, leaf in leaves.items():
                if key in trial.params and (
                    wider := range_to_try(leaf, trial.params[key], _allowed(experiment, trial, key))
                ):
                    words = f"{setting(key, trial.params[key])}", " to ".join(map(short, wider))
                    found.setdefault(words, []).append(trial.trial)
    if not found:
        return None
    said = [f"{value} ({', '.join(trials)}; try {wider})" for (value, wider), trials in found.items()]
    names = dict.fromkeys(name for trials in found.values() for name in trials)
    return Remark(
        kind="end of range", text=f"the best value is at the end of its range: {', '.join(said)}", trials=tuple(names)
    )


def _allowed(experiment: Experiment, trial: TrialState, key: str) -> Callable[[float], bool]:
    """Whether a trial may have another value of a key."""

    def allowed(value: float) -> bool:
        try:
            experiment.config({**trial.point, key: value})
        except ConfigError:
            return False
        return True

    return allowed


def range_to_try(leaf: Parameter, value: Any, allowed: Callable[[float], bool]) -> tuple[float, float] | None:
    """A range of values about one that lies at the end of a numeric range; None for any other value, and where the key
    itself ends there."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    values = _numbers(leaf)
    if values is None:
        return _about(leaf, value, allowed) if leaf.is_number else None
    if len(values) < FEWEST_VALUES or value not in (values[0], values[-1]):
        return None
    near = values[1] if value == values[0] else values[-2]
    by_factors = values[0] > 0 and values[-1] / values[0] >= LOGARITHMIC
    further = value * value / near if by_factors else 2 * value - near
    return _ordered(near, _like(leaf, further), value, allowed)


def _numbers(leaf: Parameter) -> Sequence[float] | None:
    """All values of a numeric range in order; None if it is continuous, or not of numbers."""
    options = leaf.values()
    if options is None or any(isinstance(one, bool) or not isinstance(one, int | float) for one in options):
        return None
    return sorted(one for one in options if math.isfinite(one))


def _about(leaf: Parameter, value: float, allowed: Callable[[float], bool]) -> tuple[float, float] | None:
    scale, back = (math.log, math.exp) if leaf.kind == "loguniform" else (float, float)
    low, high, at = (scale(one) for one in (*leaf.ends, value))
    half = (high - low) / 2
    side = -1 if at - low <= AT_AN_END * (high - low) else 1 if high - at <= AT_AN_END * (high - low) else 0
    if not side:
        return None
    end = low if side < 0 else high
    return _ordered(_rounded(back(end - side * half)), _like(leaf, _rounded(back(end + side * half))), value, allowed)


def _ordered(near: float, further: float, value: float, allowed: Callable[[float], bool]) -> tuple[float, float] | None:
    return (min(near, further), max(near, further)) if further != value and allowed(further) else None


def _like(leaf: Parameter, value: float) -> float:
    """The value as a whole number where all values of the range are."""
    whole = all(isinstance(one, int) for one in leaf.ends)
    return round(value) if whole else _rounded(value)


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


# -- learning curves -------------------------------------------------------------------------------------------------


def _last_iteration(state: SearchState, experiment: Experiment) -> Remark | None:
    """The best trials that were best when they ended: they may still have been rising."""
    last = experiment.base.run.training.max_iterations
    rising = [pair for pair in _champions(state) if pair[0].outcome in RAN_TO_THE_END and pair[1].iteration == last > 1]
    if not rising:
        return None
    names = _names(rising)
    text = f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} best at the last iteration ({last} of {last})"
    return Remark(
        kind="last iteration", text=f"{text}: train longer (training.max_iterations={2 * last})", trials=names
    )


def _falls_and_returns(state: SearchState, experiment: Experiment) -> Remark | None:
    """Learning curves that collapse and recover, as where the learning rate is too high."""
    sound = [trial for trial in state.by_number() if trial.outcome != "failed"]
    falls = {trial.trial: fall for trial in sound if (fall := fall_of(trial.dev(state.metric)))}
    named = [trial for trial, _ in _champions(state) if trial.trial in falls]
    if not named:
        return None
    said = [
        f"{trial.trial} falls from {falls[trial.trial].before:.4f} to {falls[trial.trial].low:.4f} at iteration "
        f"{falls[trial.trial].iteration}{_learning_rate(trial.params)}"
        for trial in named
    ]
    count = f"{len(falls)} of {counted(len(sound), 'learning curve')} {'falls' if len(falls) == 1 else 'fall'} by half"
    text = f"{count} and {'comes' if len(falls) == 1 else 'come'} back, which a lower learning rate may avoid"
    return Remark(kind="falls and returns", text=f"{text}: {', '.join(said)}", trials=tuple(falls))


@dataclass(frozen=True)
class Fall:
    """A dev curve's fall to `low` at an iteration from the best value `before` it."""

    before: float
    low: float
    iteration: int


def fall_of(dev: Mapping[int, float]) -> Fall | None:
    """The first fall of a curve to half of its best value so far from which it comes back; None without one. `dev`:
    value by iteration."""
    before, fall = -math.inf, None
    for iteration, value in dev.items():
        if fall and value >= RETURN * fall.before:
            return fall
        if fall is None and before > 0 and value <= FALL * before:
            fall = Fall(before, value, iteration)
        before = max(before, value)
    return None


def _learning_rate(params: Mapping[str, Any]) -> str:
    return f" ({setting('training.lr', params['training.lr'])})" if "training.lr" in params else ""


# -- failures --------------------------------------------------------------------------------------------------------


def _failures(state: SearchState, experiment: Experiment) -> Remark | None:
    counts = grouped({trial.trial: trial.reason for trial in state.by_number() if trial.outcome == "failed"})
    if not counts:
        return None
    said = [f"{in_count(names, 'trial')}: {reason}" for reason, names in counts.items()]
    trials = tuple(name for names in counts.values() for name in names)
    return Remark(kind="failures", text=f"failed: {'; '.join(said)}", trials=trials)


def grouped(reasons: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Failures by their reason, the most frequent first: each with the names of what failed. A traceback's place, which
    differs, is that of the first."""
    kinds = {name: _without_place(reason or "no reason given") for name, reason in reasons.items()}
    names = {kind: [name for name in kinds if kinds[name] == kind] for kind, _ in Counter(kinds.values()).most_common()}
    return {str(reasons[of_kind[0]] or "no reason given"): of_kind for of_kind in names.values()}


def in_count(names: Sequence[str], noun: str = "training") -> str:
    """Some names, with their number if there are several."""
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{counted(len(names), noun)} ({', '.join(names[:MOST_NAMES])}{more})"


def _without_place(reason: str) -> str:
    return reason.partition(" (traceback: ")[0]


# -- trials ----------------------------------------------------------------------------------------------------------


def _champions(state: SearchState) -> list[tuple[TrialState, Dev]]:
    """The best trial of each arm that has one."""
    return [pair for arm in (CURRICULUM, PLAIN) for pair in state.ranked_of(arm)[:1]]


def _names(pairs: Sequence[tuple[TrialState, Dev]]) -> tuple[str, ...]:
    return tuple(trial.trial for trial, _ in pairs)


FINDERS: tuple[Callable[[SearchState, Experiment], Remark | None], ...] = (
    _below, _no_question, _no_checkpoint, _does_nothing, _never_ends, _constant_difficulty,
    _at_ends, _last_iteration, _falls_and_returns, _failures,
)  # fmt: skip


def in_sentences(found: Sequence[Remark], warnings: bool) -> Iterator[str]:
    """The remarks as sentences: the warnings, or the others."""
    for remark in found:
        if remark.warning == warnings:
            named = remark.text.startswith(remark.trials)  # a trial's id begins small
            yield f"{remark.text if named else remark.text[0].upper() + remark.text[1:]}."
