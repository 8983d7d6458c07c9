"""A user's own training function through search, stop, resume, confirmation and MLflow, on real Ray."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import mlflow
import pytest

import tune_cl
from tests.support import linear_trainer
from tests.support.builders import tiny_data
from tests.support.encoder_folders import POSITIONS, save_encoder
from tests.support.kills import CtrlC
from tests.support.project import ROOT
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder
from trainables.config.function import load_objective
from trainables.training.objective import ObjectiveTraining, PreparedObjective
from tune_cl.cli import main
from tune_cl.experiment.load import build

pytestmark = pytest.mark.slow

OBJECTIVE = f"{linear_trainer.__file__}:train"
EXAMPLE = ROOT / "examples" / "own_trainer.py"
SPACE = """
curriculum:
  pacing: {choice: [linear, root]}
  delta: {uniform: [0.2, 0.6]}
parameters: {lr: {loguniform: [0.05, 1]}}
training: {max_iterations: 4}
search: {trials: 6, max_concurrent: 1, scheduler: asha, promotion: false, grace: 1, reduction_factor: 2}
metric: mrr
"""


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("space") / "own.yaml"
    path.write_text(SPACE)
    return path


@pytest.fixture(scope="module")
def whole(space: Path, local_ray: str, tmp_path_factory: pytest.TempPathFactory) -> tune_cl.Search:
    storage = fresh_database(tmp_path_factory.mktemp("whole"))
    return tune_cl.run(str(space), objective=linear_trainer.train, name="own", storage=storage, progress=False)


def courses(search: tune_cl.Search) -> list[tuple[Any, ...]]:
    columns = ["trial_id", "arm", "outcome", "parameters.lr"]
    rows = search.curves.merge(search.trials[columns], on="trial_id")
    return [tuple(row) for row in rows[["iteration", "dev_mrr", "loss", *columns]].values]


def test_a_search_has_pairs_and_logs_what_the_function_reports(whole: tune_cl.Search) -> None:
    outcomes = whole.trials["outcome"].tolist()
    assert outcomes[0] == "completed" and "failed" not in outcomes
    assert set(whole.trials["arm"]) == {"plain", "curriculum"}
    shared = whole.trials.set_index("trial_id")["parameters.lr"]
    twins = whole.trials[whole.trials["arm"] == "curriculum"].set_index("trial_id")["twin"].dropna()
    assert len(twins) and all(shared[trial] == shared[twin] for trial, twin in twins.items()), (
        "a pair shares the function's own keys"
    )
    client = mlflow.MlflowClient(whole.tracking_uri)
    parent = client.get_run(whole.result.mlflow_run_id)
    runs = client.search_runs([parent.info.experiment_id], "tags.`tune_cl.kind` = 'trial'")
    assert len(runs) == len(outcomes) and {run.info.status for run in runs} == {"FINISHED"}
    for run in runs:
        points = client.get_metric_history(run.info.run_id, "dev_mrr")
        own = whole.curves[whole.curves["trial_id"] == run.data.tags["tune_cl.trial_id"]]
        assert [(point.step, point.value) for point in points] == list(
            zip(own["iteration"], own["dev_mrr"], strict=True)
        )
        assert {"loss", "seconds"} <= run.data.metrics.keys() and "parameters.lr" in run.data.params
        assert "dev.per_query.tsv" in {file.path for file in client.list_artifacts(run.info.run_id)}
    ranker = Path(whole.result.checkpoint or "")
    assert ranker / "checkpoint" / "weights.npy" in ranker.rglob("*")


def test_a_stopped_search_goes_on_from_the_command_line_with_the_same_numbers(
    whole: tune_cl.Search, space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, storage = load_objective(OBJECTIVE).required(), fresh_database(tmp_path)
    with pytest.raises(tune_cl.Interrupted):
        tune_cl.run(str(space), objective=train, name="own", storage=storage, callbacks=[CtrlC(6)], progress=False)
    gc.collect()  # what was interrupted refers to Ray's actor, which holds the only CPU
    assert main(["resume", "own", "--storage", str(tmp_path)]) == 2
    assert f"--objective {OBJECTIVE}" in capsys.readouterr().err
    assert main(["resume", "own", "--storage", str(tmp_path), "--objective", OBJECTIVE]) == 0
    assert courses(tune_cl.open_search("own", tmp_path)) == courses(whole)


def test_a_confirmation_trains_by_the_function_and_tests_its_values(whole: tune_cl.Search) -> None:
    verdict = tune_cl.open_search("own", whole.storage).confirm(
        seeds=2, top=1, objective=linear_trainer.train, progress=False
    )
    assert verdict.verdict in ("better", "no difference shown", "worse") and len(verdict.opponents) >= 1
    values = verdict.per_query
    assert len(values) == len(verdict.table) * 2 * 40 and set(values["value"]) <= {1 / rank for rank in range(1, 9)}


def test_the_example_of_the_documentation_trains_resumes_and_gives_values(tmp_path: Path) -> None:
    objective = load_objective(f"{EXAMPLE}:train")
    data = write_trec_folder(
        tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1), tmp_path / "data"
    )
    save_encoder("bert", tmp_path / "bert")
    own = {"data.source": str(data), "parameters.model": str(tmp_path / "bert"), "parameters.max_length": POSITIONS}
    experiment = build(
        "own", vars(objective.module)["SPACE"], own | {"training.max_iterations": 2}, objective=objective
    )
    point = experiment.space.fill(lambda key, parameter: parameter.at(0.5))
    first, second = (ObjectiveTraining(experiment.config(point).run, PreparedObjective(objective)) for _ in range(2))
    first.iterate()
    (tmp_path / "state").mkdir()
    first.save(tmp_path / "state")
    second.load(tmp_path / "state")
    for training in (first, second):
        while not training.finished:
            training.iterate()
        training.close()
    assert first.history[1]["dev_map"] == pytest.approx(second.history[1]["dev_map"])
    second.save_ranker(tmp_path / "ranker")
    second.restore_ranker(tmp_path / "ranker")
    values, _ = second.apply("test", tmp_path)
    assert len(values["map"]) == 6
