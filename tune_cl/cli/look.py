"""What there is: data, list, schema, cluster, completion."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from tune_cl.cli import COMMANDS, Command, command_of, parser_of
from tune_cl.cli.options import DATA_HELP, add_overrides, keys
from tune_cl.cli.tables import table
from tune_cl.history.journal import FILE
from tune_cl.history.search_folder import DEFAULT_STORAGE
from tune_cl.report.wording import cut
from tune_cl.templates import TEMPLATES

if TYPE_CHECKING:
    from trainables.config.keys import TrainingRun
    from trainables.core.registry import Entry, Registry
    from trainables.data.columns import RankingData, Split


EXAMPLES = 2  # of each split
SHOWN = 2  # candidates of an example
FILES = 12  # named, of those that are read
SHARED = ("queries", "documents", "document_texts")  # of two splits
WIDTH = 100  # characters of a text, at most
EVIDENCE = Path(__file__).parents[1] / "evidence.json"  # verdicts of docs/results.md's first round, counted
ADVICE = {  # by what BM25 says of the labels: the space to try first, overrides, the studies' searches on such data
    "wrong": (
        "noisy_labels",
        "data.label_noise.share=0",
        "where 40 % or more of the training labels were wrong at random",
    ),
    "lexical": (
        "noisy_labels",
        "data.label_noise.share=0",
        "where 40 % or more of the training labels were wrong and matched words of the query",
    ),
    "as dev": ("quickstart", "", "with the training labels as published"),
}


class DataCommand(Command):
    """Example: tune-cl data ../data/wikiqa

    Shows the form as which the data is read and its files, the size of each split, the overlap of splits, and two
    examples from each. Queries or texts in two splits make the test too easy."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("data", metavar="DATA", help=DATA_HELP)
        add_overrides(parser)

    def execute(self, options: Namespace) -> dict[str, Any]:
        from trainables.baselines.doubts import doubts
        from trainables.data import load_data, recognised
        from trainables.data.clusters import cluster_notes
        from trainables.data.hygiene import hygiene
        from trainables.data.label_check import check_labels
        from tune_cl.experiment.load import load_training_run

        run = load_training_run(None, options.overrides, options.data)
        data = load_data(run.data, run.evaluation.relevance_level)
        form, recognised_by, files = recognised(run.data.source)
        checked = check_labels(data, run.data, run.evaluation.relevance_level)
        return {
            "data": data.name,
            "source": run.data.source,
            "form": form,
            "recognised_by": recognised_by,
            "files": files,
            "digest": data.digest,
            "task": data.task,
            "documents": len(data.documents),
            "features": None if data.features is None else data.features.shape[1],
            "domains": list(data.domains),
            "relevance_level": run.evaluation.relevance_level,
            **hygiene(data, run.evaluation.relevance_level),
            "label_check": None if checked is None else {**asdict(checked), "finding": checked.finding},
            "try_first": None if checked is None else _advice(run.data.source, checked.finding),
            "given_away": _given_away(data, run),
            "notes": [*data.notes, *cluster_notes(data, run.data.query_clusters)],
            "warnings": doubts(data, run.data, run.evaluation.relevance_level),
            "examples": {name: _examples(data, split) for name, split in data.splits.items()},
        }

    def render(self, document: dict[str, Any]) -> str:
        features = f", {document['features']} features" if document["features"] else ""
        parts = [f"{document['data']}: {document['task']}, {document['documents']:,} documents{features}"]
        parts += [f"read as {document['form']} ({document['recognised_by']})"]
        if files := document["files"]:
            more = f" and {len(files) - FILES} more" if len(files) > FILES else ""
            parts += [f"from {', '.join(files[:FILES])}{more}"]
        ranking = document["task"] == "ranking"
        parts += ["", _ranking_table(document["splits"]) if ranking else _class_table(document["splits"]), ""]
        if shared := document["shared"]:
            rows = [[" and ".join(row["splits"]), *(row[name] for name in SHARED)] for row in shared]
            parts += [table(["shared by", *(name.replace("_", " ") for name in SHARED)], rows), ""]
        parts += _label_lines(document)
        if areas := document["given_away"]:
            shown = ", ".join(f"{name} {area:.2f}" for name, area in areas.items())
            parts += [f"separation of right from wrong training labels (area under the ROC curve): {shown}"]
        parts += [f"note: {note}" for note in document["notes"]]
        parts += [*(f"warning: {one}" for one in document["warnings"]), ""]
        for split, examples in document["examples"].items():
            for example in examples:
                parts += _example_lines(split, example)
        return "\n".join(parts).rstrip("\n")


