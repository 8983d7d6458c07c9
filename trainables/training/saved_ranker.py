"""A trained ranker as a folder of its own: weights, configuration and the files needed to read new texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import save_file
from scipy.special import expit
from torch import Tensor

from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.files import read_text
from trainables.data.columns import RankingData, require_texts
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.first_stage import KEY as FIRST_STAGE
from trainables.rankers.first_stage import first_stage_for, require_first_stage
from trainables.rankers.folder import ModelFolder, read_folder, require_activation, require_known
from trainables.rankers.ranker import Ranker, RankerModule, TextSide, Tokens
from trainables.rankers.settings import BertSettings, BiEncoderSettings, RankerSettings
from trainables.training import checkpoint
from trainables.training.device import best_device, choose_precision
from trainables.training.features import SavedFeatureRanker, training_over_features
from trainables.training.prepared import ranker_of
from trainables.training.ranker_folder import (
    CONFIG,
    OWN,
    TEXT,
    WEIGHTS,
    described,
    is_shared_form,
    recorded_run,
    require_ranker,
)
from trainables.training.scoring import Scorer

BROKEN = (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError)
"""Errors of a folder whose files are missing, damaged or of different rankers."""


@dataclass(frozen=True)
class SavedRanker:
    """A trained ranker that scores new texts, without its training data and without downloads.

    `classes`: the classes that it predicts, in the order of its logits; empty if it ranks. `activation`: what users see
    of its scores, as with cross-encoders of others: these (Identity), or their Sigmoid or Tanh; the order is the same.
    `folder`: where it was read from, or its hub name.
    """

    run: TrainingRun
    module: RankerModule
    files: dict[str, str]
    classes: tuple[str, ...] = ()
    activation: str = "Identity"
    folder: str = "ranker"

    def shown(self, scores: np.ndarray) -> np.ndarray:
        """The scores as users see them, float32 of the same shape."""
        return {"Identity": np.positive, "Sigmoid": expit, "Tanh": np.tanh}[self.activation](scores)

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
            raise self._not_finite()
        return scores

    def _not_finite(self) -> DataError:
        """The error of scores that are NaN or infinite, with the first weight that is."""
        for name, tensor in self.module.state_dict().items():
            if not tensor.isfinite().all():
                wrong = f"has NaN or infinite numbers in its weight {name}, and so in its scores"
                return DataError(Problem(self.folder, wrong, "a ranker whose training did not diverge"))
        return DataError(Problem(self.folder, "gives scores that are NaN or infinite", "another precision, as fp32"))


def write_ranker(
    run: TrainingRun, module: RankerModule, text: TextSide, folder: Path, classes: Sequence[str] = ()
) -> None:
    """Writes a ranker as a SavedRanker folder, in place of one that is there: in a form that other libraries read if
    its kind has one (`Ranker.write`), else in our own."""
    ours = described(run) | {"classes": list(classes)}

    def write(temporary: Path) -> None:
        files = ranker_of(run)[0].write(module, text.files, classes, temporary)
        if files is not None:
            checkpoint.seal(temporary, *(path.name for path in sorted(temporary.glob("*.safetensors"))))
            checkpoint.write_json(temporary / OWN, ours | {"files": files})
            return
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
        save_file(weights, temporary / WEIGHTS)
        checkpoint.seal(temporary, WEIGHTS)
        checkpoint.write_json(temporary / CONFIG, ours)
        (temporary / TEXT).mkdir()
        for name, content in text.files.items():
            (temporary / TEXT / name).write_text(content, encoding="utf-8")

    checkpoint.write_folder(folder, write)


def load_ranker_folder(folder: Path) -> SavedRanker | SavedFeatureRanker:
    """Reads a saved ranker's folder. Raises DataError if it is none, or if one of its files is broken."""
    require_ranker(folder)
    try:
        checkpoint.require_whole(folder)
        config = checkpoint.read_json(folder / (OWN if is_shared_form(folder) else CONFIG))
        run, classes = recorded_run(config, folder), tuple(config.get("classes", ()))
        if run.reads == "features":
            return SavedFeatureRanker(run, training_over_features(run).read_ranker(run, folder))
        ranker, settings = ranker_of(run)
        files, tensors = _read(folder, ranker)
        files |= config.get("files", {})
        _require_sizes(files, tensors)
        module = ranker.restore(files, settings, run.training.max_length, len(classes) or 1)
        module.load_state_dict(tensors)
    except BROKEN as error:
        why = " ".join(str(error).split())
        raise DataError(Problem(str(folder), f"cannot be read: {why}", "a ranker written by tune-cl train")) from error
    return SavedRanker(run, module, files, classes, folder=str(folder))


def _require_sizes(files: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    """Raises ValueError if an encoder's configuration asks for more than there are weights."""
    if CONFIG in files:
        from trainables.rankers.encoders import misfit  # imports transformers

        if wrong := misfit(json.loads(files[CONFIG]), [tensor.shape for tensor in tensors.values()]):
            raise ValueError(f"its model {wrong}")


def _read(folder: Path, ranker: Ranker) -> tuple[dict[str, str], dict[str, Tensor]]:
    if is_shared_form(folder):
        return ranker.read(folder)
    files = {path.name: read_text(path) for path in sorted((folder / TEXT).iterdir())}
    return files, checkpoint.load_tensors(folder / WEIGHTS)


def load_weights(folder: Path, run: TrainingRun) -> dict[str, Tensor]:
    """The module's tensors in a SavedRanker folder of a ranker of the run's kind."""
    checkpoint.require_whole(folder)
    return _read(folder, ranker_of(run)[0])[1]


def load_encoder(model: str) -> SavedRanker:
    """The model of a folder or hub name that tune_cl did not write, as the ranker that reads it. Raises ConfigError if
    none does."""
    from trainables.rankers.pretrained import PretrainedRanker  # imports transformers, as encoders does

    folder = require_known(read_folder(model))
    settings = settings_for(folder)
    ranker = load_ranker(settings.name)
    assert isinstance(ranker, PretrainedRanker)
    files = ranker.files(settings, from_front=False)
    most, nothing = ranker.most_tokens(files), Tokens.of(())
    module = ranker.build(TextSide(nothing, nothing, files), settings, most)
    training = {"max_length": most, "precision": "fp32"}
    run = TrainingRun.model_validate({"ranker": settings.model_dump(), "training": training})
    if folder.kind in ("sentences", "seq2seq"):
        return SavedRanker(run, module, files, folder=model)
    of_two = folder.kind == "classifier" and len(folder.config.get("id2label") or "12") == 2
    activation = "Sigmoid" if of_two else require_activation(folder)
    return SavedRanker(run, module, files, (), activation, model)


def settings_for(folder: ModelFolder) -> RankerSettings:
    """The ranker that a folder's model is, without training."""
    from trainables.rankers.encoders import is_decoder

    if folder.kind == "sentences":
        return BiEncoderSettings.model_validate({"model": folder.model})
    if folder.kind == "decoder" or (folder.kind == "classifier" and is_decoder(folder.model_type)):
        return ranker_settings({"name": "decoder", "model": folder.model})
    return BertSettings.model_validate({"model": folder.model, "head": "pretrained"})
