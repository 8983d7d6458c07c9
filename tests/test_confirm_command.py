"""What `tune-cl confirm` does by default, what it notes, and the sentences of its verdict."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.confirm_cases import LABELS, LocalCrew, confirm, crew, data, search_folder, state_of
from tests.support.confirm_documents import document_of, row_of
from tests.support.tracking_cases import journal_of, search_event
from trainables.core.errors import DataError, WorkFailed
from trainables.evaluation.significance import adjust
from tune_cl import run_confirmation as runner
from tune_cl.cli import main
from tune_cl.cli.commands.confirm import in_words, of_curriculum, render
from tune_cl.confirmation.document import _label, ablations
from tune_cl.confirmation.request import Configuration, Request, baseline_configuration, label_of
from tune_cl.experiment.load import from_yaml
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import TrialState, differences, seedless
from tune_cl.inputs import RankerInputs
from tune_cl.run_confirmation import confirm_search

__all__ = ["crew", "data", "search_folder"]  # fixtures


def test_it_confirms_three_configurations_with_five_seeds_on_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal_of(tmp_path / "toy", [search_event("toy", name="toy", tracking_uri="")])
    asked: list[Request] = []
    monkeypatch.setattr(runner, "confirm_search", lambda search_folder, request, *_: asked.append(request) or {})
    monkeypatch.setattr("tune_cl.cli.commands.confirm.render", lambda document: "")
    assert main(["confirm", "toy", "--storage", str(tmp_path)]) == 0
    assert asked == [Request()] == [Request(3, 5, "test", "holm", ablate=False)]


def test_the_command_that_goes_on_has_every_option() -> None:
    request = Request(2, 4, "dev", "bh", ablate=True)
    line = request.command(SearchFolder(Path("/runs"), "toy"), "head:6379")
    options = "--address head:6379 --top 2 --seeds 4 --split dev --correction bh --ablate"
    assert line.endswith(f"confirm toy --storage /runs {options}")
    assert replace(request, ablate=False).command(SearchFolder(Path("/runs"), "toy"), None).endswith("bh")


def test_what_should_be_known_before_is_noted(search_folder: SearchFolder, crew: type[LocalCrew], capsys: Any) -> None:
    def notes() -> list[str]:
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]

    few = "note: the search has 2 distinct configurations, fewer than --top 3"
    confirm(search_folder, seeds=1)
    assert notes() == [few, "note: one seed shows nothing of how much the seed matters"]
    confirm(search_folder, top=2, seeds=2)
    assert notes() == []
    whole = search_folder.journal.read_text()
    search_folder.journal.write_text("".join(line for line in whole.splitlines(True) if '"search_end"' not in line))
    confirm(search_folder, top=2, seeds=2)
    assert notes() == ["note: the search has not ended; the best of its 5 trials so far are confirmed"]


def test_a_split_of_one_query_is_too_small_for_a_test(search_folder: SearchFolder) -> None:
    state = state_of(search_folder)
    inputs = RankerInputs(from_yaml(state.yaml))
    [(key, materials)] = inputs.by_key.items()
    split = materials.data.splits["test"]

    def with_queries(count: int) -> RankerInputs:
        data = replace(materials.data, splits={"test": replace(split, query=split.query[:count])})
        inputs.by_key = {key: replace(materials, data=data)}
        return inputs

    with_queries(2).require_queries("test")
    with pytest.raises(DataError, match=r"--split: 'test' has one query only; two or more"):
        with_queries(1).require_queries("test")


def test_a_search_in_s3_is_named_by_its_address(search_folder: SearchFolder, crew: type[LocalCrew]) -> None:
    state, remote = state_of(search_folder), replace(search_folder, remote="s3://bucket/runs")
    work = runner.Confirmation(remote, state, from_yaml(state.yaml), Request(top=1, seeds=1))
    work.prepare()
    with Journal(search_folder.folder) as journal:
        work.train(journal)
    assert work.document()["storage"] == "s3://bucket/runs"


def test_once_all_is_trained_what_is_left_takes_no_cluster(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(runner, "finish", lambda writer, command: told.append(command))
    confirm_search(search_folder, Request(top=1, seeds=1), "sqlite://", "head:6379")
    crew.fails = {f"{LABELS[0]}, seed 3": "the loss is no number"}
    with pytest.raises(WorkFailed):
        confirm_search(search_folder, Request(top=1, seeds=2), "sqlite://", "head:6379")
    assert "--address" not in told[0] and "--address head:6379 --top 1 --seeds 2" in told[1]


# -- labels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "chosen", "label"),
    [
        ({"curriculum.pacing": "root", "curriculum.n": 2, "curriculum.scoring": "turns"}, {}, "root n=2, turns"),
        ({"curriculum.weighting": "kde", "curriculum.m": 20.0, "curriculum.anti": True}, {}, "anti"),
        ({"curriculum.weighting": "kde", "curriculum.m": math.inf}, {}, "m=inf"),
        ({"curriculum.pacing": "linear", "curriculum.delta": 0.25}, {"curriculum.delta": 0.25}, "linear, delta=0.25"),
        ({"training.lr": 0.02}, {"curriculum.pacing": "none"}, "t0007"),
        ({"training.lr": 0.02}, {"training.lr": 0.02}, "lr=0.02"),
        (
            {"curriculum.objective_switch": "mse", "curriculum.subset": "none", "curriculum.switch": 40},
            {"curriculum.objective_switch": "mse", "curriculum.subset": "none", "curriculum.switch": 40},
            "mse switch=40",
        ),
    ],
)
def test_a_label_is_what_sets_a_trial_apart_from_the_baseline(
    params: dict[str, Any], chosen: dict[str, Any], label: str
) -> None:
    baseline = {"curriculum.pacing": "none", "curriculum.weighting": "kde", "curriculum.m": 20.0, "training.lr": 0.01}
    trial = SimpleNamespace(trial="t0007", params=baseline | params, point=chosen)
    assert label_of(cast(TrialState, trial), baseline) == label


# -- ablations ---------------------------------------------------------------------------------------------------


def test_ablations_of_one_label_are_told_apart_by_their_trials(search_folder: SearchFolder) -> None:
    """Two learning rates that look alike in a label are still two trainings."""
    state = state_of(search_folder)
    experiment = from_yaml(state.yaml)
    near = state.trials["t0002"].point | {"training.lr": 0.02000001}
    state.trials["t0004"].params, state.trials["t0004"].point = experiment.training_run(near).in_force(), near
    found = ablations(state, baseline_configuration(state, experiment), experiment)
    labels = {name: one.label for name, one in found.items() if one and one.label != "baseline"}
    assert labels == {LABELS[0]: "plain, lr=0.02", f"{LABELS[0]} (t0004)": "plain, lr=0.02 (t0004)"}


def test_a_key_that_one_of_two_lacks_sets_them_apart() -> None:
    """A margin is in force only under loss hinge; an opened key that is not in force is left out of the label."""
    ours, theirs = {"training.loss": "hinge", "training.margin": 1.0}, {"training.loss": "pairwise"}
    for one, other in ((ours, theirs), (theirs, ours)):
        assert differences(one, other) == {
            "has_curriculum": False, "also_differs": ["training.loss", "training.margin"],
        }  # fmt: skip
    own = Configuration("root", "t0001", {}, {})
    assert _label({"training.margin": 2.0, "training.lr": 0.02}, {"training.lr": 0.02}, own, []) == "plain, lr=0.02"


def test_a_value_of_several_numbers_is_the_same_in_the_journal_and_in_the_baseline() -> None:
    assert seedless({"ranker.hidden": (200, 64), "seed": 1}) == {"ranker.hidden": [200, 64]}


def test_configurations_and_ablations_are_corrected_among_themselves(
    search_folder: SearchFolder, crew: type[LocalCrew]
) -> None:
    document = confirm(search_folder, seeds=2, ablate=True)
    configurations = document["configurations"]
    assert document["queries"] == 12 and len(configurations) == 2
    for rows in (configurations, [row["ablation"] for row in configurations]):
        for p, adjusted in (("p_value", "p_adjusted"), ("p_new", "p_new_adjusted")):
            values, corrected = [row[p] for row in rows], [row[adjusted] for row in rows]
            assert corrected == pytest.approx(adjust(values, "holm")) and corrected != values


# -- the verdict in words ----------------------------------------------------------------------------------------


def test_better_and_worse_are_told_with_what_they_were_corrected_for() -> None:
    better = in_words(document_of(row_of(0.0123, 0.01, 0.003, marks="‡", ci95_new=[0.004, 0.0206]), row_of(0.001, 0.9)))
    assert better == (
        "Yes: 'root' is better than the baseline, by 0.0123 map [+0.0040, +0.0206], for new queries and new trainings "
        "(p = 0.003, 3 seeds, 12 queries; Holm over 2 configurations)."
    )
    worse = in_words(
        document_of(row_of(-0.0123, 0.02, 0.03, ci95_new=[-0.02, -0.004]), verdict="worse", correction="bh")
    )
    assert worse == (
        "No: 'root' is worse than the baseline, by 0.0123 map [-0.0200, -0.0040], for new queries and new trainings "
        "(p = 0.03, 3 seeds, 12 queries; Benjamini-Hochberg over 1 configuration)."
    )


@pytest.mark.parametrize(("needed", "more"), [(9, "; this one would take 9 seeds."), (None, ".")])
def test_what_is_not_shown_is_told_with_what_could_be(needed: int | None, more: str) -> None:
    document = document_of(row_of(0.0123, 0.01, 0.2), verdict="no difference shown") | {"these_seeds": "better"}
    told = in_words(document | {"detectable": 0.018, "seeds_needed": needed})
    assert told == (
        "Not shown: 'root', the best on dev, is +0.0123 map from the baseline; anything from -0.0200 to +0.0400 fits "
        "the data (p = 0.2, 3 seeds, 12 queries; Holm over 1 configuration). This data and 3 seeds can show "
        f"differences from 0.0180 on{more} For the trainings with these 3 seeds alone 'root' is better (p = 0.01): "
        "other seeds might show something else."
    )


@pytest.mark.parametrize("unknown", [math.nan, None])
def test_one_seed_shows_nothing_of_new_trainings(unknown: float | None) -> None:
    """NaN, or null where the document was read from its file."""
    row = row_of(0.01, 0.02, runs=1) | {"p_new_adjusted": unknown, "ci95_new": [unknown, unknown]}
    told = in_words(document_of(row, verdict="no difference shown"))
    assert "; one seed says nothing about new trainings (1 seed, 12 queries; " in told
    both = row | {"runs": [{}] * 3}
    assert "the differences are all equal, so no test can be made" in in_words(
        document_of(both, verdict="no difference shown")
    )


@pytest.mark.parametrize(("p", "open_"), [(0.05, False), (0.0501, True), (math.nan, True), (None, True)])
def test_what_a_curriculum_is_worth_is_shown_at_95_percent(p: float | None, open_: bool) -> None:
    ablation = row_of(0.01, 0.001, label="plain") | {"p_new_adjusted": p}
    told = of_curriculum(row_of(0.01, 0.001, also_differs=["training.lr"], ablation=ablation), "map")
    assert ("an effect of its curriculum is not shown" in told) == open_


def test_of_many_other_keys_four_are_named() -> None:
    keys = [f"training.k{number}" for number in range(6)]
    assert "differs from the baseline in training.k0, training.k1, training.k2, training.k3 and 2 more keys too" in (
        of_curriculum(row_of(0.01, 0.001, also_differs=keys), "map")
    )
    four = of_curriculum(row_of(0.01, 0.001, also_differs=keys[:4]), "map")
    assert "training.k2, training.k3 too" in four and "more" not in four


@pytest.mark.parametrize(
    ("rows", "correction", "told"), [(1, "holm", False), (2, "none", False), (2, "holm", True), (3, "bh", True)]
)
def test_where_p_is_corrected_and_intervals_are_not_it_is_said(rows: int, correction: str, told: bool) -> None:
    shown = render(document_of(*[row_of(0.01, 0.02)] * rows, correction=correction))
    assert (f"Each interval is of one configuration; p is corrected for all {rows}." in shown) == told
    assert "0.5123 ± 0.0125" in shown and "+0.0100 [-0.0200, +0.0400]" in shown
    of_one_seed = render(document_of(row_of(0.01, 0.02, runs=1)))
    assert "±" not in of_one_seed.partition("mean ± sd")[2], "one seed has no spread"
