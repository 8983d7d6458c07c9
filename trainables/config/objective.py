"""The configuration of a training that is a user's own function: the keys of the curriculum and its schedule that the
function gets beside parameters of its own, `parameters.*`, whose names are free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

from trainables.config.keys import (
    READS_SCORING,
    CurriculumConfig,
    TrainingConfig,
    TrainingSettings,
    dotted_keys,
    flatten,
    unflatten,
)
from trainables.core.errors import ConfigError
from trainables.core.validation import Section, conditions_of, problems_of
from trainables.curriculum.pacing import PACINGS

OBJECTIVE = "objective"  # the key that only such a configuration has
PARAMETERS = "parameters"
CURRICULUM_KEYS = ("scoring", "pacing", "n", "stages", "delta", "T", "final_share", "weighting", "m", "anti")
METRIC = r"^[A-Za-z0-9_][A-Za-z0-9_@./ -]*$"  # the names that MLflow takes, and @


class ObjectiveCurriculum(CurriculumConfig):
    """Of the curriculum's keys, those in CURRICULUM_KEYS have a meaning for a function: the data, and with it what is
    difficult, is the function's own."""

    scoring: Annotated[str, READS_SCORING] = Field(
        default="none",
        min_length=1,
        description="which of the difficulties that the function names; none: its only one",
    )
    weighting: str = Field(
        default="none", min_length=1, description="none, difficulty, or which ease that the function names"
    )

    @field_validator("pacing")
    @classmethod
    def paced_by_steps(cls, value: str) -> str:
        if "patience" in PACINGS[value].needs:
            raise ValueError(f"'{value}' follows dev values, which a function reports too late; another pacing")
        return value


class ObjectiveTrainingConfig(Section):
    max_iterations: int = Field(default=20, ge=1, description="reports of a training at most")
    patience: int = Field(default=15, ge=1, description=str(TrainingSettings.model_fields["patience"].description))


class ObjectiveData(Section):
    source: str | None = Field(default=None, min_length=1, description="name of the data, or a path that is digested")


class ObjectiveRanker(Section):
    name: str = Field(description="name of the model")


class ObjectiveRun(Section):
    """Everything that determines one training by a function, except the function. Scheduling, labels and records read
    it as they read a `TrainingConfig`."""

    objective: str = Field(description="name of the function")
    data: ObjectiveData = ObjectiveData()
    ranker: ObjectiveRanker
    curriculum: ObjectiveCurriculum = ObjectiveCurriculum()
    parameters: dict[str, Any] = Field(default_factory=dict)
    training: ObjectiveTrainingConfig = ObjectiveTrainingConfig()
    metric: str = Field(default="map", pattern=METRIC, description="name of the reported value that is compared")
    seed: int = Field(default=0, ge=0)

    reads: ClassVar[None] = None  # nobody knows
    on_cpu: ClassVar[bool] = False
    draws: ClassVar[bool] = True
    starts_alike: ClassVar[bool] = False  # as far as anybody knows
    evaluation: ClassVar[None] = None

    def in_force(self) -> dict[str, Any]:
        """The flat keys that affect this training, with values."""
        conditions = conditions_of(ObjectiveCurriculum)
        active = [key for key in CURRICULUM_KEYS if all(condition.holds(self) for condition in conditions[key])]
        curriculum = {key: getattr(self.curriculum, key) for key in active}
        if curriculum.get("scoring") == "none":
            del curriculum["scoring"]
        named = {"ranker": self.ranker.model_dump(), **({"data": self.data.model_dump()} if self.data.source else {})}
        rest = {"training": self.training.model_dump(), "metric": self.metric, "seed": self.seed}
        return flatten({**named, "curriculum": curriculum, "parameters": self.parameters, **rest})

    def config(self) -> dict[str, Any]:
        """What the function gets: a nested mapping with every key, whether in force or not."""
        curriculum = self.curriculum.model_dump(include=set(CURRICULUM_KEYS))
        named = {"data": self.data.source, "ranker": self.ranker.name, "metric": self.metric, "seed": self.seed}
        return {"curriculum": curriculum, "parameters": self.parameters, "training": self.training.model_dump()} | named


AnyRun = TrainingConfig | ObjectiveRun


def run_of(document: Mapping[str, Any]) -> AnyRun:
    """The run of a nested mapping that a run's `model_dump` gave. Raises pydantic's ValidationError for another one."""
    return (ObjectiveRun if OBJECTIVE in document else TrainingConfig).model_validate(document)


def objective_fields(keys: Mapping[str, Any]) -> dict[str, FieldInfo]:
    """Dotted key -> field of everything that a training by a function reads; `keys`: as written, among them those of
    `parameters`."""
    fields = dotted_keys(ObjectiveRun)
    hidden = {key for key in fields if key.startswith("curriculum.") and key.partition(".")[2] not in CURRICULUM_KEYS}
    for key in (*hidden, OBJECTIVE, PARAMETERS):
        del fields[key]
    for key, value in keys.items():
        if key.startswith(f"{PARAMETERS}."):
            numbers = isinstance(value, Mapping) and value.keys() & {"uniform", "loguniform"}
            fields[key] = FieldInfo(annotation=float) if numbers else FieldInfo(annotation=Any)
    return fields


def validated_objective(flat: Mapping[str, Any]) -> ObjectiveRun:
    """The training that flat keys describe; raises ConfigError with every problem in them."""
    try:
        return ObjectiveRun.model_validate(unflatten(flat))
    except ValidationError as error:
        raise ConfigError(problems_of(error, objective_fields(flat))) from None
