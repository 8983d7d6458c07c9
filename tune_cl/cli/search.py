"""A search, and what it left: run, resume, tune-plain, report, searches, ui."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile
from typing import IO

from trainables.core.errors import ConfigError, DataError, Problem, WorkFailed
from trainables.core.plugins import plugin_options
from trainables.core.prose import say
from trainables.evaluation.metrics import in_words
from trainables.rankers import RANKERS
from tune_cl.api.folds import FoldSearches
from tune_cl.api.search import Search
from tune_cl.api.start import run
from tune_cl.cli import Command
from tune_cl.cli.options import (
    add_name,
    add_objective,
    add_overrides,
    add_session,
    add_space,
    recorded,
    storage_of,
    training_options,
)
from tune_cl.cli.tables import table, text
from tune_cl.experiment.load import SpaceOptions
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import (
    DEFAULT_STORAGE,
    STORAGE_HELP,
    SearchFolder,
    StorageOptions,
    existing_search_folder,
    search_folder_of,
)
from tune_cl.history.state import replay
from tune_cl.history.tracking_uri import DATABASES, SQLITE, masked, resolve_tracking_uri
from tune_cl.process import program
from tune_cl.report.document import Written
from tune_cl.report.story import could_be_tuned, of_search
from tune_cl.results import SearchResult
from tune_cl.search_result import recorded_view
from tune_cl.space.wording import PLAIN_TRAINING

CHECKPOINT = "checkpoint"  # in the folder of a function's best iteration


def result_in_words(
    result: SearchResult, search_folder: SearchFolder, address: str | None = None, view: str | None = None
) -> str:
    """The story of a search, then the commands to run next. `address`: the Ray cluster that it ran on; `view`: the page
    of its trials on a server of MLflow."""
    return "\n".join([text(of_search(result)), "", *_next(result, search_folder, address, view or "")])


def _next(result: SearchResult, search_folder: SearchFolder, address: str | None, view: str) -> list[str]:
    tune = "Tune plain training:" if result.plain == PLAIN_TRAINING else "Tune the baseline:"
    lines = {tune: search_folder.command("tune-plain", address)} if could_be_tuned(result) else {}
    if result.best_curriculum:
        lines["Test it:"] = search_folder.command("confirm", address)
        if result.effects:
            pairs = "All curricula:" if result.over_curricula else "All pairs:"
            lines[pairs] = f"{search_folder.command('effects', address)} --seeds 2"
        lines["How many seeds?"] = f"{search_folder.command('plan')} --pilot 3"
    lines["Read the report:"] = search_folder.command("report")
    uri = result.tracking_uri
    page = f"{uri.rstrip('/')}/{view}"  # of a server; a database has none
    lines["Compare the trials:"] = page if uri.startswith("http") else search_folder.command("ui")
    label = "Best checkpoint:" if search_folder.objective else "Use the best ranker:"
    lines[label] = _use(result, bool(search_folder.objective))
    return [f"{what:<22}{command}" for what, command in lines.items()]


def _use(result: SearchResult, by_function: bool) -> str:
    """The command that applies the best ranker, or why none was saved. Of a user's function: its best checkpoint."""
    ranker, best = result.checkpoint, result.trial(result.best)
    if by_function:
        return f"{ranker}/{CHECKPOINT}" if ranker else "not saved: the best iteration was reported without a checkpoint"
    if not ranker:
        return f"not saved: no checkpoint of {result.best} could be read"
    params = result.configuration | (best.params if best else {})
    name = params.get("ranker.name", result.ranker)
    no_texts = (name in RANKERS and RANKERS[name].reads == "features") or params.get("ranker.add_first_stage")
    source = "--data FOLDER" if no_texts else "--query TEXT --documents FILE"
    return f"{program('tune-cl')} rerank {quote(ranker)} {source}{plugin_options()}"


class ResultCommand(Command):
    """A command that ends with the result of a search."""

    def render(self, document: Search) -> str:
        return result_in_words(document.result, document.search_folder, document.address, document.view)


