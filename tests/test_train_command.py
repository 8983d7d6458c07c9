"""`tune-cl train` as its user sees it: notes, a line per iteration, folders, the result in words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shlex import split
from statistics import fmean
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.cli_calls import SMALL_OPTIONS, document
from tests.support.pair_data import pair_folder
from tests.support.trec_folder import write_trec_folder
from tune_cl.cli import DONE, INTERRUPTED, main
from tune_cl.experiment.load import load_training_run, parse_overrides
from tune_cl.run_training import unused

LINE = re.compile(r"iteration (\d)/3: dev map (\d\.\d{4})( \*)?, loss \d\.\d{4}, open \d+%, (\d+) pairs/s")
HEADING = "*: the best dev value so far; open: the share of the training data in use"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data to rank, the same data without a test split, and pairs to classify."""
    folder = tmp_path_factory.mktemp("train")
    for name, queries in (("data", {"train": 10, "dev": 5, "test": 5}), ("without", {"train": 10, "dev": 5})):
        write_trec_folder(tiny_data(queries=queries, candidates=5, turns=1), folder / name)
    pair_folder(folder / "pairs")
    return folder


def command(data: Path, output: Path | None = None) -> list[str]:
    where = [] if output is None else ["--output", str(output)]
    return ["train", "--data", str(data), *SMALL_OPTIONS, *where]


def test_keys_without_effect_are_noted(folders: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = [*command(folders / "data", tmp_path / "a"), "--set", "curriculum.delta=.3", "--set", "search.trials=3"]
    assert main(asked) == DONE
    note = capfd.readouterr().err.splitlines()[0]
    assert "without effect" in note and "curriculum.delta (needs pacing" in note and note.endswith(", search.trials")


def test_a_key_that_holds_a_mapping_has_an_effect() -> None:
    given = ["curriculum.pacing=linear", "curriculum.scoring=model_loss", "curriculum.teacher.ranker={name: knrm}"]
    assert unused(load_training_run(None, given), parse_overrides(given)) == []
    [note] = unused(load_training_run(None, given[2:]), parse_overrides(given[2:]))
    assert "curriculum.teacher.ranker (needs a scoring, loss or negatives by a teacher" in note


def test_what_the_data_decided_is_noted(folders: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    notes = {
        "data": "candidates: the first 100 of the given run",
        "pairs": "pairs to classify (contradiction, entailment, neutral): loss cross_entropy, metric accuracy",
    }
    for name, note in notes.items():
        assert main(command(folders / name, tmp_path / name)) == DONE
        assert f"note: {note}" in capfd.readouterr().err.splitlines()


def test_a_star_marks_the_best_value_so_far(folders: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*command(folders / "data", tmp_path / "a"), "--json"]) == DONE
    shown = capfd.readouterr()
    found, told = json.loads(shown.out), shown.err.splitlines()
    dev = found["dev"]
    stars = [" *" if all(value > other for other in dev[:at]) else None for at, value in enumerate(dev)]
    lines = [line.groups() for line in map(LINE.fullmatch, told) if line]
    assert found["samples_per_second"] == pytest.approx(fmean(int(speed) for *_, speed in lines), abs=1)
    assert [tuple(line[:3]) for line in lines] == [
        (str(at), f"{value:.4f}", star) for at, (value, star) in enumerate(zip(dev, stars, strict=True), 1)
    ]
    assert told.count(HEADING) == 1 and "going on" not in shown.err
    assert main(command(folders / "data", tmp_path / "a")) == DONE
    again = capfd.readouterr().err.splitlines()
    assert "this training had ended after iteration 3" in again and HEADING not in again


def test_each_configuration_has_a_folder_of_its_own(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = document(capfd, *command(folders / "data"))
    other = document(capfd, *command(folders / "data"), "--set", "seed=4")
    assert document(capfd, *command(folders / "data")) == first and other["dev"] != first["dev"]
    folders = sorted(tmp_path.glob("tune_cl_runs/train-conv_knrm-*"))
    assert sorted(Path(one["checkpoint"]).resolve() for one in (first, other)) == [one / "ranker" for one in folders]


def test_the_result_in_words_has_the_best_value_the_test_and_the_files(
    folders: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "a"
    found = document(capfd, *command(folders / "data", output))
    assert found["dev_best"] == max(found["dev"]) == found["dev"][found["best_iteration"] - 1]
    assert main(command(folders / "data", output)) == DONE
    shown = capfd.readouterr().out.splitlines()
    assert shown[0] == f"best dev map {found['dev_best']:.4f} at iteration {found['best_iteration']} of 3"
    rows = [line.split() for line in shown]
    assert all([name, f"{value:.4f}"] in rows for name, value in found["test"].items())
    assert shown[-2:] == [f"run     {output / 'test.run.txt'}", f"ranker  {output / 'ranker'}"]


def test_without_a_test_split_dev_is_ranked(folders: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "a"
    found = document(capfd, *command(folders / "without", output))
    assert found["test"] is None and found["run_file"] == str(output / "dev.run.txt")
    assert len(Path(found["run_file"]).read_text().splitlines()) == 5 * 5
    assert main(command(folders / "without", output)) == DONE
    assert len(capfd.readouterr().out.splitlines()) == 4


def test_the_command_that_goes_on_names_its_space(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any) -> str:
        raise KeyboardInterrupt

    given = ["train", "quickstart", *command(folders / "data", tmp_path / "a")[1:]]
    monkeypatch.setattr("tune_cl.run_training._progress", stop)
    assert main(given) == INTERRUPTED
    told = capfd.readouterr().err.splitlines()[-1].partition("with: ")[2]
    assert split(told)[1:3] == ["train", "quickstart"] and sorted(split(told)[1:]) == sorted(given)
