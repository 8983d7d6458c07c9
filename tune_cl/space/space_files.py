"""Search-space files: where they are, and how their YAML is read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, ClassVar

import numpy as np
import yaml

from search_spaces import SPACES
from trainables.core.errors import ConfigError, Problem, nearest

TEXTS = ("name", "description", "source")  # keys whose values are words for people


class Loader(yaml.SafeLoader):
    """Safe YAML with the scalars of YAML 1.2 and JSON: 1e-3 is a number, yes and no are texts. Keys stand once."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                None, None, "an alias is not followed: write the value out", self.peek_event().start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):  # others are refused by PyYAML
                if key.value in names:
                    raise yaml.MarkedYAMLError(None, None, f"key '{key.value}' stands twice", key.start_mark)
                names.add(key.value)
        return super().construct_mapping(node, deep)


class Dumper(yaml.SafeDumper):
    """Quotes strings that Loader would take for numbers."""


DIGITS = list("-+.0123456789")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
TAG = "tag:yaml.org,2002:"
SCALARS = {  # by their tag, in the order in which they are tried: a pattern, and what a scalar may begin with
    "null": (r"(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    "bool": (r"(true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9]*)$", DIGITS),
    "float": (rf"({FLOAT.pattern[:-1]}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$", DIGITS),
}
for tag, (pattern, begins) in SCALARS.items():
    Loader.add_implicit_resolver(TAG + tag, re.compile(pattern), begins)
Dumper.add_implicit_resolver(f"{TAG}float", FLOAT, DIGITS)


def dump_yaml(tree: Mapping[str, Any]) -> str:
    """YAML that `parse_yaml` reads back as an equal mapping."""
    return yaml.dump(dict(tree), Dumper=Dumper, sort_keys=False, allow_unicode=True)


def parse_yaml(text: str, location: str) -> Any:
    """The value of a YAML text. Raises ConfigError at `location`:line for bad syntax."""
    line = 1
    try:
        return yaml.load(text, Loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        wrong = error.problem or "not YAML"
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a control character, ...
        wrong = " ".join(str(error).split())
    raise ConfigError(Problem(f"{location}:{line}", wrong, "valid YAML, each key once")) from None


def as_yaml_reads(value: Any) -> Any:
    """A value from Python as `parse_yaml` would give it: lists for tuples, texts for paths, Python's own numbers for
    NumPy's. All else stays, for the checks of keys to refuse."""
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


def read_space(path: Path) -> Mapping[str, Any]:
    """The mapping in a search-space file; raises ConfigError naming file:line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(Problem(str(path), f"cannot be read ({error})", "a YAML file in UTF-8")) from None
    tree = parse_yaml(text, str(path))
    if not isinstance(tree, Mapping):
        raise ConfigError(Problem(f"{path}:1", "not a mapping", "keys of the configuration, some with a range"))
    return tree
