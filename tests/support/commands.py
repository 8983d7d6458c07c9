"""`tune-cl` as processes of their own, as users start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tune_cl.history.journal import read_events

ROOT = Path(__file__).parents[2]
SPACE = """
description: a toy
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum:
  scoring: {choice: [context_words, random]}
  pacing: {choice: [root, linear]}
  n: {choice: [2, 10], when: {curriculum.pacing: root}}
  T: 0.3
training: {batch_size: 8, batches_per_iteration: 2, max_iterations: 8}
search: {searcher: tpe, startup_trials: 2, trials: 5, scheduler: asha, reduction_factor: 2, grace: 2, max_concurrent: 1}
"""
UNHURRIED = SPACE.replace("batches_per_iteration: 2", "batches_per_iteration: 20")  # not over before a signal comes


def on_path(*folders: str) -> str:
    """PYTHONPATH with these folders first."""
    return os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])


def start(place: Path, *arguments: str, python: str = sys.executable) -> subprocess.Popen[str]:
    """`tune-cl ARGUMENTS` in a process group of its own, as a terminal would start it."""
    return subprocess.Popen(
        [python, "-m", "tune_cl", *arguments],
        cwd=place, env=os.environ | {"PYTHONPATH": on_path(str(ROOT))}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str], status: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == status, err
    return out, err


def wait_for_events(running: subprocess.Popen[str], journal: Path, kind: str, count: int, known: int = 0) -> None:
    """Waits until the journal has `count` events of the kind after the `known` ones of earlier sessions: a signal sent
    at once would meet a process that has not yet set its handlers."""
    deadline = time.monotonic() + 120
    while not journal.exists() or sum(event["event"] == kind for event in list(read_events(journal))[known:]) < count:
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < deadline, f"the journal gets no further '{kind}'"
        time.sleep(0.05)


def rewrite(journal: Path, words: dict[str, str]) -> None:
    """Replaces words in a journal's events."""
    texts = [json.dumps(event) for event in read_events(journal)]
    for old, new in words.items():
        texts = [text.replace(old, new) for text in texts]
    journal.write_text("".join(f"{text}\n" for text in texts))
