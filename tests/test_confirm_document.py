"""What is confirmed, under which labels, and what was seen before."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.support.confirm_cases import LABELS, data, search_folder, state_of
from tests.support.confirm_documents import made_verdict, row_of
from tests.support.tracking_cases import journal_of, search_event
from trainables.config.rules import validated
from trainables.core.errors import ConfigError, DataError, WorkFailed
from trainables.evaluation.significance import CORRECTIONS
from trainables.evaluation.trec_files import write_per_query
from tune_cl import run_confirmation as runner
from tune_cl.cli import main
from tune_cl.confirmation.compare import compare
from tune_cl.confirmation.decisions import corrected_tests, first_level
from tune_cl.confirmation.document import Compared
from tune_cl.confirmation.earlier import looks_before
from tune_cl.confirmation.intersection import twins_of
from tune_cl.confirmation.request import (
    Configuration,
    Request,
    best_configurations,
    default_configuration,
    new_seeds,
)
from tune_cl.confirmation.verdict import NOT_SHOWN, Dropped, Earlier, VerdictFacts
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import from_yaml
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, differences, seedless
from tune_cl.inputs import RankerInputs
from tune_cl.report.story import ON_DEV, notes
from tune_cl.tracking.layout import confirmation_name

__all__ = ["data", "search_folder"]  # fixtures

Searched = tuple[SearchState, Experiment, Configuration]
NONE = made_verdict(row_of(0.0, 1.0), verdict=NOT_SHOWN)


@pytest.fixture
def searched(search_folder: SearchFolder) -> Searched:
    """State, experiment and baseline of a search that has ended."""
    state = state_of(search_folder)
    experiment = from_yaml(state.yaml)
    return state, experiment, default_configuration(state, experiment)


# -- what is asked for ---------------------------------------------------------------------------------------------


def test_a_request_has_defaults_and_says_how_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal_of(tmp_path / "toy", [search_event("toy", name="toy", tracking_uri="")])
    asked: list[Request] = []
    monkeypatch.setattr(runner, "confirm_search", lambda search_folder, request, *_: asked.append(request) or NONE)
    monkeypatch.setattr("tune_cl.cli.confirm.ConfirmCommand.render", lambda command, document: "")
    assert main(["confirm", "toy", "--storage", str(tmp_path)]) == 0
    assert asked == [Request()]
    folder = SearchFolder(Path("/runs"), "toy")
    line = Request(top=2, seeds=4, split="dev", correction="bh", selection_seeds=3).command(folder, "head:6379")
    options = "--address head:6379 --top 2 --selection-seeds 3 --seeds 4 --split dev --correction bh"
    assert line.endswith(f"confirm toy --storage /runs {options}")
    with pytest.raises(ConfigError):
        Request(until_settled=True, max_seeds=101)


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["--top", "0", "--seeds", "0", "--correction", "holms"], ["--top", "--seeds", "--correction"]),
        (["--selection-seeds", "0"], ["--selection-seeds"]),
        (["--until-settled", "--seeds", "4"], ["--seeds"]),
        (["--until-settled", "--max-seeds", "2"], ["--max-seeds"]),
        (["--max-seeds", "9"], ["--max-seeds"]),
    ],
)
def test_wrong_options_are_reported_together(
    options: list[str], keys: list[str], search_folder: SearchFolder, capsys: Any
) -> None:
    assert main(["confirm", "toy", "--storage", str(search_folder.storage), *options]) == 2
    assert [line.split(":")[1].strip() for line in capsys.readouterr().err.splitlines()] == keys
    assert not (search_folder.folder / "confirmation").exists()


@pytest.mark.parametrize("given", [[], ["--tracking-uri", "sqlite:////given.db"]])
@pytest.mark.parametrize("moved", [False, True])
def test_confirm_tells_mlflow_where_the_search_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], moved: bool
) -> None:
    """The search's own address precedes the environment's, and one given precedes both; a storage that was moved has
    its database with it."""
    own = f"sqlite:///{tmp_path / 'mlflow.db'}"
    told = {"tracking_uri": "sqlite:////old/runs/mlflow.db", "storage": "/old/runs"} if moved else {"tracking_uri": own}
    journal_of(tmp_path / "toy", [search_event("toy", name="toy", **told)])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////environment.db")
    if moved:
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
    used: list[str] = []
    monkeypatch.setattr(runner, "confirm_search", lambda folder, *_: used.append(folder.tracking_uri) or NONE)
    monkeypatch.setattr("tune_cl.cli.confirm.ConfirmCommand.render", lambda command, document: "")
    assert main(["confirm", "toy", "--storage", str(tmp_path), *given]) == 0
    assert used == (given[1:] or [own])


def test_a_split_of_one_query_is_too_small_for_a_test(searched: Searched) -> None:
    inputs = RankerInputs(searched[1], judged_on="test")
    [(key, prepared)] = inputs.by_key.items()
    split = prepared.data.splits["test"]

    def with_queries(count: int) -> RankerInputs:
        data = replace(prepared.data, splits={"test": replace(split, query=split.query[:count])})
        inputs.by_key = {key: replace(prepared, data=data)}
        return inputs

    with_queries(2).require_queries("test")
    with pytest.raises(DataError, match=r"--split: 'test' "):
        with_queries(1).require_queries("test")


def test_seeds_begin_alike_and_pass_over_the_search_s() -> None:
    assert new_seeds(3, {0}) == [1, 2, 3]
    assert new_seeds(5, {2, 4}) == [1, 3, 5, 6, 7]
    assert new_seeds(2, {2}) == new_seeds(5, {2})[:2]


@pytest.mark.parametrize(
    ("ranker", "drawn"),
    [("conv_knrm", True), ("lambdamart", False), ({"name": "lambdamart", "feature_fraction": 0.5}, True)],
)
def test_only_trees_on_everything_draw_nothing(ranker: Any, drawn: bool) -> None:
    assert validated({"ranker": ranker}).draws is drawn


# -- configurations and labels -------------------------------------------------------------------------------------


def named(state: SearchState, baseline: Configuration, top: int = 5) -> list[tuple[str, str]]:
    return [(one.label, one.trial) for one in best_configurations(state, baseline, top)]


def test_the_best_configurations_are_distinct_sound_and_labelled_by_what_they_change(searched: Searched) -> None:
    state, _, baseline = searched
    assert named(state, baseline) == [(LABELS[0], "t0002"), (LABELS[1], "t0001")]
    assert named(state, baseline, 1) == [(LABELS[0], "t0002")]
    best = best_configurations(state, baseline, 5)
    assert best[0].folder == "t0002-pacing=root_n=2_scoring=context_words_lr=0.02"
    assert "seed" not in best[0].params and "curriculum.n" not in best[1].params
    only = SearchState(**{**vars(state), "trials": {"t0000": state.trials["t0000"], "t0003": state.trials["t0003"]}})
    with pytest.raises(ConfigError, match="no configuration"):
        best_configurations(only, baseline, 1)


def test_a_configuration_goes_by_its_first_sound_trial_and_stands_where_its_best_one_does(searched: Searched) -> None:
    """Two trials may come to the same training; of t0001 the first has the lower value."""
    state, _, baseline = searched
    state.trials["t0002"].outcome = "failed"
    assert named(state, baseline) == [(LABELS[0], "t0004"), (LABELS[1], "t0001")]
    again = replace(state.trials["t0001"], trial="t0009", number=9, results={1: {"dev_map": 0.99, "seconds": 1.0}})
    state.trials["t0009"] = again
    assert named(state, baseline) == [(LABELS[1], "t0001"), (LABELS[0], "t0004")]


def test_folders_have_names_that_file_systems_take() -> None:
    opened = [f"ranker.some_long_name_{number}=0.123" for number in range(20)]
    names = [Configuration(", ".join([*opened, last]), "t0001", {}, {}).folder for last in ("a=1", "a=2")]
    assert len(set(names)) == 2 and all(len(name) <= 128 and name.startswith("t0001-ranker.") for name in names)


def test_a_key_that_one_of_two_lacks_sets_them_apart() -> None:
    """A margin is in force only under loss hinge."""
    ours, theirs = {"training.loss": "hinge", "training.margin": 1.0}, {"training.loss": "pairwise"}
    for one, other in ((ours, theirs), (theirs, ours)):
        assert differences(one, other)["also_differs"] == ["training.loss", "training.margin"]
    assert seedless({"ranker.hidden": (200, 64), "seed": 1}) == {"ranker.hidden": [200, 64]}, "as in the journal"


# -- figures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "reference", "value"),
    [((1, 3, 5), (3, 4), 0.5), ((3, 5), (3, 5), 0.5), ((1, 3, 1), (3, 1), 0.5), ((1, 3, 5), (3, 5), np.nan)],
)
def test_compare_refuses_what_it_cannot_test(shape: tuple[int, ...], reference: tuple[int, ...], value: float) -> None:
    with pytest.raises(ValueError, match=r"\[K, N, Q\]|not numbers"):
        compare(np.full(shape, value), np.full(reference, 0.5))


def test_one_seed_gives_no_verdict_however_sure_its_queries_are() -> None:
    values, baseline = np.linspace(0.05, 0.1, 12)[None], np.zeros((1, 12))
    [one] = corrected_tests([(values, baseline)], "holm")
    assert math.isnan(one.p_new_adjusted) and one.marks == "" and one.p_adjusted < 0.01
    assert (one.direction(new_seeds=True), one.direction(new_seeds=False)) == (0, 1)


def test_a_value_that_is_no_number_is_named_and_gives_no_verdict(tmp_path: Path) -> None:
    run: Any = SimpleNamespace(folder=tmp_path, name="baseline, seed 1")
    (tmp_path / "test").mkdir()
    write_per_query(tmp_path / "test" / "test.per_query.tsv", ["q1", "q2"], {"map": np.array([0.5, np.nan])})
    with pytest.raises(WorkFailed, match=r"baseline, seed 1: map on test .* 1 query"):
        _ = Compared({"baseline": [run]}, "test", "map", "holm").values


# -- what was seen before ------------------------------------------------------------------------------------------


def seen(seeds: int, *labels: str, dropped: tuple[str, ...] = (), **other: Any) -> VerdictFacts:
    rows = [row_of(0.01, 0.5, runs=seeds, label=label) for label in labels]
    left = tuple(Dropped(label, (1,)) for label in dropped)
    return made_verdict(*rows, dropped=left, verdict=NOT_SHOWN, **other)


@pytest.mark.parametrize(
    "later",
    [seen(5, "a", "b"), seen(2, "a"), seen(2, "a", "c"), seen(2, "a", dropped=("b",)),
     seen(2, "a", "b", correction="none")],
)  # fmt: skip
def test_another_request_remembers_what_was_seen(later: VerdictFacts) -> None:
    [look] = looks_before(seen(2, "a", "b"), later)
    assert look == Earlier(seeds=(1, 2), configurations=("a", "b"), correction="holm", verdict=NOT_SHOWN)
    assert looks_before(None, later) == ()


def test_the_same_request_again_is_no_further_look() -> None:
    first, second = seen(2, "a", "b"), seen(4, "a", "b")
    second = replace(second, earlier=looks_before(first, second))
    assert looks_before(second, second) == second.earlier
    third = seen(2, "a", "b")
    assert [len(look.seeds) for look in looks_before(second, third)] == [4], "the first is this one"


def test_looks_add_up() -> None:
    known = seen(1, "a")
    for seeds in (2, 3, 4):
        known = replace(seen(seeds, "a"), earlier=looks_before(known, seen(seeds, "a")))
    assert [len(look.seeds) for look in known.earlier] == [1, 2, 3]
    assert "3 times" in notes(known)[0]
    assert notes(replace(known, split="dev")) == (ON_DEV,), "it chose the configurations anyway"


# -- pairs and clusters --------------------------------------------------------------------------------------------


def test_near_duplicate_queries_count_as_one_where_clusters_are_given() -> None:
    alike = np.random.default_rng(0).random((2, 3, 4))
    values = dict(zip(("plain", "root"), np.repeat(alike, 3, axis=2), strict=True))
    runs = {label: [SimpleNamespace(run=SimpleNamespace(draws=True, starts_alike=True))] * 3 for label in values}
    queries = {f"q{number}": number // 3 for number in range(12)}
    each, grouped = (Compared(cast(Any, runs), "test", "map", "holm", clusters=of) for of in (None, queries))
    object.__setattr__(grouped, "_values", lambda run: dict.fromkeys(queries, 0.0))
    for one in (each, grouped):
        one.__dict__["values"] = values
    found, copied = (one.over_looks([("root", "plain")])[0].test for one in (grouped, each))
    assert found.difference == pytest.approx(copied.difference) and found.p_value > copied.p_value
    assert found.new.p == pytest.approx(corrected_tests([(alike[1], alike[0])], "holm")[0].test.new.p)


def test_twins_are_paired_unless_their_rankers_differ() -> None:
    """Other configurations that differ outside their curricula are two samples."""
    params = {"ours": {"training.margin": 2}, "twin": {"training.margin": 1}, "wide": {"ranker.filters": 64}}
    start = SimpleNamespace(starts_alike=False)
    runs = {
        label: [SimpleNamespace(run=start, configuration=SimpleNamespace(params=of))] for label, of in params.items()
    }
    twins = twins_of({"ours": {"twin": ("twin", "default"), "wide": ("champion",)}, "wide": {"ours": ("twin",)}})
    compared = Compared(cast(Any, runs), "test", "map", "holm", twins=twins)
    assert twins == {("ours", "twin"), ("wide", "ours")} and compared.in_pairs("ours", "twin")
    assert not compared.in_pairs("ours", "wide") and not compared.in_pairs("wide", "ours")


def test_the_help_and_the_page_on_verdicts_name_every_correction(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["confirm", "--help"])
    page = Path(__file__).parents[1].joinpath("docs", "reference", "verdict.md").read_text()
    told = capsys.readouterr().out
    assert all(name in told and f"`{name}`" in page.replace("--correction ", "`") for name in CORRECTIONS)


def test_its_runs_in_mlflow_begin_with_what_tells_them_apart() -> None:
    event = {"label": "root n=2, turns", "trial": "t0005", "seed": 2}
    assert confirmation_name(event).startswith("t0005 seed 2 ")
    assert confirmation_name(event | {"trial": None}).startswith("confirm seed 2 ")


@pytest.mark.parametrize(("correction", "level"), [("none", 0.05), ("holm", 0.025)])
def test_only_corrected_p_values_have_a_lower_level(correction: str, level: float) -> None:
    assert first_level(correction, 2) == level
