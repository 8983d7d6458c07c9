"""Small files that ask for much: memory, hours of reading, or code, their own or that of others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.data_folders import FORMS, write_folder
from tests.support.encoder_folders import save_encoder
from tests.support.trec_folder import write_trec_folder
from trainables.data.forms import letor
from tune_cl.cli import BAD_INPUT, DONE, main

pytestmark = pytest.mark.slow

# A process that runs a command for each case, and tells its status, what it says, and whether it attempted to reach
# another machine or to run a file of the folder.
WATCHED = """
import contextlib, io, json, sys
marks = []

def marked(*what):
    marks.append(str(what))
    raise OSError("no network in this test")

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        marked(event, arguments)
    if event == "exec" and str(getattr(arguments[0], "co_filename", "")).endswith("evil.py"):
        marked(event, arguments)

sys.addaudithook(watch)
from tune_cl.cli import main
told = {}
for case, command in json.loads(sys.argv[1]).items():
    marks.clear()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(command)
    told[case] = [status, err.getvalue(), list(marks)]
print(json.dumps(told))
"""


HOSTILE = (
    "!!python/object/apply:os.mkdir [{planted}]",
    "!!python/object/new:os.mkdir [{planted}]",
    "!!python/name:os.mkdir",
    "!!python/module:os",
    "!!python/tuple [{planted}]",
)


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.parametrize("where", ["file", "option"])
def test_yaml_cannot_run_code(attack: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted = tmp_path / "planted"
    space = tmp_path / "space.yaml"
    tree = "training: {lr: {choice: [0.1, 0.2]}}\n"
    space.write_text(tree + (f"seed: {attack.format(planted=planted)}\n" if where == "file" else ""))
    options = [] if where == "file" else ["--set", f"seed={attack.format(planted=planted)}"]
    assert main(["check", str(space), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {space}:2: " if where == "file" else "error: --set seed:1: "), error
    assert "could not determine a constructor" in error and not planted.exists()


AUTO = dict.fromkeys(("AutoConfig", "AutoModel", "AutoTokenizer"), "evil.Evil")
NAMED: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, DONE),
    "attention from the hub": ({"config.json": {"attn_implementation": "org/x"}}, BAD_INPUT),
    "attention of a private key": ({"config.json": {"_attn_implementation": "org/x"}}, BAD_INPUT),
    "attention as saved": ({"config.json": {"_attn_implementation_internal": "org/x"}}, DONE),
    "attention for one part": ({"config.json": {"attn_implementation": {"": "org/x"}}}, BAD_INPUT),
    "experts": ({"config.json": {"experts_implementation": "org/x"}}, BAD_INPUT),
    "names of repositories": (
        {"config.json": {"_name_or_path": "org/x", "auto_map": AUTO, "trust_remote_code": True}},
        DONE,
    ),
    "code of the hub": ({"config.json": {"auto_map": {name: f"org/x--{to}" for name, to in AUTO.items()}}}, DONE),
    "an unknown architecture with code": ({"config.json": {"model_type": "evil", "auto_map": AUTO}}, BAD_INPUT),
    "a tokenizer with code": (
        {"tokenizer_config.json": {"tokenizer_class": "EvilTokenizer", "auto_map": {"AutoTokenizer": ["evil.Evil"] * 2},
                                   "name_or_path": "org/x"}},
        DONE,
    ),
    "an adapter": ({"adapter_config.json": {"base_model_name_or_path": "org/x", "peft_type": "LORA"}}, BAD_INPUT),
}  # fmt: skip


def model_folder(folder: Path, changes: dict[str, Any]) -> Path:
    """A folder of a BERT with code and changed fields."""
    save_encoder("bert", folder)
    (folder / "evil.py").write_text("raise SystemExit('code of the folder ran')\n")
    for name, fields in changes.items():
        path = folder / name
        path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | fields))
    return folder


def test_nothing_that_a_model_folder_names_is_fetched_or_run(tmp_path: Path) -> None:
    made = tiny_data(queries={"train": 4, "dev": 2, "test": 2}, candidates=2, turns=1)
    train = ["train", "--data", str(write_trec_folder(made, tmp_path / "data")), "--ranker", "bert"]
    for key, value in {"max_iterations": 1, "batches_per_iteration": 1, "max_length": 32}.items():
        train += ["--set", f"training.{key}={value}"]
    folders = {case: model_folder(tmp_path / case, changes) for case, (changes, _) in NAMED.items()}
    commands = {case: [*train, "--set", f"ranker.model={folder}"] for case, folder in folders.items()}
    done = subprocess.run([sys.executable, "-c", WATCHED, json.dumps(commands)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for case, (status, err, marks) in json.loads(done.stdout).items():
        assert (status, marks) == (NAMED[case][1], []), (case, err)
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(errors) == (status == BAD_INPUT) and "Traceback" not in err, (case, err)
        assert all(line.startswith(f"error: ranker.model: '{folders[case]}' ") for line in errors)


def test_features_that_do_not_fit_into_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    high = FORMS["letor"] | {"train.txt": "1 qid:1 1:1 65536:1\n0 qid:1 1:1\n"}
    folder = write_folder(tmp_path / "data", high)
    monkeypatch.setattr(letor, "usable_memory", lambda: 1000 * 1024)
    assert main(["data", str(folder)]) == BAD_INPUT
    error = capsys.readouterr().err
    assert str(folder) in error and "65,536 features take 2 MiB" in error
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["data", str(folder)]) == DONE
