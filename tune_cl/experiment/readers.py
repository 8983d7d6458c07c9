"""What the trainings of a search read: texts, files, models and teachers, which are prepared before the first trial."""

from __future__ import annotations

from collections.abc import Iterable

from trainables.config.keys import TrainingConfig
from trainables.curriculum.scoring import TEACHERS, any_needs
from trainables.rankers import RANKERS
from trainables.training.losses import LOSSES
from tune_cl.experiment.experiment import Experiment, base_ranker

READ = (  # beginnings of keys that decide what trainings read, beside the ranker's own
    "training.loss",
    "training.negatives",
    "training.hard_negatives",
    "training.negative_ranks",
    "curriculum.negatives.schedule",
    "training.pretrain_data",
    "ranker.lora.targets",
    "curriculum.subset",
    "curriculum.feature",
)
FILES = {"ranker.name", "ranker.vectors", "ranker.model", "curriculum.vectors", "curriculum.file"}


def distinct_rankers(experiment: Experiment) -> list[TrainingConfig]:
    """The baseline and a training for each combination of the parameters that decide what trainings read: the ranker's
    keys that its texts depend on (all, if it is pre-trained), and those of READ."""
    of_texts = text_keys(experiment)
    return varied(experiment, {key for key in experiment.space.parameters if key.startswith(READ) or key in of_texts})


def file_readers(experiment: Experiment) -> list[TrainingConfig]:
    """Trainings that together read every file of word vectors or difficulty and every encoder that trials can."""
    return varied(experiment, FILES & experiment.space.parameters.keys())


def varied(experiment: Experiment, keys: Iterable[str]) -> list[TrainingConfig]:
    """The baseline and a training for each combination of these parameters, and of those that they depend on. Where
    that is more than there are trials, ranges of numbers stay at their middle: a trial makes what it does not share."""
    space, deciding = experiment.space, set(keys)
    for key in list(space.parameters)[::-1]:
        if key in deciding:
            deciding |= space.parameters[key].when.keys()
    few = space.only(deciding)
    if (few.combinations() or 0) > experiment.search.trials:
        few = space.only(deciding - {key for key, parameter in space.parameters.items() if parameter.is_number})
    runs = (experiment.config(point).run for point in few.grid())
    return [base_ranker(experiment), *(run for run in runs if isinstance(run, TrainingConfig))]


def text_keys(experiment: Experiment) -> set[str]:
    """The `ranker.*` keys that decide which text preparation trials can share."""
    parameters = experiment.space.parameters
    if "training.pretrain_data" in parameters or experiment.fixed.get("training.pretrain_data") is not None:
        return {key for key in parameters if key.startswith("ranker.")}
    kinds = [RANKERS[name].settings for name in experiment.values("ranker.name")]
    return {"ranker.name", *(f"ranker.{key}" for kind in kinds for key in kind.text_keys)}


def scorings_of(experiment: Experiment) -> list[str]:
    """Every scoring function that a trial can use."""
    return experiment.values("curriculum.scoring")


def teachers_of(experiment: Experiment) -> list[str]:
    """What a trial's order, loss or negatives can read of teachers, some of TEACHERS."""
    by_loss = any(LOSSES[name].reads_teacher for name in experiment.values("training.loss"))
    reads = {"teacher"} if by_loss or "teacher" in experiment.values("training.hard_negatives") else set()
    return [need for need in TEACHERS if need in reads or any_needs(scorings_of(experiment), need)]
