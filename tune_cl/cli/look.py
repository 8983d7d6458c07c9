"""What there is: data, list."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from trainables.core.errors import DataError
from trainables.core.prose import say
from tune_cl.cli import Command
from tune_cl.cli.options import add_overrides
from tune_cl.cli.tables import table
from tune_cl.command_options import DATA_HELP
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import (
    DEFAULT_STORAGE,
    STORAGE_HELP,
    SearchFolder,
    existing_search_folder,
    search_folder_of,
)
from tune_cl.history.state import replay
from tune_cl.report.wording import cut
from tune_cl.verdict.files import last_verdict

if TYPE_CHECKING:
    from trainables.core.registry import Entry, Registry
    from tune_cl.data_facts import DataFacts, Example


FILES = 12  # named, of those that are read
WIDTH = 100  # characters of a text, at most


class DataCommand(Command):
    """Example: tune-cl data ../data/wikiqa

    Shows the form as which the data is read and its files, the size of each split, the overlap of splits, and two
    examples from each. Queries or texts in two splits make the test too easy."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("data", metavar="DATA", help=DATA_HELP)
        add_overrides(parser)

    def execute(self, options: Namespace) -> DataFacts:
        from tune_cl.data_facts import facts_of
        from tune_cl.experiment.load import load_training_run

        return facts_of(load_training_run(None, options.overrides, options.data))

    def render(self, document: DataFacts) -> str:
        features = f", {document.features} features" if document.features else ""
        parts = [f"{document.data}: {document.task}, {document.documents:,} documents{features}"]
        parts += [f"read as {document.form} ({document.recognised_by})"]
        if files := document.files:
            more = f" and {len(files) - FILES} more" if len(files) > FILES else ""
            parts += [f"from {', '.join(files[:FILES])}{more}"]
        parts += ["", _splits(document), ""]
        if document.shared:
            rows = [
                [" and ".join(pair.splits), pair.queries, pair.documents, pair.document_texts]
                for pair in document.shared
            ]
            parts += [table(["shared by", "queries", "documents", "document texts"], rows), ""]
        if document.given_away:
            shown = ", ".join(f"{name} {area:.2f}" for name, area in document.given_away.items())
            parts += [f"separation of right from wrong training labels (area under the ROC curve): {shown}"]
        parts += [f"note: {note}" for note in document.notes]
        parts += [*(f"warning: {one}" for one in document.warnings), ""]
        for split, examples in document.examples.items():
            for example in examples:
                parts += _example_lines(split, example)
        return "\n".join(parts).rstrip("\n")


def _splits(facts: DataFacts) -> str:
    """A table of the splits: rows of figures for a ranking, a row each for a classification."""
    from trainables.data.hygiene import ClassSplit, RankingSplit  # here: it imports NumPy

    classes = {name: split for name, split in facts.splits.items() if isinstance(split, ClassSplit)}
    if classes:
        rows = ([name, split.queries, *split.classes.values()] for name, split in classes.items())
        return table(["split", "pairs", *next(iter(classes.values())).classes], rows)
    splits = {name: split for name, split in facts.splits.items() if isinstance(split, RankingSplit)}
    figures = {
        "queries": [f"{each.queries:,}" for each in splits.values()],
        "candidates": [f"{each.candidates:,}" for each in splits.values()],
        "candidates a query": [
            f"{each.group_sizes.min} to {each.group_sizes.max}, mean {each.group_sizes.mean:.1f}"
            for each in splits.values()
        ],
        "judged candidates": [f"{each.judged_share:.1%}" for each in splits.values()],
        "relevant a query": [f"{each.positives_per_query:.2f}" for each in splits.values()],
        "queries without relevant": [f"{each.queries_without_positive:,}" for each in splits.values()],
        "relevant, not candidates": [f"{each.positives_not_candidates:,}" for each in splits.values()],
    }
    return table(["", *splits], ([name, *cells] for name, cells in figures.items()))


def _example_lines(split: str, example: Example) -> list[str]:
    utterances = example.utterances
    turns = f" ({len(utterances)} turns, the last shown)" if len(utterances) > 1 else ""
    lines = [f"{split} {example.query}{turns}: {cut(utterances[-1], WIDTH)}"]
    return lines + [
        f"  {getattr(each, 'class_', each.grade):>2}  {each.document}: {cut(each.text, WIDTH)}"
        for each in example.candidates
    ]


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
    from trainables.evaluation.significance import CORRECTIONS
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
        "corrections": CORRECTIONS,
        "searchers": SEARCHERS,
        "schedulers": SCHEDULERS,
    }


SEARCHES = "searches"  # in a storage: what can be listed besides the registries


class ListCommand(Command):
    """Examples:
    tune-cl list scorings
    tune-cl list searches --storage /shared/runs"""

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = [*kinds(), SEARCHES]
        parser.add_argument("kind", choices=names, help=", ".join(names))
        parser.add_argument("--storage", default=DEFAULT_STORAGE, help=f"of searches: {STORAGE_HELP}")

    def execute(self, options: Namespace) -> list[Listed] | list[SearchEntry]:
        """Raises ConfigError for a storage that cannot be used."""
        if options.kind == SEARCHES:
            return searches_in(options.storage)
        return [Listed(one.name, one.summary, _source(one)) for one in kinds()[options.kind].entries.values()]

    def render(self, document: list[Listed] | list[SearchEntry]) -> str:
        if not document:
            return "no searches here yet; tune-cl run starts one"
        return table([one.name for one in fields(document[0])], ([*vars(entry).values()] for entry in document))


@dataclass(frozen=True)
class Listed:
    """A part that can be named in a configuration."""

    name: str
    summary: str
    source: str


def _source(entry: Entry[Any]) -> str:
    """Where an entry comes from; for a plug-in's, also its file or module."""
    from trainables.core.plugins import plugin_of

    plugin = plugin_of(entry)
    return " in ".join(filter(None, [entry.source, plugin.label if plugin else ""]))


@dataclass(frozen=True)
class SearchEntry:
    """A search in one line; of one that is damaged, name and state alone. verdict: None before `tune-cl confirm`."""

    name: str
    data: str | None
    trials: int | None
    state: str
    verdict: str | None


def searches_in(storage: str) -> list[SearchEntry]:
    """The searches of a storage, by name; of one that is damaged, what is wrong is said."""
    entries = []
    for name in sorted(search_folder_of(storage, "").search_names()):
        try:
            entries.append(_described(existing_search_folder(storage, name)))
        except DataError as error:
            say("\n".join(error.lines()))
            entries.append(SearchEntry(name, None, None, "damaged", None))
    return entries


def _described(search_folder: SearchFolder) -> SearchEntry:
    state = replay(read_events(search_folder.journal))
    verdict = last_verdict(search_folder.folder, "test")
    ended = "finished" if state.end else "not finished"
    return SearchEntry(search_folder.name, state.data["name"], len(state.trials), ended, verdict and verdict.verdict)
