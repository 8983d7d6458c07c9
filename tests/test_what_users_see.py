"""What the terminal, the report and MLflow say in words."""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.panel_states import state_of, trial
from tests.support.report_cases import Case
from tests.support.terminal import result
from trainables.core.errors import DataError
from trainables.data import load_data
from trainables.evaluation.metrics import METRICS
from tune_cl.cli import COMMANDS, DONE, Parser, main
from tune_cl.cli.search_result import render
from tune_cl.cli.tables import table
from tune_cl.experiment.forecast import forecast_of
from tune_cl.experiment.load import load_experiment
from tune_cl.history.state import over_curricula, replay
from tune_cl.report.findings import gather
from tune_cl.report.page import page
from tune_cl.search_document import search_document
from tune_cl.tracking.layout import confirmation_name

SPACE = """
ranker: conv_knrm
curriculum: {pacing: {choice: [linear, root]}, n: {choice: [2, 5], when: {curriculum.pacing: root}}}
training: {max_iterations: 20}
search: {searcher: tpe, scheduler: asha, trials: 30}
"""

# -- the result of a search --------------------------------------------------------------------------------------


def test_the_result_shows_opened_keys_with_the_digits_that_they_have() -> None:
    shown = render(result(0.5, 0.4))
    assert "3e-05" in shown and "0.0000" not in shown and "10 " in shown and "10.0000" not in shown
    assert "anti" not in shown and "0.5000" in shown
    assert "best (t0001)" in shown and "Prove it:  " in shown


def test_the_result_names_all_rankers_that_were_searched() -> None:
    assert "search x: conv_knrm, knrm on x," in render(result(0.5, 0.4) | {"rankers": ["conv_knrm", "knrm"]})


def test_where_the_baseline_wins_the_best_curriculum_stands_beside_it() -> None:
    shown = render(result(0.4, 0.45))
    assert "best other trial (t0001)" in shown and "t0000" not in shown
    assert "the best of them (t0001) is at -0.0500 x." in shown
    assert "Test it:   " in shown and "Prove it" not in shown


def test_a_level_curriculum_is_not_above_plain_training() -> None:
    assert "the best of them (t0001) is at +0.0000 x." in render(result(0.45, 0.45))


def test_the_best_of_many_is_no_verdict() -> None:
    assert "+0.1000 x on dev. The best of many trials on one seed looks better" in render(result(0.5, 0.4))


def test_an_ablation_is_advised_where_more_than_the_curriculum_differs() -> None:
    found = result(0.5, 0.4)
    assert "--ablate" in confirm_line(found)
    found["best"]["params"]["training.lr"] = found["baseline"]["params"]["training.lr"]
    assert "--ablate" not in confirm_line(found), "the curriculum alone"
    found["best"]["params"] = {"curriculum.pacing": "none", "training.lr": 0.5}
    assert "--ablate" not in confirm_line(found), "no curriculum"


def confirm_line(found: dict[str, Any]) -> str:
    [line] = (line for line in render(found).splitlines() if "tune-cl confirm x" in line)
    return line


def test_the_trials_are_opened_at_the_server_or_with_one() -> None:
    found = result(0.5, 0.4) | {"address": "head:6379", "mlflow_view": "#/view", "tracking_uri": "http://here/"}
    shown = render(found)
    assert "Compare the trials:   http://here/#/view\n" in shown and "--address head:6379" in shown
    local = render(found | {"tracking_uri": "sqlite:////tmp/my runs/mlflow.db"})
    assert "ui --host 127.0.0.1 --port 5000 --backend-store-uri 'sqlite:////tmp/my runs/mlflow.db'\n" in local
    assert "and open http://127.0.0.1:5000/#/view" in local


def test_the_document_of_a_search_names_the_best_of_all_and_the_best_curriculum(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.3, 0.6], "baseline")
    for dev in (0.4, 0.5):
        case.add([0.3, dev], "completed")
    case.write()
    document = search_document(replay(case.events), case.search_folder, None, None)
    assert (document["best"]["trial_id"], document["best_curriculum"]["trial_id"]) == ("t0000", "t0002")
    assert set(document["opened"]) >= {"curriculum.pacing", "curriculum.delta"}
    shown = render(document)
    assert "tune-cl plan toy" in shown
    assert "best other trial (t0002)" in shown and "is at -0.1000 map" in shown


