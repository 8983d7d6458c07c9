"""Search-space files: where they are, and how their YAML is read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from pathlib import Path, PurePath
from typing import Any, ClassVar

import numpy as np
import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from search_spaces import SPACES
from trainables.core.errors import ConfigError, Problem, nearest
from trainables.core.files import opened

MOST_BYTES = 1 << 20  # PyYAML takes seconds for as much


class Loader(yaml.SafeLoader):
    """Safe YAML with the scalars of YAML 1.2 and JSON: 1e-3 is a number, yes and no are texts. What YAML 1.1 reads as
    another number than it looks like, 1:30 and 010, is refused, and so are aliases."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()
            raise ComposerError(None, None, f"alias *{event.anchor} is not supported", event.start_mark)
        return super().compose_node(parent, index)


PLAIN = {"found unhashable key": "a list or a mapping stands as a key"}  # for PyYAML's messages


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
    """The value of a YAML text. Raises ConfigError at `location`:line for bad syntax and for keys given twice."""
    value, repeated = parsed(text, location)
    if repeated:
        raise ConfigError(repeated)
    return value


def parsed(text: str, location: str) -> tuple[Any, list[Problem]]:
    """The value of a YAML text, and the problems of keys given twice, of which the last counts. Raises ConfigError at
    `location`:line for bad syntax."""
    repeated: list[Problem] = []
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        repeated = repeated_keys(node, location)
        return loader.construct_document(node) if node else None, repeated
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        wrong = PLAIN.get(error.problem or "", error.problem) or "not YAML"
        raise ConfigError([*repeated, Problem(f"{location}:{line}", wrong, error.note or "valid YAML")]) from None
    except RecursionError:
        raise ConfigError([*repeated, Problem(f"{location}:1", "nested too deeply", "valid YAML")]) from None
    except (yaml.YAMLError, ValueError, TypeError) as error:  # a control character, an impossible date, ...
        wrong = " ".join(str(error).split())
        raise ConfigError([*repeated, Problem(f"{location}:1", wrong, "valid YAML")]) from None


def repeated_keys(node: yaml.Node | None, location: str) -> list[Problem]:
    """Problems of keys that a mapping holds twice: PyYAML would keep the last and drop the others silently."""
    if isinstance(node, yaml.SequenceNode):
        return [problem for item in node.value for problem in repeated_keys(item, location)]
    if not isinstance(node, yaml.MappingNode):
        return []
    problems, lines = [], {}
    for key, value in node.value:
        problems += repeated_keys(value, location)
        if not isinstance(key, yaml.ScalarNode):  # refused when the value is constructed
            continue
        line = key.start_mark.line + 1
        if key.value in lines:
            wrong = f"key '{key.value}' stands on line {lines[key.value]} already"
            problems.append(Problem(f"{location}:{line}", wrong, "each key once"))
        lines[key.value] = line
    return problems


def as_yaml_reads(value: Any) -> Any:
    """A value from Python as `parse_yaml` would give it: lists for tuples, texts for paths, Python's own numbers for
    NumPy's. Everything else stays, for the checks of keys to refuse."""
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
    if path.suffix not in (".yaml", ".yml") and not path.is_file():
        right = f"{nearest(space, SPACES)}; or a YAML file"
        raise ConfigError(Problem("SPACE", f"unknown search space '{space}'", right))
    if not path.is_file():
        raise ConfigError(Problem(space, "no such file", f"a YAML file, or one of {', '.join(SPACES)}"))
    return path


def read_space(path: Path) -> tuple[Mapping[str, Any], list[Problem]]:
    """The mapping in a search-space file, and the problems of keys given twice; raises ConfigError naming file:line."""
    try:
        with opened(path, most=MOST_BYTES) as file:
            text = file.read().decode()
    except OSError as error:
        raise ConfigError(Problem(str(path), f"cannot be read ({error.strerror})", "a YAML file in UTF-8")) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        wrong = f"byte {error.object[error.start]:#04x} is not UTF-8"
        raise ConfigError(Problem(f"{path}:{line}", wrong, "a YAML file in UTF-8")) from None
    tree, repeated = parsed(text, str(path))
    if not isinstance(tree, Mapping):
        wrong = Problem(f"{path}:1", "not a mapping", "keys of the configuration, some with a range")
        raise ConfigError([*repeated, wrong])
    return tree, repeated
