"""The configuration of one training: a typed tree whose keys have the same names in YAML, `--set`, Ray and MLflow.

A configuration is written as a nested mapping or as flat dotted keys (`curriculum.pacing`); `flatten`
and `unflatten` convert between the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo

from trainables.core.errors import ConfigError, Problem
from trainables.core.registry import Registry
from trainables.core.validation import (
    ActiveIf,
    OneOf,
    Section,
    active_values,
    needs,
    problems_of,
    refusal,
    section_of,
    shown,
)
from trainables.curriculum.difficulty_file import no_file
from trainables.curriculum.negatives import SCHEDULES
from trainables.curriculum.pacing import PACINGS, Schedule
from trainables.curriculum.scoring import SCORINGS, TEACHERS
from trainables.curriculum.subset import SUBSETS
from trainables.curriculum.weighting import OF_DIFFICULTY, SELF_PACED_WEIGHTS, WEIGHTINGS
from trainables.data.settings import DataConfig, ForNetworks
from trainables.evaluation.metrics import METRIC_FORMS, METRICS, Metric, parse_measures
from trainables.rankers import RANKERS, RankerKind, Reads, ranker_settings
from trainables.rankers.hub import usual_temperature
from trainables.rankers.settings import RankerSettings
from trainables.training.losses import LOSSES


def one_of(registry: Registry) -> OneOf:
    """The value must be a name of the registry."""

    def check(name: str) -> str:
        canonical = registry.aliases.get(name, name)
        if canonical not in registry.entries:
            raise ValueError(f"unknown value '{name}'; {registry.advice(name)}")
        return canonical

    return OneOf(check, registry)


def infinity(value: object) -> object:
    return math.inf if isinstance(value, str) and value.lower() in ("inf", "infinity") else value


T = TypeVar("T")
Rank = Annotated[int, Field(ge=1)]
Unbounded = Annotated[float, AllowInfNan(True), BeforeValidator(infinity)]


def or_inf(**bounds: float) -> WithJsonSchema:
    """For the annotation of an Unbounded field."""
    return WithJsonSchema({"anyOf": [{"type": "number", **bounds}, {"const": "inf"}]})


def ranker_at(location: str) -> BeforeValidator:
    """For the annotation of a field: its value becomes the settings of the class that its `name` says, a union that
    plug-ins extend. `location`: the field's dotted key."""

    def settings(value: Any) -> Any:
        keys = {"name": value} if isinstance(value, str) else value
        if value is None or isinstance(value, RankerSettings):
            return value
        if not isinstance(keys, Mapping):
            right = "a name, or a mapping with the key name"
            raise refusal(Problem(location, f"{shown(value)} is not a ranker", right))
        try:
            return ranker_settings(keys)
        except ConfigError as error:
            wrong, right = error.problems[0].wrong, error.problems[0].right
            raise refusal(Problem(f"{location}.name", wrong, right)) from None
        except ValidationError as error:
            fields = dotted_keys(RANKERS[keys["name"]].settings, f"{location}.")
            raise refusal(*problems_of(error, fields, f"{location}.")) from None

    return BeforeValidator(settings)


class TeacherConfig(Section):
    """How a teacher is trained where the data gives no teacher's scores: like the ranker, except for these keys."""

    ranker: Annotated[SerializeAsAny[RankerSettings] | None, ranker_at("curriculum.teacher.ranker")] = Field(
        default=None, description="a ranker's name, or its settings as under ranker; null: the ranker that is trained"
    )
    lr: float | None = Field(default=None, gt=0, description="the teacher's learning rate; null: training.lr")
    max_iterations: int | None = Field(
        default=None, ge=1, description="the teacher's iterations; null: training.max_iterations"
    )
    seed: Annotated[Literal["training"] | Annotated[int, Field(ge=0)], Field(union_mode="left_to_right")] = Field(
        default="training",
        description="training: a teacher for each seed of a training; a number: one for all (111: that of Penha & "
        "Hauff)",
    )


