"""Tracking without a store: its address, and the names and values by which runs are told apart in MLflow."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException, RestException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.utils.validation import _validate_metric_name
from requests import HTTPError, Response

from tests.support.journal_events import trial
from tests.support.tracking_cases import search_event
from trainables.core.errors import ConfigError
from tune_cl.history.state import replay
from tune_cl.history.tracking_uri import artifact_location, masked, resolve_tracking_uri
from tune_cl.ray.environment import own_environment
from tune_cl.tracking import layout
from tune_cl.tracking.store import RunStore

SEARCH = search_event("quickstart")
ROOT = {"curriculum.pacing": "root", "curriculum.n": 2, "curriculum.scoring": "turns", "curriculum.anti": True}
WORDS = "pacing=root n=2 scoring=turns anti=true"  # of ROOT


def test_the_view_has_a_column_for_each_key_that_the_search_opens() -> None:
    def columns(opened: list[str]) -> list[str]:
        shown: list[str] = json.loads(layout.view(SEARCH | {"opened": opened})[1])["selectedColumns"]
        assert (shown[0], shown[-1]) == ("metrics.`best_dev_mrr_at_10`", "tags.`tune_cl.outcome`")
        return [column.removeprefix("params.`").rstrip("`") for column in shown[1:-1]]

    usual = [f"curriculum.{key}" for key in ("pacing", "n", "scoring", "delta", "T", "weighting", "m")]
    assert columns(["training.lr"]) == ["training.lr", *usual]
    opened = ["training.lr", "curriculum.scoring", "ranker.filters", "ranker.name"]
    assert columns(opened) == ["ranker.name", "curriculum.scoring", "training.lr", "ranker.filters"]
    assert len(columns(opened[1:])) == 3, "these are enough"
    many = [f"ranker.key{number}" for number in range(60)]
    assert len(columns(many)) == layout.MOST_COLUMNS
    assert len(layout.view(SEARCH | {"opened": many})[1]) < layout.TAG_LENGTH


def test_the_name_of_a_trial_tells_what_the_terminal_tells_of_it() -> None:
    def named(chosen: dict[str, Any], number: int = 1, arm: str = "curriculum") -> str:
        """The name of a trial with these values of opened keys."""
        params = ROOT | {key: value for key, value in chosen.items() if key != "curriculum.m"}
        event = trial(number, **params) | {"chosen": chosen, "arm": arm}
        [shown] = replay([SEARCH, event]).trials.values()
        name = layout.trial_name(event)
        assert name == f"{shown.trial} {shown.words}"
        return name

    lr, ranker = {"training.lr": 0.000501}, {"ranker.name": "knrm"}
    assert named(lr | ranker) == f"t0001 ranker=knrm {WORDS} lr=0.000501"
    assert named(lr | {"curriculum.m": 3}) == f"t0001 {WORDS} lr=0.000501", "m is not in force"
    assert named({"curriculum.anti": False}) == f"t0001 {WORDS.removesuffix(' anti=true')}"
    assert named(lr, number=0) == "t0000 plain, default"
    assert named(lr | ranker, arm="plain") == "t0001 plain ranker=knrm lr=0.000501"


# -- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("dev_ndcg@5", "dev_ndcg_at_5"),
        ("loss(%)", "loss___"),
        ("a//b", "a/b"),
        ("/a", "a"),
        ("../a", "__/a"),
        ("a b", "a b"),
    ],
)
def test_every_name_of_a_metric_is_one_that_mlflow_takes(name: str, there: str) -> None:
    assert layout.metric_name(name) == there
    _validate_metric_name(there)


@pytest.mark.parametrize(("status", "refused"), [(413, True), (503, False)])
def test_a_file_too_large_for_the_server_is_not_tried_again(status: int, refused: bool) -> None:
    """As refused by a proxy before the server."""
    response = Response()
    response.status_code = status
    store = RunStore("http://127.0.0.1:1", None)
    assert (store.refusal(HTTPError(response=response)) is not None) == refused
    denied = {"error_code": "INVALID_PARAMETER_VALUE", "message": "too long"}
    assert "too long" in (store.refusal(RestException(denied)) or "")
    assert store.refusal(MlflowException("no", error_code=INVALID_PARAMETER_VALUE)) is None, "a proxy's answer"


# -- its address ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:p@ss@host/a and http://token@host", "http://***@host/a and http://***@host"),
        ("postgresql://db/x?sslpassword=p&user=u", "postgresql://db/x?sslpassword=***&user=u"),
        ("sqlite:////tmp/a@b/mlflow.db", "sqlite:////tmp/a@b/mlflow.db"),
        ("mail me@host or http://host/a@b", "mail me@host or http://host/a@b"),
        ("mssql+pyodbc:///?odbc_connect=SERVER%3Dh%3BPWD%3DSEKr", "mssql+pyodbc:///?odbc_connect=***"),
        ("mssql+pyodbc:///?odbc_connect=DRIVER={A B};PWD=SEKr 1a", "mssql+pyodbc:///?odbc_connect=***"),
        ("--tracking-uri=mysql://h/d?charset=utf8&ssl_key=SEKr", "--tracking-uri=mysql://h/d?charset=utf8&ssl_key=***"),
        ("at 'http://h/?sig=SEKr', not http://h:1/?SEKr.", "at 'http://h/?sig=***', not http://h:1/?***."),
        ("x from 'postgresql://usr:SEKr\"1a@127.0.0.1/db'", "x from 'postgresql://***@127.0.0.1/db'"),
        ("in header value: 'Bearer SEKr\\n'", "in header value: 'Bearer ***'"),
    ],
)
def test_masked_hides_credentials_only(text: str, shown: str) -> None:
    assert masked(text) == shown


SECRETS = ["SEKr", *(f"SEKr{sign}1a" for sign in "/@#? :\"'"), "SEKr/1@a#b c"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("address", ["http://us er:{}@host:5000/x", "mysql+pymysql://u:{}@h/d?a=b"])
def test_a_password_of_any_signs_is_hidden(secret: str, address: str) -> None:
    shown = masked(address.format(secret))
    assert all(part not in shown for part in ("SEKr", "1a")) and shown.partition("://")[2].startswith("***@h")
    told = masked(f"OperationalError: cannot reach {address.format(secret)}\nme@host")
    assert "SEKr" not in told and "1a" not in told and told.endswith("\nme@host")


def test_tracking_uri_flag_then_environment_then_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    runs, database = Path("runs"), f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert resolve_tracking_uri(runs) == database
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///rel.db?timeout=3")  # other commands may start elsewhere
    assert resolve_tracking_uri(runs) == f"sqlite:///{tmp_path}/rel.db?timeout=3"
    for same in ("sqlite:////abs/rel.db", "postgresql:///runs", "databricks"):
        assert resolve_tracking_uri(runs, same) == same
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    for own in ("http://server:5000", database):
        assert resolve_tracking_uri(runs, None, own) == own
    hidden = "postgresql://***@db/x"  # as in a journal: without the secret
    assert resolve_tracking_uri(runs) == resolve_tracking_uri(runs, None, hidden) == "http://server:5000"
    for server in ("http://server:5000", "https://server", "databricks", "databricks://profile"):
        assert artifact_location(server, runs) is None, "the server decides"


@pytest.mark.parametrize(
    ("given", "recorded", "variable", "location"),
    [
        ("foo://server", "", "", "--tracking-uri"),
        ("./mlruns", "", "", "--tracking-uri"),
        ("sqlite://", "", "", "--tracking-uri"),
        ("sqlite:///:memory:", "", "", "--tracking-uri"),
        (None, "", "sqlite:///file:runs?mode=memory&uri=true", "MLFLOW_TRACKING_URI"),
        (None, "", "file:///x", "MLFLOW_TRACKING_URI"),
        (None, "", "", "--storage"),
    ],
)
def test_addresses_that_are_refused(
    given: str | None, recorded: str, variable: str, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that MLflow does not know, folders, databases in memory, and a storage whose path MLflow would
    not find."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
    for name in ("a?b", "a%20b"):
        with pytest.raises(ConfigError) as refused:
            resolve_tracking_uri(tmp_path / name, given, recorded)
        [problem] = refused.value.problems
        assert problem.location == location and (given or recorded or variable or name) in problem.wrong
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert resolve_tracking_uri(tmp_path / "100% a#b") == f"sqlite:///{tmp_path}/100% a#b/mlflow.db"


@pytest.mark.parametrize(
    ("address", "wrong", "right"),
    [
        ("localhost:5000", "'localhost:5000' lacks http://", "http://localhost:5000"),
        ("me:SEKr@mlflow:5000/x", "'***@mlflow:5000/x' lacks http://", "http://***@mlflow:5000/x"),
    ],
)
def test_a_server_without_a_scheme_is_told_its_address(address: str, wrong: str, right: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve_tracking_uri(tmp_path, address)
    [problem] = refused.value.problems
    assert (problem.wrong, problem.right) == (wrong, right)


def test_a_token_is_sent_without_the_end_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a variable that was read from a file: a header may not hold it."""
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "SEKr\n")
    with own_environment():
        assert os.environ["MLFLOW_TRACKING_TOKEN"] == "SEKr"
