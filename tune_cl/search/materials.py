"""What the trials of a search share, and the trainings that confirm it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.errors import DataError, Problem
from trainables.training.device import here
from trainables.training.factory import training_notes
from trainables.training.materials import Materials, changed_files, files_of, materials_key, prepare
from trainables.training.pretraining import with_start
from trainables.training.teacher import with_teacher
from tune_cl.experiment import Experiment
from tune_cl.search.elsewhere import on_cluster


def materials_of(experiment: Experiment, address: str | None = None) -> dict[str, Materials]:
    """Data and text side of every ranker the space can choose, by materials_key, the starts that pre-training gives
    them, and the one teacher of the search: both trained on the cluster at `address`, or else here.

    Raises DataError for bad data, before anything is trained.
    """
    compute = on_cluster(address, experiment.search.resources) if address else here
    known: dict[str, Materials] = {}
    data, base, runs = None, experiment.base_run(), experiment.distinct_rankers()
    for run in runs:
        key = materials_key(run)
        if key not in known:
            known[key] = prepare(run, data)
            data = known[key].data
        training_notes(run, known[key])  # raises what is wrong with the data
    for run in {materials_key(run): run for run in runs}.values():
        known[materials_key(run)] = with_start(base, run, known[materials_key(run)], compute)
    return with_teacher(base, experiment.scorings, known, compute)


def fingerprint(experiment: Experiment, materials: Mapping[str, Materials]) -> dict[str, Any]:
    """What the journal keeps of what a search reads: its data's name, and the digests that `require_unchanged`
    compares."""
    made = next(iter(materials.values()))
    pretraining = {"pretrain_digest": made.pretrain_digest} if made.pretrain_digest else {}
    files = files_of(experiment.file_readers())
    return {"name": made.data.name, "digest": made.data.digest, **pretraining} | ({"files": files} if files else {})


def require_unchanged(experiment: Experiment, materials: Mapping[str, Materials], kept: Mapping[str, Any]) -> None:
    """Raises DataError where the data, or a file of vectors, is not what it was when the search began, whose journal
    holds `kept`."""
    now = fingerprint(experiment, materials)
    changed = [
        (place, "the data has changed since the search began", "the data that the search began with, or a new search")
        for key, place in (("digest", "data.source"), ("pretrain_digest", "training.pretrain_data"))
        if now.get(key) != kept.get(key)
    ]
    changed += [
        (path, "is not the file that the search began with", "that one, or a new search")
        for path in changed_files(experiment.file_readers(), kept.get("files", {}))
    ]
    if changed:
        raise DataError([Problem(*one) for one in changed])
