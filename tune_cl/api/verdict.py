"""Verdicts from Python: `Search.confirm` and `tune_cl.compare`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import read_per_query
from tune_cl.confirmation.compare import compare as compare
from tune_cl.confirmation.verdict import (
    ComparedResult,
    ConfigurationResult,
    Difference,
    OpponentResult,
    TrainingResult,
    VerdictFacts,
)
from tune_cl.history.search_folder import search_folder_of
from tune_cl.report.story import label_free, of_verdict

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN = float("nan")


@dataclass(frozen=True, repr=False, kw_only=True)
class Verdict(VerdictFacts):
    """What a confirmation found: a typed field for each of `tune-cl confirm --json` (docs/reference/verdict.md), which
    `document` is. `print` gives it in sentences; a notebook shows its tables and charts."""

    @classmethod
    def of(cls, found: VerdictFacts) -> Verdict:
        return cls(**{one.name: getattr(found, one.name) for one in fields(VerdictFacts)})

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each ranking without training labels, opponent and configuration: configuration, trial_id, roles,
        seeds, mean and sd over seeds. Of a configuration also `against`, its least favourable opponent, difference, p,
        p_adjusted, ci95_low, ci95_high (the verdict's: for new seeds), p_fixed_seeds, p_fixed_seeds_adjusted,
        ci95_fixed_seeds_low, ci95_fixed_seeds_high (for these trainings alone), marks. NaN where nothing can be
        said."""
        import pandas as pd

        rows = [_row(one.label, None, "", 0, one.mean, UNKNOWN) | _figures(None) for one in label_free(self)]
        return pd.DataFrame([*rows, *map(_compared, self.every_row)])

    @cached_property
    def per_query(self) -> pd.DataFrame:
        """The metric's value of each query of the split: configuration, seed, query_id, value."""
        import pandas as pd

        rows = [
            (row.label, run.seed, query, value)
            for row in self.every_row
            for run in row.trainings
            for query, value in self._values(run).items()
        ]
        return pd.DataFrame(rows, columns=["configuration", "seed", "query_id", "value"])

    def _values(self, run: TrainingResult) -> dict[str, float]:
        """By query, in the order of the split."""
        return read_per_query(values_file(Path(run.run_file).parent, self.split), self.metric)

    def __str__(self) -> str:
        """The verdict in a few sentences."""
        return " ".join(of_verdict(self)[0].sentences)

    def _repr_html_(self) -> str:
        from tune_cl.report.page import verdict_html  # imports SciPy

        return verdict_html(search_folder_of(self.storage, self.search), self)

    def __repr__(self) -> str:
        return f"<Verdict: {self.verdict}; {self}>"


def _compared(row: ComparedResult) -> dict[str, Any]:
    roles = ", ".join(row.roles) if isinstance(row, OpponentResult) else ""
    tested = isinstance(row, ConfigurationResult)
    cells = _row(row.label, row.trial_id, roles, len(row.runs), row.mean, row.sd)
    return cells | ({"against": row.against} if tested else {}) | _figures(row if tested else None)


def _row(label: str, trial_id: str | None, roles: str, seeds: int, mean: float, sd: float) -> dict[str, Any]:
    row = {"configuration": label, "trial_id": trial_id, "roles": roles, "seeds": seeds}
    return row | {"mean": mean, "sd": sd, "against": ""}


def _figures(one: Difference | None) -> dict[str, Any]:
    """The figures of a test, under the names of `Verdict.table`; NaN for what was not tested."""
    unknown = UNKNOWN, UNKNOWN
    new, these = (one.ci95_new, one.ci95) if one else (unknown, unknown)
    return {
        "difference": one.size if one else UNKNOWN,
        "p": one.p_new if one else UNKNOWN,
        "p_adjusted": one.p_new_adjusted if one else UNKNOWN,
        "ci95_low": new[0],
        "ci95_high": new[1],
        "p_fixed_seeds": one.p_value if one else UNKNOWN,
        "p_fixed_seeds_adjusted": one.p_adjusted if one else UNKNOWN,
        "ci95_fixed_seeds_low": these[0],
        "ci95_fixed_seeds_high": these[1],
        "marks": one.marks if one else "",
    }
