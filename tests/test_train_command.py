"""`tune-cl train` as its user sees it: its document, notes, a line per iteration, folders, going on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shlex import split
from statistics import fmean
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.cli_calls import SMALL_OPTIONS, assert_refused, document
from tests.support.pair_data import pair_folder
from tests.support.trec_folder import write_trec_folder
from trainables.core.prose import heard_by
from tune_cl.cli import DONE, INTERRUPTED, main
from tune_cl.experiment.load import load_training_run, parse_overrides
from tune_cl.run_training import unused

Capture = pytest.CaptureFixture[str]
LINE = re.compile(r"iteration (\d)/3: dev map (\d\.\d{4})( \*)?, loss \d\.\d{4}, open \d+%, (\d+) pairs/s")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data to rank, the same data without a test split, and pairs to classify."""
    folder = tmp_path_factory.mktemp("train")
    for name, queries in (("my data", {"train": 10, "dev": 5, "test": 5}), ("without", {"train": 10, "dev": 5})):
        write_trec_folder(tiny_data(queries=queries, candidates=5, turns=1), folder / name)
    pair_folder(folder / "pairs")
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(data: Path, *options: str) -> list[str]:
    return ["train", "--data", str(data), *SMALL_OPTIONS, "--output", "a", *options]


def test_its_document_and_its_result_in_words(folders: Path, capfd: Capture) -> None:
    assert main([*command(folders / "my data"), "--json"]) == DONE
    shown = capfd.readouterr()
    found, lines = (
        json.loads(shown.out),
        [line.groups() for line in map(LINE.fullmatch, shown.err.splitlines()) if line],
    )
    dev: list[float] = found["dev"]
    assert len(dev) == 3 and found["dev_best"] == max(dev) == dev[found["best_iteration"] - 1]
    stars = [" *" if all(value > other for other in dev[:at]) else None for at, value in enumerate(dev)]
    expected = [(str(at), f"{value:.4f}", star) for at, (value, star) in enumerate(zip(dev, stars, strict=True), 1)]
    assert [line[:3] for line in lines] == expected, "a star marks the best value so far"
    assert found["samples_per_second"] == pytest.approx(fmean(int(speed) for *_, speed in lines), abs=1)
    assert found["test"].keys() >= {"map", "mrr@10", "p@1", "rprec", "ndcg@10"}
    assert main(command(folders / "my data")) == DONE  # finished: nothing is done again
    shown = capfd.readouterr()
    assert "ended after iteration 3" in shown.err and not any(map(LINE.fullmatch, shown.err.splitlines()))
    words = [line.split() for line in shown.out.splitlines()]
    assert {f"{found['dev_best']:.4f}", str(found["best_iteration"])} <= set(words[0])
    assert all([name, f"{value:.4f}"] in words for name, value in found["test"].items())
    assert [row[-1] for row in words[-2:]] == [found["run_file"], found["checkpoint"]] == ["a/test.run.txt", "a/ranker"]


def test_what_it_writes_is_reranked_and_evaluated_alike(folders: Path, capfd: Capture) -> None:
    data = folders / "my data"
    trained = document(capfd, *command(data))
    again = document(capfd, "rerank", trained["checkpoint"], "--data", str(data), "--output", "again.run.txt")
    assert Path(again["run_file"]).read_text() == Path(trained["run_file"]).read_text()
    judged = document(capfd, "evaluate", str(data / "qrels.test.txt"), trained["run_file"], again["run_file"])["runs"]
    assert judged[0]["metrics"]["map"] == pytest.approx(trained["test"]["map"])
    assert judged[1]["vs_first"]["map"]["difference"] == 0


def test_another_training_is_not_overwritten(folders: Path, capfd: Capture) -> None:
    document(capfd, *command(folders / "my data"))
    assert_refused(capfd, command(folders / "my data", "--set", "seed=9"), ["--output: another training"])


def test_each_configuration_has_a_folder_of_its_own(folders: Path, here: Path, capfd: Capture) -> None:
    given = ["train", "--data", str(folders / "my data"), *SMALL_OPTIONS]
    first, other = document(capfd, *given), document(capfd, *given, "--set", "seed=4")
    assert document(capfd, *given) == first and other["dev"] != first["dev"]
    made = sorted(here.glob("tune_cl_runs/train-conv_knrm-*"))
    assert sorted(Path(one["checkpoint"]).resolve() for one in (first, other)) == [one / "ranker" for one in made]


def test_without_a_test_split_dev_is_ranked(folders: Path, capfd: Capture) -> None:
    found = document(capfd, *command(folders / "without"))
    assert found["test"] is None and found["run_file"] == "a/dev.run.txt"
    assert len(Path(found["run_file"]).read_text().splitlines()) == 5 * 5
    assert main(command(folders / "without")) == DONE
    assert "test" not in capfd.readouterr().out


@pytest.mark.parametrize("space", [[], ["quickstart"]])
def test_a_stopped_training_says_how_to_go_on(space: list[str], folders: Path, capfd: Capture) -> None:
    def stop(told: str) -> None:
        if LINE.fullmatch(told):
            raise KeyboardInterrupt

    given = ["train", *space, *command(folders / "my data")[1:]]
    with heard_by(stop):
        assert main(given) == INTERRUPTED
    program, *words = split(capfd.readouterr().err.splitlines()[-1].partition("with: ")[2])
    assert (
        program.endswith("tune-cl") and words[: 1 + len(space)] == ["train", *space] and sorted(words) == sorted(given)
    )
    assert main([*words, "--json"]) == DONE
    shown = capfd.readouterr()
    assert "after iteration 1" in shown.err and len(json.loads(shown.out)["dev"]) == 3


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ("my data", ["--set", "curriculum.delta=.3", "--set", "search.trials=3"],
         ["without effect", "curriculum.delta (needs pacing", "search.trials"]),
        ("my data", [], ["candidates: ", "run"]),
        ("pairs", [], ["pairs to classify", "contradiction, entailment, neutral", "cross_entropy", "accuracy"]),
    ],
)  # fmt: skip
def test_what_has_no_effect_and_what_the_data_decided_is_noted(
    data: str, options: list[str], words: list[str], folders: Path, capfd: Capture
) -> None:
    assert main(command(folders / data, *options)) == DONE
    notes = [line for line in capfd.readouterr().err.splitlines() if line.startswith("note: ")]
    assert any(all(word in note for word in words) for note in notes)


def test_a_key_that_holds_a_mapping_has_an_effect() -> None:
    def notes(given: list[str]) -> Any:
        return unused(load_training_run(None, given), parse_overrides(given))

    teacher = ["curriculum.teacher.ranker={name: knrm}"]
    assert notes(["curriculum.pacing=linear", "curriculum.scoring=model_loss", *teacher]) == []
    assert "curriculum.teacher.ranker (needs " in notes(teacher)[0]
