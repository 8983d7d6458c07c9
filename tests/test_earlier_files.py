"""Files that tune_cl 0.1 wrote, before its modules moved: a search killed in the middle, a confirmed one, a killed
training and a ranker. `tests/files/tune_cl-0.1.tar.xz` holds them; they must stay usable."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

import pytest

from tests.support.tracking_cases import fresh_database
from tune_cl.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
ORIGIN = "/tmp/fix"  # the folder in which they were written
RUNGS = {4, 8, 12}  # iterations after which that search stops trials


def moved(line: str, folder: Path) -> str:
    """A line of a journal as it would be, had it been written in the folder."""
    event = json.loads(line.replace(ORIGIN, str(folder)))
    event.pop("crc", None)
    text = json.dumps(event)
    return f'{text[:-1]}, "crc": "{crc32(text[:-1].encode()):08x}"}}'


def move(folder: Path) -> None:
    """Rewrites every path and the checksums over them, as if all had been written in the folder."""
    for file in (*folder.rglob("*.json"), *folder.rglob("*.yaml")):
        file.write_text(file.read_text().replace(ORIGIN, str(folder)))
    for journal in folder.rglob("journal.jsonl"):
        journal.write_text("".join(moved(line, folder) + "\n" for line in journal.read_text().splitlines()))
    for sums in sorted(folder.rglob("checksums.json"), key=lambda path: -len(path.parts)):
        names = json.loads(sums.read_text())
        texts = [name for name in names if name.endswith(".json")]
        names |= {name: sha256((sums.parent / name).read_bytes()).hexdigest() for name in texts}
        sums.write_text(json.dumps(names))


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with tarfile.open(ROOT / "tests/files/tune_cl-0.1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    move(tmp_path)
    for storage in ("broken", "whole"):
        fresh_database(tmp_path / storage)
    return tmp_path


Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(earlier: Path, local_ray: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Calls a command in the folder of those files; returns its JSON document."""
    monkeypatch.chdir(earlier)

    def command(*arguments: str) -> dict[str, Any]:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capfd.readouterr().out)

    return command


def results(journal: Path) -> dict[tuple[str, int], float]:
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    return {
        (event["trial"], event["iteration"]): event["metrics"]["dev_map"]
        for event in events
        if event["event"] == "result"
    }


def test_a_search_killed_under_0_1_is_resumed(earlier: Path, call: Call) -> None:
    before = results(earlier / "broken/broken/journal.jsonl")
    call("resume", "broken", "--storage", str(earlier / "broken"))
    after = results(earlier / "broken/broken/journal.jsonl")
    assert {key: after[key] for key in before} == before  # nothing finished is done again
    unbroken = results(earlier / "whole/whole/journal.jsonl")
    last = {trial: max(i for t, i in after if t == trial) for trial, _ in after}
    assert last.keys() == {trial for trial, _ in unbroken}
    assert set(last.values()) <= RUNGS and 12 in last.values()
    differences = [abs(after[key] - unbroken[key]) for key in after.keys() & unbroken.keys()]
    assert fmean(differences) < 0.05
    # Another processor than the one that wrote the files rounds differently, and may so stop another trial.
    assert any(differences) or after.keys() == unbroken.keys()


def test_a_search_of_0_1_is_reported_and_confirmed(earlier: Path, call: Call) -> None:
    verdict = call("confirm", "whole", "--storage", str(earlier / "whole"), "--top", "1", "--seeds", "1")
    assert verdict["seeds"] == [1]
    call("report", "whole", "--storage", str(earlier / "whole"))
    assert f"{verdict['baseline']['mean']:.4f}" in (earlier / "whole/whole/report.html").read_text()


def test_a_training_killed_under_0_1_goes_on(earlier: Path, call: Call) -> None:
    done = call("train", "train.yaml", "--output", str(earlier / "train-broken"))
    assert len(done["dev"]) == 14


def test_a_ranker_of_0_1_ranks_again(earlier: Path, call: Call, tmp_path: Path) -> None:
    run = tmp_path / "again.run.txt"
    call("rerank", str(earlier / "train-whole/ranker"), "--data", "data", "--output", str(run))
    ranking = [line.split()[:4] for line in run.read_text().splitlines()]
    assert ranking == [line.split()[:4] for line in (earlier / "train-whole/test.run.txt").read_text().splitlines()]