def test_a_result_of_the_baseline_alone_compares_nothing() -> None:
    shown = render(result(0.4, 0.45) | {"best_curriculum": None})
    assert "No trial besides the baseline gave a dev value" in shown and "best" not in shown.splitlines()[2]
    assert "tune-cl confirm" not in shown and "tune-cl report" in shown


def test_a_search_that_a_budget_ended_says_so() -> None:
    assert "What ended the search" not in render(result(0.5, 0.4) | {"ended_by": None})
    shown = render(result(0.5, 0.4) | {"ended_by": "search.iterations are used up"}).splitlines()
    assert shown[1] == "What ended the search: search.iterations are used up." and shown[2] == ""


def without_curricula(best: float, baseline: float) -> dict[str, Any]:
    """A search over the learning rate alone."""
    document = result(best, baseline) | {"opened": ["training.lr"], "over_curricula": False}
    trials = {id(trial): trial for name in ("best", "best_curriculum", "baseline") if (trial := document[name])}
    for trial in trials.values():
        trial["params"] = {"curriculum.pacing": "none", "training.lr": trial["params"]["training.lr"]}
    return document


def test_a_search_without_curricula_speaks_of_none() -> None:
    shown = render(without_curricula(0.4, 0.45))
    assert "curriculum" not in shown and "best other trial (t0001)" in shown
    assert "No trial was above the baseline on dev: the best of them (t0001) is at -0.0500 x." in shown
    none = render(without_curricula(0.4, 0.45) | {"best_curriculum": None})
    assert "No trial besides the baseline gave a dev value" in none


@pytest.mark.parametrize(
    ("pacing", "opened", "over"),
    [
        ("none", {"training.lr": 0.1}, False),
        ("root", {"training.lr": 0.1}, True),  # the space fixes it, its baseline turns it off
        ("none", {"curriculum.pacing": "none"}, True),
    ],
)
def test_a_search_is_over_curricula_that_it_opens_or_that_its_baseline_lacks(
    pacing: str, opened: dict[str, Any], over: bool
) -> None:
    told = [trial(0, 0.5, "baseline"), trial(1, 0.4, "completed")]
    told[0][0] |= {"chosen": {"curriculum.pacing": "none", "training.lr": 0.1}}
    told[1][0] |= {"params": told[0][0]["params"] | {"curriculum.pacing": pacing} | opened, "chosen": opened}
    assert over_curricula(state_of(told)) == over


@pytest.mark.parametrize(
    ("params", "task"),
    [
        ({"ranker.name": "conv_knrm"}, "--query TEXT --documents FILE"),
        ({"ranker.name": "lambdamart"}, "--data FOLDER"),
        ({"ranker.name": "knrm", "ranker.add_first_stage": True}, "--data FOLDER"),
    ],
)
def test_the_best_ranker_is_used_on_what_it_reads(params: dict[str, Any], task: str) -> None:
    document = result(0.5, 0.4) | {"ranker": "bert"}  # a search may open the ranker
    document["best"]["params"] |= params
    assert render(document).splitlines()[-1].endswith(f"best-ranker {task}")


def test_a_best_ranker_that_was_not_kept_is_not_offered() -> None:
    """Each of its trial's checkpoints may be lost or damaged."""
    told = render(result(0.5, 0.4) | {"best_ranker": None}).splitlines()[-1]
    assert told == "Use the best ranker:  not saved: no checkpoint of t0001 could be read"


# -- tables ------------------------------------------------------------------------------------------------------


def test_numbers_and_intervals_are_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    interval = "+0.0123 [-0.0100, +0.0346]"
    label = "root n=10, response_words, normalized_score m=4, delta=0.3, T=0.4"
    rows = [(label, "0.4670 ± 0.0070", interval, "0.1234")]
    for width, whole in ((80, True), (50, False)):
        monkeypatch.setenv("COLUMNS", str(width))
        shown = table(["configuration", "mean ± sd", "difference [95 %]", "p adjusted"], rows)
        assert (interval in shown) == whole and max(map(len, shown.splitlines())) <= width
        assert "".join(interval.split())[-7:] in "".join(shown.split()) or not whole


