"""What a local Ray leaves to others: its folder and its token are for its user alone, and no file holds a key."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tests.support.builders import tiny_data
from tests.support.commands import SPACE
from tests.support.report_cases import Case
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder
from tune_cl.cli import main
from tune_cl.ray import access as module
from tune_cl.ray.access import LOCK, LONGEST_SOCKET, OPEN, PREFIX, RayOptions, protected_token, ray_folder
from tune_cl.ray.session import ray_session

NOBODY = 65534


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.delenv("RAY_TMPDIR", raising=False)
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


@pytest.mark.slow
def test_nobody_else_can_enter_the_folder_of_a_local_ray(temporary: Path) -> None:
    """Ray's own would have been 0777, with all that is below."""
    with ray_session(None):
        [folder] = temporary.iterdir()
        assert folder.name.startswith(PREFIX)
        assert folder.stat().st_mode & 0o777 == 0o700 and folder.stat().st_uid == os.getuid()
        ray.get(ray.remote(lambda: None).remote())
        sockets = [path for path in folder.rglob("*") if path.is_socket()]
        assert sockets and all(len(os.fsencode(path)) <= LONGEST_SOCKET for path in sockets)
        assert max(len(path.name) for path in sockets) <= len(Path(module.SOCKET).name)
        assert list(folder.rglob("raylet.out"))
    assert list(temporary.iterdir()) == []


def left_behind(folder: Path, mode: int = 0o700) -> Path:
    """A folder as a killed search leaves it, whose lock went with its process."""
    (folder / OPEN / "logs").mkdir(parents=True)
    (folder / LOCK).touch()
    folder.chmod(mode)
    return folder


def test_folders_of_killed_searches_go_with_the_next_one_and_others_stay(temporary: Path) -> None:
    dead = left_behind(temporary / f"{PREFIX}d")
    elsewhere, opened = left_behind(temporary / "other"), left_behind(temporary / f"{PREFIX}c", 0o777)
    unlocked, link = temporary / f"{PREFIX}a", temporary / f"{PREFIX}b"
    unlocked.mkdir(mode=0o700)
    link.symlink_to(elsewhere)
    stay = {elsewhere, unlocked, link, opened}
    if os.geteuid() == 0:  # only root can give a folder away
        stay.add(other := left_behind(temporary / f"{PREFIX}e"))
        os.chown(other, NOBODY, NOBODY)
    with ray_folder() as living:
        assert not dead.exists()
        with pytest.raises(ConnectionError), ray_folder() as own:
            assert {*temporary.iterdir()} == {*stay, living.parent, own.parent}
            raise ConnectionError
    assert {*temporary.iterdir()} == stay and all((folder / LOCK).exists() for folder in stay - {unlocked})


def test_the_folder_is_where_the_user_wants_it_or_in_tmp_where_sockets_would_have_too_long_paths(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chosen, found in ((temporary / "t", temporary / "t"), (temporary / ("x" * 100), Path("/tmp"))):
        monkeypatch.setenv("RAY_TMPDIR", str(chosen))
        with ray_folder() as folder:
            assert folder.parent.parent == found


# -- keys and the token ------------------------------------------------------------------------------------------

NAMES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"),
    *("AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_CONNECTION_STRING", "GITHUB_TOKEN", "GOOGLE_API_KEY"),
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"),
    *("MLFLOW_TRACKING_USERNAME", "OPENAI_API_KEY", "RAY_AUTH_TOKEN", "WANDB_API_KEY"),
)
MARK = "0123456789abcdef5ec2e7"
SECRETS = {name: f"{MARK}{number:02d}" for number, name in enumerate(NAMES)}
SEARCH = "run toy.yaml --data data --storage runs --trials 2 --max-iterations 2"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a token, and no word on tokens in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    module._token.cache_clear()
    return tmp_path / "home"


@pytest.mark.slow
def test_no_file_that_a_search_leaves_holds_a_key(
    home: Path, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    monkeypatch.setattr(module, "_remove", lambda folder: None)
    monkeypatch.chdir(tmp_path)
    data = tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1)
    write_trec_folder(data, tmp_path / "data")
    (tmp_path / "toy.yaml").write_text(SPACE)
    fresh_database(tmp_path / "runs")
    assert main(SEARCH.split()) == 0
    assert MARK not in "".join(capfd.readouterr())
    files = [path for top in (tmp_path, temporary) for path in top.rglob("*") if path.is_file()]
    assert {"raylet.out", "mlflow.db", "journal.jsonl", "report.html"} <= {path.name for path in files}
    assert [str(path) for path in files if MARK.encode() in path.read_bytes()] == []
    assert not (home / ".ray").exists()


@pytest.mark.parametrize("before", [None, 0o644], ids=["a new one", "one that all may read"])
def test_nobody_else_reads_the_token(before: int | None, home: Path, tmp_path: Path) -> None:
    """Ray itself would leave it 0644. A new one is in the private folder: the home may be read-only."""
    token = home / ".ray" / "auth_token"
    if before:
        token.parent.mkdir()
        token.write_text("0" * 64)
        token.chmod(before)
    with protected_token(tmp_path / "ray"):
        own = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        assert own.parent == tmp_path and own.stat().st_mode & 0o777 == 0o600
        assert own.read_text() == "0" * 64 if before else len(own.read_text()) == 64
    assert "RAY_AUTH_TOKEN_PATH" not in os.environ
    assert token.stat().st_mode & 0o777 == 0o600 if before else not token.parent.exists()


OPENS = "opens the local Ray: whoever reaches this machine over the network can run code as you"


def test_a_ray_that_lets_anybody_in_is_refused_unless_it_is_wanted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray takes any word but `token` for `disabled`. A cluster has a mode of its own."""
    case = Case(tmp_path)
    case.add([0.3], "baseline")
    place = case.write()
    for mode in ("disabled", "", "tokens"):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        for command in (["run", "quickstart"], ["resume", place.name], ["confirm", place.name]):
            assert main([*command, "--storage", str(place.storage)]) == 2
            told = capsys.readouterr().err
            assert told == f"error: RAY_AUTH_MODE: '{mode}' {OPENS}; unset it, or add --allow-open-ray\n"
        empty = ["--data", str(home), "--storage", str(place.storage)]  # the next error
        assert main(["run", "quickstart", *empty, "--allow-open-ray"]) == 2
        warning, *_, error = capsys.readouterr().err.splitlines()
        assert warning == f"warning: RAY_AUTH_MODE: '{mode}' {OPENS}" and error.startswith(f"error: {home}: ")
        RayOptions(address="ray://127.0.0.1:1").require()
        with protected_token(tmp_path / "ray"):
            assert "RAY_AUTH_TOKEN_PATH" not in os.environ
    for mode in ("token", "Token"):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        RayOptions().require()
    assert not (home / ".ray").exists()
