"""The report as a page that loads nothing, keeps text as text and shows the verdict's numbers; and as a command."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.support.report_cases import HOSTILE, Case, whole
from tests.support.terminal import result
from trainables.core.errors import ConfigError
from tune_cl.api.search import Search
from tune_cl.cli import main
from tune_cl.cli.texts import story_text as text
from tune_cl.history.journal import Journal, read_events
from tune_cl.report import page as file
from tune_cl.report.contents import Contents, contents_of
from tune_cl.report.page import page, search_html
from tune_cl.report.story import of_search, of_verdict
from tune_cl.results import LabelFree, Remark, SearchResult, Written

LOADS = {"src", "href", "srcset", "data", "xlink:href"}


class Reader(HTMLParser):
    """The texts of a page by section, the tags that it has, and what these would load."""

    def __init__(self, drawn: str):
        super().__init__()
        self.sections: dict[str, str] = {}
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.section = ""
        self.feed(drawn)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        addresses = [values[key] or "" for key in LOADS & values.keys()]
        self.loads += [f"{tag} {address}" for address in addresses if not address.startswith("#")]
        if tag == "section":
            self.section = values["id"] or ""

    def handle_data(self, data: str) -> None:
        self.sections[self.section] = self.sections.get(self.section, "") + data


# -- the page ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """A search with all that there may be, and its verdict."""
    case = whole(tmp_path_factory.mktemp("whole"))
    case.confirm()
    return contents_of(case.write())


@pytest.fixture(scope="module")
def drawn(confirmed: Contents) -> str:
    return page(confirmed)


def test_the_page_loads_nothing_and_runs_no_script(drawn: str) -> None:
    found = Reader(drawn)
    assert list(found.sections) == ["", "verdict", "on-dev", "settings", "reproduce"]
    assert found.loads == [] and not found.tags & {"script", "img", "link", "iframe"}
    assert "default-src 'none'" in drawn[:500] and len(drawn.encode()) < 200_000
    assert "url(http" not in drawn and "@import" not in drawn


def test_hostile_texts_stay_texts(drawn: str) -> None:
    sections = Reader(drawn).sections
    assert HOSTILE in sections["verdict"], "a label"
    assert HOSTILE in sections["on-dev"], "the reason of a failure"
    assert "<script" not in drawn and "<img" not in drawn


def test_the_page_shows_the_numbers_of_the_verdict_and_of_the_search(drawn: str, confirmed: Contents) -> None:
    verdict, found = confirmed.verdict, confirmed.result
    assert verdict and found
    sections = Reader(drawn).sections
    assert all(sentence in sections["verdict"] for sentence in verdict.sentences)
    for one in verdict.opponents:
        low, high = one.ci95 or (0, 0)
        assert f"{one.difference:+.4f}" in sections["verdict"] and f"[{low:+.4f}, {high:+.4f}]" in sections["verdict"]
        assert f"{one.mean:.4f}" in sections["verdict"]
    for part in of_search(found):
        assert all(sentence in sections["on-dev"] for sentence in part.sentences)
    best = found.trial(found.best)
    assert best and f"{best.dev:.4f}" in sections["on-dev"] and best.label in sections["on-dev"]


@pytest.mark.parametrize("outcomes", [(), ("baseline", "failed")])
def test_a_search_without_any_value_is_reported(tmp_path: Path, outcomes: tuple[str, ...]) -> None:
    case = Case(tmp_path)
    for outcome in outcomes:
        case.add([math.nan], outcome)
    contents = contents_of(case.write())
    assert contents.result is None and "No trial has given a dev value yet." in page(contents)


def test_a_search_that_is_not_confirmed_says_how(tmp_path: Path) -> None:
    contents = contents_of(whole(tmp_path).write())
    found = Reader(page(contents)).sections["verdict"]
    assert "No verdict yet" in found and "tune-cl confirm toy" in found


def test_a_notebook_shows_sections_in_a_style_of_their_own(confirmed: Contents) -> None:
    shown = search_html(confirmed.search_folder)
    assert shown.startswith('<div class="tune-cl"><style>.tune-cl {') and "body {" not in shown
    assert "The curriculum: no difference shown" in shown and "<svg" in shown


# -- the story, as every renderer shows it -------------------------------------------------------------------------


def said_of(found: SearchResult) -> str:
    return " ".join(sentence for part in of_search(found) for sentence in part.sentences)


def table_of(found: SearchResult) -> dict[str, tuple[str, ...]]:
    [table] = [part.table for part in of_search(found) if part.table]
    return {row[0]: row[1:] for row in (table.columns, *table.rows)}


def test_the_best_trial_stands_beside_the_default_with_the_keys_that_differ() -> None:
    found = table_of(result(0.5, 0.4))
    assert found[""] == ("best curriculum (t0001)", "plain, default (t0000)") and found["dev x"] == ("0.5000", "0.4000")
    assert found["training.lr"] == ("3e-05", "0.001") and found["curriculum.m"] == ("10", "–"), "with their own digits"
    assert "curriculum.anti" not in found
    assert table_of(result(0.4, 0.45, best_curriculum=None))[""] == ("plain, default (t0000)",)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (result(0.5, 0.4), "The best curriculum was 0.1000 x above plain training as given on dev."),
        (result(0.4, 0.45), "No curriculum beat plain training as given on dev: the best, t0001, was 0.0500 x below."),
        (result(0.5, 0.4, tuned=0.45), "Tuning plain training (2 trials over lr) gained 0.0500 x on dev. "
         "The best curriculum was 0.0500 x above tuned plain training on dev."),
        (result(0.5, 0.4, tuned=0.45), "4 trials, 2 plain and 2 with a curriculum (1 stopped early, 0 failed)"),
        (result(0.4, 0.45, best_curriculum=None), "No trial but plain training as given gave a dev value"),
        (result(0.5, 0.4, best_plain=None, default=None), "There is no dev value of plain training as given"),
        (result(0.5, 0.4, tuned=0.45, plain="margin=1"), "The best other trial was 0.0500 x above tuned margin=1"),
        (result(0.5, 0.4, first_stage=LabelFree(label="BM25", mean=0.45), label_free=LabelFree(label="SDM", mean=0.47)),
         "BM25 has 0.4500 and SDM has 0.4700 x on dev."),
    ],
)  # fmt: skip
def test_a_search_says_what_tuning_and_what_the_curriculum_were_worth(found: SearchResult, said: str) -> None:
    assert said in said_of(found)


@pytest.mark.parametrize("none", [False, True])
def test_a_search_without_curricula_speaks_of_none(none: bool) -> None:
    best = {"best_curriculum": None} if none else {}
    found = said_of(result(0.4, 0.45, plain=None, **best))
    assert "curriculum" not in found and "plain training" not in found
    other = said_of(result(0.4, 0.45, plain="margin=1", **best))
    assert "curriculum" not in other and "plain training" not in other.lower()
    assert "margin=1" in other and (none or "margin=1 was not tuned" in other)


def test_the_terminal_shows_the_same_parts(confirmed: Contents) -> None:
    warning = Remark(kind="below label-free", text="SDM alone has 0.4700 MAP", warning=True)
    shown = text(of_search(result(0.5, 0.4, remarks=(warning,))))
    assert shown.startswith("Warnings\nSDM alone has 0.4700 MAP.") and "best curriculum (t0001)" in shown
    assert confirmed.verdict
    told = " ".join(text(of_verdict(confirmed.verdict)).split())
    assert all(" ".join(sentence.split()) in told for sentence in confirmed.verdict.sentences)


# -- Optuna --------------------------------------------------------------------------------------------------------


def test_optuna_reads_the_study_back(confirmed: Contents, tmp_path: Path) -> None:
    search, storage = Search(confirmed.search_folder), f"sqlite:///{tmp_path}/optuna.db"
    search.to_optuna(storage)
    study = optuna.load_study(study_name="toy", storage=storage)
    rows = search.trials.set_index("trial_id")
    assert [trial.user_attrs["trial_id"] for trial in study.trials] == list(rows.index)
    for trial in study.trials:
        row = rows.loc[trial.user_attrs["trial_id"]]
        without_value = row.outcome == "failed" or math.isnan(row.dev)
        assert (trial.state is optuna.trial.TrialState.FAIL) is without_value
        if trial.state is not optuna.trial.TrialState.RUNNING and not without_value:
            assert trial.value == pytest.approx(row.dev) and len(trial.intermediate_values) == row.iterations
    assert study.best_trial.user_attrs["trial_id"] == search.result.best
    root = next(trial for trial in study.trials if trial.params.get("curriculum.pacing") == "root")
    assert root.params["curriculum.n"] in (2, 5) and set(root.distributions) == set(root.params)
    with pytest.raises(ConfigError, match="has a study 'toy'"):
        search.to_optuna(storage)


# -- the command ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_reported_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case(tmp_path)
    case.confirm()
    folder, storage = case.write().folder, str(case.search_folder.storage)
    assert main(["report", "tyo", "--storage", storage]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: NAME: ") and "'tyo'" in error and "toy" in error
    for wrong in (str(tmp_path), str(tmp_path / "trials.csv")):
        assert main(["report", "toy", "--storage", storage, "--output", wrong]) == 2
        assert "error: --output: " in capsys.readouterr().err
    assert main(["report", "toy", "--storage", storage, "--output", "a.html", "--paper", "b"]) == 2
    (folder / "confirmation" / "test.json").write_text("{}")
    assert main(["report", "toy", "--storage", storage]) == 2
    assert "confirmation/test.json: " in capsys.readouterr().err.splitlines()[-1]
    assert not list(Path(storage).glob("**/report.*")) and not Path("a.html").exists()


def test_the_command_writes_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    case = Case(tmp_path)
    case.add([0.3, 0.4], "baseline")
    search_folder = case.write()
    assert main(["report", "toy", "--storage", str(search_folder.storage), "--json"]) == 0
    written = Written.model_validate_json(capfd.readouterr().out)
    assert written.output == str(search_folder.folder / "report.html") and written.verdict is None
    assert written.result and written.result.best == "t0000"
    assert Path(written.output).read_text().startswith("<!doctype html>")


# -- what keeps a report from being made, left or sent costs that alone ----------------------------------------------


def test_a_result_stands_without_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a chart that fails would end a search that is done, at each resume again."""

    def failing(_: Any) -> str:
        raise OSError("full")

    search_folder = Case(tmp_path).write()
    monkeypatch.setattr(file, "page", failing)
    with Journal(search_folder.folder) as journal:
        file.write_report(search_folder, journal)
    told = capsys.readouterr().err
    assert "full" in told and "report toy" in told
    assert [event["event"] for event in read_events(search_folder.journal)] == ["search"]
