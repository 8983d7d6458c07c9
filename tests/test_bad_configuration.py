"""Configurations, options and arguments that are wrong: each problem is one line that names its key, option or line of
a file, and says what would be right; nothing is written."""

from __future__ import annotations

import shlex
import socket

import pytest

from tests.support.commands import SPACE
from tests.support.console import Console
from tests.support.data_folders import FORMS, trec_files, write_folder
from trainables.core.errors import DataError, Problem
from trainables.curriculum.scoring import SCORINGS

# -- options and arguments -----------------------------------------------------------------------------------------

DEEP, LONG = f"{3000 * '['}{3000 * ']'}", 256 * "x"
SMALL = "--set ranker.vector_size=8"
USAGE = {
    "frobnicate": "tune-cl: 'frobnicate' --help",
    "train --set curriculum.pacing=rooot": "curriculum.pacing: root?",
    "list things": "KIND: 'things' rankers",
    "score trec random --split vali": "--split: 'vali' train dev test",
    "train --datta docstrings": "--datta: --data",
    "run quickstart --metric map": "--metric: --set KEY=VALUE",
    "check quickstart --n-trials=4": "--n-trials: --trials",
    "check quickstart --frobnicate": "--frobnicate: --help",
    "train quickstart --set training.lr=[.1,.2]": "training.lr: several run",
    "run nowhere": "SPACE: 'nowhere'",
    "run quickstrat": "SPACE: quickstart?",
    "run none.yaml": "none.yaml: file",
    "resume nothing": "NAME: 'nothing'",
    "resume a/b": "NAME: --storage",
    "train --set curriculum.dleta=.5": "curriculum.dleta: curriculum.delta?",
    "train --data /no/such/folder": "data.source: '/no/such/folder'",
    "train --data docstrings --set curriculum.pacing=sqrt": "curriculum.pacing: competence n",
    "train --data docstrings --set curriculum.pacin=root": "curriculum.pacin: curriculum.pacing?",
    "train --set curriculum.delta=0": "curriculum.delta: 0",
    "train --set curriculum.m=.5": "curriculum.m: 0.5",
    f"check quickstart --set seed={DEEP}": "--set seed:1: recursion",
    "check quickstart --set search.trials={}": "search.trials: {}",
    "run quickstart --trials 0": "search.trials: 0",
    "run quickstart --storage ftp://x": "--storage: 'ftp://x'",
    "run quickstart --storage space.yaml": "--storage: space.yaml folder",
    "report a --storage space.yaml/runs": "--storage: space.yaml folder",
    f"run quickstart --name {LONG}": f"--name: '{LONG}'",
    **{f"run quickstart --name {shlex.quote(name)}": "--name: name"
       for name in ("../outside", "a/b", ".", "..", " ", "a\nb")},
    f"report {5000 * 'x'}": f"NAME: '{5000 * 'x'}'",
    # Places that cannot be written to: nobody can make a folder in /proc, although for root its permissions allow it.
    **{f"{command} --output {taken}": "--output: path"
       for command in ("score trec turns", "baseline trec bm25") for taken in ("trec", "space.yaml/below")},
    "train --data trec --output space.yaml": "--output: folder",
    "train --data trec --output space.yaml/below": "--output: folder",
    # Rankers and texts.
    "rerank /no/such/ranker --data x": "/no/such/ranker: ranker",
    **{f"rerank x {given}": "rerank: one --query" for given in (
        "", "--query q", "--data x --documents f", "--data x --query q --documents f")},
    # Baselines.
    "baseline trec nothing": "BASELINE: bm25 embedding sdm",
    "baseline trec bm25 --set data.bm25.b=2": "data.bm25.b: 2",
    "baseline talk bm25 --tune": "data.source: 'talk' dev",
    # What a search would find wrong is told before it begins.
    "run space.yaml --data trec --set search.resources.cpu=0": "search.resources.cpu: 0",
    "run space.yaml --data talk": "data.source: 'talk' dev",
    "check space.yaml --data talk --set search.resources.gpu=2": "data.source: 'talk' dev",
    f"train --data talk {SMALL} --output new": "data.source: 'talk' dev",
    **{f"{command} space.yaml --data trec --set curriculum.vectors=none.txt --set curriculum.scoring='"
       "{choice: [random, semantic_std]}'": "curriculum.vectors: 'none.txt'" for command in ("run", "check")},
    "check ferro2018 --data letor": "curriculum.feature: 'letor' 4",
    "check space.yaml --data trec --set ranker.model=/no/model --set ranker.name='{choice: [conv_knrm, bert]}'":
        "ranker.model: /no/model",
    **{f"score letor {scoring} --output d.tsv": "data.source: 'letor' texts" for scoring in sorted(
        set(SCORINGS) - {"file", "random", "self_paced", "reciprocal_rank", "normalized_score", "kde"})},
    **{f"run quickstart --data trec --address '{address}'": "--address: host:port"
       for address in ("h", ":6379", "h:", "h:head", "h:²", "h:0", "h:65536", f"h:{LONG}", "host:port", "127.0.0.1")},
    f"run quickstart --data trec --address {64 * 'x'}:1": "--address: answer",
    "run quickstart --data trec --address 'no host:1'": "--address: answer",
}  # fmt: skip


@pytest.fixture
def folders(console: Console) -> None:
    """A space, data to rank, data of features and data without a dev split."""
    rows = "1\twho sat\tcat sat\n0\twho sat\tdog ran\n"
    forms = {"trec": trec_files(), "letor": FORMS["letor"], "talk": {"train.tsv": rows, "test.tsv": rows}}
    for name, files in forms.items():
        write_folder(console.folder / name, files)
    (console.folder / "space.yaml").write_text(SPACE)


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("command", USAGE, ids=lambda command: command[:80])
def test_bad_usage_is_told_in_a_line(command: str, console: Console) -> None:
    console.refused([USAGE[command]], command)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("train", "--set curriculum.delta=2 --set training.lr=-1 --set sed=1"),
    ],
)
def test_all_problems_of_options_are_told_at_once(command: str, options: str, console: Console) -> None:
    words = options.replace("--set ", "").replace("=", " ").split()
    told = [f"{option}: {value}" for option, value in zip(words[::2], words[1::2], strict=True)]
    console.refused([*told[:-1], "sed: seed?"] if command == "train" else told, f"{command} {options}")


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("command", ["run space.yaml --data trec", "train --data trec", "data trec"])
def test_a_cache_that_takes_nothing_is_named(command: str, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/cache")
    assert console.errors(command)[-1].startswith("error: XDG_CACHE_HOME: '/proc")


@pytest.mark.smoke
@pytest.mark.usefixtures("folders")
def test_no_search_begins_where_no_cluster_answers(console: Console) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    console.refused([f"--address: {address}' answer"], f"run quickstart --data trec --address {address}")


def test_a_problem_is_one_line_and_twenty_are_told(console: Console) -> None:
    assert len(str(Problem("a\nb", "c\r\nd", "e\u2028f")).splitlines()) == 1
    (line,) = console.errors("train --data", f"{console.folder}/a\nb")
    assert line.startswith("error: data.source: ")
    told = [DataError([Problem(f"line {n}", "wrong", "right") for n in range(count)]).lines() for count in (20, 21, 25)]
    assert [len(lines) for lines in told] == [20, 21, 21]
    assert told[0][-1] == "error: line 19: wrong; right"
    assert ["1 more" in told[1][-1], "5 more" in told[2][-1]] == [True, True]
