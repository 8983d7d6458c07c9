"""Tracking without a store: its address, and the names and values by which runs are told apart in MLflow."""

from __future__ import annotations

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
from tune_cl.tracking import layout
from tune_cl.tracking.store import refusal

SEARCH = search_event("quickstart")
ROOT = {"curriculum.pacing": "root", "curriculum.n": 2, "curriculum.scoring": "turns", "curriculum.anti": True}
WORDS = "pacing=root n=2 scoring=turns anti=true"  # of ROOT


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
    response, uri = Response(), "http://127.0.0.1:1"
    response.status_code = status
    assert (refusal(HTTPError(response=response), uri) is not None) == refused
    denied = {"error_code": "INVALID_PARAMETER_VALUE", "message": "too long"}
    assert "too long" in (refusal(RestException(denied), uri) or "")
    assert refusal(MlflowException("no", error_code=INVALID_PARAMETER_VALUE), uri) is None, "a proxy's answer"


# -- its address ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:p@ss/@host/a and http://token@host", "http://***@host/a and http://***@host"),
        ("postgresql://db/x?sslpassword=p&user=u", "postgresql://db/x?sslpassword=***&user=u"),
        ("sqlite:////tmp/a@b/mlflow.db?timeout=3", "sqlite:////tmp/a@b/mlflow.db?timeout=3"),
        ("mail me@host or http://host/a@b", "mail me@host or http://host/a@b"),
        ("--tracking-uri=mysql://h/d?charset=utf8&ssl_key=SEKr", "--tracking-uri=mysql://h/d?charset=utf8&ssl_key=***"),
        ("x from 'postgresql://usr:SEKr\"1a@127.0.0.1/db'", "x from 'postgresql://***@127.0.0.1/db'"),
        ("in header value: 'Bearer SEKr\\n'", "in header value: 'Bearer ***'"),
    ],
)
def test_masked_hides_credentials_only(text: str, shown: str) -> None:
    assert masked(text) == shown


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
    ("given", "variable", "location"),
    [
        ("./mlruns", "", "--tracking-uri"),
        ("me:SEKr@mlflow:5000/x", "", "--tracking-uri"),
        ("sqlite:///:memory:", "", "--tracking-uri"),
        (None, "file:///x", "MLFLOW_TRACKING_URI"),
        (None, "", "--storage"),
    ],
)
def test_addresses_that_are_refused(
    given: str | None, variable: str, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders, a server without http://, databases in memory, and a storage whose path MLflow would not find."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
    for name in ("a?b", "a%20b"):
        with pytest.raises(ConfigError) as refused:
            resolve_tracking_uri(tmp_path / name, given)
        [problem] = refused.value.problems
        assert problem.location == location and "SEKr" not in problem.wrong
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert resolve_tracking_uri(tmp_path / "100% a#b") == f"sqlite:///{tmp_path}/100% a#b/mlflow.db"
