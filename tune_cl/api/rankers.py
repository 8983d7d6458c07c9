"""Trained rankers from Python: `tune_cl.load_ranker`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.plugins import Names, load_plugins
from trainables.data import load_data
from trainables.data.columns import required_split
from trainables.data.forms.frames import Data, as_source
from trainables.data.settings import DataConfig
from trainables.evaluation.per_query import scores_file, write_scores
from trainables.training.ranker_folder import require_ranker
from tune_cl.api.outputs import output_path

if TYPE_CHECKING:
    from trainables.training.features import SavedFeatureRanker
    from trainables.training.saved_ranker import SavedRanker


class Ranker:
    """A trained ranker. `folder`: where it is saved, or its hub name; `precision`: that of its scores, as in
    training.precision, None for that of its training (fp32 for a model that tune_cl did not train)."""

    def __init__(self, folder: Path, saved: SavedRanker | SavedFeatureRanker, precision: str | None = "fp32"):
        self.folder, self.saved, self.precision = folder, saved, precision

    @property
    def name(self) -> str:
        """Its kind, e.g. `bert`."""
        return self.saved.run.ranker.name

    @property
    def classes(self) -> tuple[str, ...]:
        """What it predicts, in the order of its logits; empty if it ranks."""
        return self.saved.classes

    def predict(self, pairs: Iterable[tuple[str, str]]) -> np.ndarray:
        """Scores of (query, document) pairs, float32 [B], higher is better; of a ranker with K classes, their logits,
        float32 [B, K]. A cross-encoder that tune_cl did not write gives what sentence-transformers gives: the sigmoid
        of its logit unless it asks for none, and of two labels the probability of the second.

        Raises ConfigError if the ranker reads features or first-stage scores, which texts do not have, DataError for
        what is not a pair of texts.
        """
        ranker = self._of_texts()
        return ranker.shown(self._scores(ranker, pairs_of(pairs)))

    def rank(self, query: str, documents: Iterable[str] | Mapping[Any, str]) -> list[tuple[Any, float]]:
        """The documents with their scores, best first; of equal scores, the one given first. `documents`: texts, which
        are named by their indices, or {id: text}. Raises ConfigError if the ranker predicts classes, or as `predict`;
        DataError for what is not texts."""
        if self.classes:
            raise ConfigError(Problem(str(self.folder), "predicts classes and ranks nothing", "predict(pairs)"))
        ranker, texts = self._of_texts(), texts_by_name(documents)
        names = list(texts)
        scores = self._scores(ranker, pairs_of((query, text) for text in texts.values()))
        shown = ranker.shown(scores)
        return [(names[row], float(shown[row])) for row in np.argsort(-scores, kind="stable").tolist()]

    @property
    def arithmetic(self) -> str | None:
        """The precision that its scores have on this machine, fp32 or bf16; None for a ranker over features."""
        return self._of_texts().precision(self.precision) if self.saved.run.reads == "texts" else None

    def _of_texts(self) -> SavedRanker:
        from trainables.training.features import SavedFeatureRanker

        if isinstance(self.saved, SavedFeatureRanker):
            raise ConfigError(Problem(str(self.folder), f"{self.name} reads features, no texts", "rerank(DATA)"))
        return self.saved

    def _scores(self, ranker: SavedRanker, pairs: list[tuple[str, str]]) -> np.ndarray:
        """A text that stands in several pairs is read once."""
        import pandas as pd

        if not pairs:
            return np.empty((0, len(self.classes)) if self.classes else 0, np.float32)
        query_rows, queries = pd.factorize(np.array([query for query, _ in pairs], object))
        document_rows, documents = pd.factorize(np.array([document for _, document in pairs], object))
        return ranker.score(list(queries), list(documents), query_rows, document_rows, precision=self.precision)

    def rerank(self, data: Data, split: str = "test", output: str | Path | None = None) -> Path:
        """Scores the candidates of a split, and writes them as a TREC run; the predictions, if the ranker predicts
        classes. Returns the file: `output`, or DATA.RANKER.SPLIT.run.txt (.predictions.tsv) in the working folder.

        Raises DataError for data of another task, or without this split.
        """
        trained, source = self.saved.run.data, str(as_source(data))
        names = (source, Path(source).expanduser().resolve().name)  # a saved ranker has that of its data's folder
        is_own = trained.source in names
        ranking = load_data(trained.model_copy(update={"source": source}) if is_own else DataConfig(source=source))
        candidates = required_split(ranking, split)
        if ranking.classes != self.classes:
            right = f"pairs of the classes {', '.join(self.classes)}" if self.classes else "documents to rank"
            raise DataError(Problem("--data", f"'{ranking.name}' is not what the ranker learned from", right))
        ending = scores_file(Path(), f"{self.name}.{split}", ranking).name
        path = output_path(output, source, ending)
        scores = self.saved.score_split(ranking, split, self.precision)
        write_scores(path, candidates, ranking, scores, self.name)
        return path

    def __repr__(self) -> str:
        return f"<Ranker {self.name} from {self.folder}>"


def texts_by_name(documents: Any) -> dict[Any, str]:
    """{id: text} as it is, and other texts by their positions. Raises DataError for what is not texts: iterating a
    table would give the names of its columns, and a text its letters."""
    if isinstance(documents, str | bytes) or hasattr(documents, "columns") or not isinstance(documents, Iterable):
        wrong = f"a value of type {type(documents).__name__}"
        raise DataError(Problem("documents", wrong, "a list of texts, or {id: text}"))
    return dict(documents) if isinstance(documents, Mapping) else dict(enumerate(documents))


def pairs_of(pairs: Any) -> list[tuple[str, str]]:
    """(query, document) pairs as a list. Raises DataError for everything in it that is not a pair of texts."""
    rows = list(pairs)
    problems = []
    for number, row in enumerate(rows):
        sides = [] if isinstance(row, str) or not isinstance(row, Iterable) else list(row)
        if len(sides) != 2 or not all(isinstance(side, str) for side in sides):
            wrong = f"{repr(row)[:60]} is not a pair of texts"
            problems.append(Problem(f"pairs[{number}]", wrong, "(query, document)"))
    if problems:
        raise DataError(problems)
    return [(query, document) for query, document in rows]


def load_ranker(folder: str | Path, plugins: Names = (), precision: str | None = "fp32") -> Ranker:
    """The trained ranker in a folder, as `tune_cl.train` and the commands save it; or a model that another program
    trained, by its folder or hub name: a cross-encoder, a SentenceTransformer, a language model. `precision`: fp32,
    bf16, or auto (bf16 where the hardware has it: faster, and scores have about three digits); None: that of its
    training, and fp32 for other programs' models. Raises DataError or ConfigError if there is none or it is broken."""
    load_plugins(plugins)
    require_ranker(Path(folder))
    from trainables.training.factory import load_saved  # imports torch and LightGBM: usage errors come first

    return Ranker(Path(folder), load_saved(Path(folder)), precision)
