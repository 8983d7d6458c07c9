"""Keys in the environment are recorded nowhere, and a local Ray lets nobody in without its token."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import ray

from tests.support.builders import tiny_data
from tests.support.commands import ROOT, SPACE, on_path
from tests.support.trec_folder import write_trec_folder
from tune_cl.cli import main
from tune_cl.ray.access import require_ray
from tune_cl.ray.session import ray_session

pytestmark = pytest.mark.slow

NAMES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"),
    *("AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_CONNECTION_STRING", "GITHUB_TOKEN", "GOOGLE_API_KEY"),
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"),
    *("MLFLOW_TRACKING_USERNAME", "OPENAI_API_KEY", "RAY_AUTH_TOKEN", "WANDB_API_KEY"),
)
MARK = "0123456789abcdef5ec2e7"
SECRETS = {name: f"{MARK}{number:02d}" for number, name in enumerate(NAMES)}
SEARCH = "run toy.yaml --data data --storage runs --trials 2"
CONSOLE = "from tune_cl.cli import console; console()"
KEEPS_RAYS_FOLDER = f"from tune_cl.ray import access; access._remove = lambda folder: None; {CONSOLE}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a token, and no word on tokens in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def in_new_process(program: str, *arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Ray reads tokens once a process."""
    environment = os.environ | {"PYTHONPATH": on_path(str(ROOT))} | variables
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False, umask=0o022
    )


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """A folder with data and a search space."""
    folder = tmp_path / "workdir"
    write_trec_folder(tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1), folder / "data")
    (folder / "toy.yaml").write_text(SPACE)
    return folder


def test_no_file_that_a_search_leaves_holds_a_key(workdir: Path, home: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # short enough for sockets
        for command in (SEARCH, "confirm toy --storage runs --top 1 --seeds 1", "report toy --storage runs"):
            done = in_new_process(KEEPS_RAYS_FOLDER, *command.split(), cwd=workdir, TMPDIR=temporary, **SECRETS)
            assert done.returncode == 0 and MARK not in done.stdout + done.stderr, done.stderr
        files = [path for top in (workdir, home, Path(temporary)) for path in top.rglob("*") if path.is_file()]
        assert {"raylet.out", "mlflow.db", "journal.jsonl", "report.html"} <= {path.name for path in files}
        assert [str(path) for path in files if MARK.encode() in path.read_bytes()] == []


def test_trials_on_this_machine_have_the_keys_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    with ray_session(None):
        assert ray.get(ray.remote(lambda: os.environ["AWS_SECRET_ACCESS_KEY"]).remote()) == "key"


# -- the token of a local Ray ------------------------------------------------------------------------------------

STARTS_RAY = """
import os
from tune_cl.ray.session import ray_session
with ray_session(None):
    path = os.environ.get("RAY_AUTH_TOKEN_PATH")
    print("started", path and (oct(os.stat(path).st_mode & 0o777), len(open(path).read())))
assert not os.path.exists(path or "")
"""
STARTED = "started ('0o600', 64)\n"


@pytest.mark.parametrize("before", [None, 0o644], ids=["a new one", "one that all may read"])
def test_nobody_else_reads_the_token(before: int | None, home: Path) -> None:
    """Ray itself would leave it 0644. A new one is in the private folder: the home may be read-only."""
    token = home / ".ray" / "auth_token"
    if before:
        token.parent.mkdir()
        token.write_text("0" * 64)
        token.chmod(before)
    done = in_new_process(STARTS_RAY, cwd=home)
    assert done.stdout == STARTED, done.stderr
    if before:
        assert token.stat().st_mode & 0o777 == 0o600 and token.read_text() == "0" * 64
    else:
        assert not token.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_token_of_another_stays_as_it_is(home: Path) -> None:
    token = home / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("0" * 64)
    os.chown(token, 65534, 65534)
    token.chmod(0o644)
    assert in_new_process(STARTS_RAY, cwd=home).stdout == STARTED
    assert token.stat().st_mode & 0o777 == 0o644


def test_a_token_in_the_environment_is_written_nowhere(home: Path) -> None:
    assert in_new_process(STARTS_RAY, cwd=home, RAY_AUTH_TOKEN="1" * 64).stdout == "started None\n"
    assert not (home / ".ray").exists()


OPENS = "opens the local Ray: whoever reaches this machine over the network can run code as you"


def test_a_ray_that_lets_anybody_in_is_refused_unless_it_is_wanted(
    workdir: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray takes any word but `token` for `disabled`."""
    monkeypatch.chdir(workdir)
    files = sorted(workdir.rglob("*"))
    for mode in ("disabled", "", "tokens"):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        assert main(SEARCH.split()) == 2
        assert capsys.readouterr().err == f"error: RAY_AUTH_MODE: '{mode}' {OPENS}; unset it, or add --allow-open-ray\n"
    assert sorted(workdir.rglob("*")) == files
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    wanted = in_new_process(CONSOLE, *SEARCH.split(), "--allow-open-ray", cwd=workdir)
    assert wanted.returncode == 0, wanted.stderr
    assert wanted.stderr.startswith(f"warning: RAY_AUTH_MODE: 'disabled' {OPENS}\n")
    assert not (home / ".ray").exists()
    for command in ("resume", "confirm"):
        assert main([command, "toy", "--storage", "runs"]) == 2
        assert capsys.readouterr().err.startswith("error: RAY_AUTH_MODE: 'disabled' opens the local Ray")


def test_a_ray_with_a_token_is_not_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ("token", "Token"):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        require_ray(None)


def test_a_cluster_has_a_mode_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    require_ray("ray://127.0.0.1:1")
