"""The `search.*` keys of the configuration: how a space is searched."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainables.config.keys import dotted_keys, one_of
from trainables.core.errors import Problem
from trainables.core.validation import ActiveIf, Section, needs, refusal
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS

AUTO: Literal["auto"] = "auto"
PAIRS: Literal["pairs"] = "pairs"
BY_CHANCE = ("random", "grid")  # searchers that learn nothing from trials


class Resources(Section):
    """What one trial reserves; with fractions, trials share a device."""

    cpu: float = Field(default=1, ge=0, description="CPU cores that a trial reserves")
    gpu: float = Field(default=0, ge=0, description="GPUs that a trial reserves; a fraction lets trials share one")

    @model_validator(mode="after")
    def something(self) -> Self:
        if not self.cpu and not self.gpu:
            right = "a number above 0 here, or in search.resources.gpu"
            raise refusal(Problem("search.resources.cpu", "a trial reserves nothing", right))
        if self.gpu > 1 and self.gpu % 1:
            wrong = f"{self.gpu:g} is more than one GPU and not a whole number"
            raise refusal(Problem("search.resources.gpu", wrong, "a fraction, such as 0.25, or a whole number"))
        return self

    @property
    def threads(self) -> int:
        """Threads that a trial computes with: one a core, and at least one."""
        return max(1, int(self.cpu))


WITH_RUNGS = [name for name, scheduler in SCHEDULERS.items() if scheduler.has_rungs]
PAUSING = [name for name, scheduler in SCHEDULERS.items() if scheduler.can_pause]


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
        description=f"trials pause at rungs and the best continue later; null: true with {' and '.join(PAUSING)}",
    )
    trials: int = Field(
        default=16,
        ge=1,
        description="trainings in all: plain ones, curricula and further seeds; a grid has all its combinations unless "
        "this is given",
    )
    plain: Literal["pairs", 0] = Field(
        default=PAIRS,
        description="plain trials: pairs: they are tuned first, and each curriculum has a twin among them; 0: the "
        "default alone",
    )
    max_concurrent: int | None = Field(
        default=None, ge=1, description="trials at a time; null: as many as the resources allow"
    )
    hours: float | None = Field(
        default=None, gt=0, description="hours of all sessions of a search together; null: no limit"
    )
    stop: Literal["nothing_to_find", "never"] = Field(
        default="nothing_to_find",
        description="nothing_to_find: ends the search before its last seeds where a curriculum that a test would find "
        "has a probability below .1; never: makes all trials",
    )
    startup_trials: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=1)],
        Field(
            union_mode="left_to_right",
            description="trials of an arm that are drawn at random before the searcher models the space; auto: a "
            "third of them, 8 at most; below 16 search.trials all",
        ),
        ActiveIf("a searcher that models the space", lambda search: search.searcher not in BY_CHANCE),
    ] = AUTO
    points: Literal["published"] | None = Field(
        default=None,
        description="what is tried first; published: the curricula of the papers that the space holds; null: nothing",
    )
    resources: Resources = Field(default_factory=Resources)

    @model_validator(mode="after")
    def fits_together(self) -> Self:
        if self.promotion and not SCHEDULERS[self.scheduler].can_pause:
            right = f"search.scheduler: {' or '.join(PAUSING)}"
            raise refusal(Problem("search.promotion", f"{self.scheduler} pauses no trial", right))
        return self

    @property
    def has_first_rung(self) -> bool:
        """Whether a scheduler chooses its first rung."""
        return self.scheduler != "none" and not isinstance(self.grace, int)


SEARCH_KEYS = dotted_keys(SearchConfig, "search.")
SEARCH_NEEDS = needs(SearchConfig, "search.")