ForStages = Annotated[T, ActiveIf("ranker lambdamart", lambda run: run.kind.staged)]
READS_SCORING = ActiveIf("a pacing, or a weighting by difficulty", lambda run: run.curriculum.reads_scoring)
DRAWS_NEGATIVES = ActiveIf("negatives that are a number", lambda run: isinstance(run.training.negatives, int))
PRETRAINS = ActiveIf("a pretrain_data", lambda run: run.training.pretrain_data is not None)


def part_reads(parts: Registry, key: str) -> ActiveIf:
    """Holds where a part that the configuration names reads the key."""
    section, kind = parts.location.split(".")
    names = [name for name, part in parts.items() if key in part.needs]

    def holds(run: TrainingConfig) -> bool:
        for name in run.curriculum.paces if parts is PACINGS else [getattr(getattr(run, section), kind)]:
            if key in parts[name].needs:
                return True
        return False

    words = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return ActiveIf(f"{kind} {words}", holds)


def delta_counts() -> ActiveIf:
    """Pacing step under reference code has fixed stages."""
    paced = part_reads(PACINGS, "delta")

    def holds(run: TrainingConfig) -> bool:
        opens = run.curriculum.reference != "code" or any(name != "step" for name in run.curriculum.paces)
        return run.curriculum.weighting in SELF_PACED_WEIGHTS or (paced.holds(run) and opens)

    return ActiveIf(f"{paced.words}, step only under reference paper, or a self-paced weighting", holds)


def require_order(section: T, key: str, ranks: tuple[int, int] | None) -> T:
    """The section, if a window of ranks goes from low to high."""
    if ranks is not None and ranks[0] > ranks[1]:
        raise refusal(Problem(key, f"{ranks[0]} is above {ranks[1]}", f"e.g. [{ranks[1]}, {ranks[0]}]"))
    return section


class NegativesConfig(Section):
    """A curriculum over the candidates of each query, with T, delta, n and stages of `curriculum`."""

    schedule: Annotated[str, one_of(SCHEDULES)] = Field(
        default="none", description="how the negatives of a query become harder; none: those of training from the start"
    )
    pacing: Annotated[
        str,
        one_of(PACINGS),
        ActiveIf("a schedule of negatives", lambda run: run.curriculum.negatives.schedule != "none"),
    ] = Field(default="linear", description="how fast negatives harden")
    start: Annotated[
        tuple[Rank, Rank] | None, ActiveIf("schedule ranks", lambda run: run.curriculum.negatives.schedule == "ranks")
    ] = Field(
        default=None, description="[LO, HI]: ranks that schedule ranks begins with; null: the deepest of each query"
    )

    @model_validator(mode="after")
    def from_low_to_high(self) -> Self:
        return require_order(self, "curriculum.negatives.start", self.start)


