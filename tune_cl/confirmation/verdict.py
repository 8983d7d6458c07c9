"""What a confirmation has found: its facts in types, as the JSON of `tune-cl confirm`, and read back from that
(docs/reference/verdict.md has every field)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_type_hints

from trainables.core.errors import DataError, Problem
from trainables.core.files import read_text
from tune_cl.confirmation.readings import Reading
from tune_cl.confirmation.request import Request
from tune_cl.experiment.experiment import Arm
from tune_cl.results import LabelFree
from tune_cl.space.space import Flat

Answer = Literal["better", "no difference shown", "worse"]
NOT_SHOWN: Answer = "no difference shown"
Role = Literal["champion", "twin", "default", "filter", "trial"]
"""champion: what dev chose in the plain arm; twin: a configuration's own settings without the curriculum; default: the
first trial; filter: the pairs that a curriculum ever uses, in random order; trial: what `--against-trial` names."""
ROLES: tuple[Role, ...] = get_args(Role)
Drawn = Literal["anew", "once"]  # for each seed, or once for all
Interval = tuple[float, float]
LEVEL = 0.05
FEW_SOUND = 6  # seeds: with fewer, nothing is known of how often trainings collapse
WITHOUT_CURRICULUM = "without the curriculum"


# -- rows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeedValue:
    """The mean of the metric on the split after a training with this seed."""

    seed: int
    value: float


@dataclass(frozen=True)
class TrainingResult(SeedValue):
    """One training of a configuration.

    run_file          its TREC run of the split
    dev               the best value of the metric on dev, which `best_iteration` (from 1) reached
    dev_by_iteration  all values on dev
    seconds           of training
    metrics           all metrics on the split
    """

    run_file: str
    dev: float
    dev_by_iteration: tuple[float, ...]
    best_iteration: int
    iterations: int
    seconds: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class FoldsResult(SeedValue):
    """The trainings of all folds with one seed; `value` is over the queries of all."""

    run_files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A configuration in words (`label`), its trial (None where it is none of the search), the keys in force, and its
    trainings; mean and sample standard deviation (NaN with one seed) of their values. folds: the mean of each fold."""

    label: str
    trial_id: str | None
    params: Flat
    runs: tuple[SeedValue, ...]
    mean: float
    sd: float
    folds: tuple[float, ...] | None = None

    @property
    def trainings(self) -> list[TrainingResult]:
        """`runs`, where they are trainings of one search."""
        return [run for run in self.runs if isinstance(run, TrainingResult)]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A configuration less another one, in the metric. NaN where nothing can be said.

    p_per_seed                       paired t-tests over queries, a seed each
    difference                       of the means
    p_value, p_adjusted, ci95        of these trainings, for new queries; before and after correction
    p_new, p_new_adjusted, ci95_new  for new trainings on new queries: the verdict's
    size                             the estimate that is told: `difference`, after looks the median-unbiased one
    marks                            † at 95 %, ‡ at 99 %, if above
    seed_matters                     whether the seed changes either training
    """

    p_per_seed: tuple[float, ...]
    difference: float
    p_value: float
    p_adjusted: float
    ci95: Interval
    p_new: float
    p_new_adjusted: float
    ci95_new: Interval
    size: float
    marks: str
    seed_matters: bool

    @property
    def p(self) -> float:
        """The verdict's."""
        return self.p_new_adjusted

    @property
    def interval(self) -> Interval | None:
        """The verdict's 95 % interval; None if nothing is known of new seeds."""
        return None if math.isnan(self.ci95_new[0]) else self.ci95_new

    @property
    def shown(self) -> bool:
        """Whether it is significant for new trainings on new queries."""
        return self.p_new_adjusted <= LEVEL


@dataclass(frozen=True, kw_only=True)
class ComparedResult(Difference, Trained):
    """A configuration, and how it differs from another one."""


@dataclass(frozen=True, kw_only=True)
class OpponentResult(ComparedResult):
    """What a configuration was tested against. Its difference is the configuration's from it."""

    roles: tuple[Role, ...]


