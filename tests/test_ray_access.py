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
from trainables.core.errors import ConfigError
from tune_cl.cli import main
from tune_cl.ray import access as module
from tune_cl.ray.access import (
    LONGEST_SOCKET,
    TOKEN,
    TOKEN_PATH,
    RayOptions,
    own_token_path,
    private_folder,
    ray_folder,
    require_private,
    require_token,
)
from tune_cl.ray.environment import own_environment
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
    """Ray's own is 0777, with all that is below. The one around it stays."""
    with ray_session(None):
        [folder] = temporary.iterdir()
        assert folder == private_folder()
        assert folder.stat().st_mode & 0o777 == 0o700 and folder.stat().st_uid == os.getuid()
        ray.get(ray.remote(lambda: None).remote())
        sockets = [path for path in folder.rglob("*") if path.is_socket()]
        assert sockets and all(len(os.fsencode(path)) <= LONGEST_SOCKET for path in sockets)
        assert max(len(path.name) for path in sockets) <= len(Path(module.SOCKET).name)
        assert list(folder.rglob("raylet.out"))
    assert [*temporary.iterdir()] == [folder] and folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir()} <= {"0.lock", TOKEN}


def made_again(folder: Path) -> Path:
    """What a process of a killed search makes after its folder was removed: as open as Ray's own."""
    (folder / "session_2026" / "logs").mkdir(parents=True)
    (folder / "session_2026" / "logs").chmod(0o777)
    return folder


def test_what_killed_searches_left_or_make_again_is_out_of_reach_and_goes_with_the_next_one(temporary: Path) -> None:
    private = private_folder()
    require_private(private)
    dead, beyond = made_again(private / "0"), made_again(private / "3")
    (private / TOKEN).touch()
    with ray_folder() as living:
        assert living == dead and not dead.exists() and not beyond.exists() and (private / TOKEN).exists()
        living.mkdir()
        with pytest.raises(ConnectionError), ray_folder() as other:
            assert living.exists() and other == private / "1"
            made_again(other)
            raise ConnectionError
        assert living.exists() and not other.exists()
    made_again(living)
    assert private.stat().st_mode & 0o777 == 0o700
    with ray_folder() as again:
        assert again == living and not again.exists()
    assert [*temporary.iterdir()] == [private]


@pytest.mark.parametrize("what", ["open", "a link", "another user's"])
def test_a_folder_that_others_can_enter_is_refused(what: str, temporary: Path) -> None:
    private = private_folder()
    if what == "a link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        private.symlink_to(temporary / "elsewhere")
    else:
        private.mkdir(mode=0o755 if what == "open" else 0o700)
    if what == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(private, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match=f"RAY_TMPDIR: {private} is not a folder that only you can enter"):
        ray_folder().__enter__()


def test_the_folder_is_where_the_user_wants_it_or_in_tmp_where_sockets_would_have_too_long_paths(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chosen, found in ((temporary / "t", temporary / "t"), (temporary / ("x" * 100), Path("/tmp"))):
        monkeypatch.setenv("RAY_TMPDIR", str(chosen))
        assert private_folder().parent == found


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
def test_nobody_else_reads_the_token(before: int | None, home: Path, temporary: Path) -> None:
    """Ray itself would leave it 0644. A new one is in the private folder: the home may be read-only."""
    token, own = home / ".ray" / TOKEN, private_folder() / TOKEN
    if before:
        token.parent.mkdir()
        token.write_text("0" * 64)
        token.chmod(before)
    with own_environment(local_ray=True), ray_folder():
        assert os.environ.get(TOKEN_PATH) == (None if before else str(own))
        require_token()
        if before:
            assert token.stat().st_mode & 0o777 == 0o600 and not own.exists()
            return
        assert own.stat().st_mode & 0o777 == 0o600 and len(own.read_text()) == 64
        first = own.read_text()
        require_token()
        assert own.read_text() == first, "a search that runs has read it"
    assert TOKEN_PATH not in os.environ and not token.parent.exists()


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
        assert own_token_path() is None
    for mode in ("token", "Token"):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        RayOptions().require()
    assert not (home / ".ray").exists()
