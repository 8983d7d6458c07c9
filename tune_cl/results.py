"""What searches, verdicts and effects come to: frozen classes, whose JSON is `model_dump(mode="json")`.

Numbers that are not known are None.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.05  # of tests; intervals are of 1 - LEVEL
TEST_SEEDS = 5  # of the test that `worth_finding` of effects speaks of

Interval = tuple[float, float]
Arm = Literal["plain", "curriculum"]
Outcome = Literal["completed", "stopped_early", "failed"]
Answer = Literal["better", "no difference shown", "worse"]
Role = Literal["champion", "twin", "default", "filter"]
"""champion: what selection chose in the plain arm; twin: a curriculum's own settings without the curriculum; default:
the first trial; filter: the pairs that a curriculum uses, in random order."""
PLAIN_TRAINING = "plain training"
CONFIRMATION = "confirmation"  # the folder of a search with its verdicts and the trainings of these


class Result(BaseModel):
    """The base of all results."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LabelFree(Result):
    """A ranking that needs no training labels, and the mean of the metric that it has on a split."""

    label: str
    mean: float


# -- effects -------------------------------------------------------------------------------------------------------


class ValueEffect(Result):
    """The mean effect of curricula with this value of a key; `pairs`: how many have it."""

    key: str
    value: Any
    effect: float
    ci95: Interval
    pairs: int


class BestEffect(Result):
    """The curriculum that changes the metric most, and by how much it is expected to do so again."""

    trial_id: str
    gain: float


class PairEffect(Result):
    """One pair: its trials, and the curriculum's mean value less the twin's at each seed."""

    trial_id: str
    twin: str
    differences: tuple[float, ...]


class Effects(Result):
    """What curricula change over all pairs of a curriculum and its twin, in the metric. What only variation between
    seeds can tell is None where that is not known.

    split          that the pairs are compared on; on dev without new seeds those of the search
    queries        that were taken as a sample; None where only means were compared
    seeds          how many trainings of each
    ci95           of the mean, for further curricula as the search chooses them; also for new seeds, and new queries
                   where there are several
    sd_pairs       observed standard deviation between pairs
    sd_true        standard deviation of the true effects of these pairs; its interval is for new seeds and queries
    sd_seeds       standard deviation of one pair's difference between seeds
    most           what the best of 100 more curricula is expected to gain
    worth_finding  probability that one of the pairs truly gains more than a test with TEST_SEEDS seeds would find
    plain          what curricula are compared with, in words
    sentences      what it says in words, with the notes
    """

    search: str = ""
    metric: str = ""
    split: str = "test"
    queries: int | None = None
    pairs: int
    seeds: int
    mean: float
    ci95: Interval
    sd_pairs: float
    sd_true: float | None = None
    sd_true_ci95: Interval | None = None
    sd_seeds: float | None = None
    by_value: tuple[ValueEffect, ...] = ()
    by_pair: tuple[PairEffect, ...] = ()
    best: BestEffect | None = None
    most: float | None = None
    worth_finding: float | None = None
    plain: str = PLAIN_TRAINING
    notes: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()

    @property
    def over_curricula(self) -> bool:
        """Whether the question is about curricula, not about other keys."""
        return self.plain == PLAIN_TRAINING

    @property
    def table(self) -> pd.DataFrame:
        """A row for each value of each searched key of the curriculum: key, value, effect, low, high, pairs."""
        import pandas as pd

        rows = [(one.key, one.value, one.effect, *one.ci95, one.pairs) for one in self.by_value]
        return pd.DataFrame(rows, columns=["key", "value", "effect", "low", "high", "pairs"])

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def __repr__(self) -> str:
        return f"<Effects: {self}>"


# -- a search ------------------------------------------------------------------------------------------------------


class Remark(Result):
    """What an experienced colleague would say of a search, a sentence without a full stop on these trials. `warning`:
    what it says puts the comparison itself in doubt."""

    kind: str
    text: str
    trials: tuple[str, ...] = ()
    warning: bool = False


