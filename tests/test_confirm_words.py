"""What `tune-cl confirm` says: what is left to do, labels, corrections, lines on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.confirm_cases import LocalCrew, confirm, crew, data, search_folder
from tests.support.terminal import Terminal
from trainables.evaluation.significance import CORRECTIONS
from tune_cl.cli import main
from tune_cl.cli.commands.confirm import render
from tune_cl.confirmation.document import ablations
from tune_cl.confirmation.request import baseline_configuration, best_configurations
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, replay
from tune_cl.tracking.layout import confirmation_name

__all__ = ["crew", "data", "search_folder"]  # fixtures


def test_checkpoints_to_apply_are_not_counted_as_trainings(
    search_folder: SearchFolder, crew: type[LocalCrew], capsys: Any
) -> None:
    confirm(search_folder, top=1, seeds=2)
    assert "4 of 4 trainings to do" in capsys.readouterr().err
    confirm(search_folder, top=1, seeds=2, split="dev")
    told = capsys.readouterr().err
    assert "4 of 4 trained before: their checkpoints are applied to dev" in told and "to do" not in told
    confirm(search_folder, top=1, seeds=3, split="dev")
    assert "2 of 6 trainings to do\n" in (told := capsys.readouterr().err) and "trained before" not in told
    confirm(search_folder, top=1, seeds=4)
    told = capsys.readouterr().err
    assert "2 of 8 trainings to do\n2 of 8 trained before: their checkpoints are applied to test\n" in told


# -- labels --------------------------------------------------------------------------------------------------------

SPACE = """
ranker: {name: {choice: [conv_knrm, knrm]}}
curriculum: {pacing: {choice: [none, linear]}, T: 0.3}
training: {lr: {choice: [0.01, 0.02]}}
baseline: {curriculum.pacing: none, training.lr: 0.01, ranker.name: conv_knrm}
"""
CHOICES = (
    {"ranker.name": "conv_knrm", "curriculum.pacing": "none", "training.lr": 0.01},
    {"ranker.name": "knrm", "curriculum.pacing": "linear", "training.lr": 0.02},
)


def over_rankers(folder: Path) -> tuple[SearchState, Experiment]:
    """A search that opens the ranker, and ended with a baseline and another trial."""
    (folder / "rankers.yaml").write_text(SPACE)
    experiment = load_experiment(str(folder / "rankers.yaml"))
    head = {"name": "x", "data": {}, "ranker": "conv_knrm", "rankers": ["conv_knrm"], "metric": "map"}
    head |= {"seed": 0, "baseline": "t0000"}
    events: list[dict[str, Any]] = [{"event": "search", "yaml": experiment.to_yaml(), "time": 0.0, **head}]
    for number, choice in enumerate(CHOICES):
        name, params = {"trial": f"t000{number}"}, experiment.training_run(choice).in_force()
        told = {"number": number, "params": params, "chosen": choice, "seed": 0, "baseline": not number}
        events += [{"event": "trial", **name, **told}, {"event": "end", "outcome": "completed", **name}]
        events.insert(-1, {"event": "result", "iteration": 1, "metrics": {"dev_map": 0.5, "seconds": 1.0}, **name})
    return replay(events), experiment


def test_a_ranker_stands_in_a_label_by_its_name_alone(tmp_path: Path) -> None:
    state, experiment = over_rankers(tmp_path)
    baseline = baseline_configuration(state, experiment)
    [found] = best_configurations(state, baseline, 5)
    assert found.label.split(", ")[-2:] == ["knrm", "lr=0.02"] and "name=" not in found.label
    [ablation] = ablations(state, baseline, experiment).values()
    assert ablation is not None and ablation.label == "plain, knrm, lr=0.02"


def test_its_runs_in_mlflow_begin_with_what_tells_them_apart() -> None:
    event = {"label": "root n=2, turns", "trial": "t0005", "seed": 2}
    assert confirmation_name(event).startswith("t0005 seed 2 ")
    assert confirmation_name(event | {"trial": None}).startswith("confirm seed 2 ")


# -- corrections ---------------------------------------------------------------------------------------------------


def test_the_help_and_the_page_on_verdicts_name_every_correction(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["confirm", "--help"])
    page = Path(__file__).parents[1].joinpath("docs", "explanation", "verdict.md").read_text()
    told = capsys.readouterr().out
    assert all(name in told and f"`{name}`" in page.replace("--correction ", "`") for name in CORRECTIONS)


def test_a_p_value_that_is_not_corrected_is_headed_p(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for correction, head in (("none", "p"), ("holm", "p adjusted"), ("benjamini-hochberg", "p adjusted")):
        shown = render(confirm(search_folder, seeds=1, correction=correction, ablate=True))
        columns = [line.rstrip() for line in shown.splitlines() if line.startswith(("configuration", "trial "))]
        assert len(columns) == 2 and all(line.endswith(f"  {head}   these seeds") for line in columns)
    assert "Benjamini-Hochberg over 2 configurations" in shown


# -- on a terminal -------------------------------------------------------------------------------------------------


def test_the_verdict_is_broken_between_words_and_the_command_is_not(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = render(document := confirm(search_folder, seeds=2))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stdout", Terminal())
    shown = render(document)
    verdict, told = whole.partition("\n\n")[0].splitlines(), shown.partition("\n\n")[0].splitlines()
    assert verdict[0].startswith("Not shown: ") and len(verdict[0]) > 60
    assert max(map(len, told)) <= 60 and " ".join(told) == " ".join(verdict)
    assert shown.splitlines()[-1] == whole.splitlines()[-1]


def test_notes_of_a_confirmation_are_broken_between_words(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    confirm(search_folder, top=9, seeds=1)
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 40 and "distinct configurations" in " ".join(lines)
