"""Search-space files: where they are, and how their YAML is read and written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from math import inf
from pathlib import Path, PurePath
from typing import Any, ClassVar

import numpy as np
import yaml
from yaml.constructor import ConstructorError

from search_spaces import SPACES
from trainables.core.errors import ConfigError, Problem, nearest
from trainables.core.files import opened
from tune_cl.space.parameters import range_in_yaml

MOST_BYTES = 1 << 20  # PyYAML takes seconds for as much
TEXTS = ("name", "description", "source")  # keys whose values are words for people
INVISIBLE = re.compile("[\u00a0\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")


class Loader(yaml.SafeLoader):
    """Safe YAML with the scalars of YAML 1.2 and JSON: 1e-3 is a number, yes and no are texts. What YAML 1.1 reads as
    another number than it looks like, 1:30 and 010, is refused."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}


class Dumper(yaml.SafeDumper):
    """Quotes strings that Loader would take for numbers."""


DIGITS = list("-+.0123456789")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
TAG, AMBIGUOUS = "tag:yaml.org,2002:", "!ambiguous"
SCALARS = {  # by their tag, in the order in which they are tried: a pattern, and what a scalar may begin with
    "null": (r"(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    "bool": (r"(true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    AMBIGUOUS: (r"[-+]?([0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?|0[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?)$", DIGITS),
    "int": (r"([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", DIGITS),
    "float": (rf"({FLOAT.pattern[:-1]}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$", DIGITS),
}
for tag, (pattern, begins) in SCALARS.items():
    Loader.add_implicit_resolver(tag if tag == AMBIGUOUS else TAG + tag, re.compile(pattern), begins)
Dumper.add_implicit_resolver(f"{TAG}float", FLOAT, DIGITS)
Dumper.add_implicit_resolver(f"{TAG}int", re.compile(r"0o[0-7]+$"), ["0"])


def refuse_ambiguous(_: Loader, node: yaml.ScalarNode) -> None:
    """Raises ConstructorError for a number in base 60, or with zeros before it (base 8 for some)."""
    if ":" in node.value:
        seconds = 0.0
        for part in node.value.lstrip("+-").split(":"):
            seconds = 60 * seconds + float(part)
        right = f"{seconds:g}, if that is meant, or the text in quotation marks: '{node.value}'"
        raise ConstructorError(None, None, f"{node.value} is a number in base 60 for some", node.start_mark, right)
    plain = re.sub(r"^([-+]?)0+(?=[0-9])", r"\1", node.value)
    right = f"{plain}, or the text in quotation marks: '{node.value}'"
    raise ConstructorError(None, None, f"{node.value} begins with a zero: base 8 for some", node.start_mark, right)


Loader.add_constructor(AMBIGUOUS, refuse_ambiguous)


def dump_yaml(tree: Mapping[str, Any]) -> str:
    """YAML that `parse_yaml` reads back as an equal mapping."""
    return yaml.dump(dict(tree), Dumper=Dumper, sort_keys=False, allow_unicode=True)


def on_a_line(value: Any) -> str:
    """A value as it would be written after a key, on one line."""
    text = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=True, width=inf)
    return text.removesuffix("...\n").strip()


def parse_yaml(text: str, location: str) -> Any:
    """The value of a YAML text. Raises ConfigError at `location`:line for bad syntax and what `doubts` finds."""
    value, problems = parsed(text, location)
    if problems:
        raise ConfigError(problems)
    return value


def parsed(text: str, location: str) -> tuple[Any, list[Problem]]:
    """The value of a YAML text, and what `doubts` finds in it. Raises ConfigError at `location`:line for bad syntax."""
    problems: list[Problem] = []
    line, right = 1, "valid YAML"
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        problems = doubts(node, location)
        return loader.construct_document(node) if node else None, problems
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        wrong, right = error.problem or "not YAML", error.note or right
        if wrong == "found unhashable key":
            wrong = "a list or a mapping stands as a key"
    except RecursionError:
        wrong = "nested too deeply"
    except (yaml.YAMLError, ValueError, TypeError) as error:  # a control character, an impossible date, ...
        wrong = " ".join(str(error).split())
    raise ConfigError([*problems, Problem(f"{location}:{line}", wrong, right)]) from None


def doubts(root: yaml.Node | None, location: str) -> list[Problem]:
    """Problems of keys that a mapping holds twice, of which PyYAML would keep the last, and of invisible characters.
    Raises ConfigError for aliases, which are not followed."""
    problems: list[Problem] = []
    aliases: list[Problem] = []
    stack = [] if root is None else [(root, root.start_mark.line)]
    visited: set[int] = set()
    while stack:
        node, above = stack.pop()
        if id(node) in visited:
            aliases.append(Problem(f"{location}:{above + 1}", "an alias is not followed", "the value written out"))
            continue
        visited.add(id(node))
        line = node.start_mark.line
        if isinstance(node, yaml.ScalarNode) and (hidden := INVISIBLE.search(node.value)):
            name = unicodedata.name(hidden[0], "a control character").lower()
            wrong = f"holds an invisible character, U+{ord(hidden[0]):04X} ({name})"
            problems.append(Problem(f"{location}:{line + 1}", wrong, "the line typed anew"))
        elif isinstance(node, yaml.SequenceNode):
            stack += [(item, line) for item in reversed(node.value)]
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in reversed(node.value):  # the last is visited next
                if key.value not in TEXTS:
                    stack.append((value, key.start_mark.line))
                stack.append((key, key.start_mark.line))
            for key, _ in node.value:
                at = key.start_mark.line
                if isinstance(key, yaml.ScalarNode):  # others are refused when the value is constructed
                    if key.value in lines:
                        wrong = f"key '{key.value}' stands on line {lines[key.value] + 1} already"
                        problems.append(Problem(f"{location}:{at + 1}", wrong, "each key once"))
                    lines[key.value] = at
    if aliases:
        raise ConfigError([*problems, *aliases])
    return problems


def as_yaml_reads(value: Any) -> Any:
    """A value from Python as `parse_yaml` would give it: lists for tuples, texts for paths, Python's own numbers for
    NumPy's, our ranges for those of Optuna and ray.tune. All else stays, for the checks of keys to refuse."""
    value = range_in_yaml(value)
    if isinstance(value, Mapping):
        return {str(key): as_yaml_reads(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_yaml_reads(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def find_space(space: str) -> Path:
    """The file of a search space, given by its path or by the name of a space that comes with tune_cl."""
    path = Path(space)
    if space in SPACES:
        return SPACES[space]
    if path.is_file():
        return path
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(Problem(space, "no such file", f"a YAML file, or one of {', '.join(SPACES)}"))
    right = f"{nearest(space, SPACES)}; or a YAML file"
    raise ConfigError(Problem("SPACE", f"unknown search space '{space}'", right))


def read_space(path: Path) -> tuple[Mapping[str, Any], list[Problem]]:
    """The mapping in a search-space file, and what `doubts` finds; raises ConfigError naming file:line."""
    try:
        with opened(path, most=MOST_BYTES) as file:
            text = file.read().decode()
    except OSError as error:
        raise ConfigError(Problem(str(path), f"cannot be read ({error.strerror})", "a YAML file in UTF-8")) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        wrong = f"byte {error.object[error.start]:#04x} is not UTF-8"
        raise ConfigError(Problem(f"{path}:{line}", wrong, "a YAML file in UTF-8")) from None
    tree, problems = parsed(text, str(path))
    if not isinstance(tree, Mapping):
        wrong = Problem(f"{path}:1", "not a mapping", "keys of the configuration, some with a range")
        raise ConfigError([*problems, wrong])
    return tree, problems
