"""What a confirmation says of new seeds: where the seed changes nothing, and where some got no more seeds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.confirm_cases import LocalCrew, confirm, crew, data, search_folder, searched
from tests.support.confirm_documents import document_of, row_of
from tests.support.letor_data import letor_data, letor_text
from tests.support.report_cases import whole
from tests.support.report_pages import Reader, report
from trainables.config.keys import validated
from trainables.core.errors import WorkFailed
from trainables.core.randomness import generator
from trainables.data import load_data
from trainables.evaluation.trec_files import write_per_query
from tune_cl.cli.commands.confirm import in_words
from tune_cl.confirmation.document import Compared
from tune_cl.confirmation.training import read_values
from tune_cl.confirmation.verdict import ON_DEV, compare, corrected_tests
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.findings import gather
from tune_cl.report.page import page

__all__ = ["crew", "data", "search_folder"]  # fixtures
TREES = """
ranker: {name: lambdamart, leaves: 4, min_data_in_leaf: 2, trees_per_iteration: 2, bagging_fraction: %s}
curriculum: {objective_switch: {choice: [none, mse]}, switch: 2}
training: {max_iterations: 2}
baseline: {curriculum.objective_switch: none}
seed: 2
"""
SQUARED = {"curriculum.objective_switch": "mse"}


def trees(folder: Path, bagging: float) -> SearchFolder:
    """A search over LambdaMART's first stage that has ended."""
    (folder / "letor").mkdir()
    for split, name in {"train": "train.txt", "dev": "vali.txt", "test": "test.txt"}.items():
        (folder / "letor" / name).write_text(letor_text(letor_data(), split))
    (folder / "trees.yaml").write_text(TREES % bagging)
    experiment = load_experiment(str(folder / "trees.yaml"), data=str(folder / "letor"))
    search_folder = SearchFolder(folder / "runs", "toy")
    choices = [experiment.baseline_values(), SQUARED]
    with Journal(search_folder.folder) as journal:
        for event in searched(experiment, load_data(experiment.base_run().data).digest, search_folder, choices):
            journal.append(event)
    return search_folder


@pytest.mark.parametrize("seeds", [1, 3])
def test_where_the_seed_changes_nothing_p_new_is_p_value_however_often_the_same_is_trained(
    tmp_path: Path, crew: type[LocalCrew], capsys: Any, seeds: int
) -> None:
    document = confirm(trees(tmp_path, 1), seeds=seeds)
    [row] = document["configurations"]
    assert len({run["value"] for run in row["runs"]}) == 1 and len(row["runs"]) == seeds
    assert not row["seed_matters"] and 0 < row["p_value"] < 1
    assert (row["p_new"], row["p_new_adjusted"]) == (row["p_value"], row["p_adjusted"])
    told = capsys.readouterr().err
    assert ("the seed changes nothing in these trainings: --seeds 1 tells as much" in told) == (seeds > 1)
    assert "shows nothing of how much the seed matters" not in told


def test_where_trees_grow_on_samples_the_seed_is_one_of_a_sample(
    tmp_path: Path, crew: type[LocalCrew], capsys: Any
) -> None:
    [row] = confirm(trees(tmp_path, 0.5), seeds=2)["configurations"]
    assert row["seed_matters"] and row["p_new"] > row["p_value"]
    assert "the seed changes nothing" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ranker", "drawn"),
    [("conv_knrm", True), ("lambdamart", False), ({"name": "lambdamart", "feature_fraction": 0.5}, True)],
)
def test_only_trees_on_everything_draw_nothing(ranker: Any, drawn: bool) -> None:
    assert validated({"ranker": ranker}).draws is drawn


def test_no_other_seed_is_spoken_of_where_none_would_show_something_else() -> None:
    row = row_of(0.01, 0.02, p_new=0.02, runs=1, marks="†", seed_matters=False)
    told = in_words(document_of(row))
    assert ", for new queries; the seed changes nothing (p = 0.02, 1 seed, 12 queries; " in told