def test_words_are_broken_only_where_they_are_longer_than_their_column(monkeypatch: pytest.MonkeyPatch) -> None:
    label, plain = "conv_knrm root n=10, response_words, relevant_count", "plain, training.lr=0.02"
    columns = ["trial", "without its curriculum", "mean ± sd", "difference [95 %]", "p adjusted"]
    row = ("trial_0007", plain, "0.467", "+0.0123 [-0.0100, +0.0346]", "0.1234")
    for width, shown_columns, shown_row in ((78, columns, row), (48, columns[1:3], (label, "0.4670 ± 0.0070"))):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = table(shown_columns, [shown_row]).splitlines()
        assert set(" ".join((*shown_columns[:2], *shown_row[:2])).split()) <= set(" ".join(lines).split())
        assert max(map(len, lines)) <= width
    monkeypatch.setenv("COLUMNS", "30")
    assert "0.5000" in table(["run", "map", "p"], [("x" * 60, 0.5, 0.5)])


def test_no_line_ends_in_spaces() -> None:
    """A pipe's reader may wrap lines, and trailing spaces would become lines of their own."""
    shown = table(["", "texts"], [("a", "a long text"), ("b", "b"), ("c", "")])
    assert all(line == line.rstrip() for line in shown.splitlines())


def test_numbers_stand_right() -> None:
    shown = table(["", "value"], [("a", 1.0), ("b", -10.25), ("c", math.inf)]).splitlines()
    assert [line[-8:] for line in shown[2:]] == [
        "  1.0000", "-10.2500", "     inf"]  # fmt: skip


# -- what a search will do ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            [],
            "of 20 (curriculum.T 0.9), and its rungs are at 1, 3, 9; a lower curriculum.T, or search.",
        ),
        (["search.scheduler=hyperband"], "hyperband ends no trial here: curricula last until iteration 18"),
        (["curriculum.T={uniform: [.5, .9]}"], "curricula last at the soonest until iteration 1"),
        (["curriculum.T=.2", "curriculum.weighting=kde", "curriculum.m=12"], "iteration 12 of 20 (curriculum.m 12)"),
        (["search.scheduler=median", "curriculum.T=1"], "median ends no trial here: curricula last until iteration 20"),
        (["search.first_rung=20"], "it has no rung below the 20 iterations of a trial"),
    ],
)
def test_a_scheduler_that_can_end_no_trial_is_told(changed: list[str], told: str, tmp_path: Path) -> None:
    experiment = load_experiment(space(tmp_path), changed)
    [note] = experiment.notes
    assert told in note and " ends no trial here: " in note
    forecast = forecast_of(experiment)
    assert forecast["iterations_expected"] == forecast["iterations_at_most"]


@pytest.mark.parametrize(
    "changed",
    ["search.scheduler=none", "search.grace=none", "search.grace=5", "curriculum.T=.4",
     "search.scheduler=median", "search.scheduler=model", "curriculum.T={uniform: [.2, .9]}",
     "curriculum.pacing={choice: [none, root]}", "training.max_iterations=1"],
)  # fmt: skip
def test_a_scheduler_that_may_end_trials_is_not_remarked_on(changed: str, tmp_path: Path) -> None:
    assert load_experiment(space(tmp_path), [changed]).notes == ()


def space(folder: Path) -> str:
    (folder / "toy.yaml").write_text(SPACE)
    return str(folder / "toy.yaml")


