"""`tune-cl confirm`: what is trained, kills and more seeds, the document; once on real Ray and MLflow."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient

from tests.support.commands import rewrite
from tests.support.confirm_cases import LABELS, LocalCrew, confirm, crew, data, essence, search_folder, state_of
from tests.support.faults import stopping_after
from tests.support.tracking_cases import journal_of, search_event
from trainables.core.errors import ConfigError, DataError, Interrupted, WorkFailed
from trainables.evaluation.significance import UNKNOWN, SeededTest, bootstrap_ci
from trainables.training.checkpoint import latest_iteration, read_json
from trainables.training.trainer import Training
from tune_cl import run_confirmation as runner
from tune_cl.cli import main
from tune_cl.cli.commands.confirm import of_curriculum, render
from tune_cl.cli.commands.evaluate import evaluate
from tune_cl.confirmation import document
from tune_cl.confirmation.document import ablations
from tune_cl.confirmation.request import (
    Configuration,
    Request,
    baseline_configuration,
    best_configurations,
    new_seeds,
    verdict_file,
)
from tune_cl.confirmation.training import STATE, read_values
from tune_cl.confirmation.verdict import Corrected
from tune_cl.experiment.load import from_yaml
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, differences
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.run_confirmation import confirm_search

KEYS = {"search", "metric", "split", "seeds", "baseline", "configurations", "correction", "verdict"}
ROW_KEYS = {"label", "params", "runs", "mean", "sd"}
TEST_KEYS = {"difference", "p_per_seed", "p_value", "p_adjusted", "ci95", "marks"}
__all__ = ["crew", "data", "search_folder"]  # fixtures


def test_the_best_configurations_are_distinct_sound_and_labelled_by_what_they_change(
    search_folder: SearchFolder,
) -> None:
    state = state_of(search_folder)
    baseline = baseline_configuration(state, from_yaml(state.yaml))
    best = best_configurations(state, baseline, 5)
    assert [(one.label, one.trial) for one in best] == [(LABELS[0], "t0002"), (LABELS[1], "t0001")]
    assert best_configurations(state, baseline, 1) == best[:1]
    assert best[0].folder == "t0002-root_n=2_context_words_lr=0.02"
    assert "seed" not in best[0].params and "curriculum.n" not in best[1].params
    only = SearchState(**{**vars(state), "trials": {"t0000": state.trials["t0000"], "t0003": state.trials["t0003"]}})
    with pytest.raises(ConfigError, match="no configuration to confirm"):
        best_configurations(only, baseline, 1)


def test_configurations_of_one_label_are_told_apart_by_their_trials(search_folder: SearchFolder) -> None:
    state = state_of(search_folder)
    baseline = baseline_configuration(state, from_yaml(state.yaml))
    state.trials["t0004"].params = state.trials["t0002"].params | {"training.lr": 0.02000001}
    labels = [one.label for one in best_configurations(state, baseline, 5)]
    assert labels == [LABELS[0], f"{LABELS[0]} (t0004)", LABELS[1]]


def test_a_configuration_goes_by_its_first_trial_that_did_not_fail(search_folder: SearchFolder) -> None:
    state = state_of(search_folder)
    state.trials["t0002"].outcome = "failed"
    baseline = baseline_configuration(state, from_yaml(state.yaml))
    best = best_configurations(state, baseline, 5)
    assert [(one.label, one.trial) for one in best] == [(LABELS[0], "t0004"), (LABELS[1], "t0001")]


def test_a_configuration_stands_where_its_best_trial_does(search_folder: SearchFolder) -> None:
    """Two trials may come to the same training; here the first of them has the lower value."""
    state = state_of(search_folder)
    first, again = state.trials["t0001"], replace(state.trials["t0001"], trial="t0009", number=9, results={})
    again.results[1] = {"dev_map": 0.99, "seconds": 1.0}
    state.trials["t0009"] = again
    baseline = baseline_configuration(state, from_yaml(state.yaml))
    assert [one.trial for one in best_configurations(state, baseline, 2)] == [first.trial, "t0002"]


def test_folders_have_names_that_file_systems_take() -> None:
    opened = [f"ranker.some_long_name_{number}=0.123" for number in range(20)]
    names = [Configuration(", ".join([*opened, last]), "t0001", {}, {}).folder for last in ("a=1", "a=2")]
    assert len(set(names)) == 2 and all(len(name) <= 128 and name.startswith("t0001-ranker.") for name in names)
    assert Configuration("root n=2, turns", "t0001", {}, {}).folder == "t0001-root_n=2_turns"


def test_seeds_begin_alike_and_pass_over_the_search_s() -> None:
    assert new_seeds(3, {0}) == [1, 2, 3]
    assert new_seeds(5, {2, 4}) == [1, 3, 5, 6, 7]
    assert new_seeds(2, {2}) == new_seeds(5, {2})[:2]


def test_values_are_those_that_trec_eval_gives_the_run_files(
    search_folder: SearchFolder, crew: type[LocalCrew], data: Path
) -> None:
    document = confirm(search_folder, seeds=2)
    rows = [document["baseline"], *document["configurations"]]
    for at, seed in enumerate(document["seeds"]):
        files = [row["runs"][at]["run_file"] for row in rows]
        judged = evaluate(str(data / "qrels.test.txt"), files, ["map"])["runs"]
        assert [row["runs"][at]["value"] for row in rows] == pytest.approx([run["metrics"]["map"] for run in judged])
        tests = [run["vs_first"]["map"]["p"] for run in judged[1:]]
        assert [row["p_per_seed"][at] for row in rows[1:]] == pytest.approx(tests)
        assert seed == rows[0]["runs"][at]["seed"]
    assert read_json(verdict_file(search_folder.folder, "test"))["verdict"] == document["verdict"]
    assert "No verdict yet" not in (search_folder.folder / "report.html").read_text()
    assert str(search_folder.folder / "report.html") in state_of(search_folder).artifacts, "which MLflow is promised"


def test_a_row_s_spread_is_a_sample_s_and_its_interval_that_of_query_means(
    search_folder: SearchFolder, crew: type[LocalCrew]
) -> None:
    """The spread is over seeds, and one seed has none; the interval is over queries, each a mean over the seeds."""
    rows = confirm(search_folder, top=1, seeds=2)
    base, own = rows["baseline"], rows["configurations"][0]
    values = [run["value"] for run in base["runs"]]
    assert base["mean"] == pytest.approx(np.mean(values)) and base["sd"] == pytest.approx(np.std(values, ddof=1))
    by_query = [
        np.mean([read_values(Path(run["run_file"]).parents[1], "test", "map") for run in row["runs"]], axis=0)
        for row in (base, own)
    ]
    assert own["ci95"] == pytest.approx(bootstrap_ci(by_query[1] - by_query[0]))
    assert math.isnan(confirm(search_folder, top=1, seeds=1)["baseline"]["sd"])


def test_another_split_is_judged_without_training_again(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    confirm(search_folder, top=1, seeds=2)
    monkeypatch.setattr(Training, "iterate", lambda self: pytest.fail("trained again"))
    document = confirm(search_folder, top=1, seeds=2, split="dev")
    assert document["split"] == "dev" and read_json(verdict_file(search_folder.folder, "dev"))["split"] == "dev"
    assert read_json(verdict_file(search_folder.folder, "test"))["split"] == "test"
    assert all(run["value"] == pytest.approx(run["dev"]) for run in document["baseline"]["runs"])
    names = [set(event["metrics"]) for event in state_of(search_folder).confirmations]
    assert len(names) == 8 and not names[0] & names[4], "no metric is told to MLflow twice"
    confirm(search_folder, top=1, seeds=2)
    assert len(state_of(search_folder).confirmations) == 8


def test_a_confirmation_killed_between_and_inside_trainings_ends_like_an_unbroken_one(
    search_folder: SearchFolder, crew: type[LocalCrew], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    whole = essence(confirm(search_folder, seeds=2))
    cut = SearchFolder(tmp_path / "cut", "toy")
    (cut.folder).mkdir(parents=True)
    (cut.journal).write_text("".join(line for line in search_folder.journal.open() if '"confirmation"' not in line))
    crew.left = 1
    with pytest.raises(Interrupted, match=r"confirm toy --storage .*cut --top 3 --seeds 2 --split test"):
        confirm(cut, seeds=2)
    crew.left = 1000
    with monkeypatch.context() as patch:
        patch.setattr(Training, "iterate", stopping_after(2))
        with pytest.raises(Interrupted):
            confirm(cut, seeds=2)
    saved = [latest_iteration(folder) for folder in cut.folder.glob(f"confirmation/*/*/{STATE}")]
    assert [path.name for path in saved if path] == ["iteration-00002"]
    assert essence(confirm(cut, seeds=2)) == whole
    assert len(state_of(cut).confirmations) == 6
    assert "5 of 6 trainings to do" in capsys.readouterr().err


def test_a_killed_training_goes_on_from_its_last_state(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Training, "iterate", stopping_after(2))
        with pytest.raises(Interrupted):
            confirm(search_folder, top=1, seeds=1)
    iterate, begun = Training.iterate, []
    monkeypatch.setattr(Training, "iterate", lambda training: begun.append(training.iteration) or iterate(training))
    confirm(search_folder, top=1, seeds=1)
    assert begun == [2, 0, 1, 2]


def test_the_command_that_goes_on_names_the_cluster(
    search_folder: SearchFolder, crew: type[LocalCrew], tmp_path: Path
) -> None:
    cut = SearchFolder(tmp_path / "cut", "toy")
    cut.folder.mkdir(parents=True)
    cut.journal.write_text("".join(line for line in search_folder.journal.open() if '"confirmation"' not in line))
    crew.left = 0
    with pytest.raises(Interrupted, match=r"confirm toy --storage .*cut --address auto --top 3 --seeds 2"):
        confirm_search(cut, Request(seeds=2), resolve_tracking_uri(cut.storage), "auto")


def test_a_confirmation_stopped_while_the_data_is_read_says_how_to_go_on(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "inputs_of", stop)
    with pytest.raises(Interrupted, match=r"Go on with: .*confirm toy --storage .* --top 3 --seeds 2 --split test"):
        confirm(search_folder, seeds=2)


def test_a_training_whose_record_was_lost_is_told_to_the_journal_later(
    search_folder: SearchFolder, crew: type[LocalCrew]
) -> None:
    confirm(search_folder, top=1, seeds=2)
    lines = search_folder.journal.read_text().splitlines(keepends=True)
    search_folder.journal.write_text("".join(lines[:-2]))
    confirm(search_folder, top=1, seeds=2)
    assert len(state_of(search_folder).confirmations) == 4


def test_a_configuration_with_a_failed_seed_is_told_and_not_tested(
    search_folder: SearchFolder, crew: type[LocalCrew]
) -> None:
    crew.fails = {f"{LABELS[0]}, seed 3": "the training loss became nan"}
    document = confirm(search_folder, seeds=2)
    assert [row["label"] for row in document["configurations"]] == [LABELS[1]]
    assert [(run["label"], run["seed"]) for run in document["failed"]] == [(LABELS[0], 3)]
    assert "not tested, because it failed: the training loss became nan" in render(document)
    crew.fails = {"baseline, seed 4": "the training loss became nan"}
    with pytest.raises(WorkFailed, match=r"baseline, seed 4: the training loss became nan \(see /.*/seed-4\)"):
        confirm(search_folder, seeds=3)


def test_an_ablation_is_the_configuration_without_its_curriculum(
    search_folder: SearchFolder, crew: type[LocalCrew]
) -> None:
    document = confirm(search_folder, seeds=2, ablate=True)
    root, linear = document["configurations"]
    ablation = root["ablation"]
    differing = {key for key in root["params"] if root["params"][key] != ablation["params"].get(key)}
    assert ablation["label"] == "plain, lr=0.02" and ablation["params"]["training.lr"] == 0.02
    assert ablation["params"]["curriculum.pacing"] == "none" and all(key.startswith("curriculum.") for key in differing)
    assert ablation["difference"] == pytest.approx(root["mean"] - ablation["mean"])
    assert root["also_differs"] == ["training.lr"] and linear["also_differs"] == []
    assert root["has_curriculum"] and linear["has_curriculum"]
    assert linear["ablation"]["label"] == "baseline" and linear["ablation"]["mean"] == document["baseline"]["mean"]
    assert linear["ablation"]["p_value"] == linear["p_value"], "what is the baseline already is not trained again"
    assert crew.trained == [f"{of}, seed {seed}" for seed in (1, 3) for of in ("baseline", *LABELS, "plain, lr=0.02")]
    assert "without its curriculum" in render(document)
    assert "Against 'plain, lr=0.02', which is the same without its curriculum: " in of_curriculum(root, "map")
    assert of_curriculum(linear, "map") == ""


def test_an_ablation_without_a_difference_is_no_finding_for_these_seeds_either() -> None:
    own = {"label": "plain, lr=0.02", "difference": 0.01, "p_adjusted": 0.3, "p_new_adjusted": 0.6, "runs": [1, 2]}
    own["seed_matters"] = True
    row = {"also_differs": ["training.lr"], "has_curriculum": True, "ablation": own}
    assert of_curriculum(row, "map").endswith("+0.0100 map, p = 0.6; an effect of its curriculum is not shown.")
    row["ablation"] = own | {"p_adjusted": 0.01}
    assert of_curriculum(row, "map").endswith("p = 0.6; an effect of its curriculum is not shown.")


def test_configurations_that_are_the_same_without_their_curricula_share_an_ablation(
    search_folder: SearchFolder,
) -> None:
    state = state_of(search_folder)
    experiment = from_yaml(state.yaml)
    linear = {"curriculum.pacing": "linear", "training.lr": 0.02}
    state.trials["t0001"].params, state.trials["t0001"].point = experiment.training_run(linear).in_force(), linear
    found = ablations(state, baseline_configuration(state, experiment), experiment)
    one, other = found[LABELS[0]], found["linear, context_words, lr=0.02"]
    assert one is not None and one is other


def test_a_difference_that_may_come_from_other_keys_is_said(search_folder: SearchFolder, crew: type[LocalCrew]) -> None:
    document = confirm(search_folder, top=1, seeds=1)
    assert "It differs from the baseline in training.lr too: --ablate separates them." in render(document)
    assert "ablation" not in document["configurations"][0]


def test_a_failed_ablation_is_told_and_not_compared(search_folder: SearchFolder, crew: type[LocalCrew]) -> None:
    crew.fails = {"plain, lr=0.02, seed 3": "the training loss became nan"}
    root, linear = confirm(search_folder, seeds=2, ablate=True)["configurations"]
    assert "ablation" not in root and "ablation" in linear and root["p_value"] <= 1


def test_a_configuration_without_a_curriculum_has_no_ablation(search_folder: SearchFolder) -> None:
    state = state_of(search_folder)
    experiment = from_yaml(state.yaml)
    baseline = baseline_configuration(state, experiment)
    plain_at_another_rate = {"curriculum.pacing": "none", "training.lr": 0.02}
    state.trials["t0001"].params = experiment.training_run(plain_at_another_rate).in_force()
    state.trials["t0001"].point = plain_at_another_rate
    found = ablations(state, baseline, experiment)
    assert found["lr=0.02"] is None
    [plain] = [one for one in best_configurations(state, baseline, 5) if one.label == "lr=0.02"]
    row = differences(plain.params, baseline.params)
    assert row == {"has_curriculum": False, "also_differs": ["training.lr"]}
    assert of_curriculum(row, "map") == " It has no other curriculum than the baseline: what differs is training.lr."
    assert found[LABELS[0]] is not None and found[LABELS[0]].label == "lr=0.02", "a configuration of the search itself"


def test_wrong_options_are_reported_together(search_folder: SearchFolder, capsys: Any) -> None:
    arguments = ["confirm", "toy", "--storage", str(search_folder.storage), "--top", "0", "--seeds", "0"]
    assert main([*arguments, "--correction", "holms"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == ["--top", "--seeds", "--correction"]
    assert not (search_folder.folder / "confirmation").exists()


def test_data_that_has_changed_since_the_search_is_refused(
    search_folder: SearchFolder, crew: type[LocalCrew], capsys: pytest.CaptureFixture[str]
) -> None:
    other = {
        state_of(search_folder).data["digest"]: "0" * 64,
        "context_words": "model_margin",
    }  # a scoring that asks a teacher
    rewrite(search_folder.journal, other)
    with pytest.raises(DataError, match="has changed since the search"):
        confirm(search_folder)
    err = capsys.readouterr().err
    assert crew.trained == [] and "note: " not in err and "teacher" not in err, "nothing is trained for data refused"


@pytest.mark.slow
def test_confirm_on_ray_with_mlflow(search_folder: SearchFolder, capfd: Any) -> None:
    arguments = ["confirm", "toy", "--storage", str(search_folder.storage), "--top", "1", "--seeds", "2", "--json"]
    assert main(arguments) == 0
    out, err = capfd.readouterr()
    document = json.loads(out)
    assert document.keys() >= KEYS and document["seeds"] == [1, 3] and document["verdict"] == "no difference shown"
    [row], baseline = document["configurations"], document["baseline"]
    assert row.keys() >= ROW_KEYS | TEST_KEYS and baseline.keys() >= ROW_KEYS and baseline["label"] == "baseline"
    assert [run["seed"] for run in row["runs"]] == [1, 3] and len(row["p_per_seed"]) == 2
    assert all(Path(run["run_file"]).is_file() for run in row["runs"])
    assert row["p_adjusted"] == row["p_value"] and row["ci95"][0] <= row["difference"] <= row["ci95"][1]
    assert "4 of 4 trainings to do" in err
    runs = confirmation_runs(search_folder)
    names = (("t0000", "baseline"), ("t0002", LABELS[0]))
    assert sorted(runs) == [f"{trial} seed {seed} {label}" for trial, label in names for seed in (1, 3)]
    values = [run["value"] for one in (baseline, row) for run in one["runs"]]
    assert [runs[name].data.metrics["test_map"] for name in sorted(runs)] == pytest.approx(values)


def confirmation_runs(search_folder: SearchFolder) -> dict[str, Any]:
    """MLflow's runs of kind confirmation, by name; fails if one is there twice."""
    client = MlflowClient(tracking_uri=resolve_tracking_uri(search_folder.storage))
    experiment = client.get_experiment_by_name("toy")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.`tune_cl.kind` = 'confirmation'")
    named = {str(run.info.run_name): run for run in runs}
    assert len(named) == len(runs)
    return named


