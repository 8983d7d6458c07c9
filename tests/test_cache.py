"""Entries of the cache are whole or absent: one process builds, others wait, and a damaged one is made again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from trainables.core import cache
from trainables.core.cache import CHECKSUMS, cached, cached_resumable, entry_of
from trainables.core.errors import ConfigError

DIGEST = "a" * 64


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_verified", set())


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [flip_a_bit, cut_short, Path.unlink])
@pytest.mark.parametrize("name", ["a.npy", CHECKSUMS])
def test_a_damaged_entry_is_made_again(
    damage: Callable[[Path], None], name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        np.save(folder / "a.npy", np.arange(100))

    damage(cached("kind", DIGEST, build) / name)
    in_a_new_process(monkeypatch)
    entry = cached("kind", DIGEST, build)
    assert len(built) == 2 and np.load(entry / "a.npy").tolist() == list(range(100))
    assert capsys.readouterr().err == f"note: {entry} is damaged; it is made again\n"
    assert cached("kind", DIGEST, build) == entry and len(built) == 2


def test_one_builds_and_the_others_wait(capsys: pytest.CaptureFixture[str]) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        time.sleep(0.2)
        (folder / "x").write_text("whole")

    with ThreadPoolExecutor(4) as threads:
        entries = list(threads.map(cached, ["kind"] * 4, [DIGEST] * 4, [build] * 4))
    assert set(entries) == {entry_of("kind", DIGEST)} and len(built) == 1
    assert (entries[0] / "x").read_text() == "whole"
    assert "waiting for another process that builds the same (kind)" in capsys.readouterr().err


@pytest.mark.slow
def test_a_build_that_fails_or_is_killed_leaves_no_entry(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError("it breaks")

    with pytest.raises(ValueError, match="it breaks"):
        cached("kind", DIGEST, fail)
    assert not entry_of("kind", DIGEST).exists()
    program = (
        "import os, sys; from trainables.core.cache import cached; "
        "cached('kind', sys.argv[1], lambda folder: ((folder / 'half').touch(), os.kill(os.getpid(), 9)))"
    )
    killed = subprocess.run([sys.executable, "-c", program, DIGEST], check=False, cwd=Path(__file__).parents[1])
    assert killed.returncode == -9 and not entry_of("kind", DIGEST).exists()
    entry = cached("kind", DIGEST, lambda folder: (folder / "whole").touch())
    assert sorted(path.name for path in entry.iterdir()) == [CHECKSUMS, "whole"]


def test_a_long_build_goes_on_from_its_state() -> None:
    def broken_off(folder: Path, state: Path) -> None:
        state.mkdir()
        (state / "iteration").write_text("7")
        raise KeyboardInterrupt

    def goes_on(folder: Path, state: Path) -> None:
        (folder / "from").write_text((state / "iteration").read_text())

    with pytest.raises(KeyboardInterrupt):
        cached_resumable("kind", DIGEST, broken_off)
    entry = cached_resumable("kind", DIGEST, goes_on)
    assert (entry / "from").read_text() == "7"
    assert {path.name for path in entry.parent.iterdir()} <= {DIGEST, f".{DIGEST}.lock"}


def test_a_cache_that_cannot_be_written_names_its_variable(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        cached("kind", DIGEST, lambda folder: None)
