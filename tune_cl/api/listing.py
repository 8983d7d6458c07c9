"""What there is: parts by kind, and the searches of a storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from trainables.core.errors import DataError
from trainables.core.prose import say
from trainables.core.registry import Entry, Registry
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


def kinds() -> dict[str, Registry[Any]]:
    """The registries that can be listed, by what they hold."""
    from search_spaces import SPACES
    from trainables.baselines import BASELINES
    from trainables.curriculum.negatives import SCHEDULES
    from trainables.curriculum.pacing import PACINGS
    from trainables.curriculum.scoring import SCORINGS
    from trainables.curriculum.subset import SUBSETS
    from trainables.curriculum.weighting import WEIGHTINGS
    from trainables.data import DATA_FORMS
    from trainables.evaluation.metrics import METRICS
    from trainables.rankers import RANKERS
    from trainables.training.losses import LOSSES
    from tune_cl.samplers import SEARCHERS
    from tune_cl.schedulers import SCHEDULERS

    return {
        "rankers": RANKERS,
        "scorings": SCORINGS,
        "pacings": PACINGS,
        "weightings": WEIGHTINGS,
        "negatives": SCHEDULES,
        "losses": LOSSES,
        "subsets": SUBSETS,
        "spaces": SPACES,
        "data": DATA_FORMS,
        "baselines": BASELINES,
        "metrics": METRICS,
        "searchers": SEARCHERS,
        "schedulers": SCHEDULERS,
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
    return [
        Part(name=entry.name, summary=entry.summary, source=_source(entry)) for entry in kinds()[kind].entries.values()
    ]


def _source(entry: Entry[Any]) -> str:
    from trainables.core.plugins import plugin_of

    plugin = plugin_of(entry)
    return " in ".join(filter(None, [entry.source, plugin.label if plugin else ""]))


def searches(storage: str | Path) -> list[SearchEntry]:
    """The searches of a storage, by name; of one that is damaged, what is wrong is said. Raises ConfigError for a
    storage that cannot be used."""
    from tune_cl.history.search_folder import search_folder_of

    storage = str(Path(storage).expanduser())
    entries = []
    for name in sorted(search_folder_of(storage, "").search_names()):
        try:
            entries.append(_entry(name, storage))
        except DataError as error:
            say("\n".join(error.lines()))
            entries.append(SearchEntry(name=name, data=None, trials=None, state="damaged", verdict=None))
    return entries


def _entry(name: str, storage: str) -> SearchEntry:
    from tune_cl.api.search import Search
    from tune_cl.history.journal import read_events
    from tune_cl.history.state import replay

    search = Search.recorded(name, storage)
    state, verdict = replay(read_events(search.search_folder.journal)), search.verdict
    return SearchEntry(
        name=name,
        data=state.data["name"],
        trials=len(state.trials),
        state="finished" if state.end else "not finished",
        verdict=verdict.verdict if verdict else None,
    )
