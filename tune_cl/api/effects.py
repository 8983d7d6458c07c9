"""Effects from Python: `Search.effects`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trainables.core.errors import ConfigError, Problem
from trainables.evaluation.effects import Effects
from tune_cl.effects.pairs import FEWEST, FamilyEffects, distinct_pairs, require_pairs, search_effects
from tune_cl.effects.words import sentences
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import experiment_of, replay

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class SearchEffects:
    """What curricula change over all pairs of a search. `effects` has the estimates."""

    family: FamilyEffects

    @property
    def effects(self) -> Effects:
        """Mean effect, standard deviations, and effects by value."""
        return self.family.effects

    @property
    def document(self) -> dict[str, Any]:
        """That of `tune-cl effects --json`."""
        return self.family.document()

    @property
    def by_value(self) -> pd.DataFrame:
        """A row for each value of each searched key of the curriculum: key, value, effect, ci95_low, ci95_high,
        pairs."""
        import pandas as pd

        rows = [
            {**asdict(one), "ci95_low": one.ci95[0], "ci95_high": one.ci95[1]} for one in self.family.effects.by_value
        ]
        return pd.DataFrame(rows, columns=["key", "value", "effect", "ci95_low", "ci95_high", "pairs"])

    @property
    def differences(self) -> pd.DataFrame:
        """A row for each pair and seed: trial_id, twin, seed, difference (curriculum minus twin)."""
        import pandas as pd

        rows = [
            (row.trial_id, row.twin, seed, value)
            for row in self.family.rows
            for seed, value in zip(self.family.seeds, row.differences, strict=True)
        ]
        return pd.DataFrame(rows, columns=["trial_id", "twin", "seed", "difference"])

    def __str__(self) -> str:
        """The result in a few sentences."""
        return " ".join([*sentences(self.family), *(f"Note: {note}." for note in self.family.notes)])

    def _repr_html_(self) -> str:
        from tune_cl.report.page import effects_html  # imports Jinja

        return effects_html(self.family)

    def __repr__(self) -> str:
        return f"<SearchEffects: {sentences(self.family)[0]}>"


def recorded_effects(search_folder: SearchFolder) -> SearchEffects:
    """From the dev values of a search, finished or not. Raises ConfigError for fewer than two pairs that ran to the
    end."""
    state = replay(read_events(search_folder.journal))
    require_pairs(distinct_pairs(state), search_folder)
    found = search_effects(state, experiment_of(state))
    if found is None:
        wrong = f"fewer than {FEWEST} pairs of search '{search_folder.name}' ran to the end with a dev value"
        right = f"{search_folder.command('effects')} --seeds 2, which trains all pairs to the end"
        raise ConfigError(Problem("NAME", wrong, right))
    return SearchEffects(found)
