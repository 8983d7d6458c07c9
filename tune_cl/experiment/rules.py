"""Which values of `search.*` are refused beside which others, and which spaces a search cannot take."""

from __future__ import annotations

from trainables.config.rules import Rule
from trainables.core.prose import counted
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.resolution import OFF
from tune_cl.experiment.search_keys import SearchConfig
from tune_cl.schedulers import SCHEDULERS


def pausing_schedulers() -> str:
    *some, last = (name for name, scheduler in SCHEDULERS.items() if scheduler.can_pause)
    return f"search.scheduler: {', '.join(some)} or {last}"


# fmt: off
SEARCH: tuple[Rule[SearchConfig], ...] = (
    Rule("search.resources.cpu", lambda cpu, search: not cpu and not search.resources.gpu,
         "a trial reserves nothing", "a number above 0 here, or in search.resources.gpu"),
    Rule("search.resources.gpu", lambda gpu, _: gpu > 1 and gpu % 1,
         "{search.resources.gpu} is more than one GPU and not a whole number",
         "a fraction, such as 0.25, or a whole number"),
    Rule("search.replicates", lambda seeds, search: seeds and 2 * seeds > search.trials,
         "two trainings for each of {seeds} are more than the search's trials", "{half} at most, or more search.trials",
         {"seeds": lambda search: counted(search.replicates or 0, "seed"), "half": lambda search: search.trials // 2}),
    Rule("search.promotion", lambda pauses, search: pauses and not SCHEDULERS[search.scheduler].can_pause,
         "{search.scheduler} pauses no trial", pausing_schedulers),
)
SEARCHABLE: tuple[Rule[Experiment], ...] = (  # of a space that is searched, not of one training of it
    Rule("baseline", lambda values, experiment: values != OFF and not experiment.compares,
         "leaves nothing to compare: all trials would be plain", "a key that the space searches, or sets otherwise"),
    Rule("training.max_iterations", lambda _, experiment: experiment.max_iterations < 1,
         "0 trains nothing", "1 or more; or tune-cl train"),
)
# fmt: on

RULES = {"a search": SEARCH, "a space and its search": SEARCHABLE}