def _given_away(data: RankingData, run: TrainingRun) -> dict[str, float] | None:
    """How well each weighting tells right training labels from wrong ones; None without label noise."""
    from trainables.curriculum.weighting import given_away
    from trainables.data import load_data

    if not run.data.label_noise.share or data.features is not None:
        return None
    noise = run.data.label_noise.model_copy(update={"share": 0.0})
    clean = load_data(run.data.model_copy(update={"label_noise": noise}), run.evaluation.relevance_level)
    return given_away(data.splits["train"], clean.splits["train"], run.evaluation.relevance_level)


def _examples(data: RankingData, split: Split) -> list[dict[str, Any]]:
    """The first queries of a split, with their best-graded and worst-graded candidates."""
    examples = []
    for index in range(min(EXAMPLES, len(split))):
        rows = range(int(split.offsets[index]), int(split.offsets[index + 1]))
        graded = sorted(rows, key=lambda row: -split.grade[row])
        shown = graded if len(graded) <= SHOWN else [graded[0], graded[-1]]
        query = int(split.query[index])
        candidates = [
            {"document": data.document_ids[int(split.document[row])], "grade": int(split.grade[row]),
             **({"class": data.classes[int(split.grade[row])]} if data.classes else {}),
             "text": data.documents[int(split.document[row])]}
            for row in shown
        ]  # fmt: skip
        utterances = data.query_utterances(query)
        examples.append({"query": data.query_ids[query], "utterances": utterances, "candidates": candidates})
    return examples


def _advice(source: str, finding: str) -> dict[str, Any] | None:
    """The command to try first, and what our studies found on such data. None if BM25 says nothing of the labels."""
    if finding not in ADVICE:
        return None
    space, override, where = ADVICE[finding]
    changes = f" --set {override}" if override else ""
    found = json.loads(EVIDENCE.read_text())[finding]
    return {
        "space": space,
        "command": f"tune-cl run {space} --data {quote(source)}{changes}",
        "studies": {"where": where, **found},
    }


def _label_lines(document: dict[str, Any]) -> list[str]:
    """What BM25 says of the training labels, which space to try first, and what the studies found on such data."""
    if (checked := document["label_check"]) is None:
        return []
    train, dev = (f"{checked[split]:.0%}" for split in ("train", "dev"))
    compared = f"labels: BM25 ranks a relevant document above another one in {train} of cases in train, {dev} in dev"
    if checked["finding"] == "wrong":
        share, low, high = (f"{min(value, 1):.0%}" for value in (checked["wrong_share"], *checked["ci95"]))
        compared += (
            f", as if {share} [{low}, {high}] of the training labels were wrong (or train and dev differ in kind)"
        )
    elif checked["finding"] == "lexical":
        compared += ", as if training labels came from matching words"
    elif checked["finding"] == "as dev":
        compared += "; no sign of wrong labels"
    else:
        return [f"{compared}; BM25 says nothing about labels here"]
    advice, studies = document["try_first"], document["try_first"]["studies"]
    lines = [compared, f"try first: {advice['command']}"]
    if studies["searches"]:
        lines.append(
            f"(in our studies {studies['where']}, a curriculum was better than plain training for new seeds in "
            f"{studies['better']} of {studies['searches']} searches, worse in {studies['worse']})"
        )
    return lines


def _ranking_table(splits: dict[str, Any]) -> str:
    rows = {
        "queries": lambda each: f"{each['queries']:,}",
        "candidates": lambda each: f"{each['candidates']:,}",
        "candidates a query": lambda each: "{min} to {max}, mean {mean:.1f}".format(**each["group_sizes"]),
        "judged candidates": lambda each: f"{each['judged_share']:.1%}",
        "relevant a query": lambda each: f"{each['positives_per_query']:.2f}",
        "queries without relevant": lambda each: f"{each['queries_without_positive']:,}",
        "relevant, not candidates": lambda each: f"{each['positives_not_candidates']:,}",
    }
    return table(["", *splits], ([name, *map(shown, splits.values())] for name, shown in rows.items()))


def _class_table(splits: dict[str, Any]) -> str:
    classes = next(iter(splits.values()))["classes"]
    return table(
        ["split", "pairs", *classes],
        ([name, each["queries"], *each["classes"].values()] for name, each in splits.items()),
    )


def _example_lines(split: str, example: dict[str, Any]) -> list[str]:
    utterances = example["utterances"]
    turns = f" ({len(utterances)} turns, the last shown)" if len(utterances) > 1 else ""
    lines = [f"{split} {example['query']}{turns}: {cut(utterances[-1], WIDTH)}"]
    return lines + [
        f"  {each.get('class', each['grade']):>2}  {each['document']}: {cut(each['text'], WIDTH)}"
        for each in example["candidates"]
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

    def execute(self, options: Namespace) -> list[dict[str, Any]]:
        entries = kinds()[options.kind].entries.values()
        return [{"name": entry.name, "summary": entry.summary, "source": _source(entry)} for entry in entries]

    def render(self, document: list[dict[str, Any]]) -> str:
        return table(["name", "summary", "source"], ([row["name"], row["summary"], row["source"]] for row in document))


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