class CurriculumConfig(Section):
    scoring: Annotated[str, one_of(SCORINGS), READS_SCORING] = Field(
        default="random", description="the difficulty that orders the training data"
    )
    pacing: ForNetworks[Annotated[str, one_of(PACINGS)]] = Field(
        default="none",
        description="how the available fraction of that order grows with the steps; none: everything from the start",
    )
    n: Annotated[float, part_reads(PACINGS, "n")] = Field(default=2, ge=1, description="root of pacing root")
    stages: Annotated[int, part_reads(PACINGS, "stages")] = Field(
        default=3, ge=2, le=100, description="stages of a pacing that has stages"
    )
    delta: Annotated[float, delta_counts()] = Field(
        default=0.33,
        gt=0,
        le=1,
        description="the fraction that is available at the start; under a self-paced weighting the fraction of "
        "instances that weigh above 0 at first",
    )
    T: Annotated[float, ActiveIf("a pacing, of order or negatives", lambda run: bool(run.curriculum.paces))] = Field(
        default=0.9,
        gt=0,
        le=1,
        description="the fraction of all training steps after which everything is available, and negatives are the "
        "last ones",
    )
    final_share: Annotated[float, ActiveIf("a pacing", lambda run: run.curriculum.pacing != "none")] = Field(
        default=1.0, gt=0, le=1, description="fraction of examples ever used; below 1, the hardest are never trained on"
    )
    patience: Annotated[int, part_reads(PACINGS, "patience")] = Field(
        default=2, ge=1, description="iterations without a better dev value until pacing adaptive enters the next stage"
    )
    weighting: ForNetworks[Annotated[str, one_of(WEIGHTINGS)]] = Field(
        default="none", description="how easy samples count more at first; none: all count alike"
    )
    m: Annotated[
        Unbounded, or_inf(minimum=1), ActiveIf("a weighting", lambda run: run.curriculum.weighting != "none")
    ] = Field(default=20, ge=1, description="iterations until all weights are 1; inf: never")
    anti: Annotated[
        bool,
        ActiveIf(
            "a pacing or a weighting",
            lambda run: run.curriculum.pacing != "none" or run.curriculum.weighting != "none",
        ),
    ] = Field(default=False, description="reverses the difficulty: hard samples come first, or count more")
    objective_switch: Literal["none", "mse", "pointwise"] = Field(
        default="none", description="the loss before training.loss: squared error on the grade, or cross-entropy"
    )
    switch_at: ForNetworks[
        Annotated[float, ActiveIf("an objective_switch", lambda run: run.curriculum.objective_switch != "none")]
    ] = Field(default=0.2, gt=0, lt=1, description="fraction of all steps before the objective switches")
    subset: ForStages[Annotated[str, one_of(SUBSETS)]] = Field(
        default="none", description="training data of the first trees (ranker lambdamart)"
    )
    subset_share: ForStages[Annotated[float, part_reads(SUBSETS, "subset_share")]] = Field(
        default=0.25, gt=0, le=1, description="the fraction of the queries that subsets of queries take"
    )
    feature: ForStages[Annotated[int, part_reads(SUBSETS, "feature")]] = Field(
        default=1, ge=1, description="the number, as in the files, of the feature that subset feature_ndcg reads"
    )
    switch: ForStages[
        Annotated[
            int,
            ActiveIf(
                "a subset or an objective_switch",
                lambda run: run.curriculum.subset != "none" or run.curriculum.objective_switch != "none",
            ),
        ]
    ] = Field(
        default=100,
        ge=1,
        description="trees before the subset, or the switched objective, gives way (ranker lambdamart)",
    )
    reference: Annotated[
        Literal["paper", "code"],
        ActiveIf(
            "a pacing, weighting or scoring in which paper and code differ",
            lambda run: run.curriculum.follows_reference,
        ),
    ] = Field(default="paper", description="which to follow where a paper's code differs from its text")
    vectors: Annotated[str, part_reads(SCORINGS, "vectors"), READS_SCORING] = Field(
        default="train",
        min_length=1,
        description="the word vectors of scoring semantic_std: train (on the collection), or a file",
    )
    file: Annotated[Annotated[str, Field(min_length=1)] | None, part_reads(SCORINGS, "file"), READS_SCORING] = Field(
        default=None, description="the values of scoring file: rows QUERY TAB DOCUMENT TAB VALUE, higher = harder"
    )
    teacher: Annotated[
        TeacherConfig,
        ActiveIf("a scoring, loss or negatives by a teacher", lambda run: bool(run.teachers)),
    ] = TeacherConfig()
    negatives: ForNetworks[NegativesConfig] = NegativesConfig()

    @model_validator(mode="after")
    def with_a_file(self) -> Self:
        if self.reads_scoring and self.scoring == "file" and self.file is None:
            raise refusal(no_file(None))
        return self

    @property
    def paces(self) -> list[str]:
        """The pacings in force, of the order and of the negatives."""
        of_negatives = [self.negatives.pacing] if self.negatives.schedule != "none" else []
        return [name for name in (self.pacing, *of_negatives) if name != "none"]

    @property
    def reads_scoring(self) -> bool:
        """Whether the order or the weights depend on `scoring`."""
        return self.pacing != "none" or self.weighting in OF_DIFFICULTY

    @property
    def is_self_paced(self) -> bool:
        """Whether the difficulty is the ranker's own loss, updated in each iteration."""
        return self.reads_scoring and self.scoring == "self_paced"

    @property
    def reduces_by_batch_mean(self) -> bool:
        """Whether a batch's loss is mean weight times mean loss; else it is the mean of weight times loss."""
        return self.reference == "code"

    @property
    def follows_reference(self) -> bool:
        """Whether a part of the curriculum differs between a paper and its code."""
        scored = self.reads_scoring and "reference" in SCORINGS[self.scoring].needs
        return scored or self.weighting != "none" or any("reference" in PACINGS[name].needs for name in self.paces)

    def schedule(self, total_steps: int) -> Schedule:
        """How fast the order opens in a training of so many optimiser steps."""
        return self._schedule(self.pacing, total_steps, self.final_share if self.pacing != "none" else 1.0)

    def negatives_schedule(self, total_steps: int) -> Schedule:
        """How fast negatives become hard; `final_share` is of the order alone."""
        return self._schedule(self.negatives.pacing if self.negatives.schedule != "none" else "none", total_steps, 1.0)

    def _schedule(self, pacing: str, total_steps: int, final_share: float) -> Schedule:
        keys = {key: getattr(self, key) for key in ("delta", "n", "stages", "reference", "patience")}
        return Schedule(pacing, self.T * total_steps, final_share=final_share, **keys)


