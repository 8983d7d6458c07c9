"""`tune-cl completion`: what real shells offer after the script is read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cli_calls import document
from tune_cl.cli import COMMANDS, main
from tune_cl.cli.commands.completion import SHELLS
from tune_cl.cli.commands.list import KINDS

LINES = [
    (["tune-cl", "comp"], ["completion"]),
    (["tune-cl", "run", "quick"], ["quickstart"]),
    (["tune-cl", "run", "--ranker", "conv"], ["conv_knrm"]),
    (["tune-cl", "train", "--set", "curriculum.pac"], ["curriculum.pacing="]),
    (["tune-cl", "confirm", "x", "--correction", "h"], ["holm"]),
    (["tune-cl", "list", "pac"], ["pacings"]),
    (["tune-cl", "pace", "roo"], ["root"]),
    (["tune-cl", "score", "docstrings", "bm25"], ["bm25_std"]),
    (["tune-cl", "resume", "--stor"], ["--storage"]),
    (["tune-cl", "run", "--storage", "any"], []),  # the shell itself completes paths
]


def script(shell: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    path = folder / f"completion.{shell}"
    path.write_text(capfd.readouterr().out)
    return path


def shell_says(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.slow
def test_bash_offers_commands_options_and_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = script("bash", tmp_path, capfd)
    program = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tune_cl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    for words, offered in LINES:
        assert [word for word in shell_says("bash", "-c", program, "bash", str(path), *words) if word] == offered, words
    offered = shell_says("bash", "-c", program, "bash", str(path), "tune-cl", "")
    assert offered == list(COMMANDS)


@pytest.mark.slow
def test_fish_offers_commands_options_and_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if not shutil.which("fish"):
        pytest.skip("needs fish")
    path = script("fish", tmp_path, capfd)
    for words, offered in LINES[:-1]:
        line = " ".join(words)
        found = [row.split("\t")[0] for row in shell_says("fish", "-c", f"source {path}; complete -C '{line}'")]
        assert set(offered) <= set(found), line


@pytest.mark.slow
def test_zsh_reads_the_script(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if not shutil.which("zsh"):
        pytest.skip("needs zsh")
    path = script("zsh", tmp_path, capfd)
    assert shell_says("zsh", "-f", "-c", f"source {path}; echo $_comps[tune-cl]") == [
        "_bash_complete -o default -F _tune_cl"
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_every_script(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = document(capfd, "completion", shell)
    assert found["shell"] == shell and all(name in found["script"] for name in [*COMMANDS, *KINDS])
