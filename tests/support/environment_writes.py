"""`tune-cl` with a note of each write of the environment beside a thread of ours; see `written_beside_threads`."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_suffix(".c")
PACKAGES = tuple(f"{ROOT / name}{os.sep}" for name in ("tune_cl", "trainables"))
BETWEEN = (threading.__file__, os.sep + os.path.join("concurrent", "futures") + os.sep)  # frames of the library
ONLY_WAIT = {"phase"}  # what starts threads that wait and print, and read no variable


def compiled(folder: Path) -> Path:
    """The library to preload. Needs cc."""
    library = folder / "environment_writes.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


def written_beside_threads(library: Path, place: Path, *arguments: str) -> tuple[list[str], list[str]]:
    """Runs `tune-cl ARGUMENTS` there; returns the writes of its environment while a thread of ours ran, and the threads
    of ours that ran at all."""
    log = place / "writes.txt"
    log.write_text("")
    environment = os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)}
    environment.pop("_MLFLOW_TELEMETRY_SESSION_ID", None)  # of this process's own MLflow
    command = [sys.executable, __file__, str(library), str(log), *arguments]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    lines = log.read_text().splitlines()
    began = [line.removeprefix("thread ") for line in lines if line.startswith("thread ")]
    return [line for line in lines if not line.startswith("thread ")], began


def watch_threads(library: Path, log: int) -> None:
    """Tells the library which threads of ours run."""
    told, lock, running = ctypes.CDLL(str(library)), threading.Lock(), list[str]()
    told.log_into(log)
    start = threading.Thread.start

    def tell() -> None:
        told.now_running(", ".join(running).encode())

    def started(thread: threading.Thread) -> None:
        by = _starter()
        if by is None or by in ONLY_WAIT:
            return start(thread)
        name, run = f"{thread.name} ({by})", thread.run
        os.write(log, f"thread {name}\n".encode())

        def noted(*arguments: Any) -> None:
            try:
                run(*arguments)
            finally:
                with lock:
                    running.remove(name)
                    tell()

        with lock:
            running.append(name)
            tell()
        thread.run = noted
        return start(thread)

    threading.Thread.start = started  # pyright: ignore[reportAttributeAccessIssue]


def _starter() -> str | None:
    """The function of ours that starts a thread; None if another package does."""
    frame = sys._getframe(2)
    while frame and any(part in frame.f_code.co_filename for part in BETWEEN):
        frame = frame.f_back
    ours = frame is not None and frame.f_code.co_filename.startswith(PACKAGES)
    return frame.f_code.co_name if frame and ours else None


if __name__ == "__main__":
    _, library, log, *arguments = sys.argv
    watch_threads(Path(library), os.open(log, os.O_WRONLY | os.O_APPEND))
    sys.argv = ["tune-cl", *arguments]
    from tune_cl.cli import console

    console()
