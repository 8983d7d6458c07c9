"""The document of `tune-cl confirm` (docs/verdict.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trainables.counting import counted
from trainables.errors import WorkFailed
from trainables.evaluation.significance import bootstrap_ci
from tune_cl.configurations import differences
from tune_cl.confirmation.plan import SeedRun
from tune_cl.confirmation.training import ended_result, read_values
from tune_cl.confirmation.verdict import Corrected, comparison, first_level, judge, leader, power_of, verdict_of
from tune_cl.search.space import Flat

Runs = Sequence[SeedRun]


@dataclass(frozen=True)
class Compared:
    """What is compared on one split. `runs`: by label, of the same seeds; all have ended."""

    runs: Mapping[str, Runs]
    split: str
    metric: str
    correction: str

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Per-query values, [seeds, queries]."""
        return {label: np.stack([self._values(run) for run in runs]) for label, runs in self.runs.items()}

    def _values(self, run: SeedRun) -> np.ndarray:
        """Raises WorkFailed for a value that is no number: nothing can be said with it."""
        values = read_values(run.folder, self.split, self.metric)
        if wrong := int(np.count_nonzero(~np.isfinite(values))):
            which = f"{run.name}: {self.metric} on {self.split}"
            raise WorkFailed(f"{which} is not a number for {counted(wrong, 'query')} (see {run.folder})")
        return values

    def judged(self, references: Mapping[str, str], left: int) -> dict[str, Corrected]:
        """The test of each label against its reference, corrected over all of `references` (`left`: see `judge`)."""
        pairs = [(self.values[label], self.values[reference]) for label, reference in references.items()]
        matters = [self.seed_matters(*labels) for labels in references.items()]
        return dict(zip(references, judge(pairs, self.correction, matters, left), strict=True))

    def seed_matters(self, *labels: str) -> bool:
        """Whether the seed changes any of these trainings."""
        return any(self.runs[label][0].run.draws for label in labels)

    def params(self, label: str) -> Flat:
        return self.runs[label][0].configuration.params

    def row(self, label: str) -> dict[str, Any]:
        return _row(self.runs[label], self.values[label], self.split)

    def comparison(self, label: str, reference: str, judged: Corrected) -> dict[str, Any]:
        interval = bootstrap_ci((self.values[label] - self.values[reference]).mean(axis=0))
        tested = {"p_per_seed": list(judged.test.p_per_seed), **comparison(judged, interval)}
        return tested | {"marks": judged.marks, "seed_matters": self.seed_matters(label, reference)}

    def power(self, label: str, reference: str, judged: Corrected, tested: int) -> dict[str, Any]:
        """`detectable` and `seeds_needed`; `tested`: how many configurations p is corrected for."""
        seeds, queries = self.values[label].shape
        level = first_level(self.correction, tested)
        return power_of(judged, seeds, queries, level, self.seed_matters(label, reference))


def document_of(
    compared: Compared, labels: Sequence[str], ablations: Mapping[str, str], recommended: str, left: Sequence[str]
) -> dict[str, Any]:
    """The verdict's part of the document. `labels`: the baseline, then the configurations, best on dev first.
    `ablations`: label of a configuration -> label of its ablation, if it has one. `recommended`: the label of the best
    on dev, tested or not. `left`: the labels of those that left the race."""
    baseline, *others = labels
    judged = compared.judged(dict.fromkeys(others, baseline), len(left))
    rows = {label: compared.row(label) | compared.comparison(label, baseline, judged[label]) for label in others}
    for label in others:
        rows[label] |= differences(compared.params(label), compared.params(baseline))
    references = {label: ablations[label] for label in others if label in ablations}
    for label, one in compared.judged(references, sum(label in ablations for label in left)).items():
        own = references[label]
        rows[label]["ablation"] = compared.row(own) | compared.comparison(label, own, one)
    found = {
        "baseline": compared.row(baseline),
        "configurations": list(rows.values()),
        "correction": compared.correction,
        "queries": compared.values[baseline].shape[1],
        "verdict": verdict_of(list(judged.values()), judged.get(recommended)),
        "these_seeds": verdict_of(list(judged.values()), judged.get(recommended), new_seeds=False),
    }
    top = (leader(found) or rows[others[0]])["label"]
    return found | compared.power(top, baseline, judged[top], len(others) + len(left))


def _row(runs: Runs, values: np.ndarray, split: str) -> dict[str, Any]:
    """A configuration, its runs, and the mean and sample standard deviation over seeds (NaN for one seed)."""
    of_seeds = values.mean(axis=1)
    configuration = runs[0].configuration
    return {
        "label": configuration.label,
        "trial_id": configuration.trial,
        "params": configuration.params,
        "runs": [_run(run, float(value), split) for run, value in zip(runs, of_seeds, strict=True)],
        "mean": float(of_seeds.mean()),
        "sd": float(of_seeds.std(ddof=1)) if len(of_seeds) > 1 else math.nan,
    }


def _run(run: SeedRun, value: float, split: str) -> dict[str, Any]:
    result = ended_result(run.folder, split)
    reached = {key: result[key] for key in ("dev", "best_iteration", "iterations", "seconds", "metrics")}
    return {"seed": run.seed, "value": value, "run_file": str(run.folder / split / result["run_file"]), **reached}


def failure(run: SeedRun, reason: str) -> dict[str, Any]:
    return {"label": run.configuration.label, "seed": run.seed, "reason": reason, "folder": str(run.folder)}