class RunCommand(ResultCommand):
    """Examples:
      tune-cl run quickstart
      tune-cl run penha2020_pacing --data ../data/msdialog --ranker bert --set ranker.model=bert-base-uncased
      tune-cl run my_space.yaml --trials 40 --address auto --storage /shared/runs

    tune-cl check forecasts what a search will do and cost; tune-cl resume continues one that was stopped. For a LETOR
    collection with Fold1, Fold2, ... it runs a search a fold, NAME-Fold1, ..., which tune-cl confirm NAME joins."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_space(parser)
        parser.add_argument("--name", help="of the search (default: the space's name, numbered where it is taken)")
        add_objective(parser)
        add_session(parser)
        add_overrides(parser)

    def execute(self, options: Namespace) -> Search | FoldSearches:
        given = SpaceOptions.given(options) | StorageOptions.given(options) | training_options(options)
        return run(options.space, name=options.name, overrides=options.overrides, **given)

    def render(self, document: Search | FoldSearches) -> str:
        """Of several folds, the best dev values of each."""
        if not isinstance(document, FoldSearches):
            return super().render(document)
        results = document.results
        rows = []
        for one in results:
            curriculum, plain = one.trial(one.best_curriculum), one.trial(one.best_plain)
            rows.append((one.name, curriculum and curriculum.dev, plain and plain.dev))
        shown = table(["search", f"dev {in_words(results[0].metric)}, best curriculum", "plain"], rows)
        of_all = search_folder_of(results[0].storage, document.name)
        return f"{shown}\n\nTest over the queries of all folds: {of_all.command('confirm')}"


class ResumeCommand(ResultCommand):
    """Example: tune-cl resume quickstart

    Nothing finished is repeated; open trials continue from their last checkpoint. For a finished search, only what
    MLflow lacks is sent."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        add_objective(parser)
        add_session(parser)
        parser.add_argument("--retry-failed", action="store_true", help="train failed trials again")

    def execute(self, options: Namespace) -> Search:
        return recorded(options).resume(retry_failed=options.retry_failed, **training_options(options))


class TunePlainCommand(ResultCommand):
    """Example: tune-cl tune-plain penha2020_pacing --trials 12

    Tunes plain training too: beside an untuned one, curricula look too good. Adds trials without a curriculum: the
    twins that curricula lack, then others over the keys that the space searches outside baseline, else over learning
    rate, loss and batch size. The same command continues one that was stopped."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        parser.add_argument("--trials", type=int, help="plain trials to add (default: as many as make the arms equal)")
        add_objective(parser)
        add_session(parser)

    def execute(self, options: Namespace) -> Search:
        return recorded(options).tune_plain(options.trials, **training_options(options))


FORMATS = ("html", "latex", "csv", "parquet")  # of a report


class ReportCommand(Command):
    """Examples:
      tune-cl report quickstart
      tune-cl report quickstart --format latex --output table.tex
      tune-cl report quickstart --paper

    html: one file that opens offline, on a phone too: verdict, tables, charts. latex: the table of configurations.
    csv, parquet: a row a trial. --paper: a methods paragraph, a table with caption, a figure and the references, with
    the verdict's numbers; before tune-cl confirm they are those of dev alone. --json prints all that the report tells.
    Works while a search runs, and before and after tune-cl confirm."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        parser.add_argument("--output", type=Path, metavar="FILE", help="default: STORAGE/NAME/report.html, .tex, ...")
        parser.add_argument("--format", choices=FORMATS, help="default: by the suffix of FILE, else html")
        paper = "methods.tex, table.tex, figure.pdf and references.bib instead (default folder: STORAGE/NAME/paper)"
        parser.add_argument("--paper", type=Path, nargs="?", const=Path(), metavar="FOLDER", help=paper)
        StorageOptions.add_to(parser)

    def execute(self, options: Namespace) -> Written:
        search_folder = recorded(options).search_folder
        if options.paper is not None and (options.output or options.format):
            raise ConfigError(Problem("--paper", "not together with --output or --format", "one of them a command"))
        # These import SciPy: a name that is none is told before.
        from tune_cl.report.output import write_output
        from tune_cl.report.paper import write_paper

        if options.paper is not None:
            return write_paper(search_folder, None if options.paper == Path() else options.paper)
        return write_output(search_folder, options.output, options.format)

    def render(self, document: Written) -> str:
        return "\n".join(f"{name}  {path}" for name, path in (document.files or {"report": document.output}).items())


@dataclass(frozen=True)
class SearchEntry:
    """A search in one line; of one that is damaged, name and state alone. verdict: None before `tune-cl confirm`."""

    name: str
    data: str | None
    trials: int | None
    state: str
    verdict: str | None


