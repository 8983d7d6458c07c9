"""Which values of `search.*` are refused beside which others, and which spaces a search cannot take."""

from __future__ import annotations

from trainables.config.rules import Rule
from trainables.core.prose import counted
from trainables.rankers import RANKERS
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.resolution import OFF
from tune_cl.experiment.search_keys import BY_CHANCE, SearchConfig
from tune_cl.schedulers import SCHEDULERS
from tune_cl.space.parameters import Range


def pausing_schedulers() -> str:
    *some, last = (name for name, scheduler in SCHEDULERS.items() if scheduler.can_pause)
    return f"search.scheduler: {', '.join(some)} or {last}"


def has_number(experiment: Experiment) -> bool:
    """Whether every trial has a number that is searched."""
    return any(isinstance(leaf, Range) and not leaf.when for leaf in experiment.space.leaves.values())


def of_one_process(experiment: Experiment) -> list[str]:
    """The rankers of the space that several processes cannot train."""
    names = [] if experiment.objective else experiment.rankers
    return [name for name in names if RANKERS[name].reads == "features"]


def smallest_batch(experiment: Experiment) -> int:
    return min(experiment.values("training.batch_size"))


# fmt: off
SEARCH: tuple[Rule[SearchConfig], ...] = (
    Rule("search.warm_start", lambda earlier, search: earlier and search.searcher in BY_CHANCE,
         "searcher {search.searcher} learns nothing from earlier trials", "search.searcher: tpe, gp or cmaes"),
    Rule("search.resources.cpu", lambda cpu, search: not cpu and not search.resources.gpu,
         "a trial reserves nothing", "a number above 0 here, or in search.resources.gpu"),
    Rule("search.resources.gpu", lambda gpu, _: gpu > 1 and gpu % 1,
         "{search.resources.gpu} is more than one GPU and not a whole number",
         "a fraction, such as 0.25, or a whole number"),
    Rule("search.resources.gpu", lambda gpu, search: 0 < gpu < 1 < search.resources.workers,
         "each of the {search.resources.workers} processes of a trial needs a GPU of its own",
         "1, or 0 to train on CPUs"),
    Rule("search.replicates", lambda seeds, search: seeds and 2 * seeds > search.trials,
         "two trainings for each of {seeds} are more than the search's trials", "{half} at most, or more search.trials",
         {"seeds": lambda search: counted(search.replicates or 0, "seed"), "half": lambda search: search.trials // 2}),
    Rule("search.promotion", lambda pauses, search: pauses and not SCHEDULERS[search.scheduler].can_pause,
         "{search.scheduler} pauses no trial", pausing_schedulers),
)
EXPERIMENT: tuple[Rule[Experiment], ...] = (
    Rule("search.searcher", lambda searcher, experiment: searcher == "cmaes" and not has_number(experiment),
         "cmaes searches numbers, and the space has none that every trial has",
         "a uniform, loguniform or int without a condition, or search.searcher: tpe"),
    Rule("search.resources.workers", lambda workers, experiment: workers > 1 and experiment.objective,
         "a function trains in one process", "1, or a ranker that is a network"),
    Rule("search.resources.workers", lambda workers, experiment: workers > 1 and of_one_process(experiment),
         "{ranker} trains in one process", "1, or a ranker that is a network",
         {"ranker": lambda experiment: of_one_process(experiment)[0]}),
    Rule("search.resources.workers",
         lambda workers, experiment: workers > 1 and not experiment.objective and not of_one_process(experiment)
         and smallest_batch(experiment) < workers,
         "a batch of {batch} has no part for each of {search.resources.workers} processes",
         "at most {batch}, or a larger training.batch_size", {"batch": smallest_batch}),
)
SEARCHABLE: tuple[Rule[Experiment], ...] = (  # of a space that is searched, not of one training of it
    Rule("baseline", lambda values, experiment: values != OFF and not experiment.compares,
         "leaves nothing to compare: all trials would be plain", "a key that the space searches, or sets otherwise"),
    Rule("training.max_iterations", lambda _, experiment: experiment.max_iterations < 1,
         "0 trains nothing", "1 or more; or tune-cl train"),
)
# fmt: on

RULES = {"a search": SEARCH, "a space and its search": (*EXPERIMENT, *SEARCHABLE)}
