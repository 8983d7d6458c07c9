"""What there is: parts by kind, and the searches of a storage."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Literal

from trainables.core.errors import DataError
from trainables.core.plugins import plugin_of
from trainables.core.prose import say
from tune_cl.results import Answer, Result

DEFAULT_STORAGE = "./tune_cl_runs"  # as tune_cl.history.search_folder has it, which takes long to import
Kind = Literal[
    "rankers", "scorings", "pacings", "weightings", "negatives", "subsets", "losses", "spaces", "data", "baselines",
    "metrics", "searchers", "schedulers", "searches",
]  # fmt: skip


class Part(Result):
    """A part that can be named in a configuration."""

    name: str
    summary: str
    source: str


class SearchEntry(Result):
    """A search in one line; of one that is damaged, name and state alone. state: finished, not finished or damaged;
    verdict: of the last confirmation on test."""

    name: str
    data: str | None
    trials: int | None
    state: str
    verdict: Answer | None


PLACES = {  # of the registry of each kind, which is imported when it is listed
    "rankers": "trainables.rankers:RANKERS",
    "scorings": "trainables.curriculum.scoring:SCORINGS",
    "pacings": "trainables.curriculum.pacing:PACINGS",
    "weightings": "trainables.curriculum.weighting:WEIGHTINGS",
    "negatives": "trainables.curriculum.negatives:SCHEDULES",
    "losses": "trainables.training.losses:LOSSES",
    "subsets": "trainables.curriculum.subset:SUBSETS",
    "spaces": "search_spaces:SPACES",
    "data": "trainables.data:DATA_FORMS",
    "baselines": "trainables.baselines:BASELINES",
    "metrics": "trainables.evaluation.metrics:METRICS",
    "searchers": "tune_cl.samplers:SEARCHERS",
    "schedulers": "tune_cl.schedulers:SCHEDULERS",
}


def listed(kind: Kind, storage: str | Path = DEFAULT_STORAGE) -> list[Part] | list[SearchEntry]:
    """Names for a configuration, and searches in a storage.

        tune-cl list scorings
        tune-cl list searches --storage /shared/runs

    kind     what is listed
    storage  the folder of the searches; on a cluster, one that all nodes see
    """
    return searches(storage) if kind == "searches" else parts(kind)


def parts(kind: str) -> list[Part]:
    """The parts of a kind, those of plug-ins with their file or module."""
    rows = []
    for entry in resolve_name(PLACES[kind]).entries.values():
        plugin = plugin_of(entry)
        source = " in ".join(filter(None, [entry.source, plugin.label if plugin else ""]))
        rows.append(Part(name=entry.name, summary=entry.summary, source=source))
    return rows


def searches(storage: str | Path) -> list[SearchEntry]:
    """The searches of a storage, by name; of one that is damaged, what is wrong is said. Raises ConfigError for a
    storage that cannot be used."""
    from tune_cl.history.search_folder import search_folder_of

    storage = str(Path(storage).expanduser())
    return [_entry(name, storage) for name in search_folder_of(storage, "").search_names()]


def _entry(name: str, storage: str) -> SearchEntry:
    from tune_cl.api.start import open_search
    from tune_cl.history.journal import read_events
    from tune_cl.history.state import replay

    try:
        search = open_search(name, storage)
        state, verdict = replay(read_events(search.search_folder.journal)), search.verdict
    except DataError as error:
        say("\n".join(error.lines()))
        return SearchEntry(name=name, data=None, trials=None, state="damaged", verdict=None)
    return SearchEntry(
        name=name,
        data=state.data["name"],
        trials=len(state.trials),
        state="finished" if state.end else "not finished",
        verdict=verdict.verdict if verdict else None,
    )
