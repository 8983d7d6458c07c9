"""A trained ranker as a folder of its own: weights, configuration and the files needed to read new texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from trainables.config.keys import TrainingConfig
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.data.columns import RankingData, require_texts
from trainables.rankers.first_stage import KEY as FIRST_STAGE
from trainables.rankers.first_stage import first_stage_for, require_first_stage
from trainables.rankers.hub import ADAPTER, MODULES, SETTINGS, document_of, file_of, unusable
from trainables.rankers.ranker import RankerModule, TextSide, Tokens
from trainables.rankers.settings import BertSettings
from trainables.training import checkpoint
from trainables.training.device import best_device, choose_precision
from trainables.training.features import SavedFeatureRanker, training_over_features
from trainables.training.prepared import ranker_of
from trainables.training.ranker_folder import OWN, TEXT, described, recorded_run, require_ranker
from trainables.training.scoring import Scorer

RANKING = ("ForSequenceClassification", "ForCausalLM")  # classes of models that give a score of a pair
BROKEN = (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError)
"""Errors of a folder whose files are missing, damaged or of different rankers."""


@dataclass(frozen=True)
class SavedRanker:
    """A trained ranker that scores new texts, without its training data and without downloads.

    `classes`: the classes that it predicts, in the order of its logits; empty if it ranks. `activation`: of the scores
    that users see of another program's CrossEncoder; the order is the same. `folder`: where it was read from, or
    its hub name.
    """

    run: TrainingConfig
    module: RankerModule
    files: dict[str, str]
    classes: tuple[str, ...] = ()
    activation: Callable[[Tensor], Tensor] | None = None
    folder: str = "ranker"

    def shown(self, scores: np.ndarray) -> np.ndarray:
        """The scores as users see them, float32 of the same shape."""
        return scores if self.activation is None else self.activation(torch.from_numpy(scores)).numpy()

    def precision(self, asked: str | None = None) -> str:
        """The precision of scores on this machine: fp32 or bf16. `asked`: as in training.precision; None: that of its
        training, and fp32 for what was not trained here."""
        chosen = choose_precision(asked or self.run.training.precision, best_device(), self.module)
        return "fp32" if chosen.dtype is None else "bf16"

    def score_split(self, data: RankingData, name: str, precision: str | None = None) -> np.ndarray:
        """Scores of the candidates of the named split, float32 [C]; for a ranker with K classes, their logits, float32
        [C, K]. `precision`: as in `score`. Raises DataError for data without texts, ConfigError if the ranker adds
        first-stage scores and there are none."""
        require_texts(data)
        if self.module.reads_first_stage:
            require_first_stage(data, [name])
        split = data.splits[name]
        first_stage = first_stage_for(self.module, split)
        rows = split.query[split.owner], split.document
        return self.score(data.query_texts(), data.documents, *rows, first_stage, precision)

    def score(
        self,
        queries: Sequence[str],
        documents: Sequence[str],
        query_rows: np.ndarray,
        document_rows: np.ndarray,
        first_stage: np.ndarray | None = None,
        precision: str | None = None,
    ) -> np.ndarray:
        """Scores of pairs (queries[query_rows[i]], documents[document_rows[i]]), float32 [B]; for a ranker with K
        classes, their logits, float32 [B, K].

        `first_stage`: the pairs' first-stage scores, float32 [B]. Raises ConfigError if the ranker adds them and none
        are given, DataError if scores are NaN or infinite. `precision`: as in training.precision, which is the default.
        """
        if self.module.reads_first_stage and first_stage is None:
            wrong = "this ranker adds the first-stage score of a document, and bare texts have none"
            raise ConfigError(
                Problem(FIRST_STAGE, wrong, "re-rank data that has a run, or train with ranker.add_first_stage=false")
            )
        ranker, settings = ranker_of(self.run)
        device = best_device()
        module = self.module.to(device)
        # Only texts that are scored are tokenised: a collection may hold millions that no query asks for.
        asked, query_rows = np.unique(query_rows, return_inverse=True)
        read, document_rows = np.unique(document_rows, return_inverse=True)
        query_tokens = ranker.encode_queries(self.files, settings, [queries[int(row)] for row in asked])
        document_tokens = ranker.encode(self.files, settings, [documents[int(row)] for row in read])
        arithmetic = choose_precision(precision or self.run.training.precision, device, module)
        scorer = Scorer(module, device, arithmetic)
        scores = scorer.pairs(query_tokens, document_tokens, query_rows, document_rows, first_stage)
        if not np.isfinite(scores).all():
            right = "a ranker whose weights are finite, or --precision fp32"
            raise DataError(Problem(self.folder, "gives scores that are NaN or infinite", right))
        return scores


def write_ranker(
    run: TrainingConfig, module: RankerModule, text: TextSide, folder: Path, classes: Sequence[str] = ()
) -> None:
    """Writes a ranker as a SavedRanker folder, in place of one that is there: what `Ranker.write` makes of its weights,
    its training in OWN, and its text files in TEXT."""

    def write(temporary: Path) -> None:
        files = ranker_of(run)[0].write(module, text.files, classes, temporary)
        checkpoint.write_json(temporary / OWN, described(run) | {"classes": list(classes)})
        (temporary / TEXT).mkdir()
        for name, content in files.items():
            (temporary / TEXT / name).write_text(content, encoding="utf-8")

    checkpoint.write_folder(folder, write)


def load_ranker_folder(folder: Path) -> SavedRanker | SavedFeatureRanker:
    """Reads a saved ranker's folder. Raises DataError if it is none, or if one of its files is broken."""
    require_ranker(folder)
    try:
        own = checkpoint.read_json(folder / OWN)
        run, classes = recorded_run(own, folder), tuple(own.get("classes", ()))
        if run.reads == "features":
            return SavedFeatureRanker(run, training_over_features(run).read_ranker(run, folder))
        ranker, settings = ranker_of(run)
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted((folder / TEXT).iterdir())}
        module, files = ranker.open(folder, files, settings, run.training.max_length, len(classes) or 1)
    except BROKEN as error:
        why = " ".join(str(error).split())
        raise DataError(Problem(str(folder), f"cannot be read: {why}", "a ranker written by tune-cl train")) from error
    return SavedRanker(run, module, files, classes, folder=str(folder))


