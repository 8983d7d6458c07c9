"""A search, and its report: run, resume, report."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from shlex import quote

from trainables.core.errors import ConfigError, Problem
from trainables.core.plugins import plugin_options
from trainables.rankers import RANKERS
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
    training_options,
)
from tune_cl.cli.tables import text
from tune_cl.experiment.load import SpaceOptions
from tune_cl.history.search_folder import SearchFolder, StorageOptions
from tune_cl.process import program
from tune_cl.report.story import of_search
from tune_cl.results import SearchResult, Written

CHECKPOINT = "checkpoint"  # in the folder of a function's best iteration


def result_in_words(
    result: SearchResult, search_folder: SearchFolder, address: str | None = None, view: str | None = None
) -> str:
    """The story of a search, then the commands to run next. `address`: the Ray cluster that it ran on; `view`: the page
    of its trials on a server of MLflow."""
    return "\n".join([text(of_search(result)), "", *_next(result, search_folder, address, view or "")])


def _next(result: SearchResult, search_folder: SearchFolder, address: str | None, view: str) -> list[str]:
    lines = {}
    if result.best_curriculum:
        lines["Test it:"] = search_folder.command("confirm", address)
        if result.effects:
            pairs = "All curricula:" if result.over_curricula else "All pairs:"
            lines[pairs] = f"{search_folder.command('effects', address)} --seeds 2"
        lines["How many seeds?"] = f"{search_folder.command('plan')} --pilot 3"
    lines["Read the report:"] = search_folder.command("report")
    uri = result.tracking_uri
    page = f"{uri.rstrip('/')}/{view}"  # of a server; a database has none
    lines["Compare the trials:"] = page if uri.startswith("http") else f"mlflow ui --backend-store-uri {quote(uri)}"
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

    tune-cl check forecasts what a search will do and cost; tune-cl resume continues one that was stopped."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_space(parser)
        parser.add_argument("--name", help="of the search (default: the space's name, numbered where it is taken)")
        add_objective(parser)
        add_session(parser)
        add_overrides(parser)

    def execute(self, options: Namespace) -> Search:
        given = SpaceOptions.given(options) | StorageOptions.given(options) | training_options(options)
        return run(options.space, name=options.name, overrides=options.overrides, **given)


class ResumeCommand(ResultCommand):
    """Example: tune-cl resume quickstart

    Nothing finished is repeated; open trials continue from their last checkpoint. For a finished search, only what
    MLflow lacks is sent."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        add_objective(parser)
        add_session(parser)

    def execute(self, options: Namespace) -> Search:
        return recorded(options).resume(**training_options(options))


class ReportCommand(Command):
    """Examples:
      tune-cl report quickstart --output report.html
      tune-cl report quickstart --paper paper

    One page that opens offline, on a phone too: verdict, tables, charts. --paper: a methods paragraph, a table with
    caption, a figure and the references; before tune-cl confirm their numbers are those of dev alone. Works while a
    search runs, and before and after tune-cl confirm."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name(parser)
        parser.add_argument("--output", type=Path, metavar="FILE", help="default: STORAGE/NAME/report.html")
        paper = "methods.tex, table.tex, figure.pdf and references.bib instead"
        parser.add_argument("--paper", type=Path, metavar="FOLDER", help=paper)
        StorageOptions.add_to(parser)

    def execute(self, options: Namespace) -> Written:
        search_folder = recorded(options).search_folder
        if options.paper and options.output:
            raise ConfigError(Problem("--paper", "not together with --output", "one of them a command"))
        # These import SciPy: a name that is none is told before.
        from tune_cl.report.output import write_output
        from tune_cl.report.paper import write_paper

        return (
            write_paper(search_folder, options.paper) if options.paper else write_output(search_folder, options.output)
        )

    def render(self, document: Written) -> str:
        return "\n".join(f"{name}  {path}" for name, path in (document.files or {"report": document.output}).items())
