"""Trained rankers from Python: `tune_cl.load_ranker`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.files import output_file
from trainables.core.plugins import Names, load_plugins
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.data.forms.frames import Data, as_source
from trainables.data.settings import DataConfig
from trainables.evaluation.per_query import scores_file, write_scores
from trainables.rankers.hub import upload
from trainables.training.ranker_folder import is_of_others, require_ranker
from tune_cl.api.arguments import documents_of, pairs_of, require_texts
from tune_cl.api.outputs import data_label, output_path
from tune_cl.model_card import without_local_paths, write_license

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

    def predict(self, pairs: Any) -> np.ndarray:
        """Scores of pairs of query and document, float32 [B], higher is better; `pairs`: (query, document) pairs, one
        such pair, or a table with columns query and document. Of a ranker with K classes, their logits, float32
        [B, K]. A cross-encoder that tune_cl did not write gives what sentence-transformers gives: the sigmoid of its
        logit unless it asks for none, and of two labels the probability of the second. A text that stands in several
        pairs is read once.

        Raises ConfigError if the ranker reads features or first-stage scores, which texts do not have, DataError for
        what is not a pair of texts.
        """
        ranker = self._of_texts()
        pairs = pairs_of(pairs)
        return ranker.shown(self._scores(ranker, pairs))

    def rank(self, query: str, documents: Any) -> list[tuple[Any, float]]:
        """The documents with their scores, best first; of equal scores, the one given first. `documents`: texts, which
        are named by their indices; a mapping of ids to texts, or a table with a column document (and id), which are
        named by their ids. Raises ConfigError if the ranker predicts classes, or as `predict`; DataError for what is
        none of these."""
        query, candidates = require_texts([("query", query)])[0], documents_of(documents)
        if self.classes:
            raise ConfigError(Problem(str(self.folder), "predicts classes and ranks nothing", "predict(pairs)"))
        ranker = self._of_texts()
        scores = self._scores(ranker, [(query, text) for text in candidates.texts])
        shown = ranker.shown(scores)
        return [(candidates.names[row], float(shown[row])) for row in np.argsort(-scores, kind="stable").tolist()]

    @property
    def arithmetic(self) -> str | None:
        """The precision that its scores have on this machine, fp32 or bf16; None for a ranker over features."""
        return self._of_texts().precision(self.precision) if self.reads_texts else None

    @property
    def reads_texts(self) -> bool:
        """Whether it scores texts; else it scores data with features, by `rerank`."""
        return self.saved.run.reads == "texts"

    def _of_texts(self) -> SavedRanker:
        from trainables.training.features import SavedFeatureRanker

        if isinstance(self.saved, SavedFeatureRanker):
            raise ConfigError(Problem(str(self.folder), f"{self.name} reads features, no texts", "rerank(DATA)"))
        return self.saved

    def _scores(self, ranker: SavedRanker, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        if not pairs:
            return np.empty((0, len(self.classes)) if self.classes else 0, np.float32)
        queries, documents = (list(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True))
        row_of = [{text: row for row, text in enumerate(texts)} for texts in (queries, documents)]
        query_rows, document_rows = (
            np.array([row_of[side][pair[side]] for pair in pairs], np.int64) for side in (0, 1)
        )
        return ranker.score(queries, documents, query_rows, document_rows, precision=self.precision)

    def rerank(self, data: Data, split: str = "test", output: str | Path | None = None) -> Path:
        """Scores the candidates of a split, and writes them as a TREC run; the predictions, if the ranker predicts
        classes. Returns the file: `output`, or DATA.RANKER.SPLIT.run.txt (.predictions.tsv) in the working folder.

        Raises DataError for data of another task, or without this split.
        """
        config, data = self.saved.run.data, as_source(data)
        ranking = load_data(config if _same(str(data), config.source) else DataConfig(source=str(data)))
        if split not in ranking.splits:
            right = f"one of {', '.join(ranking.splits)}"
            raise DataError(Problem("--split", f"'{ranking.name}' has no {split} split", right))
        _require_task(ranking, self.classes)
        name = scores_file(Path(), f"{data_label(str(data))}.{self.name}.{split}", ranking).name
        path = output_path(output, name, str(data))
        scores = self.saved.score_split(ranking, split, self.precision)
        with output_file(path) as file:
            write_scores(file, ranking.splits[split], ranking, scores, self.name)
        return path

    def push_to_hub(self, name: str, private: bool = False, license: str | None = None) -> str:
        """Uploads the ranker's folder, with its card, to the hub of Hugging Face (HF_ENDPOINT; the token is that of
        `hf auth login` or HF_TOKEN) as the model `name`, which is made if there is none. Of data and models on this
        machine the upload has the names, not the paths. `license`: what the card says from now on, such as apache-2.0;
        None: what it says. Returns the address.

        Raises ConfigError for a ranker that is in no folder, or if the hub does not answer or refuses.
        """
        if not self.folder.is_dir():
            raise ConfigError(Problem("push_to_hub", f"'{self.folder}' is not a folder", "a ranker that tune_cl saved"))
        if license is not None:
            write_license(self.folder, license)
        with without_local_paths(self.folder) as folder:
            by = "" if is_of_others(self.folder) else " trained by tune_cl"
            return upload(folder, name, private, f"{self.name}{by}")

    def __repr__(self) -> str:
        return f"<Ranker {self.name} from {self.folder}>"


def _same(one: str, other: str) -> bool:
    """Whether two data sources are the same: trainings record the absolute path of a folder."""
    return one == other or Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def _require_task(data: RankingData, classes: tuple[str, ...]) -> None:
    """Raises DataError for data of another task than the ranker's, or with other classes."""
    if data.classes == classes:
        return
    holds = f"pairs to classify ({', '.join(data.classes)})" if data.classes else "documents to rank"
    learned = f"classify pairs ({', '.join(classes)})" if classes else "rank documents"
    right = "data with these classes" if classes else "data with documents to rank"
    raise DataError(Problem("--data", f"'{data.name}' is {holds}, and the ranker learned to {learned}", right))


def load_ranker(folder: str | Path, plugins: Names = (), precision: str | None = "fp32") -> Ranker:
    """The trained ranker in a folder, as `tune_cl.train` and the commands save it; or a model that another program
    trained, by its folder or hub name: a cross-encoder, a SentenceTransformer, a language model. `precision`: fp32,
    bf16, or auto (bf16 where the hardware has it: faster, and scores have about three digits); None: that of its
    training, and fp32 for other programs' models. Raises DataError or ConfigError if there is none or it is broken."""
    load_plugins(plugins)
    require_ranker(Path(folder))
    from trainables.training.factory import load_saved  # imports torch and LightGBM: usage errors come first

    return Ranker(Path(folder), load_saved(Path(folder)), precision)
