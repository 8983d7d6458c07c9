"""The `search.*` keys of the configuration: how a space is searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from trainables.config.keys import configuration_fields, dotted_keys, flatten, one_of, unflatten
from trainables.core.errors import Problem
from trainables.core.prose import counted
from trainables.core.validation import ActiveIf, Section, active_values, key_problem, needs, problems_of, too_large
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS, WITH_RUNGS, unfit
from tune_cl.space.parameters import Leaf, Range
from tune_cl.space.space import Space

BY_CHANCE = ("random", "grid")  # searchers that learn nothing from trials


class Resources(Section):
    """What one trial reserves; with fractions, trials share a device."""

    cpu: float = Field(default=1, ge=0, description="CPU cores a process of a trial")
    gpu: float = Field(default=0, ge=0, description="GPUs a process of a trial")
    workers: int = Field(default=1, ge=1, description="processes that train one trial together, on any nodes")

    @property
    def threads(self) -> int:
        """Threads that a process computes with: one a core, and at least one."""
        return max(1, int(self.cpu))

    @property
    def cpus(self) -> float:
        """Cores of a trial, those of all its processes."""
        return self.cpu * self.workers

    @property
    def gpus(self) -> float:
        """GPUs of a trial, those of all its processes."""
        return self.gpu * self.workers


class Price(Section):
    """What an hour costs, in any currency."""

    cpu_hour: float = Field(default=0, ge=0, description="of one CPU core")
    gpu_hour: float = Field(default=0, ge=0, description="of one GPU")


STOPS = ActiveIf("a scheduler but none and pbt", lambda search: search.scheduler not in ("none", "pbt"))
NO_FIXED_GRACE = ActiveIf(
    "a scheduler but none and pbt, and no number as search.grace",
    lambda search: search.scheduler not in ("none", "pbt") and not isinstance(search.grace, int),
)
HAS_RUNGS = ActiveIf(
    f"scheduler {', '.join(sorted(WITH_RUNGS))}, or an audit",
    lambda search: search.scheduler in WITH_RUNGS or search.audit > 0,
)
PBT = ActiveIf("scheduler pbt", lambda search: search.scheduler == "pbt")
MODELS = ActiveIf("a searcher that models the space", lambda search: search.searcher not in BY_CHANCE)
CAN_END = ActiveIf("a stop_when.probability", lambda search: search.stop_when.probability is not None)


class StopWhen(Section):
    """When to end a search that is unlikely to find anything better (tune_cl.search.budget)."""

    probability: float | None = Field(
        default=None, gt=0, lt=1, description="of any trial to come being better; ends below it; null: never"
    )
    margin: Annotated[float, CAN_END] = Field(default=0.001, ge=0, description="of the metric that counts as better")


class SearchConfig(Section):
    searcher: Annotated[str, one_of(SEARCHERS)] = Field(default="random", description="how configurations are chosen")
    scheduler: Annotated[str, one_of(SCHEDULERS)] = Field(default="none", description="how trials are stopped early")
    grace: Annotated[
        Literal["curriculum", "scaled", "none"] | Annotated[int, Field(ge=1)],
        Field(
            union_mode="left_to_right",
            description="iterations before a trial is compared; curriculum: T and m; scaled: both shrink with the rung",
        ),
        STOPS,
    ] = "curriculum"
    first_rung: Annotated[int, NO_FIXED_GRACE] = Field(
        default=1, ge=1, description="iterations at the first rung; a number as grace replaces it"
    )
    reduction_factor: Annotated[float, HAS_RUNGS] = Field(
        default=3, gt=1, description="one of so many trials goes on from a rung"
    )
    promotion: bool | None = Field(
        default=None,
        description="trials pause, the best go on later; null: with asha, hyperband and model, if there is no audit",
    )
    interval: Annotated[int, PBT] = Field(default=2, ge=1, description="pbt: iterations between copies")
    compare: Literal["value", "paired"] = Field(
        default="value", description="asha, hyperband: paired: by means over evaluations and differences by query"
    )
    trials: int = Field(default=16, ge=1, description="trials, the baseline included; default 16, for a grid all")
    max_concurrent: int | None = Field(default=None, ge=1, description="null: as many as the resources allow")
    hours: float | None = Field(default=None, gt=0, description="of all sessions together; null: no limit")
    iterations: int | None = Field(default=None, ge=1, description="of all trials together; null: no limit")
    cost: float | None = Field(default=None, gt=0, description="of all trials at search.price; null: no limit")
    price: Price = Field(default_factory=Price)
    stop_when: StopWhen = Field(default_factory=StopWhen)
    repeats: int = Field(default=1, ge=1, description="seeds of a promising configuration at most; 1: no repeats")
    startup_trials: Annotated[int, MODELS] = Field(
        default=8, ge=1, description="random trials before tpe, gp, cmaes model the space"
    )
    points: tuple[dict[str, Any], ...] = Field(default=(), description="configurations to try first, in this order")
    warm_start: tuple[str, ...] = Field(default=(), description="names or folders of searches to learn from")
    audit: int = Field(default=0, ge=0, description="stopped trials that are finished all the same, to judge the stops")
    resources: Resources = Field(default_factory=Resources)


SEARCH_KEYS = dotted_keys(SearchConfig, "search.")
SEARCH_NEEDS = needs(SearchConfig, "search.")


def search_config(flat: Mapping[str, Any], problems: list[Problem]) -> SearchConfig:
    """The checked `search.*` keys. `flat`: by dotted key; under `search`, what stands in place of a mapping. What is
    wrong is added to `problems`, and those keys have their defaults."""
    every = [*SEARCH_KEYS, *configuration_fields(())]
    unknown = {key: value for key, value in flat.items() if key not in SEARCH_KEYS and (key, value) != ("search", None)}
    problems += [key_problem(key, value, every) for key, value in unknown.items()]
    own = {key: value for key, value in flat.items() if key in SEARCH_KEYS}
    try:
        config = _validated(own)
    except ValidationError as error:
        problems += problems_of(error, SEARCH_KEYS, "search.")
        config = _validated({key: value for key, value in own.items() if _is_sound(key, value)})
    values = {f"search.{key}": value for key, value in flatten(config.model_dump()).items()}
    problems += [problem for key, value in values.items() for problem in too_large(key, value)]
    return config


def _validated(flat: Mapping[str, Any]) -> SearchConfig:
    return SearchConfig.model_validate(unflatten(flat).get("search", {}))


def _is_sound(key: str, value: Any) -> bool:
    try:
        _validated({key: value})
    except ValidationError:
        return False
    return True


def price_of_an_hour(search: SearchConfig) -> float:
    """What the cores and GPUs that a trial reserves cost in an hour."""
    return search.resources.cpus * search.price.cpu_hour + search.resources.gpus * search.price.gpu_hour


def misfits(search: SearchConfig) -> list[Problem]:
    """Keys that do not go together."""
    problems = []
    if search.warm_start and search.searcher in BY_CHANCE:
        wrong = f"searcher {search.searcher} learns nothing from earlier trials"
        problems.append(Problem("search.warm_start", wrong, "search.searcher: tpe, gp or cmaes"))
    if search.cost is not None and not price_of_an_hour(search):
        right = "search.price.cpu_hour or search.price.gpu_hour of what a trial reserves"
        problems.append(Problem("search.cost", "a trial costs nothing: no price is given", right))
    if not search.resources.cpu and not search.resources.gpu:
        right = "a number above 0 here, or in search.resources.gpu"
        problems.append(Problem("search.resources.cpu", "a trial reserves nothing", right))
    if search.resources.gpu > 1 and search.resources.gpu % 1:
        wrong = f"{search.resources.gpu:g} is more than one GPU and no whole number"
        problems.append(Problem("search.resources.gpu", wrong, "a share of one, such as 0.25, or a whole number"))
    if search.resources.workers > 1 and 0 < search.resources.gpu < 1:
        wrong = f"each of the {search.resources.workers} processes of a trial needs a GPU of its own"
        problems.append(Problem("search.resources.gpu", wrong, "1, or 0 to train on CPUs"))
    if search.scheduler == "pbt" and search.searcher not in BY_CHANCE:
        wrong = "trials change their configuration under pbt, so that none tells the searcher what its own is worth"
        problems.append(Problem("search.searcher", wrong, "random or grid"))
    if search.repeats > 1 and search.scheduler == "pbt":
        wrong = "trials change their configuration under pbt, so that none can be trained again as it was"
        problems.append(Problem("search.repeats", wrong, "1, or another search.scheduler"))
    problems += unfit(search.scheduler, search.grace, search.promotion, search.compare)
    if search.audit and search.scheduler in ("none", "pbt"):
        right = "search.audit: 0, or a scheduler that stops trials"
        problems.append(Problem("search.audit", "no trial is ever stopped that could be finished", right))
    if search.audit and (search.promotion or search.grace == "scaled"):
        wrong = "trials pause at rungs, and those that do not go on were never stopped"
        right = "search.audit: 0, or search.promotion: false and another search.grace than scaled"
        problems.append(Problem("search.audit", wrong, right))
    return problems


def unfit_space(search: SearchConfig, space: Space) -> list[Problem]:
    """What keeps the searcher from searching the space."""
    if search.searcher != "cmaes" or any(_moves(leaf) for leaf in space.leaves.values()):
        return []
    wrong = "cmaes searches numbers, and the space has none that every trial has"
    right = "a uniform, loguniform or int without a condition, or search.searcher: tpe"
    return [Problem("search.searcher", wrong, right)]


def remarks(search: SearchConfig) -> list[str]:
    """What the user should know about settings that are allowed."""
    notes = []
    if search.searcher not in BY_CHANCE and not search.warm_start and 1 < search.trials <= search.startup_trials:
        notes.append(
            f"search.searcher: {search.searcher} models the space after {counted(search.startup_trials, 'trial')} "
            f"(search.startup_trials), so all {search.trials} of this search are chosen at random"
        )
    if search.resources.gpu > 1:
        idle = f"{search.resources.gpu - 1:g} of the {search.resources.gpu:g} GPUs that it reserves stay idle"
        more = "search.resources.workers is the number of processes of a trial"
        notes.append(f"search.resources.gpu: a process computes on one GPU, so {idle}; {more}")
    return notes


def idle(search: SearchConfig) -> list[str]:
    """Keys of `search` that the others leave without effect."""
    active = flatten(active_values(search, search), "search.")
    return [key for key in SEARCH_KEYS if key not in active]


def _moves(leaf: Leaf) -> bool:
    return isinstance(leaf, Range) and not leaf.when