class TrainingSettings(Section):
    loss: ForNetworks[Annotated[str, one_of(LOSSES)]] = Field(
        default="pairwise",
        description="of documents, of pairs, or of a positive and a list of negatives; on pairs to classify "
        "cross_entropy (the default there) or hinge",
    )
    margin: ForNetworks[Annotated[float, part_reads(LOSSES, "margin")]] = Field(
        default=1.0, gt=0, description="margin of loss hinge"
    )
    temperature: ForNetworks[Annotated[float | None, part_reads(LOSSES, "temperature")]] = Field(
        default=None,
        gt=0,
        description="divides the scores of losses softmax and distill_kl, and the teacher's in the latter; null: 0.05"
        " for softmax over the cosines of a bi_encoder, else 1",
    )
    label_smoothing: ForNetworks[Annotated[float, part_reads(LOSSES, "label_smoothing")]] = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="fraction of the target that losses cross_entropy and softmax spread over all documents or classes",
    )
    lr: float = Field(
        default=1e-3,
        gt=0,
        description="the learning rate of AdamW; knrm and drmm_tks have the default 0.01, lambdamart 0.05",
    )
    weight_decay: ForNetworks[float] = Field(default=0.0, ge=0, description="AdamW's decoupled weight decay")
    warmup: ForNetworks[float] = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="the fraction of all steps in which the rate rises linearly; of w such steps the first has "
        "1 / (w + 1) of it, in transformers 0",
    )
    schedule: ForNetworks[Literal["constant", "linear", "cosine"]] = Field(
        default="constant",
        description="the rate after the warm-up; linear: it falls to 0; cosine: likewise, along half a cosine",
    )
    clip: ForNetworks[Annotated[Unbounded, or_inf(exclusiveMinimum=0)]] = Field(
        default=1.0, gt=0, description="the largest norm of the gradient"
    )
    batch_size: ForNetworks[int] = Field(
        default=16, ge=1, description="samples a step; a pair of documents is one sample"
    )
    micro_batch: ForNetworks[int | None] = Field(
        default=None, ge=1, description="samples through the ranker at a time: less memory, same steps; null: all"
    )
    batches_per_iteration: ForNetworks[int] = Field(
        default=32, ge=1, description="optimiser steps between two evaluations on dev: one iteration"
    )
    max_iterations: int = Field(
        default=20,
        ge=0,
        description="iterations of a training at most; 0, with tune-cl train alone: the untrained ranker",
    )
    patience: int = Field(default=15, ge=1, description="iterations without a better dev value before training ends")
    max_length: ForNetworks[int] = Field(
        default=128,
        ge=8,
        description="tokens of query and document together (bert, with its prompt) or of each (bi_encoder), "
        "or words of a document",
    )
    negatives: ForNetworks[
        Annotated[Literal["all", "first"] | Annotated[int, Field(ge=1)], Field(union_mode="left_to_right")]
    ] = Field(
        default=1,
        description="N: negatives that are drawn again for each positive; first: always the one that the data lists "
        "first; all: every pair is an instance, or with a pointwise loss every candidate; with a loss of "
        "lists, the N negatives of one list",
    )
    hard_negatives: ForNetworks[Annotated[Literal["random", "first_stage", "teacher"], DRAWS_NEGATIVES]] = Field(
        default="random",
        description="negatives are drawn from all candidates, or from those that the run or the teacher ranks highest",
    )
    negative_ranks: ForNetworks[
        Annotated[
            tuple[Rank, Rank] | None,
            DRAWS_NEGATIVES,
            ActiveIf("hard_negatives first_stage or teacher", lambda run: run.training.draws_hard_negatives),
        ]
    ] = Field(
        default=None,
        description="[LO, HI]: the ranks, among a positive's negatives, that are drawn from; null: [1, N], the N "
        "hardest",
    )
    in_batch_negatives: ForNetworks[
        Annotated[bool, ActiveIf("loss softmax", lambda run: run.training.loss == "softmax")]
    ] = Field(
        default=False,
        description="whether the documents of a batch's other queries are negatives too (ranker bi_encoder)",
    )
    precision: ForNetworks[Literal["auto", "fp32", "bf16"]] = Field(
        default="auto",
        description="auto: bf16 where the hardware computes it and the ranker (bert, bi_encoder) takes it, else fp32",
    )
    pretrain_data: Annotated[Annotated[str, Field(min_length=1)] | None, PRETRAINS] = Field(
        default=None, description="data, as under data.source, that the ranker is trained on first; null: none"
    )
    pretrain_iterations: Annotated[int, PRETRAINS] = Field(
        default=20, ge=1, description="iterations of the pre-training at most"
    )
    pretrain_lr: Annotated[float | None, PRETRAINS] = Field(
        default=None, gt=0, description="the learning rate of the pre-training; null: training.lr"
    )
    pretrain_relevance_level: Annotated[int, PRETRAINS] = Field(
        default=1, ge=1, description="lowest relevant grade of pretrain_data"
    )
    pretrain_seed: Annotated[int, PRETRAINS] = Field(default=0, ge=0, description="the seed of the pre-training")

    @model_validator(mode="after")
    def fits_the_loss(self) -> Self:
        problems = []
        if LOSSES[self.loss].kind == "listwise" and not isinstance(self.negatives, int):
            wrong = f"'{self.negatives}' makes no lists, which loss {self.loss} reads"
            problems.append(Problem("training.negatives", wrong, "a number of negatives in each list, e.g. 7"))
        if self.label_smoothing and "label_smoothing" not in LOSSES[self.loss].needs:
            smoothing = [name for name, loss in LOSSES.items() if "label_smoothing" in loss.needs]
            wrong = f"loss {self.loss} has no distribution of labels to smooth"
            problems.append(Problem("training.label_smoothing", wrong, f"0, or loss {' or '.join(smoothing)}"))
        if self.pretrain_data and self.reads_teacher:
            wrong = "a loss or negatives by a teacher cannot be pre-trained: the teacher knows the target's data only"
            problems.append(Problem("training.pretrain_data", wrong, "null, or another loss and hard_negatives"))
        if problems:
            raise refusal(*problems)
        return require_order(self, "training.negative_ranks", self.negative_ranks)

    @property
    def draws_hard_negatives(self) -> bool:
        """Whether negatives come from a window of ranks."""
        return isinstance(self.negatives, int) and self.hard_negatives != "random"

    @property
    def reads_teacher(self) -> bool:
        """Whether the loss or the negatives read a teacher's scores."""
        return LOSSES[self.loss].reads_teacher or (self.draws_hard_negatives and self.hard_negatives == "teacher")

    @property
    def ranks(self) -> tuple[int, int]:
        """First and last rank of hard negatives."""
        return self.negative_ranks or (1, int(self.negatives))

    def pretraining(self) -> dict[str, Any]:
        """The keys and values of the pre-training; empty if there is none."""
        keys = {key: value for key, value in self.model_dump().items() if key.startswith("pretrain_")}
        return keys if self.pretrain_data is not None else {}


