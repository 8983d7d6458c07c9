"""`tune-cl confirm`: what is trained, kills and more seeds, the document's figures. On real Ray: tests/test_run.py."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import rewrite
from tests.support.confirm_cases import (
    LABELS,
    Confirmed,
    LocalTrainer,
    confirmed,
    confirmed_folder,
    data,
    ended_search,
    essence,
    read_values,
    search_folder,
    state_of,
    tracked,
    trainer,
)
from tests.support.confirm_cases import (
    confirm as confirm_as_asked,
)
from tests.support.faults import stopping_after
from tests.support.letor_data import letor_data, letor_text
from trainables.core.errors import ConfigError, DataError, Interrupted, WorkFailed
from trainables.evaluation.runs import evaluate
from trainables.evaluation.significance import bootstrap_ci, paired_t_test
from trainables.training.checkpoint import read_json
from trainables.training.trainer import Training
from tune_cl import run_confirmation as runner
from tune_cl.confirmation.compare import compare
from tune_cl.confirmation.lineup import Lineup
from tune_cl.confirmation.request import Request
from tune_cl.confirmation.verdict import NOT_SHOWN, verdict_file, verdict_of
from tune_cl.experiment.load import from_yaml
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.story import ON_DEV, notes
from tune_cl.run_confirmation import confirm_search

KEYS = {"search", "metric", "split", "seeds", "baseline", "configurations", "correction", "verdict"}
ROW_KEYS = {"label", "params", "runs", "mean", "sd"}
TEST_KEYS = {"difference", "p_per_seed", "p_value", "p_adjusted", "ci95", "marks"}
PLAIN = "plain lr=0.02"  # the twin of LABELS[0]
DEFAULT = "plain, default"
NAN = "the training loss became nan"
__all__ = ["confirmed", "confirmed_folder", "data", "search_folder", "trainer"]  # fixtures


def confirm(search_folder: SearchFolder, **options: Any) -> dict[str, Any]:
    """All curricula are tested, as with --each; tests/test_selection.py has selections."""
    return confirm_as_asked(search_folder, **{"each": True} | options)


def rows_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [document["baseline"], *document["configurations"]]


def values_of(row: dict[str, Any]) -> np.ndarray:
    """[N, Q] from the files of a row's trainings."""
    return np.stack([read_values(Path(run["run_file"]).parents[1], "test", "map") for run in row["runs"]])


# -- the document's figures ----------------------------------------------------------------------------------------


def test_values_are_those_that_trec_eval_gives_the_run_files(confirmed: Confirmed, data: Path) -> None:
    rows, folder = rows_of(confirmed.document), confirmed.search_folder.folder
    for at, seed in enumerate(confirmed.document["seeds"]):
        for row in rows[1:]:
            pair = [next(one for one in row["opponents"] if one["label"] == row["against"]), row]
            files = [one["runs"][at]["run_file"] for one in pair]
            first, second = evaluate(str(data / "qrels.test.txt"), files, ["map"]).document["runs"]
            values = [run["metrics"]["map"] for run in (first, second)]
            assert [one["runs"][at]["value"] for one in pair] == pytest.approx(values)
            assert row["p_per_seed"][at] == pytest.approx(second["vs_first"]["map"]["p"])
        assert seed == rows[0]["runs"][at]["seed"]
    assert read_json(verdict_file(folder, "test"))["verdict"] == confirmed.document["verdict"]
    assert str(folder / "report.html") in state_of(confirmed.search_folder).artifacts, "which MLflow is promised"


def test_a_row_s_spread_is_a_sample_s_and_its_interval_that_of_query_means(confirmed: Confirmed) -> None:
    """The spread is over seeds; the interval is over queries, each a mean over the seeds."""
    base, own, _ = rows_of(confirmed.document)
    values = [run["value"] for run in base["runs"]]
    assert base["mean"] == pytest.approx(np.mean(values)) and base["sd"] == pytest.approx(np.std(values, ddof=1))
    assert own["ci95"] == pytest.approx(bootstrap_ci((values_of(own) - values_of(base)).mean(axis=0)))


