"""The `search.*` keys of the configuration: how a space is searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from trainables.config.keys import configuration_fields, dotted_keys, flatten, one_of, unflatten
from trainables.core.errors import Problem
from trainables.core.validation import ActiveIf, Section, active_values, key_problem, needs, problems_of, too_large
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS

AUTO: Literal["auto"] = "auto"
PAIRS: Literal["pairs"] = "pairs"
ENOUGH = 8  # trials, from which on replicates are worth their time
BY_CHANCE = ("random", "grid")  # searchers that learn nothing from trials


class Resources(Section):
    """What one trial reserves; with fractions, trials share a device."""

    cpu: float = Field(default=1, ge=0, description="CPU cores that a trial reserves")
    gpu: float = Field(default=0, ge=0, description="GPUs that a trial reserves; a fraction lets trials share one")

    @property
    def threads(self) -> int:
        """Threads that a process computes with: one a core, and at least one."""
        return max(1, int(self.cpu))


WITH_RUNGS = [name for name, scheduler in SCHEDULERS.items() if scheduler.has_rungs]


class SearchConfig(Section):
    searcher: Annotated[str, one_of(SEARCHERS)] = Field(default="random", description="how configurations are chosen")
    scheduler: Annotated[str, one_of(SCHEDULERS)] = Field(
        default="none", description="how trials are stopped early or pause"
    )
    grace: Annotated[
        Literal["curriculum", "none"] | Annotated[int, Field(ge=1)],
        Field(
            union_mode="left_to_right",
            description="what a trial must finish before it may be stopped: its curriculum (T and m), or iterations",
        ),
        ActiveIf("a scheduler but none", lambda search: search.scheduler != "none"),
    ] = "curriculum"
    first_rung: Annotated[
        int, ActiveIf("a scheduler but none, and no number as search.grace", lambda search: search.has_first_rung)
    ] = Field(default=1, ge=1, description="iterations at the first rung; a number as grace replaces it")
    reduction_factor: Annotated[
        float, ActiveIf(f"scheduler {', '.join(WITH_RUNGS)}", lambda search: search.scheduler in WITH_RUNGS)
    ] = Field(default=3, gt=1, description="η: one in so many trials continues from a rung")
    promotion: bool | None = Field(
        default=None,
        description="trials pause at rungs and the best continue later; null: true with asha and model",
    )
    trials: int = Field(
        default=16, ge=1, description="trials of both arms; a grid has all its combinations unless this is given"
    )
    plain: Literal["pairs", 0] = Field(
        default=PAIRS,
        description="plain trials: pairs: a twin for each curriculum, with its values outside baseline; 0: the default "
        "alone",
    )
    max_concurrent: int | None = Field(
        default=None, ge=1, description="trials at a time; null: as many as the resources allow"
    )
    hours: float | None = Field(
        default=None, gt=0, description="hours of all sessions of a search together; null: no limit"
    )
    replicates: int | None = Field(
        default=None,
        ge=0,
        description="further seeds for one pair, once all trials have ended: they tell how much the seed matters "
        "(`tune-cl effects`). It is the default and its first curriculum, else the search's first pair; null: 2 from 8 "
        "trials on, else 0",
    )
    startup_trials: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=1)],
        Field(
            union_mode="left_to_right",
            description="trials of an arm that are drawn at random before tpe or gp models the space; auto: a "
            "third of them, 8 at most",
        ),
        ActiveIf("a searcher that models the space", lambda search: search.searcher not in BY_CHANCE),
    ] = AUTO
    points: tuple[dict[str, Any], ...] | Literal["published", "portfolio"] = Field(
        default=(),
        description="configurations that are tried first, in this order; published: the curricula of the papers that "
        "the space holds; portfolio: the same",
    )
    resources: Resources = Field(default_factory=Resources)

    @property
    def first(self) -> tuple[dict[str, Any], ...]:
        """The configurations that are tried first; none as long as they are only named."""
        return () if isinstance(self.points, str) else self.points

    @property
    def further_seeds(self) -> int:
        """How many seeds the default's pair is trained with once more."""
        return (2 if self.trials >= ENOUGH else 0) if self.replicates is None else self.replicates

    @property
    def has_first_rung(self) -> bool:
        """Whether a scheduler chooses its first rung."""
        return self.scheduler != "none" and not isinstance(self.grace, int)

    @property
    def budgets(self) -> dict[str, float]:
        """What may end a search before its trials are used up, by key."""
        return {} if self.hours is None else {"search.hours": self.hours}


SEARCH_KEYS = dotted_keys(SearchConfig, "search.")
SEARCH_NEEDS = needs(SearchConfig, "search.")


def search_config(flat: Mapping[str, Any], problems: list[Problem]) -> SearchConfig:
    """The checked `search.*` keys. `flat`: by dotted key; under `search`, what stands in place of a mapping. What is
    wrong is added to `problems`, and those keys have their defaults."""
    every = [*SEARCH_KEYS, *configuration_fields(())]
    unknown = {key: value for key, value in flat.items() if key not in SEARCH_KEYS and (key, value) != ("search", None)}
    problems += [key_problem(key, value, every) for key, value in unknown.items()]
    of_search = {key: value for key, value in flat.items() if key in SEARCH_KEYS}
    try:
        config = _validated(of_search)
    except ValidationError as error:
        problems += problems_of(error, SEARCH_KEYS, "search.")
        config = _validated({key: value for key, value in of_search.items() if _is_sound(key, value)})
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


def remarks(search: SearchConfig) -> list[str]:
    """What the user should know about settings that are allowed."""
    notes = []
    if search.resources.gpu > 1:
        idle = f"{search.resources.gpu - 1:g} of the {search.resources.gpu:g} GPUs that it reserves stay idle"
        notes.append(f"search.resources.gpu: a trial computes on one GPU, so {idle}")
    return notes


def idle(search: SearchConfig) -> list[str]:
    """Keys of `search` that the others leave without effect."""
    active = flatten(active_values(search, search), "search.")
    return [key for key in SEARCH_KEYS if key not in active]
