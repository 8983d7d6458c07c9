"""What a finished trial leaves behind: its run on dev, per-query values and configuration; and the best trial's
ranker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from trainables.config import TrainingRun
from trainables.errors import DamagedCheckpoint
from trainables.evaluation.judging import judge_of, scores_file, write_scores
from trainables.evaluation.trec import write_per_query
from trainables.files import write_text
from trainables.storage import fetched, patiently
from trainables.training.checkpoint import BEST, best_scores
from trainables.training.factory import make_training
from trainables.training.materials import Materials, materials_for
from trainables.training.saves import DAMAGED


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

    def __call__(self, trial: str, checkpoint: str | Path, run: TrainingRun) -> Path:
        """Writes a trial's files from its checkpoint; returns their folder."""
        data = next(iter(self.materials.values())).data  # that of all; the text side may have to be made first
        with reading(checkpoint), fetched(checkpoint, BEST) as saved:
            dev, scores = data.splits["dev"], patiently(lambda: best_scores(saved))
        folder = self.folder / trial
        write_scores(scores_file(folder, "dev", data), dev, data, scores, trial)
        values = judge_of(data, dev, run.evaluation.relevance_level)(scores)
        write_per_query(folder / "dev.per_query.tsv", [data.query_ids[query] for query in dev.query], values)
        write_text(folder / "config.yaml", yaml.safe_dump(run.model_dump(), sort_keys=False))
        return folder

    def ranker(self, checkpoint: str | Path, run: TrainingRun) -> Path:
        """Saves a trial's best weights as a ranker for `tune-cl rerank`; returns its folder."""
        training = make_training(run, materials_for(run, self.materials), device="cpu")
        with reading(checkpoint), fetched(checkpoint) as saved:
            patiently(lambda: training.load(saved))
        training.save_ranker(self.folder / "best-ranker")
        return self.folder / "best-ranker"
