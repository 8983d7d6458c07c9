"""`tune-cl completion`: what real shells offer after the script is read."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.support.console import Console
from tune_cl.cli import COMMANDS
from tune_cl.cli.look import SEARCHES, kinds

LINES = {
    "tune-cl comp": "completion",
    "tune-cl run quick": "quickstart",
    "tune-cl run --ranker conv": "conv_knrm",
    "tune-cl train --set curriculum.pac": "curriculum.pacing=",
    "tune-cl confirm x --correction h": "holm",
    "tune-cl list pac": "pacings",
    "tune-cl pace roo": "root",
    "tune-cl score docstrings bm25": "bm25_std",
    "tune-cl resume --stor": "--storage",
    "tune-cl run --storage any": "",  # the shell itself completes paths
}
BASH = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_tune_cl; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.mark.slow
@pytest.mark.parametrize("shell", SEARCHES)
def test_a_shell_offers_commands_options_and_names(shell: str, console: Console) -> None:
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    path = console.folder / f"completion.{shell}"
    path.write_text(console.document(f"completion {shell}")["script"])

    def offered(line: str) -> list[str]:
        program = {
            "bash": ["bash", "-c", BASH, "bash", str(path), *line.split(" ")],
            "fish": ["fish", "-c", f"source {path}; complete -C '{line}'"],
            "zsh": ["zsh", "-f", "-c", f'autoload -U compinit; compinit -D; eval "$(<{path})"; echo $_comps[tune-cl]'],
        }[shell]
        out = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        return [row.split("\t")[0] for row in out.splitlines() if row]

    if shell == "zsh":
        assert offered("") == ["_shtab_tune_cl"]
        return
    for line, word in LINES.items():
        assert offered(line) == [word] * bool(word) or (shell == "fish" and (not word or word in offered(line))), line
    assert shell == "fish" or offered("tune-cl ") == list(COMMANDS)


@pytest.mark.parametrize("shell", SEARCHES)
def test_every_command_is_in_every_script(shell: str, console: Console) -> None:
    found = console.document(f"completion {shell}")
    assert found["shell"] == shell and all(name in found["script"] for name in [*COMMANDS, *kinds()])
