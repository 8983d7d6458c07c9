"""What the curriculum itself is worth: each configuration is compared with itself without it (`confirm --ablate`).

If a search opens more than the curriculum (learning rate, ranker), a configuration may owe its gain over the baseline
to these other keys. Its ablation has the same values of them but the baseline's curriculum.
"""

from __future__ import annotations

from collections.abc import Iterable

from tune_cl.configurations import CURRICULUM, seedless, training_key
from tune_cl.confirmation.plan import Configuration, configurations, setting
from tune_cl.experiment import Experiment
from tune_cl.search.space import Flat
from tune_cl.state import SearchState


def ablations(state: SearchState, baseline: Configuration, experiment: Experiment) -> dict[str, Configuration | None]:
    """The ablation of every configuration of the search, by the configuration's label; None if its curriculum is
    already the baseline's.

    If the baseline or a configuration of the search equals the ablation, it serves as such; configurations that differ
    only in their curricula share one. Neither labels nor sharing depend on which are confirmed.
    """
    searched = configurations(state, baseline)
    known = {training_key(one.params): one for one in (*searched.values(), baseline)}
    found: dict[str, Configuration | None] = {}
    for label, configuration in searched.items():
        choice = experiment.ablated(configuration.choice)
        params = seedless(experiment.training_run(choice).in_force())
        if params == configuration.params:
            found[label] = None
            continue
        if (key := training_key(params)) not in known:
            label_of_own = _label(choice, params, configuration, known.values())
            known[key] = Configuration(label_of_own, configuration.trial, choice, params)
        found[label] = known[key]
    return found


def _label(choice: Flat, params: Flat, configuration: Configuration, known: Iterable[Configuration]) -> str:
    opened = [key for key in choice if key in params and not key.startswith(CURRICULUM)]
    label = ", ".join(["plain", *(setting(key, params[key]) for key in opened)])
    return f"{label} ({configuration.trial})" if any(one.label == label for one in known) else label
