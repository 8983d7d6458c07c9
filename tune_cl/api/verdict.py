"""Verdicts from Python: `Search.confirm` and `tune_cl.compare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import read_per_query
from tune_cl.confirmation.compare import compare as compare
from tune_cl.confirmation.verdict import every_row, notes_of, of_these_seeds, opponents, sentence
from tune_cl.history.search_folder import search_folder_of
from tune_cl.space.wording import label_free_rows

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


@dataclass(frozen=True)
class OpponentResult:
    """A plain training that the curriculum was tested against.

    roles       of champion (what dev chose in the plain arm), twin (the curriculum's settings without the curriculum),
                default (the first trial), filter (the same pairs in random order), trial (`against_trial`)
    trial_id    None where it is no trial of the search
    mean, sd    of the metric over the seeds
    difference  the curriculum's mean less its own; after interim analyses, corrected for these
    p, ci95     of the difference for new queries and new trainings; NaN where nothing can be said of these
    """

    roles: tuple[str, ...]
    trial_id: str | None
    label: str
    mean: float
    sd: float
    difference: float
    p: float
    ci95: tuple[float, float]


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
        """The same for these N trainings alone."""
        return self.document["these_seeds"]

    @property
    def notes(self) -> list[str]:
        """What to know before one believes it."""
        return notes_of(self.document)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each ranking without training labels, opponent and configuration: configuration, trial_id, roles,
        seeds, mean and sd over seeds. Of a configuration also `against`, its least favourable opponent, difference, p,
        p_adjusted, ci95_low, ci95_high (the verdict's: for new seeds), p_fixed_seeds, p_fixed_seeds_adjusted,
        ci95_fixed_seeds_low, ci95_fixed_seeds_high (for these trainings alone), marks. NaN where nothing can be
        said."""
        import pandas as pd

        tested = {row["label"]: row for row in self.document["configurations"]}
        others = [one for one in opponents(self.document) if one["label"] not in tested]
        rows = [_row({**entry, "runs": []}, False) for entry in label_free_rows(self.document)]
        rows += [*(_row(entry, False) for entry in others), *(_row(entry, True) for entry in tested.values())]
        return pd.DataFrame(rows)

    @cached_property
    def opponents(self) -> tuple[OpponentResult, ...]:
        """The opponents of the configuration that the verdict is about, the plain champion first."""
        return tuple(map(_opponent, self.document["opponents"]))

    @cached_property
    def per_query(self) -> pd.DataFrame:
        """The metric's value of each query of the split: configuration, seed, query_id, value."""
        import pandas as pd

        entries = every_row(self.document)
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


def _opponent(row: dict[str, Any]) -> OpponentResult:
    low, high = map(_number, row["ci95_new"] or (None, None))
    mean, p = row["mean"], _number(row["p_new_adjusted"])
    return OpponentResult(
        tuple(row["roles"]), row["trial_id"], row["label"], mean, _number(row["sd"]), row["size"], p, (low, high)
    )


def _row(entry: Mapping[str, Any], tested: bool) -> dict[str, Any]:
    """`tested`: whether the figures of a test belong into the row."""
    row = {
        "configuration": entry["label"],
        "trial_id": entry.get("trial_id"),
        "roles": ", ".join(entry.get("roles", ())),
    }
    row |= {"seeds": len(entry["runs"]), "mean": entry["mean"], "sd": _number(entry.get("sd"))}
    row |= {"against": entry["against"] if tested else "", "difference": _number(entry["size"] if tested else None)}
    for column, name in FIGURES.items():
        value = entry.get(name) if tested else None
        if column.startswith("ci95"):
            low, high = value or (None, None)
            row |= {f"{column}_low": _number(low), f"{column}_high": _number(high)}
        else:
            row[column] = _number(value)
    return row | {"marks": entry.get("marks", "") if tested else ""}


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