def load_encoder(model: str) -> SavedRanker:
    """The model of a folder or hub name that tune_cl did not write, as the ranker that reads it. Raises ConfigError if
    none does."""
    from trainables.rankers.pretrained import PretrainedRanker, longest_of  # here: it imports sentence-transformers

    ranker, settings = ranker_of(run := TrainingConfig.model_validate({"ranker": ranker_keys(model)}))
    assert isinstance(ranker, PretrainedRanker)
    files = ranker.files(settings, from_front=False)
    most, nothing = longest_of(files), Tokens.of(())
    module: Any = ranker.build(TextSide(nothing, nothing, files), settings, most)
    training = run.training.model_copy(update={"max_length": most, "precision": "fp32"})
    activation = None
    if isinstance(settings, BertSettings):  # of two labels, that of the log-odds: the probability of the second
        activation = torch.sigmoid if module.model.num_labels == 2 else module.model.activation_fn
    return SavedRanker(run.model_copy(update={"training": training}), module, files, (), activation, model)


def ranker_keys(model: str) -> dict[str, str]:
    """The `ranker.*` keys of a model that is used as it is: a CrossEncoder or a SentenceTransformer."""
    if file_of(model, MODULES) is not None:
        kind = document_of(model, SETTINGS).get("model_type", "SentenceTransformer")
    else:
        adapter = document_of(model, ADAPTER)
        config = document_of(str(adapter.get("base_model_name_or_path", model)), "config.json")
        ranks = any(str(name).endswith(RANKING) for name in config.get("architectures") or [])
        ranks = ranks or adapter.get("task_type") in ("SEQ_CLS", "CAUSAL_LM")
        table = config.get("model_type") == "model2vec"
        kind = "CrossEncoder" if ranks else "SentenceTransformer" if table else ""
    if kind == "CrossEncoder":
        return {"name": "bert", "model": model, "head": "pretrained"}
    if kind != "SentenceTransformer" and kind:
        raise unusable(model, f"is a {kind}", "a CrossEncoder or a SentenceTransformer")
    if not kind:
        raise unusable(model, "has no scoring layer and no pooling", "a CrossEncoder or a SentenceTransformer")
    return {"name": "bi_encoder", "model": model}