def test_the_document_says_what_holds_for_new_seeds_and_what_for_these(confirmed: Confirmed) -> None:
    told = confirmed.document
    assert told.keys() >= KEYS and all(row.keys() >= ROW_KEYS for row in rows_of(told))
    for row in told["configurations"]:
        opponents = {one["label"]: values_of(one) for one in row["opponents"]}
        [found] = compare(values_of(row)[None], opponents)
        assert row.keys() >= TEST_KEYS and (row["against"], row["p_value"]) == (found["against"], found["p_value"])
        for one in row["opponents"]:
            assert one["ci95"] == pytest.approx(found["opponents"][one["label"]]["ci95"])
            low, high = one["ci95_new"]
            assert (low > 0 or high < 0) == (one["p_new"] < 0.05)
    assert told["verdict"] == told["these_seeds"] == NOT_SHOWN and told["queries"] == 12
    assert told["detectable"] > 0 and (told["seeds_needed"] is None or 2 <= told["seeds_needed"] <= 100)
    assert told["looks"] == []
    [below] = told["notes"]  # the words of this data say everything
    best = told["label_free"]
    assert best["mean"] == 1 > told["first_stage"]["mean"] and below.startswith(best["label"])
    assert notes(replace(verdict_of(told), first_stage=None, label_free=None)) == ()


def test_the_reference_has_every_field_of_the_document(confirmed: Confirmed) -> None:
    page = Path(__file__).parents[1].joinpath("docs", "reference", "verdict.md").read_text()
    row = confirmed.document["configurations"][0]
    told = [confirmed.document, row, row["runs"][0], *row["opponents"], *confirmed.document["selection"]]
    told += [confirmed.document["components"], confirmed.document["fair"]]
    assert {name for one in told for name in one if f"`{name}`" not in page} == set()


def test_a_twin_is_the_configuration_without_its_curriculum(confirmed: Confirmed) -> None:
    """Each configuration meets its own twin and the default, which is the plain champion here."""
    rows = {row["label"]: row for row in confirmed.document["configurations"]}
    root, linear = (rows[label] for label in LABELS)
    champion, twin = root["opponents"]
    assert (champion["roles"], twin["roles"]) == (["champion", "default"], ["twin"]) and twin["label"] == PLAIN
    differing = {key for key in root["params"] if root["params"][key] != twin["params"].get(key)}
    assert twin["params"]["curriculum.pacing"] == "none" and all(key.startswith("curriculum.") for key in differing)
    assert twin["difference"] == pytest.approx(root["mean"] - twin["mean"])
    assert [one["roles"] for one in linear["opponents"]] == [["champion", "twin", "default"]]


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
    return ended_search(folder, folder / "letor", TREES % bagging, [SQUARED])


@pytest.mark.parametrize("seeds", [1, 3])
def test_where_the_seed_changes_nothing_one_is_trained_and_p_new_is_p_value(
    tmp_path: Path, trainer: type[LocalTrainer], capsys: Any, seeds: int
) -> None:
    [row] = confirm(trees(tmp_path, 1), seeds=seeds)["configurations"]
    assert len(row["runs"]) == 1, "another seed would give the same training"
    assert not row["seed_matters"] and 0 < row["p_value"] < 1
    assert (row["p_new"], row["p_new_adjusted"]) == (row["p_value"], row["p_adjusted"])
    assert ("--seeds 1" in capsys.readouterr().err) == (seeds > 1)


def test_where_trees_grow_on_samples_the_seed_is_one_of_a_sample(
    tmp_path: Path, trainer: type[LocalTrainer], capsys: Any
) -> None:
    [row] = confirm(trees(tmp_path, 0.5), seeds=2)["configurations"]
    assert row["seed_matters"] and row["p_new"] > row["p_value"] and "--seeds 1" not in capsys.readouterr().err


# -- asked again ---------------------------------------------------------------------------------------------------


def test_more_seeds_train_only_those_that_are_missing(
    confirmed: Confirmed, confirmed_folder: SearchFolder, trainer: type[LocalTrainer]
) -> None:
    fewer = confirm(confirmed_folder, top=1, seeds=1)
    assert trainer.trained == [] and math.isnan(fewer["baseline"]["sd"]), "one seed has no spread"
    more = confirm(confirmed_folder, top=1, seeds=3)
    assert trainer.trained == [f"{label}, seed 4" for label in (DEFAULT, LABELS[0], PLAIN)]
    champions = (document["configurations"][0]["opponents"][0]["runs"][:2] for document in (more, confirmed.document))
    assert len({tuple(run["value"] for run in runs) for runs in champions}) == 1
    state = state_of(confirmed_folder)
    assert len(state.confirmations) == 11 and state.seconds == 10, "the time of a confirmation is not the search's"


