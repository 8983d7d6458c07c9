"""A search from Python, as `tune_cl.run` and `tune_cl.open_search` return it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trainables.config.function import Function, Objective, objective_of
from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from tune_cl.api.session import working
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, replay
from tune_cl.history.tracking_uri import masked
from tune_cl.process import loading
from tune_cl.ray.address import require_cluster
from tune_cl.results import Effects, Plan, SearchResult, Verdict, Written
from tune_cl.search.progress_panel import PanelKind
from tune_cl.search_result import recorded_result, rows_of, trials_of
from tune_cl.tracking.layout import metric_name
from tune_cl.verdict.files import last_verdict

if TYPE_CHECKING:
    import pandas as pd

    from tune_cl.ray.tuner import Callbacks


class Search:
    """A search as its journal has it now: trials, curves and the best trial can be read while it runs, too."""

    def __init__(
        self, search_folder: SearchFolder, result: SearchResult | None = None, objective: Objective | None = None
    ):
        self.search_folder = search_folder
        self._result, self._objective = result, objective  # the result until something else is trained
        self.address: str | None = None  # of the Ray cluster that it ran on in this process

    @property
    def name(self) -> str:
        return self.search_folder.name

    @property
    def storage(self) -> str:
        """The folder that holds the search."""
        return str(self.search_folder.storage)

    @property
    def tracking_uri(self) -> str:
        """Where MLflow's runs are, without passwords."""
        return masked(self.search_folder.tracking_uri)

    @property
    def result(self) -> SearchResult:
        """What it has come to, finished or not. Raises WorkFailed if no trial gave a value."""
        return self._result or recorded_result(self.search_folder)

    @property
    def metric(self) -> str:
        return self._state.metric

    @property
    def finished(self) -> bool:
        """Whether it ran to its end; `resume` goes on with one that did not."""
        return bool(self._state.end)

    @property
    def _state(self) -> SearchState:
        return replay(read_events(self.search_folder.journal))

    @property
    def trials(self) -> pd.DataFrame:
        """A row for each trial: the fields of `Trial`, then a column for each key that the space searches (None where
        it has no effect)."""
        import pandas as pd

        return pd.DataFrame(rows_of(trials_of(self._state)))

    @property
    def curves(self) -> pd.DataFrame:
        """A row for each iteration of each trial: trial_id, iteration (from 1), and a column for each metric, under its
        name in MLflow."""
        import pandas as pd

        rows = []
        for trial in self._state.by_number():
            for iteration, metrics in sorted(trial.results.items()):
                row: dict[str, Any] = {"trial_id": trial.trial, "iteration": iteration}
                rows.append(row | {metric_name(name): value for name, value in sorted(metrics.items())})
        return pd.DataFrame(rows, columns=None if rows else ["trial_id", "iteration"])

    @property
    def verdict(self) -> Verdict | None:
        """That of the last confirmation on test; None before the first."""
        return last_verdict(self.search_folder.folder, "test")

    def resume(
        self,
        address: str | None = None,
        progress: bool = True,
        objective: Function | Objective | str | None = None,
        callbacks: Callbacks = (),
    ) -> Search:
        """Continue a search after a stop, crash or kill.

            tune-cl resume quickstart

        Nothing finished is repeated; open trials continue from their last checkpoint. Of a finished search only the
        report and what MLflow lacks are completed.

        address    of a Ray cluster: auto, or host:port; by default a local Ray
        progress   False: nothing is printed
        objective  a training function `(config, trial)` of your own
        callbacks  of Ray Tune, as for `run`

        Raises what `tune_cl.run` raises.
        """
        with self._working(progress, objective, address) as panel:
            if self.finished:
                say(f"'{self.name}' is finished; completing its report and MLflow's records")
            with loading():
                from tune_cl.run_search import resume_search

            self._result = resume_search(self.search_folder, address, panel, self._objective, callbacks)
        return self

    @contextmanager
    def _working(
        self, progress: bool, objective: Function | Objective | str | None, address: str | None
    ) -> Iterator[PanelKind]:
        """Like `working`, for trainings by this function, which is kept, on the Ray at this address."""
        with working(progress, local_ray=address is None) as panel:
            self._objective = objective_of(objective) if objective is not None else self._objective
            require_cluster(address)
            self._result, self.address = None, address
            yield panel

    def confirm(
        self,
        seeds: int | None = None,
        top: int | None = None,
        trials: Sequence[str] = (),
        split: Literal["test", "dev"] = "test",
        address: str | None = None,
        progress: bool = True,
        objective: Function | Objective | str | None = None,
    ) -> Verdict:
        """The verdict: did a curriculum beat plain training?

            tune-cl confirm quickstart
            tune-cl confirm quickstart --plan
            tune-cl confirm macavaney2020_curricula --trials t0003,t0017

        First a selection: the best configurations of each arm, curricula and plain training, are trained with new seeds
        and compared on dev. Then the best curriculum meets its opponents on the split, with further seeds each: the
        best plain training, its own settings without the curriculum, the defaults and, if its checkpoints never saw
        some pairs, the same pairs in random order. It is better only if it beats all of them, for new queries and new
        trainings. More seeds later train only what is missing, and count as a further test.

        seeds      new trainings of each; by default 20 where one takes up to a minute, 10 up to 20 minutes, else 5
        top        candidates of each arm; by default 3, or 2 after fewer than 12 trials
        trials     test the curricula of these trials instead; p is corrected by Holm
        split      what is compared on
        address    of a Ray cluster: auto, or host:port; by default a local Ray
        progress   False: nothing is printed
        objective  a training function `(config, trial)` of your own

        Raises ConfigError for values that make no sense, DataError if the data has changed, WorkFailed if too many
        trainings failed, Interrupted (a KeyboardInterrupt) when stopped: the same call goes on.
        """
        with self._working(progress, objective, address) as panel:
            with loading():
                from tune_cl.verdict.confirm import confirm_search
                from tune_cl.verdict.retraining import Request

            request = Request(seeds=seeds, top=top, trials=tuple(trials), split=split)
            return confirm_search(self.search_folder, request, address, self._objective, panel)

    def plan(self, top: int | None = None, trials: Sequence[str] = (), split: str = "test") -> Plan:
        """How many seeds `confirm` needs: its `table` has the smallest gain that each number finds, and the hours.
        Nothing is trained. Raises ConfigError as long as no two trainings tell how much the seed matters."""
        from tune_cl.verdict.plan import plan_of
        from tune_cl.verdict.retraining import Request  # imports Ray

        return plan_of(self.search_folder, self._state, Request(top=top, trials=tuple(trials), split=split))

    def effects(
        self,
        seeds: int | None = None,
        split: Literal["test", "dev"] | None = None,
        address: str | None = None,
        progress: bool = True,
        objective: Function | Objective | str | None = None,
    ) -> Effects:
        """What curricula change over all pairs of a search.

            tune-cl effects quickstart
            tune-cl effects quickstart --seeds 2

        No winner is chosen, so the answer has no selection bias. Without seeds: from the dev values of the search. With
        them every pair is trained with so many new seeds and compared by query on the split; curricula, seeds and
        queries are samples. What an earlier call or `confirm` trained is used again.

        seeds      new trainings of each curriculum and twin
        split      what new trainings are compared on; by default test
        address    of a Ray cluster: auto, or host:port; by default a local Ray
        progress   False: nothing is printed
        objective  a training function `(config, trial)` of your own

        Raises ConfigError for a search without two pairs, WorkFailed if too many trainings failed, Interrupted (a
        KeyboardInterrupt) when stopped: the same call goes on.
        """
        if seeds is None:
            if split is not None:
                raise ConfigError(Problem("--split", "without --seeds", "--seeds 2 --split test; or neither"))
            from tune_cl.verdict.pairs import recorded_effects  # imports SciPy

            return recorded_effects(self.search_folder)
        with self._working(progress, objective, address) as panel:
            with loading():
                from tune_cl.verdict.effects import measure_effects
                from tune_cl.verdict.retraining import Request

            request = Request(seeds=seeds, split=split or "test")
            return measure_effects(self.search_folder, request, address, self._objective, panel)

    def write_report(
        self, output: str | Path | None = None, paper: str | Path | None = None, progress: bool = True
    ) -> Written:
        """The results of a search: a page, or files for a paper.

            tune-cl report quickstart
            tune-cl report quickstart --paper paper

        Works while a search runs, and before and after `confirm`; a paper's numbers are the verdict's, before it those
        of dev.

        output    the page, which opens offline; by default STORAGE/NAME/report.html
        paper     methods.tex, table.tex, figure.pdf and references.bib instead
        progress  False: nothing is printed

        Raises ConfigError for a file that cannot be written, or a search without values.
        """
        if output and paper:
            raise ConfigError(Problem("--paper", "not together with --output", "one of them a command"))
        from tune_cl.report.page import write_output  # these import SciPy
        from tune_cl.report.paper import write_paper

        with working(progress):
            if paper:
                return write_paper(self.search_folder, Path(paper).expanduser())
            return write_output(self.search_folder, None if output is None else Path(output).expanduser())

    def report(self, output: str | Path | None = None, progress: bool = True) -> Path:
        """Writes the report, one HTML page that opens offline, to a file (by default in the search's folder) and
        returns its path."""
        return Path(self.write_report(output, progress=progress).output)

    def paper(self, folder: str | Path | None = None, progress: bool = True) -> Path:
        """Writes what a paper says of the search to a folder (by default `paper` in the search's folder) and returns
        its path: `methods.tex`, a paragraph; `table.tex`; `figure.pdf`; `references.bib`."""
        return Path(self.write_report(paper=folder or self.search_folder.folder / "paper", progress=progress).output)

    def _repr_html_(self) -> str:
        from tune_cl.report.page import search_html  # imports SciPy

        return search_html(self.search_folder)

    def to_optuna(self, storage: str, study_name: str | None = None) -> Any:
        """Writes the search as a study (by default of its own name) to an Optuna storage, such as
        `sqlite:///optuna.db`, for optuna-dashboard; returns the `optuna.Study`. Raises ConfigError if there is one of
        that name."""
        from tune_cl.report.study import write_study  # imports Optuna

        return write_study(self._state, storage, study_name or self.name)

    def __repr__(self) -> str:
        ended = "finished" if self.finished else "not finished"
        return f"<Search {self.name} in {self.storage}: {len(self._state.trials)} trials, {ended}>"