class Trial(Result):
    """One training of a search.

    label      its settings in words
    twin       of a curriculum: the plain trial with its other settings and seed
    repeats    the trial whose settings it has under another seed; None for the first with these settings
    outcome    None as long as it runs or waits
    dev        the highest value of the metric on dev, which `iteration` (from 1) reached first; None without a value
    mean       the mean of `dev` over all seeds that these settings were trained with
    seconds    of training
    params     the searched keys in force
    """

    trial_id: str
    label: str
    arm: Arm
    twin: str | None = None
    repeats: str | None = None
    seed: int = 0
    outcome: Outcome | None = None
    dev: float | None = None
    mean: float | None = None
    iteration: int | None = None
    iterations: int = 0
    seconds: float = 0.0
    params: dict[str, Any] = {}


class SearchResult(Result):
    """What a search has come to, finished or not: `tune-cl run --json` and `resume --json`.

    ranker            its name, or several where the space opens it
    plain             what curricula are compared with, in words; None for a space that asks no question
    configuration     the keys that all trials share, with those of a curriculum that the space does not open
    best, default ..  ids of trials: the best on dev of both arms and of either, by the mean over seeds where there are
                      further seeds, and the first trial, which has the space's own defaults; None without a dev value
    effects           over its pairs that ran to the end; None for fewer than two
    seconds           of all sessions, waiting left out
    ended_by          what ended it early, in words: a budget, or that nothing is to be found
    checkpoint        the folder of the best trial's ranker
    """

    name: str
    space: str
    data: str
    ranker: str
    metric: str
    plain: str | None
    configuration: dict[str, Any]
    trials: tuple[Trial, ...]
    best: str
    best_curriculum: str | None
    best_plain: str | None
    default: str | None
    effects: Effects | None
    first_stage: LabelFree | None
    label_free: LabelFree | None
    remarks: tuple[Remark, ...]
    iterations: int
    seconds: float
    ended_by: str | None
    storage: str
    tracking_uri: str
    mlflow_run_id: str | None
    checkpoint: str | None

    def trial(self, trial_id: str | None) -> Trial | None:
        """The trial with this id; None for None."""
        return next((trial for trial in self.trials if trial.trial_id == trial_id), None)

    def of_arm(self, arm: Arm) -> list[Trial]:
        """Without those under further seeds."""
        return [trial for trial in self.trials if trial.arm == arm and trial.repeats is None]

    @property
    def further_seeds(self) -> int:
        """How many trials repeat others under further seeds."""
        return sum(trial.repeats is not None for trial in self.trials)

    def searched(self, arm: Arm | None = None) -> list[str]:
        """The keys in which the trials, of an arm or of both, differ."""
        trials = self.trials if arm is None else self.of_arm(arm)
        keys = dict.fromkeys(key for trial in trials for key in trial.params)
        return [key for key in keys if len({repr(trial.params.get(key)) for trial in trials}) > 1]

    @property
    def over_curricula(self) -> bool:
        """Whether the question is about curricula, not about other keys."""
        return self.plain == PLAIN_TRAINING


# -- verdict -------------------------------------------------------------------------------------------------------


class Configuration(Result):
    """A training and its results: values, a mean over the queries for each seed; their mean and sample standard
    deviation (None with one seed). trial_id: None where the search has no such trial."""

    label: str
    trial_id: str | None
    params: dict[str, Any]
    values: tuple[float, ...]
    mean: float
    sd: float | None


class Opponent(Configuration):
    """A plain training that a curriculum is tested against. difference: the curriculum's mean less this one's; ci95 and
    p hold for new trainings on new queries, and are None where nothing can be said of these."""

    roles: tuple[Role, ...]
    difference: float
    ci95: Interval | None
    p: float | None


class FixedSeeds(Result):
    """What holds for these trainings alone, on new queries."""

    verdict: Answer
    ci95: Interval
    p: float


class Comparison(Result):
    """A difference that is no part of the verdict."""

    difference: float
    ci95: Interval | None
    p: float | None


class Look(Result):
    """Which test of the same search and split it is, and the level that p is held to, as if this were 5 %."""

    number: int = 1
    level: float = 0.05


class Candidate(Result):
    """A configuration that might be its arm's champion: values on dev, one a new seed; none where there was no
    choice."""

    arm: Arm
    trial_id: str | None
    label: str
    values: tuple[float, ...]
    mean: float | None
    chosen: bool


class Tested(Result):
    """The tests of a curriculum; p is corrected by Holm over all that were tested (`confirm --trials`)."""

    curriculum: Configuration
    opponents: tuple[Opponent, ...]
    verdict: Answer
    fixed_seeds: FixedSeeds