@dataclass(frozen=True, kw_only=True)
class ConfigurationResult(ComparedResult):
    """What was tested. against: the label of its least favourable opponent, which its difference is from;
    has_curriculum, also_differs: whether their curricula differ, and in which other keys they do."""

    against: str
    has_curriculum: bool
    also_differs: tuple[str, ...]
    opponents: tuple[OpponentResult, ...]

    @property
    def opponent(self) -> OpponentResult:
        """The least favourable one."""
        return next(one for one in self.opponents if one.label == self.against)


@dataclass(frozen=True, kw_only=True)
class PairResult(Difference):
    """Two configurations against each other, the first less the second."""

    label: str
    other: str


@dataclass(frozen=True)
class OverQueries:
    """A difference tested over queries alone."""

    difference: float
    p_value: float
    p_adjusted: float
    ci95: Interval


@dataclass(frozen=True)
class ExistingResult:
    """An existing ranker (`--against`), which is one training: less the baseline, and the best configuration less it.
    precision: of its scores; None of a run and of trees."""

    label: str
    mean: float
    precision: str | None
    from_baseline: OverQueries
    best: str
    to_best: OverQueries

    @property
    def document(self) -> dict[str, Any]:
        head = {"label": self.label, "mean": self.mean, "precision": self.precision, "trainings": 1}
        unknown = dict.fromkeys(("p_new", "p_new_adjusted", "ci95_new"))
        return {**head, **as_json(self.from_baseline), **unknown, "best": {"label": self.best, **as_json(self.to_best)}}


@dataclass(frozen=True)
class VarianceComponents:
    """What the differences of a comparison vary by: seed, query and both together. seed_freedom: degrees of freedom of
    the seeds; lent: those that other arms lent."""

    of_seed: float
    of_query: float
    residual: float
    seed_freedom: float
    lent: float


@dataclass(frozen=True)
class Collapsed:
    """A training that fell far below the others of its configuration, to this value on the split."""

    label: str
    seed: int
    value: float


@dataclass(frozen=True)
class Untaught:
    """A training that stayed far below the search's trials: its best value on dev."""

    label: str
    seed: int
    dev: float


@dataclass(frozen=True)
class Failure:
    """A training that failed, and its folder. Its configuration is not tested."""

    label: str
    seed: int
    reason: str
    folder: str


@dataclass(frozen=True)
class Dropped:
    """A configuration that got no more seeds after these."""

    label: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Selected:
    """A candidate of a selection: its values on dev, one a seed, and their mean (None without any)."""

    arm: Arm
    trial_id: str
    label: str
    devs: tuple[float, ...]
    mean: float | None
    chosen: bool


@dataclass(frozen=True)
class Fair:
    """How hard the opponent was tuned: the keys that the plain arm searched, and the trials of each arm."""

    tuned: bool
    keys: tuple[str, ...]
    trials: Mapping[str, int]


@dataclass(frozen=True)
class LookResult:
    """An interim analysis after so many seeds: the configuration with the smallest p, its least favourable opponent,
    and the p at which training stops (`boundary`)."""

    seeds: int
    label: str
    against: str
    difference: float
    p_new: float
    boundary: float
    decision: str


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What a confirmation of the same search had seen of the split. max_seeds: with interim analyses alone; new_noise:
    True or None."""

    seeds: tuple[int, ...]
    configurations: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    max_seeds: int | None = None
    new_noise: bool | None = None
    correction: str
    verdict: Answer


# -- the verdict ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the tests decide.

    configurations       what was tested; the verdict is about the first
    queries, clusters    of the split, and how many are left if near-duplicates count as one
    readings_of_seeds    earlier numbers of seeds that p is corrected for
    two_groups           labels of configurations that fail under some seeds and work under others
    these_seeds          the verdict for these trainings alone
    default              the first trial less the plain champion; None if it is that
    detectable           the smallest difference that would be shown with probability .8; None if unknown
    seeds_needed         seeds that would show the one observed; None if unknown or above 100
    """

    configurations: tuple[ConfigurationResult, ...]
    correction: str
    queries: int
    clusters: int
    readings_of_seeds: tuple[int, ...]
    collapsed: tuple[Collapsed, ...]
    two_groups: tuple[str, ...]
    verdict: Answer
    these_seeds: Answer
    default: ComparedResult | None
    detectable: float | None
    seeds_needed: int | None
    components: VarianceComponents | None