def test_another_split_is_judged_without_training_again(
    confirmed_folder: SearchFolder, trainer: type[LocalTrainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Training, "iterate", lambda self: pytest.fail("trained again"))
    told = confirm(confirmed_folder, seeds=2, split="dev")
    assert told["notes"][1:] == [ON_DEV]
    assert [read_json(verdict_file(confirmed_folder.folder, split))["split"] for split in ("dev", "test")] == [
        "dev", "test",
    ]  # fmt: skip
    assert all(run["value"] == pytest.approx(run["dev"]) for run in told["baseline"]["runs"])
    names = [set(event["metrics"]) for event in state_of(confirmed_folder).confirmations]
    assert len(names) == 16 and not names[0] & names[8], "no metric is told to MLflow twice"


def test_a_training_whose_record_was_lost_is_told_to_the_journal_later(
    confirmed_folder: SearchFolder, trainer: type[LocalTrainer]
) -> None:
    lines = confirmed_folder.journal.read_text().splitlines(keepends=True)
    confirmed_folder.journal.write_text("".join(line for line in lines if '"confirmation"' not in line))
    confirm(confirmed_folder, seeds=2)
    assert len(state_of(confirmed_folder).confirmations) == 8 and trainer.trained == []


def test_a_search_in_s3_is_named_by_its_address(confirmed_folder: SearchFolder, trainer: type[LocalTrainer]) -> None:
    state, remote = state_of(confirmed_folder), replace(confirmed_folder, remote="s3://bucket/runs")
    lineup = Lineup(remote, state, from_yaml(state.yaml), Request(top=1, seeds=1))
    assert runner.Confirmation(lineup, runner.read_inputs(lineup)).verdict().storage == "s3://bucket/runs"


def test_what_should_be_known_before_is_noted(
    confirmed_folder: SearchFolder, trainer: type[LocalTrainer], capsys: Any
) -> None:
    def notes() -> list[str]:
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]

    confirm(confirmed_folder, seeds=1, top=3)
    assert {word for note in notes() for word in ("--top 3", "one seed") if word in note} == {"--top 3", "one seed"}
    whole = confirmed_folder.journal.read_text()
    confirmed_folder.journal.write_text("".join(line for line in whole.splitlines(True) if '"search_end"' not in line))
    with pytest.raises(ConfigError, match=r"resume toy .*--unfinished"):
        confirm(confirmed_folder, top=2, seeds=2, split="dev")
    confirm(confirmed_folder, top=2, seeds=2, split="dev", unfinished=True)
    assert any("5 trials" in note for note in notes())


def test_a_configuration_with_a_failed_seed_is_told_and_not_tested(
    confirmed_folder: SearchFolder, trainer: type[LocalTrainer]
) -> None:
    trainer.fails = {f"{LABELS[0]}, seed 4": NAN}
    told = confirm(confirmed_folder, seeds=3)
    assert [row["label"] for row in told["configurations"]] == [LABELS[1]]
    assert [(run["label"], run["seed"], run["reason"]) for run in told["failed"]] == [(LABELS[0], 4, NAN)]
    trainer.fails = {f"{PLAIN}, seed 5": NAN}
    told = confirm(confirmed_folder, seeds=4)
    assert [row["label"] for row in told["configurations"]] == [LABELS[1]], "what lacks an opponent has no verdict"
    trainer.fails = {f"{DEFAULT}, seed 6": NAN}
    with pytest.raises(WorkFailed, match=rf"{DEFAULT}, seed 6 .*{NAN} .*/seed-6"):
        confirm(confirmed_folder, seeds=5)


