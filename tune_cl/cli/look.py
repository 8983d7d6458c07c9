"""What there is: data, list, schema, cluster, completion."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tune_cl.cli import COMMANDS, Command, command_of, parser_of
from tune_cl.cli.options import add_overrides, keys
from tune_cl.cli.tables import table
from tune_cl.command_options import DATA_HELP
from tune_cl.history.journal import FILE
from tune_cl.history.search_folder import DEFAULT_STORAGE
from tune_cl.report.wording import cut
from tune_cl.templates import TEMPLATES

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


class ListCommand(Command):
    """Example: tune-cl list scorings"""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=kinds(), help=", ".join(kinds()))

    def execute(self, options: Namespace) -> list[Listed]:
        return [Listed(one.name, one.summary, _source(one)) for one in kinds()[options.kind].entries.values()]

    def render(self, document: list[Listed]) -> str:
        return table(["name", "summary", "source"], ([one.name, one.summary, one.source] for one in document))


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


class SchemaCommand(Command):
    """Example: tune-cl schema > schema.json

    With this first line in a search space beside it, editors that know YAML complete and check its keys:

        # yaml-language-server: $schema=schema.json"""

    def execute(self, options: Namespace) -> dict[str, Any]:
        from tune_cl.experiment.space_schema import space_schema

        return space_schema()

    def render(self, document: dict[str, Any]) -> str:
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


class ClusterCommand(Command):
    """Examples:
      tune-cl cluster aws > cluster.yaml
      tune-cl cluster local > cluster.local.yaml

    Prints a cluster file to fill in; the documentation has the next steps (Clusters). aws and local are for `ray up` in
    a checkout, which is copied to the nodes; kuberay-storage and then kuberay are for `kubectl apply`."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", metavar="KIND", help=", ".join(TEMPLATES.entries))

    def execute(self, options: Namespace) -> dict[str, Any]:
        path = TEMPLATES[options.kind]
        return {"file": path.name, "text": path.read_text(encoding="utf-8")}

    def render(self, document: dict[str, Any]) -> str:
        return document["text"].rstrip("\n")


NAMES = {  # an argument's attribute -> the names that it takes, besides paths
    "space": lambda: kinds()["spaces"],
    "scoring": lambda: kinds()["scorings"],
    "pacing": lambda: kinds()["pacings"],
    "ranker": lambda: kinds()["rankers"],
    "correction": lambda: kinds()["corrections"],
    "data": lambda: ["docstrings"],
    "overrides": lambda: [f"{key}=" for key in keys()],
}
SEARCHES = {  # what completes the name of a search, by shell
    "bash": f"""_tune_cl_searches() {{
  compgen -W "$(compgen -G '{DEFAULT_STORAGE}/*/{FILE}' | cut -d/ -f3)" -- "$1"
}}""",
    "zsh": f"""_tune_cl_searches() {{ local found=({DEFAULT_STORAGE}/*/{FILE}(N:h:t)); compadd -a found; }}""",
    "fish": f"""function _tune_cl_searches
    set -l found {DEFAULT_STORAGE}/*/{FILE}
    string replace -rf '.*/(.*)/.*' '$1' $found
end""",
}


class CompletionCommand(Command):
    """Example: tune-cl completion bash

    For bash, add this line to ~/.bashrc; for zsh, the same with zsh to ~/.zshrc:

        eval "$(tune-cl completion bash)"

    For fish: tune-cl completion fish > ~/.config/fish/completions/tune-cl.fish"""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "shell", choices=list(SEARCHES), help="the shell that reads the script: " + ", ".join(SEARCHES)
        )

    def execute(self, options: Namespace) -> dict[str, str]:
        return {"shell": options.shell, "script": script(options.shell)}

    def render(self, document: dict[str, str]) -> str:
        return document["script"]


def script(shell: str) -> str:
    """What makes a shell complete commands, options and names, by shtab."""
    import shtab

    program = ArgumentParser("tune-cl")
    commands = program.add_subparsers()
    for name, summary in COMMANDS.items():
        parser = commands.add_parser(name, help=summary, add_help=False, parents=[parser_of(name, command_of(name))])
        for action in parser._actions:
            if action.dest == "name" and not action.option_strings:
                offered = dict.fromkeys(SEARCHES, "_tune_cl_searches") | {"fish": "(_tune_cl_searches)"}
                vars(action)["complete"] = offered  # what shtab reads
            elif known := action.choices or NAMES.get(action.dest, list)():
                action.choices = [str(one) for one in known]
    return shtab.complete(program, shell, preamble=SEARCHES[shell])