class EvaluationConfig(Section):
    relevance_level: int = Field(
        default=1, ge=1, description="the lowest grade that counts as relevant (2 for TREC DL, 3 for ANTIQUE)"
    )
    retrieve: int | None = Field(
        default=None,
        ge=1,
        description="K: dev and test judge the K best documents of the whole collection, by exact search, not the "
        "ranked candidates (ranker bi_encoder)",
    )


DEFAULT_RANKER = "conv_knrm"


def known_metric(name: str) -> str:
    """Our name of a measure, also of one written as in ir_measures, whose values lie between 0 and 1. A level in the
    name would stand beside another one, in evaluation.relevance_level, so it is refused."""
    if "(rel=" in name:
        raise ValueError(
            f"'{name}' sets a relevance level; the name without (rel=N), and evaluation.relevance_level: N"
        )
    try:
        measure = parse_measures([name])[name]
    except ConfigError as error:
        raise ValueError(f"{error.problems[0].wrong}; {error.problems[0].right}") from None
    if not measure.is_share:
        raise ValueError(f"'{name}' is not a fraction between 0 and 1; {METRIC_FORMS}")
    return str(measure) if isinstance(measure, Metric) else name


MEASURES = OneOf(known_metric, METRICS, "another measure of trec_eval or ir_measures (ndcg@5, recall@100)")


