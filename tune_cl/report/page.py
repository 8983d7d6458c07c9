"""The report as one HTML page, which contains its style and charts, so that it opens without a network; and parts of it
for the cells of a notebook."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import require_file, write_text
from trainables.core.prose import say, visible
from tune_cl.experiment.arms import CURRICULUM
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState
from tune_cl.report import charts
from tune_cl.report.contents import Contents, contents_of
from tune_cl.report.story import Part, best_trials, of_effects, of_search, of_verdict
from tune_cl.results import Effects, SearchResult, Verdict, Written

FILES = Path(__file__).parent / "templates"
STYLE = (FILES / "page.css").read_text(encoding="utf-8")
TEMPLATES = Environment(loader=FileSystemLoader(FILES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
ENDINGS = (".html", ".htm")
CLASS = "tune-cl"  # of the element whose contents have the report's style, and nothing else of the notebook
FIGURES = re.compile(r"[-+±.,<–\d\s\[\]]*")
NOTHING = Part("On dev", ("No trial has given a dev value yet.",))


def numeric_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns of a table that hold nothing but numbers and intervals."""
    columns = enumerate(zip(*rows, strict=True))
    return [at for at, column in columns if any(column) and all(FIGURES.fullmatch(cell) for cell in column)]


TEMPLATES.globals["numeric_columns"] = numeric_columns


@dataclass(frozen=True)
class Chart:
    title: str
    drawn: Markup
    legend: str = ""


@dataclass(frozen=True)
class Section:
    """`commands`: what to do next, a line each; `files`: texts under their names; `answer`: better, worse or empty,
    for the colour of a verdict's first part."""

    title: str
    parts: Sequence[Part] = ()
    charts: Sequence[Chart] = ()
    commands: Sequence[str] = ()
    files: Sequence[tuple[str, str]] = ()
    answer: str | None = None


def page(contents: Contents) -> str:
    """The report as an HTML document."""
    state, experiment = contents.state, contents.experiment
    about = f"{', '.join(state.rankers)} on {state.data['name']}"
    return visible(
        TEMPLATES.get_template("page.html").render(
            name=state.name,
            about=about,
            description=experiment.description,
            sections=sections_of(contents),
            style=Markup(STYLE),
        )
    )


def sections_of(contents: Contents, in_python: bool = False) -> list[Section]:
    """All sections that have something to say, the verdict first. `in_python`: what to do next as calls, not
    commands."""
    result = contents.result
    ask = contents.search_folder.call if in_python else contents.search_folder.command
    found = [verdict_section(contents.verdict)] if contents.verdict else []
    if result is None:
        going_on = [] if contents.state.end else [ask("resume")]
        return [*found, Section("Search", [NOTHING], commands=going_on), _again(contents)]
    if not contents.verdict:
        parts = [Part("No verdict yet: nothing has been confirmed")]
        command = "confirm" if result.best_curriculum else "report"
        found.append(Section("Verdict", parts, commands=[ask(command)], answer=""))
    searched = [part for part in of_search(result) if part not in of_effects(result.effects)]
    found.append(Section("On dev", [*searched, *best_trials(result)], _curves(result, contents.state)))
    found += effects_sections(contents.effects)
    return [*found, *_settings(contents.state, result), _again(contents)]


def verdict_section(verdict: Verdict) -> Section:
    legend = "A dot for each seed; above them the difference and its 95 % interval for new trainings on new queries."
    forest = [Chart("Differences from each opponent", charts.forest_chart(verdict), legend)]
    answer = "" if verdict.split == "dev" else verdict.verdict.partition(" ")[0]
    return Section("Verdict", of_verdict(verdict), forest, answer=answer)


def _curves(result: SearchResult, state: SearchState) -> list[Chart]:
    curves = {trial.trial: trial.dev(state.metric) for trial in state.by_number()}
    return [Chart("Learning curves", charts.learning_chart(result, curves))]


def effects_sections(effects: Effects | None) -> list[Section]:
    """What curricula change, by value and by pair; none for fewer than two pairs."""
    if effects is None:
        return []
    drawn = []
    if effects.by_value:
        legend = "Pooled towards their centre; in brackets the number of pairs; dashed: the mean over all pairs."
        drawn.append(Chart("By value", charts.value_chart(effects), legend))
    if effects.by_pair:
        drawn.append(Chart("By pair", charts.pair_chart(effects)))
    parts = of_effects(effects)
    return [Section(parts[0].title, parts, drawn)]


def _settings(state: SearchState, result: SearchResult) -> list[Section]:
    """What the curricula set, by Optuna; none for too few of them."""
    from optuna.storages import InMemoryStorage

    from tune_cl.report.study import write_study

    curricula = write_study(state, InMemoryStorage(), state.name, state.trials_of(CURRICULUM))
    drawn = [Chart(title, chart) for title, chart in charts.settings_charts(curricula, result)]
    return [Section("Settings", charts=drawn)] if drawn else []


def _again(contents: Contents) -> Section:
    """How to repeat the search."""
    state, verdict = contents.state, contents.verdict
    folder = replace(contents.search_folder, name="again" if contents.search_folder.name != "again" else "once-more")
    confirm = folder.command("confirm")
    if verdict:
        confirm += f" --seeds {len(verdict.seeds)}" + (f" --split {verdict.split}" if verdict.split != "test" else "")
    commands = [folder.command("run search.yaml --name"), confirm, folder.command("report")]
    facts = {
        "data": f"{state.data['name']} (digest {state.data['digest'][:16]})",
        "seed": state.seed,
        "git commit": state.git_commit,
        "versions": dict(sorted(state.versions.items())),
    }
    files = [("search.yaml", state.yaml), ("versions", yaml.safe_dump(facts, sort_keys=False, allow_unicode=True))]
    return Section("Reproduce", commands=commands, files=files)


def search_html(search_folder: SearchFolder) -> str:
    """All sections but the last for a notebook: the style's rules for the page apply to the element around them."""
    sections = sections_of(contents_of(search_folder), in_python=True)[:-1]
    rules = STYLE.replace(":root {", "& {").replace("body {", "& {")
    style = Markup(f".{CLASS} {{ {rules} }}")
    return TEMPLATES.get_template("fragment.html").render(sections=sections, style=style, name=CLASS)


# -- files ---------------------------------------------------------------------------------------------------------


def write_report(search_folder: SearchFolder, journal: Journal) -> SearchResult | None:
    """Writes report.html on the search's present state into its folder, and has it sent to MLflow. Returns the
    result that it shows. A failure is only printed, because the result stands without a report: None."""
    path = search_folder.report
    try:
        contents = contents_of(search_folder)
        write_text(path, page(contents))
    except Exception as error:  # noqa: BLE001 - a chart that fails must not take the result with it
        say(f"no report: {error}; {search_folder.command('report')} tries again", whole=True)
        return None
    journal.append({"event": "artifact", "path": str(path.resolve())})
    return contents.result


def write_output(search_folder: SearchFolder, output: Path | None) -> Written:
    """Writes the report to a file, by default in the search's folder. Raises ConfigError for a name that does not end
    in .html or a file that cannot be written, DataError for a damaged search."""
    output = output or search_folder.report
    if output.suffix.lower() not in ENDINGS:
        right = "a name that ends in .html; search.trials and verdict.table are DataFrames, --paper writes LaTeX"
        raise ConfigError(Problem("--output", f"{output} is no page", right))
    require_file("--output", output)
    contents = contents_of(search_folder)
    text = page(contents)
    write_text(output, text)
    return Written(output=str(output), result=contents.result, verdict=contents.verdict)