@dataclass(frozen=True, kw_only=True)
class VerdictFacts(Decision):
    """All that a confirmation has found.

    first_stage, label_free  what needs no training labels, on the split
    asked                    the options of the command
    plain                    how a twin differs from its configuration, in words
    teachers, noise          whether each seed drew them anew; None if there are none
    earlier, readings        of the split: by this search, and by others
    notes                    what to know before one believes the verdict, in sentences
    """

    search: str
    storage: str
    tracking_uri: str
    metric: str
    split: str
    seeds: tuple[int, ...]
    asked: Request
    plain: str
    fair: Fair
    first_stage: LabelFree | None = None
    label_free: LabelFree | None = None
    against: tuple[ExistingResult, ...] | None = None
    among: tuple[PairResult, ...] | None = None
    dropped: tuple[Dropped, ...] = ()
    looks: tuple[LookResult, ...] = ()
    failed: tuple[Failure, ...] = ()
    selection: tuple[Selected, ...] = ()
    untaught: tuple[Untaught, ...] = ()
    teachers: Drawn | None = None
    noise: Drawn | None = None
    earlier: tuple[Earlier, ...] = ()
    readings: tuple[Reading, ...] = ()
    notes: tuple[str, ...] = ()
    folds: tuple[str, ...] | None = None

    @property
    def leader(self) -> ConfigurationResult:
        """The configuration that the verdict is about."""
        return self.configurations[0]

    @property
    def opponents(self) -> tuple[OpponentResult, ...]:
        """Those of the leader, the plain champion first."""
        return self.leader.opponents

    @property
    def baseline(self) -> Trained:
        """The leader's least favourable opponent."""
        opponent = self.leader.opponent
        return Trained(**{one.name: getattr(opponent, one.name) for one in fields(Trained)})

    @property
    def every_opponent(self) -> list[OpponentResult]:
        """Those of all configurations, each once, champion first."""
        return list({one.label: one for row in self.configurations for one in row.opponents}.values())

    @property
    def every_row(self) -> list[ComparedResult]:
        """All that was trained, each once: opponents, then configurations."""
        tested = {row.label: row for row in self.configurations}
        return [*(one for one in self.every_opponent if one.label not in tested), *tested.values()]

    @property
    def of_curricula(self) -> bool:
        """Whether the question is about curricula, and not about other keys of the baseline."""
        return self.plain == WITHOUT_CURRICULUM

    @property
    def corrected(self) -> bool:
        """Whether p is corrected for the number of configurations."""
        return self.correction != "none"

    @property
    def often_fails(self) -> dict[str, int]:
        """By label: how many trainings collapsed, of configurations of which so many did that their means count them
        as they are."""
        from trainables.evaluation.significance import OFTEN  # imports SciPy

        counts = Counter(one.label for one in self.collapsed)
        return {label: count for label, count in counts.items() if count >= OFTEN}

    @property
    def rarely_collapsed(self) -> list[Collapsed]:
        """The collapsed trainings of all other configurations: the verdict holds with and without them."""
        return [one for one in self.collapsed if one.label not in self.often_fails]

    @property
    def too_few_seeds(self) -> bool:
        """Whether trainings rarely collapse, and too few seeds are without a collapse to tell how often."""
        unsound = {one.seed for one in self.rarely_collapsed}
        return bool(unsound) and len({*self.seeds} - unsound) < FEW_SOUND

    @property
    def document(self) -> dict[str, Any]:
        """That of `tune-cl confirm --json`."""
        return as_json(self)


# -- as JSON, and back ---------------------------------------------------------------------------------------------

