"""Example: tune-cl completion bash

For bash, add this line to ~/.bashrc; for zsh, the same with zsh to ~/.zshrc:

    eval "$(tune-cl completion bash)"

For fish: tune-cl completion fish > ~/.config/fish/completions/tune-cl.fish"""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from shlex import quote

from search_spaces import SPACES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.evaluation.significance import CORRECTIONS
from trainables.rankers import RANKERS
from tune_cl.cli import COMMANDS, module_of, parser_of
from tune_cl.cli.options import keys
from tune_cl.history.journal import FILE
from tune_cl.history.search_folder import DEFAULT_STORAGE

NAMES = {  # an argument's attribute -> the names that it takes, besides paths
    "space": lambda: SPACES,
    "scoring": lambda: SCORINGS,
    "pacing": lambda: PACINGS,
    "ranker": lambda: RANKERS,
    "correction": lambda: CORRECTIONS,
    "data": lambda: ["docstrings"],
    "overrides": lambda: [f"{key}=" for key in keys()],
}


def actions(command: str) -> Iterator[Action]:
    """The arguments that a command's help shows."""
    parser = parser_of(command, module_of(command))
    yield from (action for action in parser._actions if action.help is not SUPPRESS)


def words(action: Action, searches: str = "") -> list[str]:
    """The values of an argument that can be listed. `searches`: what the shell expands to the names of searches."""
    if action.dest == "name" and not action.option_strings:
        return [searches]
    found: Iterable[str] = action.choices or NAMES.get(action.dest, list)()
    return list(map(str, found))


BASH_SEARCHES = f"$(compgen -G '{DEFAULT_STORAGE}/*/{FILE}' | cut -d/ -f3)"
FISH_SEARCHES = f"(set -l found {DEFAULT_STORAGE}/*/{FILE}; string replace -rf '.*/(.*)/.*' '$1' $found)"


def bash() -> str:
    """A function that looks at the command, the option before the cursor and the beginning of the word."""
    values, plain = [], []
    for command in COMMANDS:
        known = list(actions(command))
        for action in known:
            if action.option_strings and action.nargs != 0:
                cases = "|".join(f'"{command} {option}"' for option in action.option_strings)
                values.append(f"    {cases}) words={quote(' '.join(words(action)))} ;;")
        options = [option for action in known for option in action.option_strings]
        positional = [word for action in known if not action.option_strings for word in words(action, BASH_SEARCHES)]
        plain.append(f"      {command}) words={quote(' '.join([*positional, *options]))} ;;")
    return "\n".join(
        [
            "_tune_cl() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
            '  local command="${COMP_WORDS[1]}" words',
            '  case "$command $previous" in',
            *values,
            '    *) case "$command" in',
            *plain,
            "    esac ;;",
            "  esac",
            '  [ "$COMP_CWORD" -gt 1 ] || words=' + quote(" ".join(COMMANDS)),
            '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
            '  [[ "${COMPREPLY[0]}" != *= ]] || compopt -o nospace 2>/dev/null || true',
            "}",
            "complete -o default -F _tune_cl tune-cl",
        ]
    )


def zsh() -> str:
    return "\n".join(["autoload -U +X compinit && compinit", "autoload -U +X bashcompinit && bashcompinit", bash()])


def fish() -> str:
    lines = []
    for command, summary in COMMANDS.items():
        lines.append(f"complete -c tune-cl -n __fish_use_subcommand -f -a {command} -d {_fish(summary)}")
        for action in actions(command):
            here = f"complete -c tune-cl -n '__fish_seen_subcommand_from {command}'"
            named = "".join(f" -l {option[2:]}" for option in action.option_strings if option.startswith("--"))
            known = words(action, FISH_SEARCHES)
            listed = f" -a {_fish(' '.join(known))}" if known else ""
            takes = " -r" if action.option_strings and action.nargs != 0 else ""
            if named or listed:
                lines.append(f"{here}{named}{takes}{listed} -d {_fish(action.help or '')}")
    return "\n".join(lines)


def _fish(text: str) -> str:
    """The text in fish's single quotes."""
    return "'" + text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script: " + ", ".join(SHELLS))


def execute(options: Namespace) -> dict[str, str]:
    return {"shell": options.shell, "script": SHELLS[options.shell]()}


def render(document: dict[str, str]) -> str:
    return document["script"]
