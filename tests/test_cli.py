"""The console as scripts use it: one JSON document on stdout, exit status, the form of error lines."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.cli_calls import SMALL_OPTIONS, document, errors
from tests.support.trec_folder import write_trec_folder
from trainables.core.errors import DataError, Interrupted, Problem, WorkFailed
from tune_cl.cli import BAD_INPUT, DONE, main
from tune_cl.cli.commands.list import KINDS
from tune_cl.cli.commands.rerank import _documents
from tune_cl.history.search_folder import search_folder_of


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1)
    return write_trec_folder(data, tmp_path_factory.mktemp("trec"))


@pytest.mark.parametrize(
    ("raised", "status", "line"),
    [
        (None, 0, ""),
        (WorkFailed("the teacher failed"), 1, "error: the teacher failed"),
        (RuntimeError("a bug"), 1, "error: RuntimeError: a bug; --debug shows where"),
        (DataError(Problem("a.tsv:3", "no tab", "a tab")), 2, "error: a.tsv:3: no tab; a tab"),
        (Interrupted("stopped; go on with: x"), 130, "stopped; go on with: x"),
        (KeyboardInterrupt(), 130, "stopped. Go on with: tune-cl weigh --difficulty 1 --json"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_statuses(
    raised: BaseException | None,
    status: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def execute(options: object) -> list[Any]:
        if raised:
            raise raised
        return []

    monkeypatch.setattr("tune_cl.cli.commands.weigh.execute", execute)
    monkeypatch.setattr("shutil.which", str)
    assert main(["weigh", "--difficulty", "1", "--json"]) == status
    shown = capfd.readouterr()
    assert shown.err == f"{line}\n" * bool(line) and shown.out == ("[]\n" if raised is None else "")


def test_the_command_that_goes_on_can_be_copied_and_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def execute(options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tune_cl.cli.commands.run.execute", execute)
    monkeypatch.setattr("shutil.which", str)
    assert main(["run", "my space.yaml", "--tracking-uri", "http://me:word@host:5000"]) == 130
    told = "stopped. Go on with: tune-cl run 'my space.yaml' --tracking-uri http://***@host:5000\n"
    assert capfd.readouterr().err == told


def test_ctrl_c_while_a_stop_is_carried_out_takes_nothing_from_its_words(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def execute(options: object) -> None:
        try:
            raise Interrupted("stopped; go on with: x") from None
        finally:
            raise KeyboardInterrupt

    monkeypatch.setattr("tune_cl.cli.commands.weigh.execute", execute)
    assert main(["weigh", "--difficulty", "1"]) == 130
    assert capfd.readouterr().err == "stopped; go on with: x\n"


def test_json_has_no_number_that_is_none(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    found = {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": (np.float32(0.5), np.int64(3)), 4: None}
    monkeypatch.setattr("tune_cl.cli.commands.weigh.execute", lambda options: found)
    assert document(capfd, "weigh", "--difficulty", "1") == {"a": None, "b": ["inf", "-inf"], "c": [0.5, 3], "4": None}


def test_twenty_problems_are_told_and_the_others_counted() -> None:
    told = [DataError([Problem(f"line {n}", "wrong", "right") for n in range(count)]).lines() for count in (20, 21, 25)]
    assert [len(lines) for lines in told] == [20, 21, 21]
    assert [lines[-1] for lines in told] == [
        "error: line 19: wrong; right",
        *(f"error: and {count} more problems like these" for count in (1, 5)),
    ]


def test_pace_prints_the_shares(capfd: pytest.CaptureFixture[str]) -> None:
    rows = document(capfd, "pace", "root", "--n", "2", "--delta", ".33", "--steps", "1000", "--at", "0", "125", "1000")
    assert [row["step"] for row in rows] == [0, 125, 1000]
    assert [row["share"] for row in rows] == pytest.approx([0.33, 0.469348, 1], abs=1e-6)


def test_weigh_prints_the_weights(capfd: pytest.CaptureFixture[str]) -> None:
    rows = document(capfd, "weigh", "--difficulty", ".25", "--m", "20", "--at", "0", "10", "20")
    assert [row["weight"] for row in rows] == pytest.approx([0.25, 0.625, 1])
    anti = document(capfd, "weigh", "--difficulty", ".25", "--m", "inf", "--at", "99", "--anti")
    assert anti == [{"iteration": 99, "weight": 0.75}]


@pytest.mark.parametrize(
    "kind",
    KINDS,
)
def test_list_names_what_there_is(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    rows = document(capfd, "list", kind)
    assert rows and all(row.keys() == {"name", "summary", "source"} and row["name"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["frobnicate"], "error: tune-cl: unknown command 'frobnicate'; known: "),
        (["evalute"], "error: tune-cl: unknown command 'evalute'; did you mean evaluate?"),
        (["pace", "rooot"], "error: curriculum.pacing: unknown value 'rooot'; did you mean root?"),
        (["pace", "--at", "1", "root"], "error: --at: 'root' is not a step; PACING comes before --at; see "),
        (["pace", "root", "--delta", "0"], "error: --delta: 0 is not a start share; a number above 0 and at most 1"),
        (["weigh", "--difficulty", ".5", "--m", "0"], "error: --m: 0 is below 1; a number of iterations of at least 1"),
        (
            ["weigh"],
            "error: tune-cl weigh: the following arguments are required: --difficulty; see tune-cl weigh --help",
        ),
        (["list", "things"], "error: kind: invalid choice: 'things'"),
        (["run", "nowhere"], "error: SPACE: unknown search space 'nowhere'; "),
        (["resume", "nothing"], "error: NAME: no search 'nothing' in "),
        (["train", "--set", "curriculum.dleta=.5"], "error: curriculum.dleta: unknown key; did you mean"),
        (["train", "--set", "curriculum.delta=0"], "error: curriculum.delta: 0 is not greater than 0; "),
        (["train", "--set", "curriculum.m=.5"], "error: curriculum.m: 0.5 is "),
        (["train", "--data", "/no/such/folder"], "error: data.source: '/no/such/folder' does not exist; a folder "),
        (["rerank", "/no/such/ranker", "--data", "x"], "error: /no/such/ranker: is not a trained ranker; "),
        (["rerank", "x"], "error: rerank: needs one task; either --data DATA, or --query TEXT with --documents FILE"),
        (["report", "a", "--storage", ""], "error: --storage: is empty; a value, or leave --storage out"),
        (["train", "quickstart", "--output="], "error: --output: is empty; a value, or leave --output out"),
        (["run", "quickstart", "--storage", "ftp://x"], "error: --storage: 'ftp://x' is not a folder; "),
        (
            ["run", "quickstart", "--name", "mlflow.db"],
            "error: --name: 'mlflow.db' is what MLflow keeps in the storage; ",
        ),
        (["run", "quickstart", "--name", "mlartifacts"], "error: --name: 'mlartifacts' is what MLflow keeps in the s"),
        (["run", "quickstart", "--name", 256 * "x"], f"error: --name: '{256 * 'x'}' is no name of a folder; "),
        (["report", 5000 * "x"], f"error: NAME: '{5000 * 'x'}' is no name of a search; "),
        (
            ["check", "quickstart", "--set", f"seed={3000 * '['}{3000 * ']'}"],
            "error: --set seed:1: nested too deeply; ",
        ),
        (["check", "quickstart", "--set", "search.trials={}"], "error: search.trials: {} is not possible; a whole "),
        (
            ["check", "quickstart", "--set", "search.trials=3000000000"],
            "error: search.trials: 3000000000 is too large; a whole number up to 2147483647",
        ),
    ],
)
def test_bad_input_gives_its_place_and_advice(
    arguments: list[str], line: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = errors(capfd, *arguments)
    assert len(lines) == 1 and lines[0].startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_all_problems_are_reported_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert len(errors(capfd, "train", "--set", "curriculum.delta=2", "--set", "training.lr=-1", "--set", "sed=1")) == 3


def test_train_then_rerank_then_evaluate(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train = ["train", "--data", str(folder), "--ranker", "conv_knrm", *SMALL_OPTIONS, "--output", str(tmp_path / "a")]
    trained = document(capfd, *train)
    assert len(trained["dev"]) == 3 and trained["dev_best"] == max(trained["dev"])
    assert trained["dev"][trained["best_iteration"] - 1] == trained["dev_best"]
    assert trained["test"].keys() >= {"map", "mrr@10", "p@1", "rprec", "ndcg@10"}
    run = tmp_path / "again.run.txt"
    again = document(capfd, "rerank", trained["checkpoint"], "--data", str(folder), "--output", str(run))
    assert Path(again["run_file"]).read_text() == Path(trained["run_file"]).read_text()
    judged = document(capfd, "evaluate", str(folder / "qrels.test.txt"), trained["run_file"], str(run))
    assert judged["runs"][0]["metrics"]["map"] == pytest.approx(trained["test"]["map"])
    assert judged["runs"][1]["vs_first"]["map"]["difference"] == 0
    assert document(capfd, *train) == trained  # finished: nothing is done again


def test_rerank_orders_texts(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "model"
    trained = document(capfd, "train", "--data", str(folder), *SMALL_OPTIONS, "--output", str(output))
    texts = tmp_path / "texts.txt"
    texts.write_text("a\tw1 w2 w3\nw4 w5\n\nb\tw6\n")
    ranking = document(capfd, "rerank", trained["checkpoint"], "--query", "w1 w2", "--documents", str(texts))["ranking"]
    assert {row["doc"] for row in ranking} == {"a", "2", "b"}
    scores = [row["score"] for row in ranking]
    assert scores == sorted(scores, reverse=True)


def test_another_training_is_not_overwritten(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train = ["train", "--data", str(folder), *SMALL_OPTIONS, "--output", str(tmp_path / "a")]
    document(capfd, *train)
    assert "contains another training" in errors(capfd, *train, "--set", "seed=9")[-1]


@pytest.mark.parametrize("taken", ["a-folder", "a-file/below"])
@pytest.mark.parametrize("command", [["score", "turns"], ["baseline", "bm25"], ["train", "--data"]])
def test_where_no_output_can_be_written_no_work_is_done(
    command: list[str], taken: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "a-file").touch()
    name, argument = command
    output = tmp_path / ("a-file" if name == "train" and taken == "a-folder" else taken)
    inputs = [argument, str(folder)] if name == "train" else [str(folder), argument]
    (line,) = errors(capfd, name, *inputs, *SMALL_OPTIONS, "--output", str(output))
    assert line.startswith("error: --output: ")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a-file", tmp_path / "a-folder"]


@pytest.mark.parametrize("name", ["../outside", "a/b", ".", "..", "", " ", "a\nb"])
def test_a_search_has_a_name_that_stays_in_the_storage(
    name: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    storage = tmp_path / "runs"
    (line,) = errors(capfd, "run", "quickstart", "--data", str(folder), "--name", name, "--storage", str(storage))
    assert line.startswith("error: --name: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["run", "quickstart"], ["report", "a"]])
def test_a_file_is_no_storage(command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for storage in (tmp_path / "file", tmp_path / "file" / "runs"):
        (line,) = errors(capfd, *command, "--storage", str(storage))
        assert line.startswith(f"error: --storage: '{tmp_path / 'file'}' is no folder; ")


@pytest.mark.smoke
@pytest.mark.parametrize("address", ["127.0.0.1:{closed}", "127.0.0.1", "host:port", "no host:1"])
def test_no_search_begins_where_no_cluster_answers(
    address: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    given = ["--address", address.format(closed=port), "--storage", str(tmp_path / "runs")]
    (line,) = errors(capfd, "run", "quickstart", "--data", str(folder), *given)
    assert line.startswith(f"error: --address: '{given[1]}' ") and not (tmp_path / "runs").exists()


def test_documents_end_with_line_feeds_alone(tmp_path: Path) -> None:
    (tmp_path / "documents").write_bytes(b"one\rstill one\r\ntwo\n")
    assert _documents(tmp_path / "documents") == (["1", "2"], ["one\rstill one", "two"])


def test_documents_are_lines_and_their_ids_stand_once(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a\tone\u2028line\r\n\r\nunnamed\nb\ttwo\tparts", encoding="utf-8")
    assert _documents(texts) == (["a", "3", "b"], ["one\u2028line", "unnamed", "two\tparts"])
    packed = tmp_path / "texts.txt.gz"
    packed.write_bytes(gzip.compress(texts.read_bytes()))
    assert _documents(packed) == _documents(texts)
    texts.write_bytes(b"a\tone\nb\t\xff\n")
    with pytest.raises(DataError, match=r"texts\.txt:2: byte 0xff is not UTF-8"):
        _documents(texts)
    texts.write_text("a\tone\n\nb\ttwo\na\tthree\n", encoding="utf-8")
    with pytest.raises(DataError) as refused:
        _documents(texts)
    assert str(refused.value) == f"error: {texts}:4: document 'a' is also in line 1; every id once"


@pytest.mark.smoke
def test_auto_is_the_address_that_ray_finds(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    given = ["--data", str(folder), "--address", "auto", "--storage", str(tmp_path / "runs")]
    assert main(["run", "quickstart", *given]) == BAD_INPUT
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: --address: '") and f":{port}' does not answer" in line


def test_commands_to_copy_are_quoted(tmp_path: Path) -> None:
    line = search_folder_of(str(tmp_path / "my runs"), "my search").command("confirm")
    assert line.endswith(f"tune-cl confirm 'my search' --storage '{tmp_path / 'my runs'}'")


def test_score_writes_a_line_an_instance(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "d.tsv"
    first = document(capfd, "score", str(folder), "response_words", "--output", str(output))
    rows = [line.split("\t") for line in output.read_text().splitlines()]
    values = [float(value) for _, _, value in rows]
    assert first["count"] == len(rows) and first["min"] == min(values) and first["max"] == max(values)
    assert document(capfd, "score", str(folder), "response_words", "--output", str(output))["cached"]


def test_check_forecasts(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    checked = document(capfd, "check", "quickstart", "--data", str(folder), *SMALL_OPTIONS, "--trials", "4")
    assert checked["trials"] == 4 and checked["iterations_at_most"] == 12
    assert 0 < checked["iterations_expected"] <= 12 and checked["hours_forecast"] > 0
    assert checked["combinations"] == 4 * 6 * 5 * 2 * 7 and checked["gpu_hours_forecast"] == 0
    assert checked["steps"] == ["curriculum.delta: 0.2 to 0.6 by 0.1"]


@pytest.mark.smoke
def test_stdout_holds_the_json_alone_whatever_libraries_print(folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tune_cl", "train", "--data", str(folder), *SMALL_OPTIONS, "--json"],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == DONE, done.stderr
    assert json.loads(done.stdout)["dev_best"] > 0
    assert "iteration 3/3" in done.stderr


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["rankers", "data", "spaces"])
def test_list_in_a_pipe_is_a_line_an_entry(kind: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    command = [sys.executable, "-m", "tune_cl", "list", kind]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    entries = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert [line.split()[0] for line in shown[2:]] == [entry["name"] for entry in entries]
