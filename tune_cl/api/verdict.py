"""Verdicts from Python: `Search.confirm` and `tune_cl.compare`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import read_per_query
from tune_cl.confirmation.verdict import compare as compare
from tune_cl.confirmation.verdict import notes_of, of_these_seeds, sentence
from tune_cl.history.search_folder import search_folder_of

if TYPE_CHECKING:
    import pandas as pd

FIGURES = {  # columns of `Verdict.table` -> fields of the document: what has no other name is the verdict's
    "p": "p_new",
    "p_adjusted": "p_new_adjusted",
    "ci95": "ci95_new",
    "p_fixed_seeds": "p_value",
    "p_fixed_seeds_adjusted": "p_adjusted",
    "ci95_fixed_seeds": "ci95",
}


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a confirmation found. `document`: that of `tune-cl confirm --json`."""

    document: dict[str, Any]

    @property
    def verdict(self) -> str:
        """better, worse or no difference shown, for new queries and new trainings."""
        return self.document["verdict"]

    @property
    def these_seeds(self) -> str:
        """The same for the trainings at hand alone."""
        return self.document["these_seeds"]

    @property
    def notes(self) -> list[str]:
        """What to know before one believes it."""
        return notes_of(self.document)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for the baseline, then one for each configuration: configuration, trial_id, seeds, mean and sd over
        seeds, difference, p, p_adjusted, ci95_low, ci95_high (the verdict's: for new seeds), p_fixed_seeds,
        p_fixed_seeds_adjusted, ci95_fixed_seeds_low, ci95_fixed_seeds_high (for these trainings alone), marks. NaN
        where nothing can be said."""
        import pandas as pd

        rows = [_row(entry) for entry in (self.document["baseline"], *self.document["configurations"])]
        return pd.DataFrame(rows)

    @cached_property
    def per_query(self) -> pd.DataFrame:
        """The metric's value of each query of the split: configuration, seed, query_id, value."""
        import pandas as pd

        entries = (self.document["baseline"], *self.document["configurations"])
        rows = [
            (entry["label"], run["seed"], query, value)
            for entry in entries
            for run in entry["runs"]
            for query, value in self._values(run).items()
        ]
        return pd.DataFrame(rows, columns=["configuration", "seed", "query_id", "value"])

    def _values(self, run: dict[str, Any]) -> dict[str, float]:
        """By query, in the order of the split."""
        file = values_file(Path(run["run_file"]).parent, self.document["split"])
        return read_per_query(file, self.document["metric"])

    def __str__(self) -> str:
        """The verdict in a few sentences."""
        notes = [f"Note: {note}." for note in self.notes]
        return " ".join(filter(None, (sentence(self.document), of_these_seeds(self.document), *notes)))

    def _repr_html_(self) -> str:
        from tune_cl.report.page import verdict_html  # imports SciPy

        return verdict_html(search_folder_of(self.document["storage"], self.document["search"]), self.document)

    def __repr__(self) -> str:
        return f"<Verdict: {self.verdict}; {sentence(self.document)}>"


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    row = {"configuration": entry["label"], "trial_id": entry["trial_id"], "seeds": len(entry["runs"])}
    row |= {"mean": entry["mean"], "sd": entry["sd"], "difference": _number(entry.get("difference"))}
    for column, name in FIGURES.items():
        if column.startswith("ci95"):
            low, high = entry.get(name) or (None, None)
            row |= {f"{column}_low": _number(low), f"{column}_high": _number(high)}
        else:
            row[column] = _number(entry.get(name))
    return row | {"marks": entry.get("marks", "")}


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
