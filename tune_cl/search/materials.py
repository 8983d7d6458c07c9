"""What the trials of a search share, and the trainings that confirm it."""

from __future__ import annotations

from trainables.training.factory import training_notes
from trainables.training.materials import Materials, materials_key, prepare
from trainables.training.pretraining import with_start
from trainables.training.teacher import with_teacher
from tune_cl.experiment import Experiment


def materials_of(experiment: Experiment) -> dict[str, Materials]:
    """Data and text side of every ranker the space can choose, by materials_key, the starts that pre-training gives
    them, and the one teacher of the search.

    Raises DataError for bad data, before anything is trained.
    """
    known: dict[str, Materials] = {}
    data, base, runs = None, experiment.base_run(), experiment.distinct_rankers()
    for run in runs:
        key = materials_key(run)
        if key not in known:
            known[key] = prepare(run, data)
            data = known[key].data
        training_notes(run, known[key])  # raises what is wrong with the data
    for run in {materials_key(run): run for run in runs}.values():
        known[materials_key(run)] = with_start(base, run, known[materials_key(run)])
    return with_teacher(base, experiment.scorings, known)
