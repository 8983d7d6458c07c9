"""What a finished trial leaves behind: run on dev, per-query values, configuration; and the best trial's ranker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from trainables.config import TrainingRun
from trainables.evaluation.files import write_text
from trainables.evaluation.metrics import METRICS, Evaluator
from trainables.evaluation.trec import write_per_query, write_run
from trainables.training.checkpoint import best_scores
from trainables.training.materials import Materials, materials_key
from trainables.training.saved import save_ranker
from trainables.training.training import Training


class Artifacts:
    """Writes under `folder`/TRIAL; `materials` by materials_key."""

    def __init__(self, folder: Path, materials: Mapping[str, Materials]):
        self.folder, self.materials = folder, materials

    def __call__(self, trial: str, checkpoint: Path, run: TrainingRun) -> Path:
        """Files of a trial from its last checkpoint; returns their folder."""
        data = self.materials[materials_key(run)].data
        dev, scores = data.splits["dev"], best_scores(checkpoint)
        folder = self.folder / trial
        write_run(folder / "dev.run.txt", dev, data, scores, trial)
        values = Evaluator(dev, data.document_ids, run.evaluation.relevance_level)(scores, list(METRICS))
        write_per_query(folder / "dev.per_query.tsv", [data.query_ids[query] for query in dev.query], values)
        write_text(folder / "config.yaml", yaml.safe_dump(run.model_dump(), sort_keys=False))
        return folder

    def ranker(self, checkpoint: Path, run: TrainingRun) -> Path:
        """The best weights of a trial as a ranker for `tune-cl rerank`; returns its folder."""
        training = Training(run, self.materials[materials_key(run)], device="cpu")
        training.load(checkpoint)
        save_ranker(training, self.folder / "best-ranker")
        return self.folder / "best-ranker"