FIRST: dict[type, tuple[str, ...]] = {  # the fields that a row begins with
    OpponentResult: ("roles",),
    PairResult: ("label", "other"),
    VerdictFacts: (
        "search", "storage", "tracking_uri", "metric", "split", "seeds", "baseline", "configurations", "correction",
        "queries", "clusters", "readings_of_seeds", "collapsed", "two_groups", "verdict", "these_seeds", "default",
        "opponents", "components", "detectable", "seeds_needed", "first_stage", "label_free", "asked", "plain",
        "against", "among", "dropped", "looks", "failed", "selection", "fair",
    ),
}  # fmt: skip
OPTIONAL = {"folds", "max_seeds", "new_noise", "against", "among"}  # fields that are left out where they are None
NEEDED = {"split", "seeds", "baseline", "configurations", "opponents", "verdict"}


def as_json(value: Any) -> Any:
    """A value for JSON: classes as the mappings of their fields, tuples as lists."""
    if isinstance(value, ExistingResult):
        return value.document
    if isinstance(value, tuple):
        return [as_json(one) for one in value]
    if isinstance(value, LabelFree):
        return value.model_dump()
    if not is_dataclass(value):
        return value
    first = next((names for kind, names in FIRST.items() if isinstance(value, kind)), ())
    values = {name: as_json(getattr(value, name)) for name in (*first, *(one.name for one in fields(value)))}
    return {name: one for name, one in values.items() if one is not None or name not in OPTIONAL}


def verdict_of(document: Mapping[str, Any]) -> VerdictFacts:
    """The verdict from its JSON. Raises ValueError for what is not that of one."""
    if missing := NEEDED - {key for key, value in document.items() if value}:
        raise ValueError(f"lacks {', '.join(sorted(missing))}")
    try:
        facts: VerdictFacts = _read(VerdictFacts, document)
    except KeyError as wrong:
        raise ValueError(f"lacks {wrong.args[0]}") from wrong
    except (AttributeError, TypeError) as wrong:
        raise ValueError(f"is not the document of tune-cl confirm ({wrong})") from wrong
    for row in facts.configurations:
        if row.against not in {one.label for one in row.opponents}:
            raise ValueError(f"'{row.label}' has no opponent '{row.against}'")
    return facts


def _read(kind: Any, value: Any) -> Any:
    """A value of this type from its JSON. Raises KeyError for a field that is missing and has no default."""
    if isinstance(kind, UnionType):  # or None
        return None if value is None else _read(get_args(kind)[0], value)
    if isinstance(value, list):
        return tuple(_read(get_args(kind)[0], one) for one in value)
    if kind is ExistingResult:
        over_queries, best = _read(OverQueries, value), _read(OverQueries, value["best"])
        return ExistingResult(
            value["label"], value["mean"], value["precision"], over_queries, value["best"]["label"], best
        )
    if kind is LabelFree:
        return LabelFree(**value)
    if kind is SeedValue:
        kind = TrainingResult
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return value
    known = [one for one in fields(kind) if one.name in value or one.default is MISSING]
    types = get_type_hints(kind)
    return kind(**{one.name: _read(types[one.name], value[one.name]) for one in known})


def verdict_file(search: Path, split: str) -> Path:
    """Where a search keeps its last verdict on a split."""
    return search / "confirmation" / f"{split}.json"


def last_verdict(search: Path, split: str) -> VerdictFacts | None:
    """That of the last confirmation on a split, if there was one. Raises DataError if its file is damaged."""
    path = verdict_file(search, split)
    if not path.exists():
        return None
    right = "the file as tune-cl confirm wrote it"
    try:
        document = json.loads(read_text(path))
    except (ValueError, RecursionError) as wrong:
        raise DataError(Problem(str(path), f"not JSON ({wrong})", right)) from wrong
    if not isinstance(document, dict):
        raise DataError(Problem(str(path), "not a mapping", right))
    try:
        return verdict_of(document)
    except ValueError as wrong:
        raise DataError(Problem(str(path), str(wrong), right)) from wrong
