"""Damage of the cache, a bit or a whole file, is noticed where an entry is opened, and the entry is built again."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.faults import flip_the_last_bit
from tests.support.letor_data import letor_data
from tests.support.trec_folder import write_trec_folder
from tests.support.tree_training import prepared_of, tree_run
from trainables.config.keys import DataConfig, validated
from trainables.core import cache
from trainables.core.cache import CHECKSUMS, cached, digest_of
from trainables.curriculum.scoring import difficulty
from trainables.data import load_data
from trainables.data.columns import RankingData, required_split
from trainables.data.instances import make_instances
from trainables.extras.trees import TreeTraining
from trainables.training.batching import scored_of
from trainables.training.prepared import prepare
from trainables.training.pretraining import pretrained_start
from trainables.training.teachers import teacher_scores

Results = Callable[[], Any]
RANKER = {"name": "conv_knrm", "vector_size": 8, "filters": 4}
KEYS = {"batches_per_iteration": 2, "batch_size": 8, "max_iterations": 2}


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def no_json(path: Path) -> None:
    path.write_text('{"splits": ')


DAMAGES = (flip_a_bit, flip_the_last_bit, cut_short, Path.unlink, no_json)


def files(entry: Path) -> list[Path]:
    return sorted(path for path in entry.rglob("*") if path.is_file())


def in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_verified", set())


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    return (
        np.array_equal(left, right, equal_nan=left.dtype.kind == "f") if isinstance(left, np.ndarray) else left == right
    )


def columns(read: RankingData) -> dict[str, Any]:
    texts = {name: list(getattr(read, name)) for name in ("document_ids", "documents", "query_ids", "utterances")}
    rest = {"features": read.features, "domain": read.domain, "offsets": read.utterance_offsets}
    meta = {"meta": (read.name, read.digest, read.domains, read.notes, read.task, read.classes, read.retrieved)}
    return texts | rest | meta | {name: vars(split) for name, split in read.splits.items()}


def trec(folder: Path) -> Results:
    made = tiny_data(queries={"train": 6, "dev": 3, "test": 3}, candidates=3, turns=1)
    source = write_trec_folder(made, folder)
    return lambda: columns(load_data(DataConfig(source=str(source))))


def text_side(_: Path) -> Results:
    made = tiny_data(queries=6, candidates=3)
    run = validated({"ranker": RANKER, "training": KEYS})

    def result() -> dict[str, Any]:
        text = prepare(run, made).text
        return {"queries": text.queries.ids, "documents": text.documents.ids, **text.arrays, **text.files}

    return result


def difficulties(_: Path) -> Results:
    made = tiny_data(queries=6, candidates=3)
    run = validated({"ranker": RANKER, "curriculum": {"scoring": "context_words", "pacing": "root"}})
    split = required_split(made, "train")
    return lambda: difficulty("context_words", scored_of(run, made, split, make_instances(split, True, 1, 1)))[0]


def teacher(_: Path) -> Results:
    made = tiny_data(queries=6, candidates=3, seed=61)
    curriculum = {"scoring": "model_loss", "pacing": "root"}
    run = validated({"ranker": RANKER, "training": KEYS, "curriculum": curriculum})
    return lambda: teacher_scores(run, made, required_split(made, "train"))


def pretraining(folder: Path) -> Results:
    made = tiny_data(queries=6, candidates=3, seed=62)
    source = write_trec_folder(tiny_data(queries=6, candidates=3, seed=63), folder)
    run = validated({"ranker": RANKER, "training": KEYS | {"pretrain_data": str(source), "pretrain_iterations": 2}})
    return lambda: pretrained_start(run, made)


def trees(_: Path) -> Results:
    made = letor_data()
    run = tree_run(objective_switch="mse", switch=4)

    def result() -> np.ndarray:
        training = TreeTraining(run, prepared_of(made))
        while not training.finished:
            training.iterate()
        return training.score(made.splits["test"])

    return result


KINDS = (trec, text_side, difficulties, teacher, pretraining, trees)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_of_any_kind_changes_nothing(
    kind: Callable[[Path], Results],
    own_cache: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = kind(tmp_path / "source")
    whole = deepcopy(result())  # not mapped from the files that are damaged
    in_a_new_process(monkeypatch)
    assert equal(result(), whole)
    opened = sorted(cache._verified)  # not those of a teacher of which the scores are here
    assert opened
    every = [(entry, path) for entry in opened for path in files(entry)]
    for (entry, path), damage in zip(every, cycle(DAMAGES), strict=False):
        damage(path)
        in_a_new_process(monkeypatch)
        capsys.readouterr()
        assert equal(result(), whole), f"{damage.__name__} of {path}"
        notes = [line for line in capsys.readouterr().err.splitlines() if "is damaged" in line]
        assert len(notes) == 1 and notes[0].startswith(f"note: {entry} is damaged ("), notes
        assert notes[0].endswith("); it is built again")
    in_a_new_process(monkeypatch)
    assert equal(result(), whole) and "is damaged" not in capsys.readouterr().err


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_every_kind_is_noticed_in_a_file_and_in_the_checksums(
    damage: Callable[[Path], None], own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        np.save(folder / "a.npy", np.arange(100))

    for number, name in enumerate(("a.npy", CHECKSUMS), 2):
        damage(cached("damaged", digest_of("damaged"), build) / name)
        in_a_new_process(monkeypatch)
        entry = cached("damaged", digest_of("damaged"), build)
        assert len(built) == number and np.load(entry / "a.npy").tolist() == list(range(100))


def test_many_that_find_one_damage_get_one_whole_entry(own_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(folder: Path) -> None:
        np.save(folder / "a.npy", np.arange(100_000))

    for digest in map(digest_of, range(20)):
        entry = cached("many", digest, build)
        flip_a_bit(entry / "a.npy")
        in_a_new_process(monkeypatch)
        with ThreadPoolExecutor(8) as threads:
            got = list(threads.map(cached, ["many"] * 8, [digest] * 8, [build] * 8))
        assert set(got) == {entry}
        np.testing.assert_array_equal(np.load(entry / "a.npy"), np.arange(100_000))
        assert [path for path in entry.parent.iterdir() if path.name.startswith(".")] == []
