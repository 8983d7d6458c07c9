"""One verdict over the folds of a LETOR collection, each of which has a search of its own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from trainables.core.errors import WorkFailed
from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import read_per_query
from tune_cl.confirmation.document import Compared, decide, spread
from tune_cl.confirmation.intersection import twins_of
from tune_cl.confirmation.request import Request
from tune_cl.confirmation.verdict import (
    ROLES,
    ComparedResult,
    ConfigurationResult,
    FoldsResult,
    OpponentResult,
    Role,
    Trained,
    VerdictFacts,
)
from tune_cl.space.space import Flat


@dataclass(frozen=True)
class Folds(Compared):
    """What was confirmed in each fold, over the queries of all. `rows`: those of each fold's verdict, by label."""

    rows: Mapping[str, Sequence[ComparedResult]] = field(kw_only=True)

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        return {label: np.hstack([self._of_fold(row) for row in rows]) for label, rows in self.rows.items()}

    def _of_fold(self, row: ComparedResult) -> list[list[float]]:
        files = [values_file(Path(run.run_file).parent, self.split) for run in row.trainings]
        return [[*read_per_query(file, self.metric).values()] for file in files]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in next(iter(self.rows.values()))[0].runs]

    def seed_matters(self, *labels: str) -> bool:
        return any(row.seed_matters for label in labels for row in self.rows[label])

    @property
    def starts_alike(self) -> bool:
        params = [row.params for rows in self.rows.values() for row in rows]
        return all(each.get("ranker.model") or each.get("training.pretrain_data") for each in params)

    def params(self, label: str) -> Flat:
        """Those that are equal in all folds."""
        first, *others = (row.params for row in self.rows[label])
        return {key: first[key] for key in first if all(key in other and other[key] == first[key] for other in others)}

    def row(self, label: str) -> Trained:
        rows, of_seeds = self.rows[label], self.values[label].mean(axis=1)
        files = zip(*([run.run_file for run in row.trainings] for row in rows), strict=True)
        runs = zip(self.seeds, of_seeds, files, strict=True)
        mean, sd = spread(of_seeds)
        return Trained(
            label=label,
            trial_id=" / ".join(dict.fromkeys(row.trial_id or "-" for row in rows)),
            params=self.params(label),
            runs=tuple(FoldsResult(seed, float(value), of_seed) for seed, value, of_seed in runs),
            mean=mean,
            sd=sd,
            folds=tuple(row.mean for row in rows),
        )


def joined(name: str, verdicts: Sequence[VerdictFacts]) -> VerdictFacts:
    """One verdict over the queries of all folds. What was selected in each fold is one configuration, and what has the
    same role in all folds is one opponent of it; otherwise those configurations that are equal in all folds. A mean is
    over all queries, `folds` has each fold's."""
    request = verdicts[0].asked
    by_fold = [{_kind(row, request): row for row in verdict.configurations} for verdict in verdicts]
    every = [[of[kind] for of in by_fold] for kind in by_fold[0] if all(kind in of for of in by_fold)]
    if not every:
        raise WorkFailed("no configuration was tested in all folds")
    rows: dict[str, Sequence[ComparedResult]] = {}
    opponents: dict[str, dict[str, tuple[Role, ...]]] = {}
    for of_folds in every:
        label = _label(of_folds, rows)
        rows[label], opponents[label] = of_folds, {}
        for role in ROLES:
            if opposite := _with_role(of_folds, role):
                opposite_label = _label(opposite, rows)
                rows[opposite_label] = opposite
                opponents[label][opposite_label] = (*opponents[label].get(opposite_label, ()), role)
    first, champion = verdicts[0], next(iter(next(iter(opponents.values()))))
    readings = max((verdict.readings_of_seeds for verdict in verdicts), key=len)
    on = request.split, first.metric, request.correction
    compared = Folds({}, *on, readings=readings, twins=twins_of(opponents), rows=rows)
    recommended = "" if request.tests_all else next(iter(opponents))
    return VerdictFacts(
        search=f"{name}-FoldN",
        folds=tuple(verdict.search for verdict in verdicts),
        metric=first.metric,
        split=first.split,
        seeds=first.seeds,
        asked=first.asked,
        plain=first.plain,
        fair=first.fair,
        teachers=first.teachers,
        noise=first.noise,
        storage=first.storage,
        tracking_uri=first.tracking_uri,
        **vars(decide(compared, champion, opponents, recommended, [])),
        failed=tuple(one for verdict in verdicts for one in verdict.failed),
    )


def _label(of_folds: Sequence[ComparedResult], known: Mapping[str, Sequence[ComparedResult]]) -> str:
    """The labels of the folds, each once; all of them where those of other folds would read the same."""
    labels = [row.label for row in of_folds]
    short = " / ".join(dict.fromkeys(labels))
    same = known.get(short)
    return short if same is None or labels == [row.label for row in same] else " / ".join(labels)


def _with_role(of_folds: Sequence[ConfigurationResult], role: Role) -> list[OpponentResult]:
    """The opponent with this role in each fold, or its twin where only others leave pairs out; empty if no fold has
    it."""
    found = [_opponent(row, role) for row in of_folds]
    if not any(found):
        return []
    whole = [one or _opponent(row, "twin") for one, row in zip(found, of_folds, strict=True)]
    return [one for one in whole if one] if all(whole) else []


def _opponent(row: ConfigurationResult, role: Role) -> OpponentResult | None:
    return next((one for one in row.opponents if role in one.roles), None)


def _kind(row: ConfigurationResult, request: Request) -> Hashable:
    """What the rows of several folds have in common if they are one configuration."""
    if request.best_of:
        return str(row.params.get(request.best_of))
    return row.label if request.tests_all else "selected"