def test_once_all_is_trained_what_is_left_takes_no_cluster(
    confirmed_folder: SearchFolder, trainer: type[LocalTrainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(runner, "finish", lambda writer, command: told.append(command))
    confirm_search(tracked(confirmed_folder), Request(top=1, seeds=2), "head:6379")
    trainer.fails = {f"{LABELS[0]}, seed 4": NAN}
    with pytest.raises(WorkFailed):
        confirm_search(tracked(confirmed_folder), Request(top=1, seeds=3), "head:6379")
    assert "--address" not in told[0] and "--address head:6379 --top 1 --seeds 3" in told[1]


# -- stopped and refused -------------------------------------------------------------------------------------------


def test_a_confirmation_killed_between_and_inside_trainings_ends_like_an_unbroken_one(
    confirmed: Confirmed,
    search_folder: SearchFolder,
    trainer: type[LocalTrainer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer.left = 1
    with pytest.raises(Interrupted, match=r"confirm toy --storage .* --seeds 2"):
        confirm(search_folder, seeds=2)
    trainer.left = 1000
    with monkeypatch.context() as patch:
        patch.setattr(Training, "iterate", stopping_after(2))
        with pytest.raises(Interrupted):
            confirm(search_folder, seeds=2)
    saved = list(state_of(search_folder).training_checkpoints.values())[-1]
    assert [Path(path).name for path in saved] == ["checkpoint_000001", "checkpoint_000002"]
    iterate, begun = Training.iterate, []
    monkeypatch.setattr(Training, "iterate", lambda training: begun.append(training.iteration) or iterate(training))
    assert essence(confirm(search_folder, seeds=2)) == essence(confirmed.document)
    assert begun[:4] == [2, 0, 1, 2], "it goes on from its last state"
    assert len(state_of(search_folder).confirmations) == 8


def test_the_command_that_goes_on_names_the_cluster(
    search_folder: SearchFolder, trainer: type[LocalTrainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer.left = 0
    with pytest.raises(Interrupted, match=r"confirm toy --storage .* --address auto --seeds 2"):
        confirm_search(tracked(search_folder), Request(seeds=2), "auto")

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "inputs_of", stop)  # while the data is read
    with pytest.raises(Interrupted, match=r"confirm toy --storage .* --seeds 2 --split test"):
        confirm(search_folder, seeds=2)


def test_data_that_has_changed_since_the_search_is_refused(
    search_folder: SearchFolder, trainer: type[LocalTrainer], capsys: pytest.CaptureFixture[str]
) -> None:
    other = {
        state_of(search_folder).data["digest"]: "0" * 64,
        "context_words": "model_margin",
    }  # a scoring that asks a teacher
    rewrite(search_folder.journal, other)
    with pytest.raises(DataError, match="has changed"):
        confirm(search_folder)
    err = capsys.readouterr().err
    assert trainer.trained == [] and "note: " not in err and "teacher" not in err, "nothing is trained for data refused"


# -- existing rankers -----------------------------------------------------------------------------------------------


def test_a_run_and_a_ranker_are_rows_of_one_training(
    confirmed: Confirmed, confirmed_folder: SearchFolder, trainer: type[LocalTrainer]
) -> None:
    before = confirmed.document
    assert "against" not in before
    own, best = before["baseline"]["runs"][0], before["configurations"][0]
    run, ranker = Path(own["run_file"]), Path(own["run_file"]).parents[1] / "ranker"
    told = confirm(confirmed_folder, seeds=2, against=(str(run), str(ranker)))
    assert essence(told) == essence(before) and trainer.trained == []
    of_run, of_ranker = told["against"]
    assert of_run["label"] == str(run) and of_ranker["label"] == str(ranker)
    assert of_run["mean"] == of_ranker["mean"] == pytest.approx(own["value"])
    assert of_run["p_new"] is of_run["p_new_adjusted"] is of_run["ci95_new"] is None
    to_best = paired_t_test(values_of(best).mean(axis=0), values_of(before["baseline"])[0])
    assert of_run["best"]["label"] == LABELS[0] == best["label"]
    assert of_run["best"]["difference"] == pytest.approx(to_best.difference)
    assert of_run["best"]["p_value"] == pytest.approx(to_best.p)
    assert of_run["best"]["p_adjusted"] == pytest.approx(min(1, 2 * to_best.p))  # Holm over two
    assert (of_run["precision"], of_ranker["precision"]) == (None, "fp32")
    report = (confirmed_folder.folder / "report.html").read_text()
    assert run.name in report and f"{ranker} (fp32)" in report


def test_what_cannot_be_compared_is_refused_before_anything_is_trained(
    search_folder: SearchFolder, trainer: type[LocalTrainer], tmp_path: Path
) -> None:
    (tmp_path / "other.run").write_text("q999 Q0 d999 1 1.0 x\n")
    for name, wrong in (("other.run", "ranks no candidate"), ("nothing", "trained ranker")):
        with pytest.raises(DataError, match=wrong):
            confirm(search_folder, top=1, seeds=1, against=(str(tmp_path / name),))
    assert not (search_folder.folder / "confirmation").exists()
