"""What a call from Python needs while it works, put back afterwards."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from trainables.core.errors import Interrupted
from trainables.core.prose import heard_by
from tune_cl.process import only_errors_logged, stoppable
from tune_cl.ray.environment import own_environment
from tune_cl.search.progress_panel import NoPanel, Panel, PanelKind, StatusPanel

LASTING = ("note:", "warning:")  # what a line of progress does not replace begins with one of these


@contextmanager
def working(progress: bool, local_ray: bool = False) -> Iterator[PanelKind]:
    """Lets an interrupt stop the work in order, and what is said reach the user: stderr, in a notebook one line that
    changes, or nobody without `progress`. Yields how a running search is shown, by the same rules. `local_ray`: whether
    the work may start a Ray here."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    notebook = getattr(shell, "kernel", None) is not None
    with ExitStack() as stack:
        stack.enter_context(stoppable((signal.SIGINT,)))
        stack.enter_context(own_environment(local_ray))
        if not progress:
            stack.enter_context(heard_by(lambda text: None))
        elif notebook:
            stack.enter_context(heard_by(NotebookLine()))
        if notebook:
            stack.enter_context(only_errors_logged("ray.widgets.util"))  # which advises to install ipywidgets
        try:
            yield NoPanel if not progress else StatusPanel if notebook else Panel
        except Interrupted as stop:
            if stop.call:
                stop.args = (f"stopped; what is done is saved. Go on with: {stop.call}",)
            raise


class NotebookLine:
    """A line below a notebook's cell whose text changes, and notes above it that stay."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, text: str) -> None:
        from IPython.display import display  # there: this is a notebook

        if text.startswith(LASTING):
            print(text)
        elif self._handle is None:
            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)