def test_the_report_says_yes_where_the_seed_changes_nothing(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm(verdict="better", p_new=0.002)
    path = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(path.read_text())
    document["configurations"][0]["seed_matters"] = False
    path.write_text(json.dumps(document))
    told = report(case)[0].sections["verdict"]
    assert told.startswith("VerdictYes: ") and "new trainings" not in told
    assert "The seed changes nothing in these trainings" in told


# -- the document's figures ----------------------------------------------------------------------------------------


def test_the_document_says_what_holds_for_new_seeds_and_what_for_these(
    search_folder: SearchFolder, crew: type[LocalCrew]
) -> None:
    document = confirm(search_folder, top=2, seeds=3)
    rows = document["configurations"]
    values = {row["label"]: values_of(row) for row in (document["baseline"], *rows)}
    baseline, *others = values.values()
    for row, found in zip(rows, compare(np.stack(others), baseline), strict=True):
        assert {key: row[key] for key in found} == found
        low, high = row["ci95_new"]
        assert (low > 0 or high < 0) == (row["p_new"] < 0.05) and "p_both" not in row
    assert document["verdict"] == document["these_seeds"] == "no difference shown"
    assert document["detectable"] > 0 and (document["seeds_needed"] is None or 2 <= document["seeds_needed"] <= 100)


def values_of(row: dict[str, Any]) -> np.ndarray:
    return np.stack([read_values(Path(run["run_file"]).parents[1], "test", "map") for run in row["runs"]])


def test_one_seed_gives_no_verdict_however_sure_its_queries_are(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = generator(0, "values").random(12) / 10

    def values(compared: Compared, run: Any) -> dict[str, float]:
        return dict(zip(map(str, range(12)), draw * (0 if run.configuration.label == "baseline" else 1), strict=True))

    monkeypatch.setattr(Compared, "_values", values)
    document = confirm(search_folder, top=1, seeds=1)
    [row] = document["configurations"]
    assert (document["verdict"], document["these_seeds"]) == ("no difference shown", "better")
    assert np.isnan(row["p_new"]) and row["marks"] == "" and row["p_adjusted"] < 0.01
    assert document["detectable"] is None and document["seeds_needed"] is None


def test_a_value_that_is_no_number_is_named_and_gives_no_verdict(tmp_path: Path) -> None:
    run: Any = SimpleNamespace(folder=tmp_path, name="baseline, seed 1")
    (tmp_path / "test").mkdir()
    write_per_query(tmp_path / "test" / "test.per_query.tsv", ["q1", "q2"], {"map": np.array([0.5, np.nan])})
    with pytest.raises(WorkFailed, match="baseline, seed 1: map on test is not a number for 1 query "):
        _ = Compared({"baseline": [run]}, "test", "map", "holm").values


@pytest.mark.parametrize(
    ("shape", "reference", "value"),
    [((1, 3, 5), (3, 4), 0.5), ((3, 5), (3, 5), 0.5), ((1, 3, 1), (3, 1), 0.5), ((1, 3, 5), (3, 5), np.nan)],
)
def test_compare_refuses_what_it_cannot_test(shape: tuple[int, ...], reference: tuple[int, ...], value: float) -> None:
    with pytest.raises(ValueError, match=r"\[K, N, Q\]|not numbers"):
        compare(np.full(shape, value), np.full(reference, 0.5))


# -- looks choose by the same seeds --------------------------------------------------------------------------------


def test_p_new_is_corrected_over_those_that_got_no_more_seeds_too() -> None:
    """p_new has as many tests as there were configurations at the start; p_value takes the seeds as given."""
    wave = np.tile([1.0, -1.0], 50)
    pair = np.array([0.3, 0.32])[:, None] + wave, np.zeros((2, 100))
    for correction in ("holm", "bh", "bonferroni"):
        [one] = corrected_tests([pair], correction, dropped=2)
        assert one.p_adjusted == one.test.p_value and 0 < one.test.new.p < 1 / 3
        assert one.p_new_adjusted == pytest.approx(3 * one.test.new.p)
    [one] = corrected_tests([pair], "holm", [False], dropped=2)
    assert one.p_new_adjusted == one.p_adjusted, "where the seed changes nothing none was chosen by its seeds"
    [one] = corrected_tests([(pair[0][:1], pair[1][:1])], "holm", dropped=2)
    assert np.isnan(one.p_new_adjusted)


# -- the report's headline -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["better", "worse"])
def test_that_other_keys_differ_is_said_before_anything_else(tmp_path: Path, verdict: str) -> None:
    case = whole(tmp_path)
    case.confirm(verdict=verdict)
    path = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(path.read_text())
    document["configurations"][0] |= {"also_differs": ["training.lr"]}
    path.write_text(json.dumps(document))
    told = report(case)[0].sections["verdict"]
    assert told.startswith(f"Verdict{verdict.capitalize()} than the baseline, but not shown to be so by its curriculum")


def test_what_an_earlier_version_found_speaks_of_its_seeds(tmp_path: Path) -> None:
    """Its verdict and marks took the seeds as given; asked again, `confirm` tests without training anything."""
    case = whole(tmp_path)
    case.confirm(verdict="better")
    path = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(path.read_text())
    for key in ("these_seeds", "detectable", "seeds_needed"):
        del document[key]
    for row in document["configurations"]:
        row |= {"p_both": 0.2, "p_both_adjusted": 0.3}
        for key in ("p_new", "p_new_adjusted", "ci95_new"):
            del row[key]
    path.write_text(json.dumps(document))
    sections = report(case)[0].sections
    assert (
        sections["verdict"].startswith("VerdictNot shown: ")
        and "alone 'root n=2, turns' is better" in (sections["verdict"])
    )
    assert "‡" not in sections["configurations"].partition("† above")[0]


# -- a verdict on dev ----------------------------------------------------------------------------------------------


def test_a_verdict_on_dev_is_noted_to_be_none(search_folder: SearchFolder, crew: type[LocalCrew], capsys: Any) -> None:
    document = confirm(search_folder, top=1, seeds=2, split="dev")
    assert f"note: {ON_DEV}" in " ".join(capsys.readouterr().err.split())
    assert document["notes"] == [ON_DEV] and in_words(document).endswith(f" Note: {ON_DEV}.")
    document = confirm(search_folder, top=1, seeds=2)
    assert document["notes"] == [] and ON_DEV not in in_words(document) + " ".join(capsys.readouterr().err.split())


def test_a_report_gives_no_verdict_on_dev_and_prefers_that_on_test(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm(verdict="better", split="dev", p_new=0.001)
    folder = case.search_folder.folder / "confirmation"
    on_dev = (folder / "test.json").rename(folder / "dev.json")
    found, findings = report(case)
    assert found.sections["verdict"].startswith("VerdictNo verdict: ") and ON_DEV[1:] in found.sections["verdict"]
    assert 'class="verdict better"' not in page(findings)
    case.confirm(verdict="better", p_new=0.001)
    os.utime(folder / "test.json", (1000, 1000))
    os.utime(on_dev, (2000, 2000))
    assert Reader(page(gather(case.search_folder))).sections["verdict"].startswith("VerdictYes")
