"""What a call from Python needs while it works, put back afterwards."""

from __future__ import annotations

import logging
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np

from trainables.core.errors import Interrupted
from trainables.core.prose import heard_by
from tune_cl.process import only_errors_logged, stoppable
from tune_cl.ray.environment import own_environment
from tune_cl.search.progress_panel import NoPanel, Panel, PanelKind, StatusPanel

MLFLOW = {"mlflow": logging.WARNING, "mlflow.store.db.utils": logging.CRITICAL}  # as tracking/store.py sets them
LASTING = ("note:", "warning:")  # what a line of progress does not replace begins with one of these


@contextmanager
def working(progress: bool, local_ray: bool = False) -> Iterator[PanelKind]:
    """Lets an interrupt stop the work in order, and what is said reach the user: stderr, in a notebook one line that
    changes, or nobody without `progress`. Yields how a running search is shown, by the same rules. `local_ray`: whether
    the work may start a Ray here."""
    notebook = in_notebook()
    with ExitStack() as stack:
        stack.enter_context(stoppable((signal.SIGINT,)))
        stack.enter_context(left_as_found())
        stack.enter_context(own_environment(local_ray))
        if not progress:
            stack.enter_context(heard_by(lambda text: None))
        elif notebook:
            stack.enter_context(heard_by(NotebookLine().hear))
        if notebook:
            stack.enter_context(only_errors_logged("ray.widgets.util"))  # which advises to install ipywidgets
        try:
            yield NoPanel if not progress else StatusPanel if notebook else Panel
        except Interrupted as stop:
            if stop.call:
                stop.args = (f"stopped; what is done is saved. Go on with: {stop.call}",)
            raise


@contextmanager
def left_as_found() -> Iterator[None]:
    """Meanwhile MLflow is quiet, and Python, NumPy and PyTorch may draw random numbers; afterwards the levels of the
    loggers and the random states are as before."""
    python, numpy = random.getstate(), np.random.get_state()
    levels = {name: logging.getLogger(name).level for name in MLFLOW}
    torch = sys.modules.get("torch")
    with torch.random.fork_rng() if torch else nullcontext():
        try:
            for name, level in MLFLOW.items():
                logging.getLogger(name).setLevel(level)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()  # without it where another thread is loading IPython
    return getattr(shell, "kernel", None) is not None


class NotebookLine:
    """A line below a notebook's cell whose text changes, and lines above it that stay."""

    def __init__(self) -> None:
        self._handle: Any = None

    def hear(self, text: str) -> None:
        """Prints a note; shows anything else in place of the line before."""
        if text.startswith(LASTING):
            print(text)
        else:
            self.show(text)

    def show(self, text: str) -> None:
        from IPython.display import display  # there: this is a notebook

        content = {"text/plain": text}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