class TrainingConfig(Section):
    """Everything that determines one training."""

    data: DataConfig = DataConfig()
    ranker: Annotated[SerializeAsAny[RankerSettings], ranker_at("ranker")] = Field(
        default_factory=lambda: ranker_settings({"name": DEFAULT_RANKER})
    )
    curriculum: CurriculumConfig = CurriculumConfig()
    training: TrainingSettings = TrainingSettings()
    evaluation: EvaluationConfig = EvaluationConfig()
    metric: Annotated[str, MEASURES] = Field(
        default="map", description="what trials are compared by on dev; on pairs to classify it is accuracy"
    )
    seed: int = Field(default=0, ge=0, description="of a training, and of what a search draws")

    @model_validator(mode="before")
    @classmethod
    def short_forms(cls, tree: Any) -> Any:
        """Expands `data: PATH` and `ranker: NAME` to mappings; fills in the ranker's default of training.lr."""
        if not isinstance(tree, Mapping):
            return tree
        tree = dict(tree)
        if isinstance(tree.get("data"), str):
            tree["data"] = {"source": tree["data"]}
        ranker, training = tree.get("ranker", DEFAULT_RANKER), tree.get("training", {})
        name = ranker.get("name") if isinstance(ranker, Mapping) else getattr(ranker, "name", ranker)
        if isinstance(name, str) and name in RANKERS and isinstance(training, Mapping):
            rate = RANKERS[name].settings.default_lr
            tree["training"] = training if rate is None else {"lr": rate, **training}
        return tree

    def refused(self) -> Iterator[Problem]:
        """What the ranker cannot follow, and what contradicts another section. Not a validator, for trainings that are
        made of this one (a teacher's, a pre-training) ignore keys that theirs do not read."""
        yield from self.ranker.refused(self)
        name, embeds, loss = self.ranker.name, self.ranker.embeds, self.training.loss
        if self.evaluation.retrieve and not embeds:
            wrong = f"{name} has no vectors of texts to search a collection by"
            yield Problem("evaluation.retrieve", wrong, "null, or a ranker with vectors, such as bi_encoder")
        if self.training.in_batch_negatives and not embeds:
            wrong = f"{name} scores each document with its own query only"
            yield Problem("training.in_batch_negatives", wrong, "false, or a ranker with vectors, such as bi_encoder")
        if self.training.in_batch_negatives and embeds and loss != "softmax":
            wrong = f"loss {loss} does not compare a query with the documents of others"
            yield Problem("training.in_batch_negatives", wrong, "false, or loss softmax")
        if self.reads == "features":
            if self.training.pretrain_data:
                right = "null, or a ranker that is a network over texts"
                yield Problem("training.pretrain_data", f"{name} starts from no weights", right)
            return
        if self.curriculum.subset != "none":
            staged = " or ".join(name for name, kind in RANKERS.items() if kind.staged)
            right = f"curriculum.pacing or curriculum.weighting, or ranker.name: {staged}"
            yield Problem("curriculum.subset", f"{name} is not trained on a subset first", right)
        schedule = self.curriculum.negatives.schedule
        if schedule in ("ranks", "sources") and not self.training.draws_hard_negatives:
            wrong = f"'{schedule}' ends at hard negatives, and training.* draws none"
            right = "training.hard_negatives: first_stage or teacher, and training.negatives: a number"
            yield Problem("curriculum.negatives.schedule", wrong, right)
        if schedule == "groups" and not LOSSES[loss].by_groups:
            wrong = f"'groups' is of loss cl_drd, and the loss is {loss}"
            yield Problem("curriculum.negatives.schedule", wrong, "training.loss: cl_drd")

    @property
    def kind(self) -> RankerKind:
        return RANKERS[self.ranker.name]

    @property
    def reads(self) -> Reads:
        """What the ranker scores documents by."""
        return self.kind.reads

    @property
    def on_cpu(self) -> bool:
        """Whether the training uses no GPU."""
        return self.kind.on_cpu

    @property
    def temperature(self) -> float:
        """What the loss divides scores by."""
        usual = usual_temperature(self.ranker) if self.training.loss == "softmax" else 1.0
        return self.training.temperature or usual

    @property
    def draws(self) -> bool:
        """Whether the training draws anything at random; else it is the same under every seed."""
        return self.ranker.draws

    @property
    def starts_alike(self) -> bool:
        """Whether trainings with different seeds start from the same pretrained weights, but for a new last layer."""
        return hasattr(self.ranker, "model") or self.training.pretrain_data is not None

    @property
    def teachers(self) -> list[str]:
        """What the order, the loss or the negatives read of teachers, some of TEACHERS."""
        needs = SCORINGS[self.curriculum.scoring].needs if self.curriculum.reads_scoring else frozenset()
        teacher = {"teacher"} if self.training.reads_teacher else set()
        return [need for need in TEACHERS if need in needs | teacher]

    def in_force(self) -> dict[str, Any]:
        """The flat keys that affect this training, with values: no δ without pacing, no m without weighting, ..."""
        return active_values(self, self)


