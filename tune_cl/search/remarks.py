"""What an experienced colleague would say of a search's results, each a fact with its number. Doubts about data, before
anything is trained, are in trainables/baselines/doubts.py."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trainables.config.keys import TrainingConfig
from trainables.config.objective import AnyRun
from trainables.core.errors import ConfigError
from trainables.core.prose import counted
from trainables.curriculum.scoring import CONSTANT
from tune_cl.experiment.arms import ARMS, CURRICULUM, PLAIN
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.state import RAN_TO_THE_END, Dev, SearchState, TrialState
from tune_cl.results import Remark
from tune_cl.space.parameters import Parameter, is_finite
from tune_cl.space.space import Flat
from tune_cl.space.wording import below_label_free, label_free_of, label_free_rows, setting

AT_AN_END = 0.05  # of a continuous range, on its scale: the part on either side that counts as its end
FEWEST_VALUES = 3  # of a list of values that has ends
MOST_NAMES = 3  # of what failed for one reason


def remarks(state: SearchState, experiment: Experiment) -> list[Remark]:
    """All remarks on a search, finished or not, warnings first."""
    made = [remark for remark in (find(state, experiment) for find in FINDERS) if remark]
    return sorted(made, key=lambda remark: not remark.warning)


def in_sentences(found: Sequence[Remark], warnings: bool) -> Iterator[str]:
    """The remarks as sentences: the warnings, or the others."""
    for remark in found:
        if remark.warning == warnings:
            named = remark.text.startswith(remark.trials)  # a trial's id begins small
            yield f"{remark.text if named else remark.text[0].upper() + remark.text[1:]}."


def _below_label_free(state: SearchState, experiment: Experiment) -> Remark | None:
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
    best = state.best()
    if not (state.objective and state.end and best) or state.end.get("checkpoint"):
        return None
    text = (
        f"the function reported the best iteration of {best[0].trial} without a checkpoint, and `confirm` needs one of "
        "each training to judge it on test: report(metrics, checkpoint=FOLDER)"
    )
    return Remark(kind="no checkpoint", text=text, trials=(best[0].trial,), warning=True)


def _does_nothing(state: SearchState, experiment: Experiment) -> Remark | None:
    trials = state.trials_of(CURRICULUM) if experiment.arms.compares else []
    reasons = {trial.trial: idle(experiment.config(trial.point).run) for trial in trials}
    names = [name for name, reason in reasons.items() if reason]
    if not names:
        return None
    verb = "is" if len(names) == 1 else "are"
    text = f"{len(names)} of {counted(len(trials), 'curriculum trial')} {verb} plain training: in {names[0]} "
    warning = len(names) == len(trials)
    return Remark(kind="does nothing", text=f"{text}{reasons[names[0]]}", trials=tuple(names), warning=warning)


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


def _constant_difficulty(state: SearchState, experiment: Experiment) -> Remark | None:
    trials = [trial for trial, texts in state.notes.items() if any(CONSTANT in text for text in texts)]
    if not trials:
        return None
    scorings = sorted({str(state.trials[trial].params.get("curriculum.scoring")) for trial in trials})
    where = f"under {', '.join(scorings)} in {counted(len(trials), 'trial')}"
    text = f"{CONSTANT} {where}: their order means nothing"
    return Remark(kind="constant difficulty", text=text, trials=tuple(trials), warning=True)


def _end_of_range(state: SearchState, experiment: Experiment) -> Remark | None:
    """The values of each arm's best trial that lie at the end of their range."""
    found: dict[str, list[str]] = {}
    for arm in ARMS:
        space = experiment.arms.shared_space if arm == PLAIN else experiment.space
        ranked = state.ranked_of(arm)
        if not ranked or (len(ranked) > 1 and len({at.dev for _, at in ranked}) == 1):
            continue  # every value is as good
        trial = ranked[0][0]
        for key, parameter in space.parameters.items():
            side = end_of(parameter, trial.params.get(key))
            if side and _is_possible(experiment, {**trial.point, key: trial.params[key] * 2.0**side}):
                found.setdefault(setting(key, trial.params[key]), []).append(trial.trial)
    if not found:
        return None
    values = ", ".join(f"{value} ({', '.join(trials)})" for value, trials in found.items())
    names = dict.fromkeys(name for trials in found.values() for name in trials)
    text = f"the best value is at the end of its range: {values}; a wider range may hold a better one"
    return Remark(kind="end of range", text=text, trials=tuple(names))


def end_of(parameter: Parameter, value: Any) -> int:
    """At which end of its numeric range a value lies, or within AT_AN_END of it: -1 the lower one, 1 the upper, 0
    neither."""
    if not is_finite(value):
        return 0
    options = parameter.values()
    numbers = sorted(filter(is_finite, parameter.ends if options is None else options))
    if options is not None:
        has_ends = len(numbers) >= FEWEST_VALUES
        return int(has_ends and value == numbers[-1]) - int(has_ends and value == numbers[0])
    scale = math.log if parameter.kind == "loguniform" else float
    low, high, at = scale(numbers[0]), scale(numbers[1]), scale(value)
    near = AT_AN_END * (high - low)
    return -1 if at - low <= near else 1 if high - at <= near else 0


def _is_possible(experiment: Experiment, point: Flat) -> bool:
    try:
        experiment.config(point)
    except ConfigError:
        return False
    return True


def _last_iteration(state: SearchState, experiment: Experiment) -> Remark | None:
    """The best trials that were best when they ended: they may still have been rising."""
    last = experiment.base.run.training.max_iterations
    rising = [pair for pair in _champions(state) if pair[0].outcome in RAN_TO_THE_END and pair[1].iteration == last > 1]
    if not rising:
        return None
    names = _names(rising)
    text = f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} best at the last iteration ({last} of {last})"
    text += f": train longer (training.max_iterations={2 * last})"
    return Remark(kind="last iteration", text=text, trials=names)


def _failures(state: SearchState, experiment: Experiment) -> Remark | None:
    failed = {trial.trial: trial.reason for trial in state.by_number() if trial.outcome == "failed"}
    if not failed:
        return None
    reasons = [f"{in_count(names, 'trial')}: {reason}" for reason, names in grouped(failed).items()]
    return Remark(kind="failures", text=f"failed: {'; '.join(reasons)}", trials=tuple(failed))


def grouped(reasons: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Failures by their reason, the most frequent first: each with the names of what failed. A traceback's place, which
    differs, is that of the first."""
    kinds = {name: (reason or "no reason given").partition(" (traceback: ")[0] for name, reason in reasons.items()}
    groups: dict[str, list[str]] = {}
    for kind, _ in Counter(kinds.values()).most_common():
        names = [name for name in kinds if kinds[name] == kind]
        groups[reasons[names[0]] or kind] = names
    return groups


def in_count(names: Sequence[str], noun: str = "training") -> str:
    """Some names, with their number if there are several."""
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{counted(len(names), noun)} ({', '.join(names[:MOST_NAMES])}{more})"


def _champions(state: SearchState) -> list[tuple[TrialState, Dev]]:
    """The best trial of each arm that has one."""
    return [pair for arm in (CURRICULUM, PLAIN) for pair in state.ranked_of(arm)[:1]]


def _names(pairs: Sequence[tuple[TrialState, Dev]]) -> tuple[str, ...]:
    return tuple(trial.trial for trial, _ in pairs)


FINDERS: tuple[Callable[[SearchState, Experiment], Remark | None], ...] = (
    _below_label_free, _no_question, _no_checkpoint, _does_nothing, _constant_difficulty, _end_of_range,
    _last_iteration, _failures,
)  # fmt: skip
