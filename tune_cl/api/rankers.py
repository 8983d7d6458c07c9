"""Trained rankers from Python: `tune_cl.load_ranker`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainables.core.errors import ConfigError, Problem
from trainables.core.plugins import Names, load_plugins
from trainables.training.ranker_folder import require_ranker

if TYPE_CHECKING:
    from trainables.training.saved_ranker import SavedRanker


class Ranker:
    """A trained ranker. `folder`: where it is saved, or its hub name; `classes`: what it predicts, empty if it ranks.
    `precision`: that of its scores, as in training.precision."""

    def __init__(self, folder: Path, saved: SavedRanker, precision: str = "fp32"):
        self.folder, self.saved, self.precision = folder, saved, precision

    @property
    def classes(self) -> tuple[str, ...]:
        return self.saved.classes

    def predict(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Scores of pairs of query and document, float32 [B], higher is better; of a ranker with K classes, their
        logits, float32 [B, K]. A cross-encoder that tune_cl did not write gives what sentence-transformers gives: the
        sigmoid of its logit unless it asks for none, and of two labels the probability of the second. A text that
        stands in several pairs is read once."""
        return self.saved.shown(self._scores(pairs))

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        queries, documents = (list(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True)) if pairs else ([], [])
        row_of = [{text: row for row, text in enumerate(texts)} for texts in (queries, documents)]
        asked, read = (np.array([row_of[side][pair[side]] for pair in pairs], np.int64) for side in (0, 1))
        return self.saved.score(queries, documents, asked, read, precision=self.precision)

    def rank(self, query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
        """The documents' indices with their scores, best first; of equal scores, the lower index first. Raises
        ConfigError if the ranker predicts classes."""
        if self.classes:
            raise ConfigError(Problem(str(self.folder), "predicts classes and ranks nothing", "predict(pairs)"))
        scores = self._scores([(query, document) for document in documents])
        shown = self.saved.shown(scores)
        return [(int(row), float(shown[row])) for row in np.argsort(-scores, kind="stable")]

    def __repr__(self) -> str:
        return f"<Ranker {self.saved.run.ranker['name']} from {self.folder}>"


def load_ranker(folder: str | Path, plugins: Names = (), precision: str = "fp32") -> Ranker:
    """The trained ranker in a folder, as `tune_cl.train` and the commands save it; or a cross-encoder that another
    program trained, by its folder or hub name, with one label or two. `precision`: fp32, bf16, or auto (bf16 where the
    hardware has it: faster, and scores have about three digits). Raises DataError or ConfigError if there is none or it
    is broken."""
    load_plugins(plugins)
    require_ranker(Path(folder))
    from trainables.training.factory import load_saved  # imports torch and LightGBM: usage errors come first
    from trainables.training.saved_ranker import SavedTrees

    saved = load_saved(Path(folder))
    if isinstance(saved, SavedTrees):
        raise ConfigError(Problem(str(folder), "reads features, no texts", "tune-cl rerank FOLDER --data DATA"))
    return Ranker(Path(folder), saved, precision)