class Failure(Result):
    """A training that failed. Its configuration is not tested."""

    label: str
    seed: int
    reason: str


class Collapse(Result):
    """A training that fell far below the others of its configuration, to this value."""

    label: str
    seed: int
    value: float


class Verdict(Tested):
    """Whether a curriculum is better than every plain training that could explain its gain.

    queries, clusters     of the split; how many are left if near-duplicates count as one
    opponents             first the one with the least evidence that the curriculum is better (the largest one-sided p)
    selection             what the champions were chosen from
    filter_against_plain  what leaving pairs out changes without an order; None where nothing is left out
    detectable            the smallest gain over all opponents that would be shown with probability .8
    power                 probability of showing a gain of .02
    others                further curricula that were tested
    collapses             on the split
    plain                 what the curriculum is compared with, in words; plain_trials, plain_keys: how many trials the
                          search spent on it, over which keys
    notes                 what to know before one believes it, without a full stop
    sentences             the headline, what explains it, and the notes
    """

    search: str
    metric: str
    split: str
    seeds: tuple[int, ...]
    queries: int
    clusters: int
    selection: tuple[Candidate, ...]
    filter_against_plain: Comparison | None
    detectable: float | None
    power: float | None
    look: Look
    others: tuple[Tested, ...] = ()
    failures: tuple[Failure, ...] = ()
    collapses: tuple[Collapse, ...] = ()
    first_stage: LabelFree | None = None
    label_free: LabelFree | None = None
    data: str
    ranker: str
    storage: str
    tracking_uri: str
    plain: str = PLAIN_TRAINING
    plain_trials: int = 1
    plain_keys: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()

    @property
    def over_curricula(self) -> bool:
        """Whether the question is about curricula, not about other keys."""
        return self.plain == PLAIN_TRAINING

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return self.sentences[0]

    @property
    def table(self) -> pd.DataFrame:
        """The curriculum (its role is `other` in a search over other keys), then its opponents: label, roles, mean, sd,
        difference, low, high, p; then the mean of each seed."""
        import pandas as pd

        rows, tested = [], "curriculum" if self.over_curricula else "other"
        for one in (self.curriculum, *self.opponents):
            roles = ", ".join(one.roles) if isinstance(one, Opponent) else tested
            row: dict[str, Any] = {"label": one.label, "roles": roles, "mean": one.mean, "sd": one.sd}
            if isinstance(one, Opponent):
                low, high = one.ci95 or (None, None)
                row |= {"difference": one.difference, "low": low, "high": high, "p": one.p}
            else:
                row |= dict.fromkeys(("difference", "low", "high", "p"))
            rows.append(row | {f"seed {seed}": value for seed, value in zip(self.seeds, one.values, strict=True)})
        figures = ["sd", "difference", "low", "high", "p"]
        return pd.DataFrame(rows).astype(dict.fromkeys(figures, float))

    @property
    def per_query(self) -> pd.DataFrame:
        """Label, role, seed, query, value and cluster (near-duplicates have one), read from the search's folder."""
        import pandas as pd

        return pd.read_parquet(Path(self.storage) / self.search / CONFIRMATION / f"{self.split}.parquet")

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def __repr__(self) -> str:
        return f"<Verdict: {self.verdict}; {self}>"

    def _repr_html_(self) -> str:
        table = self.table.to_html(index=False, na_rep="", float_format="{:.4f}".format)
        return "".join(f"<p>{escape(one)}</p>" for one in self.sentences) + table


class PlanRow(Result):
    """The smallest gain over all opponents that so many seeds find with probability .8, the probability of finding one
    of .02, and the trainings of all with their hours, one after another (None if none is timed)."""

    seeds: int
    detectable: float
    power: float
    trainings: int
    hours: float | None


class Plan(Result):
    """How many seeds a verdict needs (`confirm --plan`). source: where the variances are from, in words."""

    search: str
    metric: str
    split: str
    queries: int
    source: str
    rows: tuple[PlanRow, ...]

    @property
    def table(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([row.model_dump() for row in self.rows])


# -- a report ------------------------------------------------------------------------------------------------------


class Written(Result):
    """A report that was written: the page, or the folder of a paper with its `files`; and what it is made from."""

    output: str
    files: dict[str, str] = {}
    result: SearchResult | None
    verdict: Verdict | None
