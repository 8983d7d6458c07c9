"""Whom a curriculum must beat: every plain training that could explain its gain.

A difference from plain training may come from the learning rate or the loss that one arm of the search happened to
draw, or from the pairs that the curriculum leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tune_cl.experiment.arms import ORDER
from tune_cl.experiment.experiment import Experiment, TrialConfig
from tune_cl.history.state import SearchState, seedless, training_key
from tune_cl.results import Role
from tune_cl.space.space import Flat
from tune_cl.space.wording import OF_CURRICULUM, trial_words
from tune_cl.verdict.contenders import Contender, Contenders, distinct_label
from tune_cl.verdict.test import Duel
from tune_cl.verdict.trainings import SeedRun, ended_result

WHOLE = 0.995  # of the pairs: what is left is not worth an opponent


@dataclass(frozen=True)
class Plain:
    """A plain training that a curriculum is tested against. Equal trainings are one, with several roles."""

    roles: tuple[Role, ...]
    contender: Contender


def opponents_of(
    one: Contender,
    champion: Contender,
    default: Contender | None,
    share: float,
    searched: Contenders,
    experiment: Experiment,
) -> list[Plain]:
    """The opponents of a curriculum, each once, champion first.

    default   None where selection shows it clearly below the champion
    share     of the pairs that the curriculum's checkpoints used (`share_seen`)
    searched  the configurations of the search
    """
    config = experiment.config(one.point)
    plain: list[tuple[Role, Contender]] = [("champion", champion), ("twin", _made("twin", config.twin, searched))]
    if default:
        plain.append(("default", default))
    if share < WHOLE:
        plain.append(("filter", _made("filter", filter_config(config, share), searched, share)))
    by_label: dict[str, Plain] = {}
    for role, contender in plain:
        roles = by_label[contender.label].roles if contender.label in by_label else ()
        by_label[contender.label] = Plain((*roles, role), contender)
    return list(by_label.values())


def _made(role: Role, config: TrialConfig, searched: Contenders, share: float | None = None) -> Contender:
    """The contender of the search with this configuration, else a new one, whose folder bears its role in place of a
    trial: curricula that differ in their curricula alone share it."""
    point, params = config.point, seedless(config.params)
    if same := searched.get(training_key(params)):
        return same
    if share is None:
        label = distinct_label(trial_words(point, params, plain=True), role, searched)
    else:
        label = f"filter {share:.3g} {trial_words(point, params, plain=False)}"
    return Contender(label, role, point, params, of_search=False)


def share_seen(one: Contender, runs: Sequence[SeedRun], state: SearchState, experiment: Experiment) -> float:
    """Which share of the pairs the checkpoints of a curriculum were trained on with a weight above 0: the mean over its
    trainings in the selection; without one, what the search's trial made available. Each up to the iteration that dev
    chose. Where nothing is reported: the share that its pacing ends with."""
    seen = [ended_result(run.folder, run.split).get("share_seen") for run in runs]
    shares = [share for share in seen if share is not None]
    trial = state.trials[one.trial]
    best = trial.best(state.metric)
    if best and not shares:
        available = [row.get("available_share") for at, row in trial.results.items() if at <= best.iteration]
        shares = sorted(share for share in available if share is not None)[-1:]
    if shares:
        return shares[0] if len({*shares}) == 1 else round(sum(shares) / len(shares), 2)
    curriculum = experiment.config(one.point).run.curriculum
    return 1.0 if curriculum.pacing == "none" else curriculum.final_share


def filter_config(config: TrialConfig, share: float) -> TrialConfig:
    """A curriculum's twin on this share of the pairs, the first in its order, all at once and in random order: what
    leaving out the others is worth by itself."""
    values = {**config.experiment.fixed, **config.point}
    order = {key: value for key, value in values.items() if key.startswith(ORDER)}
    all_at_once = {"curriculum.pacing": "linear", "curriculum.delta": share, "curriculum.final_share": share}
    return config.experiment.config({**config.twin.point, **order, **all_at_once})


# -- how two configurations are compared ---------------------------------------------------------------------------


def duel_of(curriculum: Contender, opponent: Plain, starts_alike: bool, draws: bool) -> Duel:
    """starts_alike: whether all trainings start from the same pretrained weights; draws: whether the seed changes
    either training."""
    is_twin = bool({"twin", "filter"} & {*opponent.roles})
    paired = starts_alike or in_pairs(curriculum.params, opponent.contender.params, is_twin)
    return Duel(curriculum.label, opponent.contender.label, opponent.roles, paired, draws)


def in_pairs(one: Flat, other: Flat, is_twin: bool) -> bool:
    """Whether equal seeds make pairs of two trainings from new weights: where they share initial weights and most
    batches, because they differ in their curricula alone, or are twins that differ in nothing of the ranker."""
    differing = keys_outside_curriculum(one, other)
    return not differing or (is_twin and not any(key.startswith("ranker.") for key in differing))


def keys_outside_curriculum(one: Flat, other: Flat) -> list[str]:
    """The keys in force outside the curriculum in which two configurations differ."""
    keys: Collection[str] = {**one, **other}
    differing = [key for key in keys if key not in one or key not in other or one[key] != other[key]]
    return [key for key in differing if not key.startswith(OF_CURRICULUM)]