def test_confirm_tells_mlflow_where_the_search_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in resume and report: the search's own address precedes the environment's, and one given precedes both."""
    own = f"sqlite:///{tmp_path / 'mlflow.db'}"
    journal_of(tmp_path / "toy", [search_event("toy", name="toy", tracking_uri=own)])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////environment.db")
    used = []
    monkeypatch.setattr(runner, "confirm_search", lambda search_folder, request, uri, *_: used.append(uri) or {})
    monkeypatch.setattr("tune_cl.cli.commands.confirm.render", lambda document: "")
    for given in ([], ["--tracking-uri", "sqlite:////given.db"]):
        assert main(["confirm", "toy", "--storage", str(tmp_path), *given]) == 0
    assert used == [own, "sqlite:////given.db"]


def test_a_storage_that_was_moved_has_its_database_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    event = search_event("toy", name="toy", tracking_uri="sqlite:////old/runs/mlflow.db", storage="/old/runs")
    journal_of(tmp_path / "toy", [event])
    used = []
    monkeypatch.setattr(runner, "confirm_search", lambda search_folder, request, uri, *_: used.append(uri) or {})
    monkeypatch.setattr("tune_cl.cli.commands.confirm.render", lambda document: "")
    assert main(["confirm", "toy", "--storage", str(tmp_path)]) == 0
    assert used == [f"sqlite:///{tmp_path / 'mlflow.db'}"]


def test_a_search_is_not_worse_by_a_configuration_that_it_would_not_have_named(
    search_folder: SearchFolder, crew: type[LocalCrew], monkeypatch: pytest.MonkeyPatch
) -> None:
    def far_below(pairs: Any, *others: Any) -> list[Corrected]:
        return [Corrected(SeededTest(-0.5, (0.0,), 0.0, UNKNOWN), 0.0, 0.0) for _ in pairs]

    monkeypatch.setattr(document, "corrected_tests", far_below)
    assert confirm(search_folder, seeds=1)["verdict"] == "worse"
    crew.fails = {f"{LABELS[0]}, seed 3": "the loss is no number"}
    assert confirm(search_folder, seeds=2)["verdict"] == "no difference shown"
