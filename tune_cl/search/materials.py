"""What the trials of a search share, and the trainings that confirm it."""

from __future__ import annotations

from trainables.training.materials import Materials, materials_key, prepare
from trainables.training.teacher import with_teacher
from trainables.training.training import training_instances
from tune_cl.experiment import Experiment


def materials_of(experiment: Experiment) -> dict[str, Materials]:
    """Data and text side of every ranker the space can choose, by materials_key, and the one teacher of the search.

    Raises DataError for bad data.
    """
    known: dict[str, Materials] = {}
    data = None
    for run in experiment.distinct_rankers():
        known[materials_key(run)] = made = prepare(run, data)
        data = made.data
        training_instances(run, made)
    return with_teacher(experiment.base_run(), experiment.scorings, known)
