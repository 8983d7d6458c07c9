"""Writes what the reference pages and the schema of search spaces repeat of the code.

    python docs/reference.py

In a page of docs/reference, what stands between <!-- from the code: NAME --> and <!-- end --> is replaced; TABLES has
the names. tests/test_reference.py compares. What a key, an option or a part does is said where the code defines it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic.fields import FieldInfo

from search_spaces import SPACES
from trainables.config.keys import NEEDS, configuration_fields, ranker_fields
from trainables.core.validation import OneOf, adapter
from trainables.rankers import RANKERS
from trainables.rankers.settings import WordSettings
from trainables.training.losses import LOSSES
from tune_cl.api.listing import PLACES
from tune_cl.cli.commands import FOR_ALL, FUNCTIONS, GROUP
from tune_cl.cli.commands import command as made
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.search_keys import SEARCH_KEYS, SEARCH_NEEDS
from tune_cl.experiment.tree import NEVER_OPENED, SHORT
from tune_cl.search.phases import phases_of
from tune_cl.space.parameters import KINDS as RANGES
from tune_cl.space.space_files import TEXTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
SCHEMA = ROOT / "search_spaces" / "schema.json"
KINDS = {kind: resolve_name(place) for kind, place in PLACES.items()}
MADE = re.compile(r"(<!-- from the code: (.*?) -->\n).*?(\n<!-- end -->)", re.DOTALL)
KEY = re.compile(r"(?<![\w`/])(?:data|curriculum|training|evaluation|ranker|search)\.[A-Za-z_][\w.]*\w")
SENTENCE = re.compile(r"[^.?]+[.?](?=\s|$)")
MOST_NAMES = 5  # of a registry, in the row of a key or of an argument
MOST_SHARED = 2  # commands that have an option; one that more have is told once
MORE = {  # key -> where it is explained
    "evaluation.retrieve": "rankers.md#retrieval",
    "data.source": "data.md",
    "data.identical_ids": "data.md#what-is-left-out",
    "data.strict": "data.md#what-is-left-out",
    "data.label_noise.share": "data.md#wrong-training-labels",
    "curriculum.scoring": "curricula.md#scoring",
    "curriculum.pacing": "curricula.md#pacing",
    "curriculum.weighting": "curricula.md#weighting",
    "curriculum.subset": "lambdamart.md#curricula",
    "curriculum.file": "curricula.md#difficulty-of-your-own",
    "curriculum.negatives.schedule": "curricula.md#negatives",
    "curriculum.teacher.ranker": "losses.md#the-teacher",
    "training.loss": "losses.md",
    "training.in_batch_negatives": "losses.md#in-batch-negatives",
    "training.pretrain_data": "../how-to/pretraining.md",
    "search.searcher": "search.md#samplers-searchsearcher",
    "search.scheduler": "schedulers.md",
    "search.grace": "schedulers.md#grace-curricula-are-protected-until-they-end",
    "search.trials": "../explanation/search.md",
}


FIRST = (  # of each section: what most people set, in this order; these rows come first
    "data.source", "data.columns.query", "data.columns.document", "data.columns.label", "data.split", "data.candidates",
    "curriculum.pacing", "curriculum.scoring", "curriculum.delta", "curriculum.T", "curriculum.weighting",
    "curriculum.m", "training.loss", "training.lr", "training.batch_size", "training.max_iterations",
    "training.batches_per_iteration", "training.negatives", "training.max_length", "metric",
    "evaluation.relevance_level", "seed", "ranker.name", "ranker.model", "search.trials", "search.searcher",
    "search.scheduler", "search.hours", "search.resources.gpu", "search.max_concurrent",
)  # fmt: skip
MINUTES = {  # of each space, by `tune-cl check` on two cores; docs/reference/spaces.md says of what data
    "dense": "by `check`: needs an encoder",
    "distillation": "10",
    "everything": "215",
    "ferro2018": "by `check`: depends on the data",
    "ferro2018_plain": "by `check`: depends on the data",
    "macavaney2020_curricula": "340",
    "macavaney2020_end": "150",
    "negatives": "8",
    "noisy_labels": "3",
    "penha2020_pacing": "35",
    "penha2020_scoring": "40",
    "quickstart": "1",
    "similarity_learning": "5",
}


def main() -> None:
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")


def written(page: str) -> str:
    """A page with its tables as the code has them."""
    return MADE.sub(lambda part: f"{part[1]}\n{TABLES[part[2]]()}\n{part[3]}", page)


def schema() -> str:
    """The JSON Schema of search spaces, on one line."""
    return json.dumps(space_schema(), separators=(",", ":"), ensure_ascii=False) + "\n"


Schema = dict[str, Any]
NUMBERS = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
LIST = {"type": "array", "minItems": 1}
RANGE = {
    "type": "object",
    "properties": {"uniform": NUMBERS, "loguniform": NUMBERS, "int": NUMBERS, "choice": LIST, "when": {}},
    "additionalProperties": False,
    "anyOf": [{"required": [kind]} for kind in RANGES],
}


def space_schema() -> Schema:
    """Where a key may be opened, its value, a range or a list of values. Keys stand nested, or dotted, which is checked
    at the top alone."""
    texts = {name: {"type": ["string", "null"]} for name in TEXTS}
    top = section(texts | {"baseline": {"type": ["object", "null"]}, "parameters": {}})
    for key, field in {**configuration_fields(RANKERS), **SEARCH_KEYS}.items():
        value: Schema = adapter(field).json_schema()
        if "$ref" in str(value):  # a teacher's ranker
            value = {"type": ["string", "object", "null"]}
        if not key.startswith(("search.", *NEVER_OPENED)):
            value = opened(value)
        value["description"] = field.description or ""
        *path, last = key.split(".")
        place = top
        for name in path:
            place = place["properties"].setdefault(name, section({}))
        place["properties"][last] = top["properties"][key] = value
    for name, key in SHORT.items():
        top["properties"][name] = {"anyOf": [top["properties"][name], top["properties"][key]]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "search space of tune_cl",
        **top,
        "patternProperties": {r"^(parameters|baseline)\.": {}},
        "$defs": {"range": RANGE, "list": LIST},
    }


def section(properties: Schema) -> Schema:
    dotted = {r"\.": {}}
    return {
        "type": ["object", "null"],
        "properties": properties,
        "patternProperties": dotted,
        "additionalProperties": False,
    }


def opened(value: Schema) -> Schema:
    """A value, a range or the list of its values."""
    forms = [value, {"$ref": "#/$defs/range", "properties": {"choice": {"items": value}}}]
    takes_lists = any(part.get("type") == "array" for part in value.get("anyOf", [value]))
    return {"anyOf": forms if takes_lists else [*forms, {"$ref": "#/$defs/list", "items": value}]}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


# --- Keys.


def keys(sections: tuple[str, ...]) -> str:
    """The keys of some sections; `ranker.*` but `ranker.name` have a table of their own."""
    needed = NEEDS | SEARCH_NEEDS
    fields = {key: field for key, field in (configuration_fields(()) | SEARCH_KEYS).items() if key.startswith(sections)}
    rows = ([*_key(key, fields[key]), _needs(needed.get(key, ""))] for key in _in_order(fields))
    return table(["key", "default", "values", "meaning", "needs"], rows)


def _needs(words: str) -> str:
    """The condition of a key; most keys are for rankers over texts."""
    return words.replace(", and a ranker over texts", "").replace("a ranker over texts", "*texts*")


def _in_order(keys: Iterable[str]) -> list[str]:
    """Keys with those that most people set first."""
    distinct = dict.fromkeys(keys)
    return [*(key for key in FIRST if key in distinct), *(key for key in distinct if key not in FIRST)]


def _key(key: str, field: FieldInfo) -> list[str]:
    default = yaml(field.get_default(call_default_factory=True))
    name = f"**`{key}`**" if key in FIRST else f"`{key}`"
    return [name, default, _values(field), _meaning(key, field)]


def _values(field: FieldInfo) -> str:
    names = next((part.names for part in field.metadata if isinstance(part, OneOf)), ())
    kind = next((kind for kind, registry in KINDS.items() if registry is names), None)
    if kind and len(KINDS[kind]) > MOST_NAMES:
        return f"one of the [{kind}](#names-to-choose-from)"
    return in_words(adapter(field).json_schema())


TYPES = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}


def in_words(schema: Mapping[str, Any]) -> str:
    """What a JSON Schema of plain values takes: 'a number in (0, 1]', 'one of a, b', ..."""
    if "anyOf" in schema:
        parts = [in_words(part) for part in schema["anyOf"]]
        return (", or " if any("," in part for part in parts[:-1]) else " or ").join(parts)
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "examples" in schema:
        return f"one of {', '.join(schema['examples'])}, or {schema['$comment']}"
    words = TYPES.get(schema.get("type", ""), "a value of another kind")
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    bounded = (low, above) != (None, None) and (high, below) != (None, None)
    if low is not None:
        words += f" in [{low:g}" if bounded else f", {low:g} or more"
    elif above is not None:
        words += f" in ({above:g}" if bounded else f" above {above:g}"
    if high is not None:
        words += f", {high:g}]" if bounded else f", {high:g} or less"
    elif below is not None:
        words += f", {below:g})" if bounded else f" below {below:g}"
    return words


def _meaning(key: str, field: FieldInfo) -> str:
    words = KEY.sub(lambda key: f"`{key[0]}`", field.description or "")
    return f"{words} ([more]({MORE[key]}))" if key in MORE else words


def yaml(value: Any) -> str:
    """A default as YAML has it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(yaml, value))}]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def ranker_keys() -> str:
    """A row for each key, or for each of its forms where rankers differ."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for key in _in_order(key for name in RANKERS for key in ranker_fields(name) if key != "ranker.name"):
        for name in RANKERS:
            if field := ranker_fields(name).get(key):
                rows.setdefault(tuple(_key(key, field)), []).append(name)
    filled = ([*row, _who(names)] for row, names in rows.items())
    return table(["key", "default", "values", "meaning", "rankers"], filled)


def _who(names: list[str]) -> str:
    groups = {
        "all over texts": [name for name, kind in RANKERS.items() if kind.reads == "texts"],
        "all over words": [name for name, kind in RANKERS.items() if issubclass(kind.settings, WordSettings)],
    }
    return next((words for words, group in groups.items() if group == names), _code(names))


def spaces() -> str:
    """What each shipped space asks, trains and takes: the question is the first of its file."""
    rows = []
    for name, path in SPACES.items():
        experiment = load_experiment(name)
        head = " ".join(line.lstrip("# ") for line in path.read_text(encoding="utf-8").splitlines()[1:12])
        question = next(text for text in SENTENCE.findall(head) if text.endswith("?")).strip()
        data = experiment.fixed.get("data.source", "yours")
        trials = phases_of(experiment).trials
        at_most = trials * experiment.base.run.training.max_iterations
        cells = [question, ", ".join(experiment.values("ranker.name")), data, f"{trials}", f"{at_most}", MINUTES[name]]
        rows.append([f"`{name}`", *cells])
    return table(["space", "question", "ranker", "data", "trials", "iterations at most", "minutes"], rows)


def names() -> str:
    """The names of each kind that a key may hold."""
    held = (kind for kind, registry in KINDS.items() if "." in registry.location or registry.location == "metric")
    rows = ([f"`{KINDS[kind].location}`", ", ".join(KINDS[kind]), f"`tune-cl list {kind}`"] for kind in held)
    return table(["key", "names", "in full"], rows)


# --- Parts.


def parts(kind: str) -> str:
    """The entries of a registry, as `tune-cl list` shows them."""
    rows = ([f"`{name}`", entry.summary, entry.source] for name, entry in KINDS[kind].entries.items())
    return table(["name", "what it is", "source"], rows)


SAMPLES = {
    "pointwise": "a document",
    "pairwise": "a pair",
    "listwise": "a list",
    "classification": "a pair to classify",
}


def losses() -> str:
    rows = []
    for name, entry in LOSSES.entries.items():
        reads = [*sorted(f"training.{key}" for key in entry.value.needs), *(["teacher"] * entry.value.reads_teacher)]
        rows.append([f"`{name}`", SAMPLES[entry.value.kind], entry.summary, ", ".join(reads), entry.source])
    return table(["loss", "a sample is", "loss of a sample", "reads", "source"], rows)


def rankers() -> str:
    common = ranker_fields("embedding").keys() - {"ranker.products"}
    rows = []
    for name, entry in RANKERS.entries.items():
        own = [f"{key.removeprefix('ranker.')}" for key in ranker_fields(name) if key not in common]
        rows.append([f"`{name}`", entry.summary, _code(own), entry.source])
    return table(["ranker", "score", "keys of its own", "source"], rows)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- Commands.


COMMANDS = {name: made(name) for name in FUNCTIONS}


def parameters(name: str) -> list[tuple[str, str]]:
    """Each argument and option of a command, and what it means; those of all commands left out."""
    context = COMMANDS[name].make_context(f"tune-cl {name}", [], resilient_parsing=True)
    records = [one.get_help_record(context) for one in COMMANDS[name].params if one not in FOR_ALL]
    return [_row(*record) for record in records if record]


def _row(argument: str, words: str) -> tuple[str, str]:
    return f"`{argument}`", KEY.sub(lambda key: f"`{key[0]}`", words.replace("  [", " ["))


def command(name: str) -> str:
    """The heading of a command, what its function says, and its own arguments."""
    summary, examples, *paragraphs = str(COMMANDS[name].help).split("\n\n")
    shown = examples.replace("\b", "").strip()
    own = [row for row in parameters(name) if row not in _shared()]
    text = [f"### tune-cl {name}", summary, f"```sh\n{shown}\n```"]
    text += [" ".join(paragraph.split()) for paragraph in paragraphs]
    return "\n\n".join([*text, table(["argument", "meaning"], own)] if own else text)


def shared_options() -> str:
    """What several commands take."""
    rows = [[*row, ", ".join(names)] for row, names in _shared().items()]
    for option in FOR_ALL:
        record = option.get_help_record(GROUP.make_context("tune-cl", [], resilient_parsing=True))
        rows.append([*_row(*record), "all"])
    return table(["option", "meaning", "commands"], rows)


def _shared() -> Mapping[tuple[str, str], list[str]]:
    """The options of more than MOST_SHARED commands, and these."""
    commands: dict[tuple[str, str], list[str]] = {}
    for name in COMMANDS:
        for row in parameters(name):
            if row[0].startswith("`-"):
                commands.setdefault(row, []).append(name)
    return {row: names for row, names in commands.items() if len(names) > MOST_SHARED}


def models() -> str:
    """What each ranker makes of each kind of model: a row for those of which they make the same."""
    sys.path.insert(0, str(ROOT))
    from tests.support.zoo import MAKERS
    from tests.support.zoo_table import RANKERS, REFUSED

    same: dict[tuple[str | None, ...], list[str]] = {}
    for kind in MAKERS:
        same.setdefault(REFUSED.get(kind, (None, None)), []).append(kind)
    rows = [
        ["; ".join(kinds), *(f"refused: {words}" if words else "equal" for words in cells)]
        for cells, kinds in same.items()
    ]
    return table(["model", *(f"`{ranker}`" for ranker in RANKERS)], rows)


def _tables() -> Iterator[tuple[str, Any]]:
    yield "keys", partial(keys, ("evaluation.", "metric", "seed", "ranker.name"))
    for section in ("data", "curriculum", "training", "search"):
        yield f"keys {section}", partial(keys, (f"{section}.",))
    yield from {"keys ranker": ranker_keys, "names": names, "losses": losses, "rankers": rankers}.items()
    yield "models", models
    for kind in KINDS.keys() - {"losses", "rankers", "spaces", "data"}:
        yield kind, partial(parts, kind)
    yield "options", shared_options
    yield "spaces", spaces
    for name in COMMANDS:
        yield f"command {name}", partial(command, name)


TABLES = dict(_tables())

if __name__ == "__main__":
    main()
