"""`tune-cl train` as its user sees it: its document, notes, a line per iteration, folders, going on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shlex import split
from statistics import fmean

import pytest

import tune_cl
from tests.support.builders import tiny_data
from tests.support.console import SMALL, SMALL_TRAINING, Console
from tests.support.pair_data import pair_folder
from tests.support.trec_folder import write_trec_folder
from trainables.core.prose import heard_by
from tune_cl.cli import INTERRUPTED
from tune_cl.experiment.load import parse_overrides

LINE = re.compile(r"iteration (\d)/3: dev map (\d\.\d{4})( \*)?, loss \d\.\d{4}, open \d+%, (\d+) pairs/s")
TRAIN = f"train --data 'my data' {SMALL_TRAINING}"
OUTPUT = f"{TRAIN} --output a --test"


@pytest.fixture(autouse=True)
def my_data(console: Console) -> None:
    write_trec_folder(tiny_data(queries={"train": 10, "dev": 5, "test": 5}, candidates=5, turns=1), Path("my data"))


def test_its_document_and_its_result_in_words(console: Console) -> None:
    shown = console.call(OUTPUT, "--json")
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
    out, err = console.call(OUTPUT)  # finished: nothing is done again
    assert "ended after iteration 3" in err and not any(map(LINE.fullmatch, err.splitlines()))
    words = [line.split() for line in out.splitlines()]
    assert {f"{found['dev_best']:.4f}", str(found["best_iteration"])} <= set(words[0])
    assert all([name, f"{value:.4f}"] in words for name, value in found["test"].items())
    assert [row[-1] for row in words[-2:]] == [found["run_file"], found["checkpoint"]] == ["a/test.run.txt", "a/ranker"]


def test_no_iteration_leaves_the_untrained_ranker(console: Console) -> None:
    settings = "--set training.max_iterations=0 --set curriculum.weighting=kde"
    found = console.document(f"{TRAIN} --output b --test {settings}")
    assert (found["dev"], found["best_iteration"], found["samples_per_second"]) == ([], 0, 0)
    assert 0 < found["dev_best"] < 1 and found["test"]["map"] > 0
    again = console.document("rerank b/ranker --data 'my data' --output again.run.txt")["run_file"]
    assert Path(again).read_text() == Path(found["run_file"]).read_text()
    first = console.document(f"{TRAIN} --output c --test --set training.max_iterations=1")
    assert first["test"] != found["test"]
    refused = console.call("run quickstart --data 'my data' --set training.max_iterations=0", status=2)
    assert "error: training.max_iterations: 0 " in refused.err


def test_what_it_writes_is_reranked_and_evaluated_alike_and_not_overwritten(console: Console) -> None:
    trained = console.document(OUTPUT)
    again = console.document("rerank a/ranker --data 'my data' --output again.run.txt")["run_file"]
    assert Path(again).read_text() == Path(trained["run_file"]).read_text()
    first, second = console.document(f"evaluate 'my data/qrels.test.txt' a/test.run.txt {again}")["runs"]
    assert first["metrics"]["map"] == pytest.approx(trained["test"]["map"])
    assert second["vs_first"]["map"]["difference"] == 0
    console.refused(["--output: another training"], f"{OUTPUT} --set seed=9")


def test_test_is_read_only_if_asked_for(console: Console) -> None:
    found = console.document(f"{TRAIN} --output a")
    assert found["test"] is None and found["run_file"] == "a/dev.run.txt" and not Path("a/test.run.txt").exists()
    assert len(Path(found["run_file"]).read_text().splitlines()) == 5 * 5
    shown = console.call(f"{TRAIN} --output a").out
    assert "test" not in shown and "| test map" not in Path("a/ranker/README.md").read_text()
    tested = console.document(OUTPUT)  # the same training, which had ended
    assert tested["dev"] == found["dev"] and tested["test"]["map"] > 0 and tested["run_file"] == "a/test.run.txt"
    keys = parse_overrides(SMALL)
    assert tune_cl.train(data="my data", overrides=keys, output="b", progress=False).test is None
    assert tune_cl.train(data="my data", overrides=keys, output="b", progress=False, test=True).test is not None


def test_data_without_a_test_split_is_refused_before_the_training_if_test_is_asked_for(console: Console) -> None:
    for path in Path("my data").glob("*.test.*"):
        path.unlink()
    assert console.document(f"{TRAIN} --output a")["test"] is None
    console.refused(["data.source: 'my data' test"], f"{TRAIN} --output b --test")


@pytest.mark.parametrize("space", ["", " negatives"])
def test_a_stopped_training_says_how_to_go_on(space: str, console: Console) -> None:
    def stop(told: str) -> None:
        if LINE.fullmatch(told):
            raise KeyboardInterrupt

    given = OUTPUT.replace("train", f"train{space}", 1)
    with heard_by(stop):
        told = console.call(given, status=INTERRUPTED).err.splitlines()[-1].partition("with: ")[2]
    program, *words = split(told)
    assert program.endswith("tune-cl") and sorted(words) == sorted(split(given))
    assert words[0] == "train" and told.partition(" train")[2].startswith(f"{space} --")
    shown = console.call("", *words, "--json")
    assert "after iteration 1" in shown.err and len(json.loads(shown.out)["dev"]) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--set curriculum.delta=.3 --set search.trials=3",
         ["without effect", "curriculum.delta (needs pacing", "search.trials"]),
        ("", ["candidates of ", "run"]),
        ("--data pairs", ["pairs to classify", "contradiction, entailment, neutral", "cross_entropy", "accuracy"]),
    ],
)  # fmt: skip
def test_what_has_no_effect_and_what_the_data_decided_is_noted(
    options: str, words: list[str], console: Console
) -> None:
    pair_folder(console.folder / "pairs")
    assert any(all(word in note for word in words) for note in console.notes(f"{OUTPUT} {options}"))