def test_check_says_in_words_what_a_search_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pace = {"pairwise": 10.0, "pointwise": 6.0}  # the teacher's loss is pointwise
    monkeypatch.setattr(
        "trainables.training.factory.seconds_per_iteration", lambda run, *_, **__: pace[run.training.loss]
    )
    monkeypatch.setattr("tune_cl.cli.commands.check._at_a_time", lambda search: 3)
    monkeypatch.setenv("COLUMNS", "300")
    changed = ["curriculum.scoring={choice: [random, model_loss]}", "curriculum.T=.2", "search.reduction_factor=4"]
    options = [part for override in changed for part in ("--set", override)]
    assert main(["check", space(tmp_path), *options]) == DONE
    shown = [" ".join(line.split()) for line in capfd.readouterr().out.splitlines()]
    assert "trains conv_knrm on docstrings, for map on dev" in shown
    assert "opens 3 keys (1 only beside certain values of others): 6 combinations" in shown
    assert "trials 7, the baseline included, of at most 20 iterations" in shown
    assert "baseline curriculum.pacing none, curriculum.weighting none; never stopped early" in shown
    [scheduler] = [line for line in shown if line.startswith("scheduler")]
    assert "asha: the best 1/4 of those at a rung go on; rungs at iterations 1, 4, 16; trials are compared" in scheduler
    assert scheduler.endswith("not before its own curriculum is over")
    [teacher] = [line for line in shown if line.startswith("teacher")]
    assert teacher == "teacher at most 20 iterations before the first trial: one more training, which a scoring needs"
    [time] = [line for line in shown if line.startswith("time here")]
    assert " min without start-up, 3 at a time, 10 s an iteration" in time
    assert not any(line.startswith(("priors", "GPU", "steps", "pre-training")) for line in shown)
    assert main(["check", space(tmp_path), *options, "--json"]) == DONE
    forecast = json.loads(capfd.readouterr().out)
    hours = (20 * 6 + forecast["iterations_expected"] * 10 / 3) / 3600
    assert forecast["hours_forecast"] == pytest.approx(hours) and forecast["teacher_iterations"] == 20


# -- help --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_whole(name: str) -> None:
    parser = Parser(prog=name)
    command = import_module(f"tune_cl.cli.commands.{name}")
    command.add_arguments(parser)
    told = {action.dest: action.help or "" for action in parser._actions}
    assert all(told.values()), "every argument has a text"
    assert all("ir_datasets:NAME" in told[key] for key in told.keys() & {"data"})
    assert all("(default " in told[key] for key in told.keys() & {"split"})
    head, *lines = command.__doc__.split("\n\n")[0].splitlines()
    assert (head == "Examples:" and lines) or head.startswith(f"Example: tune-cl {name} ")
    assert all(line.startswith(f"  tune-cl {name} ") for line in lines)


def test_a_metric_is_described_with_its_cut() -> None:
    assert "first 10" in METRICS.entries["mrr@10"].summary and "first 10" in METRICS.entries["ndcg@10"].summary


# -- the report --------------------------------------------------------------------------------------------------


def page_of(case: Case) -> str:
    return page(gather(case.write()))


def test_before_a_confirmation_the_table_says_how_far_trials_were_trained(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.3, 0.4, 0.45], "baseline")
    case.add([0.3, 0.5], "stopped_early", "not among the best")
    case.add([0.3, 0.2, 0.4], "completed")
    text = page_of(case)
    assert '<th class="n">iterations</th>' in text
    assert '<td class="n">2 (stopped early)</td>' in text and "2 (completed)" not in text
    assert text.index('<td class="n">3</td>') < text.index("2 (stopped early)"), "the baseline is the first"


def test_the_commands_that_do_it_again_are_of_a_new_search(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.3], "baseline")
    text, storage = page_of(case), f" --storage {case.search_folder.storage}"
    for command in ("run search.yaml --name again", "confirm again", "report again"):
        assert command + storage in text
    assert "confirm once-more" in page_of(Case(tmp_path, "again"))


# -- other places ------------------------------------------------------------------------------------------------


def test_runs_of_a_confirmation_are_told_apart_by_the_beginning_of_their_names() -> None:
    event = {"label": "root n=2, turns", "trial": "t0005", "seed": 2}
    assert confirmation_name(event) == "t0005 seed 2 root n=2, turns"
    assert confirmation_name(event | {"trial": None}) == "confirm seed 2 root n=2, turns"


def test_a_path_that_is_not_there_is_told_in_a_line() -> None:
    with pytest.raises(DataError) as refused:
        load_data(load_experiment("quickstart", data="../nope").base_run().data)
    right = "a folder (tune-cl list data), docstrings or ir_datasets:NAME"
    assert str(refused.value) == f"error: data.source: '../nope' does not exist; {right}"
