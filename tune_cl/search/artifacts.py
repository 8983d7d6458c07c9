"""What a finished trial leaves behind: its run on dev, per-query values and configuration; and the best trial's
ranker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from trainables.config import TrainingRun
from trainables.errors import DamagedCheckpoint
from trainables.evaluation.judging import Judge, judge_of, write_judged
from trainables.files import write_text
from trainables.storage import fetched, patiently
from trainables.training.checkpoint import BEST, best_scores, require_whole
from trainables.training.factory import make_training
from trainables.training.materials import Materials, materials_for
from trainables.training.saves import DAMAGED

TRIALS = "trials"  # the folder of all artifacts, in that of the search
BEST_RANKER = "best-ranker"  # that of the best trial, in the same folder


@contextmanager
def reading(checkpoint: str | Path) -> Iterator[None]:
    """Turns the errors of reading a damaged checkpoint into DamagedCheckpoint."""
    try:
        yield
    except DAMAGED as error:
        raise DamagedCheckpoint(f"{checkpoint} is damaged ({error})") from error


class Artifacts:
    """Writes trials' files to `folder`/TRIAL. `materials`: by materials_key. A checkpoint is a folder, here or in S3;
    raises DamagedCheckpoint before anything is written."""

    def __init__(self, folder: Path, materials: Mapping[str, Materials]):
        self.folder, self.materials = folder, materials
        self._judges: dict[int, Judge] = {}  # of dev, by relevance level: one knows the order of ties, slow to find

    def __call__(self, trial: str, checkpoint: str | Path, run: TrainingRun) -> Path:
        """Writes a trial's files from its checkpoint; returns their folder."""
        data = next(iter(self.materials.values())).data  # that of all; the text side may have to be made first
        with reading(checkpoint), fetched(checkpoint, BEST) as saved:
            patiently(lambda: require_whole(saved, BEST))
            scores = patiently(lambda: best_scores(saved))
        folder = self.folder / trial
        level = run.evaluation.relevance_level
        if level not in self._judges:
            self._judges[level] = judge_of(data, data.splits["dev"], level)
        write_judged(folder, "dev", data, scores, trial, self._judges[level])
        write_text(folder / "config.yaml", yaml.safe_dump(run.model_dump(), sort_keys=False))
        return folder

    def ranker(self, checkpoint: str | Path, run: TrainingRun) -> Path:
        """Saves a trial's best weights as a ranker for `tune-cl rerank`; returns its folder."""
        training = make_training(run, materials_for(run, self.materials), device="cpu")
        with reading(checkpoint), fetched(checkpoint) as saved:
            patiently(lambda: training.load(saved))
        training.save_ranker(self.folder / BEST_RANKER)
        return self.folder / BEST_RANKER
