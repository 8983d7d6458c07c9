"""What `tune-cl tune-plain` adds to a search: plain trials, and the keys that they search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from trainables.config.keys import TrainingRun, configuration_fields
from trainables.config.task_fit import losses_like
from trainables.core.errors import ConfigError, Problem
from trainables.data import task_of
from trainables.rankers import ranker_settings
from tune_cl.experiment.experiment import Experiment, PlainTuning
from tune_cl.space.parameters import Leaf, parse_leaf

DECADE = 10.0


def with_tuning(experiment: Experiment, events: Iterable[Mapping[str, Any]]) -> Experiment:
    """The experiment with the plain trials of all `tune_plain` events. The keys are those of the first."""
    added = list(events)
    if not added:
        return experiment
    fields = configuration_fields(experiment.rankers)
    leaves = {key: parse_leaf(key, written) for key, written in added[0]["leaves"].items()}
    unknown = [key for key in leaves if key not in fields and not experiment.objective]
    if unknown:
        raise ConfigError([Problem(key, "no key of a training", "a journal as tune-cl wrote it") for key in unknown])
    return replace(experiment, tuning=PlainTuning(sum(event["trials"] for event in added), leaves))


def leaves_to_tune(experiment: Experiment) -> dict[str, Leaf]:
    """What plain trials search: the keys that the space opens outside the baseline, else a usual set for the ranker.
    Raises ConfigError if there are none."""
    if not experiment.compares:
        wrong = "all its trials are plain, so there is nothing to compare them with"
        raise ConfigError(Problem("NAME", wrong, "a space that searches a key of the curriculum, or of baseline"))
    leaves = dict(experiment.tuning.leaves) or experiment.shared_leaves
    if leaves:
        return dict(leaves)
    if experiment.objective:
        wrong = "the space searches no key outside baseline, and what suits a function of your own is not known"
        raise ConfigError(Problem("NAME", wrong, "a space that searches a key such as parameters.lr"))
    return {key: parse_leaf(key, written) for key, written in usual_ranges(experiment.base_ranker).items()}


def usual_ranges(run: TrainingRun) -> dict[str, Any]:
    """A learning rate up to a decade to each side; for networks the losses that fit and half or twice the batch; what
    the ranker names."""
    rate = run.training.lr
    ranges: dict[str, Any] = {"training.lr": {"loguniform": [rate / DECADE, rate * DECADE]}}
    ranges |= ranker_settings(run.ranker).usual_ranges()
    if run.reads == "features":
        return ranges
    size = run.training.batch_size
    ranges["training.batch_size"] = {"choice": sorted({max(1, size // 2), size, 2 * size})}
    if len(losses := losses_like(run, task_of(run.data.source))) > 1:
        ranges["training.loss"] = {"choice": losses}
    return ranges