class SearchesCommand(Command):
    """Example: tune-cl searches --storage s3://BUCKET/runs"""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)

    def execute(self, options: Namespace) -> list[SearchEntry]:
        """Raises ConfigError for a storage that cannot be used."""
        names = search_folder_of(options.storage, "").search_names()
        return [_entry(options.storage, name) for name in sorted(names)]

    def render(self, document: list[SearchEntry]) -> str:
        if not document:
            return "no searches here yet; tune-cl run starts one"
        return table([one.name for one in fields(SearchEntry)], ([*vars(entry).values()] for entry in document))


def _entry(storage: str, name: str) -> SearchEntry:
    """A search; of one that is damaged, what is wrong is said."""
    try:
        return _described(existing_search_folder(storage, name))
    except DataError as error:
        say("\n".join(error.lines()))
        return SearchEntry(name, None, None, "damaged", None)


def _described(search_folder: SearchFolder) -> SearchEntry:
    state, verdict = replay(read_events(search_folder.journal)), Search(search_folder).verdict
    ended = "finished" if state.end else "not finished"
    answer = verdict.verdict if verdict else None
    return SearchEntry(search_folder.name, state.data["name"], len(state.trials), ended, answer)


HOST = "127.0.0.1"
OWN = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # the UI alone is wanted


class UiCommand(Command):
    """Examples:
      tune-cl ui quickstart
      tune-cl ui --storage /shared/runs

    Starts MLflow's UI for the search's database, or that of the storage, on this machine alone, and opens the table of
    the trials; Ctrl-C ends it. Of a search that a server tracks it shows the address there."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", nargs="?", help="of a search (default: all in the storage)")
        StorageOptions.add_to(parser)

    def execute(self, options: Namespace) -> dict[str, str]:
        """Until Ctrl-C. Raises ConfigError if there is nothing to show, WorkFailed if MLflow ends itself."""
        uri, view = _shown(options)
        if uri.startswith("http"):
            address = f"{masked(uri).rstrip('/')}/{view}"
            _show(address)
            return {"address": address, "tracking_uri": masked(uri)}
        _require_database(uri)
        with TemporaryFile() as log, _server(uri, log) as (process, server):
            address = f"{server}/{view}"
            _await(process, server, log)
            _show(address)
            say("Ctrl-C ends it")
            try:
                process.wait()
            except KeyboardInterrupt:
                return {"address": address, "tracking_uri": masked(uri)}
            raise WorkFailed(f"MLflow's UI has ended: {_last_line(log)}")

    def render(self, document: dict[str, str]) -> str:
        return document["address"]


def _shown(options: Namespace) -> tuple[str, str]:
    """The tracking address, and the page below that of its server."""
    given = storage_of(options)
    if options.name is None:
        return resolve_tracking_uri(search_folder_of(given.storage, "").storage, given.tracking_uri), ""
    search_folder = given.existing(options.name)
    return search_folder.tracking_uri, recorded_view(search_folder)[1] or ""


def _require_database(uri: str) -> None:
    if not uri.startswith(DATABASES):
        raise ConfigError(Problem("--tracking-uri", f"{masked(uri)} has a UI of its own", "the address of a database"))
    if uri.startswith(SQLITE) and not Path(uri.removeprefix(SQLITE)).exists():
        wrong = f"there is no {uri.removeprefix(SQLITE)}"
        raise ConfigError(Problem("--storage", wrong, "the storage of a search, or --tracking-uri"))


@contextmanager
def _server(uri: str, log: IO[bytes]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """MLflow on a free port of this machine, and its address. In a session of its own: Ctrl-C reaches it through us."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    environment = os.environ | OWN | {"MLFLOW_BACKEND_STORE_URI": uri}  # no argument: others could read its password
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    try:
        yield process, f"http://{HOST}:{port}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def _await(process: subprocess.Popen[bytes], server: str, log: IO[bytes]) -> None:
    """Waits until MLflow answers; raises WorkFailed if it ends instead."""
    say("starting MLflow's UI, which takes some seconds")
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise WorkFailed(f"MLflow's UI did not start: {_last_line(log)}")


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _show(address: str) -> None:
    """Prints the address and, for somebody at a display, opens it."""
    say(f"open {address}", whole=True)
    at_display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if at_display and sys.stderr.isatty():
        webbrowser.open(address)
