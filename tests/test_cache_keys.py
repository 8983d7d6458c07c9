"""What is cached, kept or drawn depends on what it was made of, even if names stay the same."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.encoder_folders import save_encoder
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig
from trainables.core.errors import DataError
from trainables.data import load_data
from trainables.training.prepared import files_of
from trainables.training.teachers import teacher_scores
from tune_cl.cli import main
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.readers import file_readers
from tune_cl.ray.shared_data import fingerprint, require_unchanged, untrained


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_trec_folder(tiny_data(queries=5, candidates=4, turns=1), tmp_path / "data")


def write_vectors(path: Path, seed: int) -> None:
    draw = random.Random(seed)
    rows = (" ".join([f"w{word}", *(f"{draw.gauss(0, 1):.3f}" for _ in range(8))]) for word in range(200))
    path.write_text("\n".join(rows))


def scores_of_teacher(folder: Path, ranker: dict[str, object]) -> np.ndarray:
    keys = {"max_iterations": 1, "batches_per_iteration": 1, "batch_size": 4, "max_length": 32}
    run = TrainingConfig.model_validate({"data": str(folder), "ranker": ranker, "training": keys})
    data = load_data(run.data)
    return np.array(teacher_scores(run, data, data.splits["train"]))


def test_a_teacher_is_trained_anew_when_its_files_change(folder: Path, tmp_path: Path) -> None:
    vectors, scores = tmp_path / "vectors.txt", []
    for seed in (1, 2, 2):
        write_vectors(vectors, seed)
        scores.append(scores_of_teacher(folder, {"name": "knrm", "vectors": str(vectors)}))
    assert not np.array_equal(scores[0], scores[1]) and np.array_equal(scores[1], scores[2])


def test_a_teacher_is_trained_anew_when_its_encoder_changes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    encoder, trained = tmp_path / "encoder", []
    save_encoder("bert", encoder)
    for changes in (True, False, True):
        if changes:
            weights = encoder / "model.safetensors"
            weights.write_bytes(weights.read_bytes())
        scores_of_teacher(folder, {"name": "bert", "model": str(encoder)})
        trained.append("training the teacher" in capfd.readouterr().err)
    assert trained == [True, False, True]


def test_a_search_does_not_go_on_with_another_file_of_vectors(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, other), space = (tmp_path / "a.txt", tmp_path / "b.txt"), tmp_path / "space.yaml"
    for seed, path in enumerate((one, other)):
        write_vectors(path, seed)
    choices = "curriculum: {vectors: {choice: [train, VECTORS]}, scoring: semantic_std, pacing: root}"
    space.write_text(
        f"data: {folder}\nranker: {{name: knrm, vectors: {one}}}\n" + choices.replace("VECTORS", str(other))
    )
    experiment = load_experiment(str(space))
    prepared = untrained(experiment)
    kept = fingerprint(experiment, prepared)
    assert set(kept["files"]) == {str(one), str(other)}
    write_vectors(third := tmp_path / "c.txt", 3)
    teacher = [f"curriculum.teacher.ranker={{name: knrm, vectors: {third}}}"]
    assert set(files_of(file_readers(load_experiment(str(space), teacher)))) == {str(one), str(other), str(third)}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").touch()  # a file named like the value for vectors that are trained
    assert set(files_of(file_readers(experiment))) == {str(one), str(other)}
    require_unchanged(fingerprint(experiment, prepared), kept)
    write_vectors(other, 7)
    one.unlink()
    with pytest.raises(DataError) as refused:
        require_unchanged(fingerprint(experiment, prepared), kept)
    assert str(refused.value).splitlines() == [
        f"error: {path}: has changed since the search began; what the search began with, or a new search"
        for path in (one, other)
    ]


def test_a_training_does_not_go_on_with_another_file_of_vectors(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors, output = tmp_path / "vectors.txt", tmp_path / "output"
    write_vectors(vectors, 1)
    keys = {"ranker.vectors": vectors, "training.max_iterations": 1, "training.batches_per_iteration": 1}
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    command = ["train", "--data", str(folder), "--ranker", "knrm", "--output", str(output), *settings]
    assert main(command) == 0 and main(command) == 0
    (other := tmp_path / "other").mkdir()
    (other / "files.json").write_text('{"gone.txt": "0"}')  # as left by a training that ended before its first state
    without = ["train", "--data", str(folder), "--ranker", "knrm", "--output", str(other), *settings[2:]]
    assert main(without) == 0 and main(without) == 0
    write_vectors(vectors, 2)
    capsys.readouterr()
    assert main(command) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: --output: ")
