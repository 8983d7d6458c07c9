"""The searches of the folds of a LETOR collection, and their verdict over the queries of all folds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from trainables.data.forms import READERS
from tune_cl.api.search import Search
from tune_cl.api.verdict import Verdict
from tune_cl.confirmation.verdict import VerdictFacts
from tune_cl.history.search_folder import search_folder_of
from tune_cl.report.story import notes
from tune_cl.results import SearchResult

if TYPE_CHECKING:
    import pandas as pd

FOLD = re.compile(r"Fold([0-9]+)")


class FoldSearches:
    """One search for each fold: NAME-Fold1, NAME-Fold2, ..., by number."""

    def __init__(self, name: str, searches: Sequence[Search]):
        self.name, self.searches = name, tuple(searches)

    @property
    def results(self) -> list[SearchResult]:
        """What each fold has come to. Raises WorkFailed if no trial of one gave a value."""
        return [search.result for search in self.searches]

    @property
    def document(self) -> dict[str, Any]:
        """That of `tune-cl run --json`: `folds`, the document of each search."""
        return {"folds": [result.model_dump(mode="json") for result in self.results]}

    @property
    def trials(self) -> pd.DataFrame:
        """The trials of all folds, as `Search.trials` has them, with the search in front."""
        import pandas as pd

        return pd.concat({search.name: search.trials for search in self.searches}, names=["search"]).reset_index(0)

    @property
    def verdict(self) -> Verdict | None:
        """Over all folds, from the last confirmation of each on test; None before."""
        found = [verdict for search in self.searches if (verdict := search.verdict)]
        return self._over_all(found) if len(found) == len(self.searches) else None

    def confirm(self, **options: Any) -> Verdict:
        """Confirms the search of each fold, then tests over the queries of all. `options`: those of `Search.confirm`.
        Raises what it raises, and ConfigError for what only one search can be asked."""
        single = {"--until-settled": options.get("until_settled"), "--against": options.get("against")}
        right = f"of one: {self.searches[0].name}"
        if problems := [Problem(flag, "not over folds", right) for flag, given in single.items() if given]:
            raise ConfigError(problems)
        found = []
        for search in self.searches:
            say(f"search {search.name}")
            found.append(search.confirm(**options))
        return self._over_all(found)

    def _over_all(self, verdicts: Sequence[VerdictFacts]) -> Verdict:
        from tune_cl.confirmation.folds import joined  # imports SciPy's statistics

        found = joined(self.name, verdicts)
        return Verdict.of(replace(found, notes=notes(found)))

    def __repr__(self) -> str:
        return f"<FoldSearches {self.name}: {', '.join(search.name for search in self.searches)}>"


def folds_in(data: Any) -> list[Path]:
    """The folds in a folder, by number; none if it is not such a folder."""
    paths = Path(data).glob("Fold*") if isinstance(data, str | Path) else ()
    numbers = {int(found[1]): path for path in paths if (found := FOLD.fullmatch(path.name))}
    return [numbers[number] for number in sorted(numbers) if READERS["letor"].files(numbers[number])]


def searches_of_folds(storage: str, name: str) -> list[str]:
    """The searches NAME-Fold1, ..., by number; none if there is a search of the name itself."""
    if search_folder_of(storage, name).exists():
        return []
    form = re.compile(rf"{re.escape(name)}-{FOLD.pattern}")
    found = filter(None, map(form.fullmatch, search_folder_of(storage, "").search_names()))
    return [match[0] for match in sorted(found, key=lambda match: int(match[1]))]
