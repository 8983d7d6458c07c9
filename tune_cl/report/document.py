"""The facts that a report tells, as types; docs/reference/report.md describes their JSON. What is missing is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tune_cl.documents import document_of
from tune_cl.history.state import Dev
from tune_cl.report.story import Part
from tune_cl.results import Interval, Remark, Verdict


@dataclass(frozen=True)
class TwinRow:
    """The twin of a curriculum, its dev value, and how far the curriculum is above it. ended: failed, or None."""

    trial_id: str
    mean: float | None
    difference: float | None
    ended: str | None


@dataclass(frozen=True, kw_only=True)
class ConfigurationRow:
    """A row of the table of configurations.

    trial_id           None for what needs no training labels
    name               trial and label
    sd                 over seeds; None for one
    difference ...     None for the baseline
    against            after a confirmation: the least favourable opponent
    iterations, ended  before one: how far it was trained, and how it ended if not of itself
    best               has the highest mean
    """

    trial_id: str | None
    label: str
    name: str
    mean: float
    sd: float | None = None
    marks: str = ""
    difference: float | None = None
    ci95: Interval | None = None
    p: float | None = None
    against: str | None = None
    iterations: int | None = None
    ended: str | None = None
    twin: TwinRow | None = None
    best: bool = False


@dataclass(frozen=True)
class SeedRow:
    """A configuration's value under each seed, their mean, and the ends of the interval. role: best or baseline."""

    name: str
    role: str
    values: Mapping[int, float]
    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class ReportedVerdict:
    """A verdict in parts of a story, and its numbers. colour: better, worse, no or empty; level: the mean of the least
    favourable opponent."""

    verdict: Verdict
    colour: str
    parts: Sequence[Part]
    by_seed: Sequence[SeedRow]
    level: float


@dataclass(frozen=True)
class Step:
    """What to do next, a command or a call, and why."""

    why: str
    do: str


@dataclass(frozen=True)
class FailureRow:
    """Trials that failed for one reason: the first in words, then the ids of the others."""

    trial: str
    reason: str | None
    count: int


@dataclass(frozen=True, kw_only=True)
class TrialCurve:
    """A trial over its iterations. role: best and baseline are the best of each arm, then failed, plain or trial."""

    trial: str
    twin: str | None
    name: str
    role: str
    outcome: str
    reason: str | None
    best: Dev | None
    dev: Mapping[int, float]
    available_share: Mapping[int, float]
    curriculum_over: int


@dataclass(frozen=True)
class TreesRow:
    """Trees of a trial, the dev value that they reach, and how many plain training needs for it (None: more than
    `most`, all that it has)."""

    trees: int
    dev: float
    plain: int | None
    ratio: float | None
    of: str = ""
    most: int = 0


@dataclass(frozen=True)
class ValueRow:
    """The mean effect of the curricula with a value of a key."""

    name: str
    effect: float
    ci95: Interval
    pairs: int


@dataclass(frozen=True, kw_only=True)
class EffectsPart:
    """What curricula change over all pairs, in sentences and by value."""

    sentences: Sequence[str]
    notes: Sequence[str]
    split: str
    mean: float
    by_value: Sequence[ValueRow]


@dataclass(frozen=True, kw_only=True)
class EffectsSection:
    """What the section on effects is drawn from."""

    metric: str
    over_curricula: bool
    effects: EffectsPart | None


@dataclass(frozen=True, kw_only=True)
class MainFacts(EffectsSection):
    """What came out of a search, and its trials.

    plain           what curricula are compared with, in words
    reads_features  whether rankers read features: trees
    plain_is_tuned  whether there are plain trials besides the default
    not_shown       trials that the table of configurations leaves out
    """

    search: str
    description: str
    data: str
    rankers: Sequence[str]
    trials: int
    iterations: int
    searcher: str
    scheduler: str
    plain: str
    reads_features: bool
    plain_is_tuned: bool
    verdict: ReportedVerdict | None
    on_dev: Sequence[str]
    notes_on_search: Sequence[str]
    next: Sequence[Step]
    configurations: Sequence[ConfigurationRow]
    not_shown: int
    curves: Sequence[TrialCurve]
    ended: bool
    outcomes: Mapping[str, int]
    failures: Sequence[FailureRow]
    remarks: Sequence[Remark]
    trees: Sequence[TreesRow]


@dataclass(frozen=True)
class CostRow:
    """What a search was forecast to cost, and what it did."""

    what: str
    forecast: float | None
    true: float | None


@dataclass(frozen=True, kw_only=True)
class AgainPart:
    """The commands that repeat the search, its space, and its versions, seeds and data."""

    commands: Sequence[str]
    yaml: str
    with_: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReportFacts(MainFacts):
    """All that the page tells."""

    cost: Sequence[CostRow]
    again: AgainPart


@dataclass(frozen=True)
class Written:
    """A report that was written: the file, or the folder with the `files` for a paper; and what it tells."""

    output: Path
    facts: MainFacts
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def document(self) -> dict[str, Any]:
        """For `tune-cl report --json`."""
        files = {"files": {name: str(path) for name, path in self.files.items()}} if self.files else {}
        return {"output": str(self.output), **files, **document_of(self.facts)}