NEEDS = needs(TrainingConfig)


def without_effect(keys: Iterable[str], in_force: Iterable[str]) -> list[str]:
    """The keys that are neither in force (see `TrainingConfig.in_force`) nor a section that holds one in force."""
    read = [f"{key}." for key in in_force]
    return [key for key in keys if not any(name.startswith(f"{key}.") for name in read)]


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mapping to dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys to nested mapping."""
    tree: dict[str, Any] = {}
    for dotted, value in flat.items():
        *path, last = dotted.split(".")
        node = tree
        for key in path:
            node = node.setdefault(key, {})
        node[last] = value
    return tree


def dotted_keys(model: type[BaseModel], prefix: str = "") -> dict[str, FieldInfo]:
    """Dotted key -> pydantic field, for every leaf of the tree."""
    keys: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        if section := section_of(field):
            keys |= dotted_keys(section, f"{prefix}{name}.")
        else:
            keys[f"{prefix}{name}"] = field
    return keys


class RankerName(Section):
    """Holds the one key that every ranker has."""

    name: Annotated[str, one_of(RANKERS)] = Field(
        default=DEFAULT_RANKER, description="the kind of ranker; ranker: NAME is short for it"
    )


OF_TRAININGS = dotted_keys(TrainingConfig)
NAME = dotted_keys(RankerName, "ranker.")


@cache
def fields_of(settings: type[RankerSettings]) -> dict[str, FieldInfo]:
    """Dotted key -> field of a ranker's settings."""
    return dotted_keys(settings, "ranker.")


def ranker_fields(ranker: str) -> dict[str, FieldInfo]:
    """Dotted key -> field of one ranker's settings."""
    return fields_of(RANKERS[ranker].settings)


def configuration_fields(rankers: Iterable[str]) -> dict[str, FieldInfo]:
    """Dotted key -> field, for everything a training reads; `ranker.*` keys are those of the named rankers."""
    fields = dict(OF_TRAININGS)
    for name in rankers:
        fields |= ranker_fields(name)
    return fields | NAME


def validated(tree: Mapping[str, Any]) -> TrainingConfig:
    """The training that a nested mapping describes; raises ConfigError with every problem in it."""
    try:
        run = TrainingConfig.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(problems_of(error, configuration_fields(()))) from None
    if problems := list(run.refused()):
        raise ConfigError(problems)
    return run
