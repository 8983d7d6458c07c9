"""Whether a model can be trained, and its ranker read again: tried once with the weights that a training begins with,
before the hours that would be lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from trainables.config.keys import TrainingRun
from trainables.core.cache import cached, digest_of
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.rankers.ranker import RankerModule, TextSide
from trainables.rankers.settings import TINY, LoraSettings
from trainables.training.prepared import PreparedData, ranker_of
from trainables.training.saved_ranker import SavedRanker, load_ranker_folder, write_ranker

CLOSE = 1e-3  # between the scores before and after, whose weights are the same


def require_round_trip(run: TrainingRun, prepared: PreparedData) -> None:
    """Raises ConfigError for a model of others with which a step cannot be computed, or whose ranker could not be read
    once it is trained. What passed is remembered in the cache."""
    ranker, settings = ranker_of(run)
    model = getattr(settings, "model", TINY)
    if model == TINY:
        return
    import transformers  # here: rankers over words do without

    from trainables.rankers.pretrained import PretrainedRanker

    if not isinstance(ranker, PretrainedRanker):
        return
    whole = {"lora": LoraSettings(), "freeze": None}
    plain = settings.model_copy(update={key: value for key, value in whole.items() if hasattr(settings, key)})
    of_model = [ranker.weights_identity(plain), prepared.text.files, plain.model_dump(), prepared.data.classes]
    key = digest_of(of_model, run.training.max_length, transformers.__version__)
    alone = run.model_copy(update={"ranker": plain.model_dump()})
    cached("round-trip", key, lambda folder: _try(alone, prepared, model))


def _try(run: TrainingRun, prepared: PreparedData, model: str) -> None:
    ranker, settings = ranker_of(run)
    text, classes = prepared.text, prepared.data.classes
    with torch.random.fork_rng(devices=[]):
        module = ranker.build(text, settings, run.training.max_length, len(classes) or 1)
    kind = getattr(next(module.children()), "config", None)
    named = f"'{model}' ({getattr(kind, 'model_type', 'a model')})"
    try:
        with torch.random.fork_rng(devices=[]):
            module.train()
            scores_of_some(module, text).sum().backward()
        before, alone = _scores(module, text), torch.cat([_scores(module, text, [side]) for side in (0, -1)])
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, NotImplementedError) as error:
        right = "another model; this one's kind computes no step here"
        raise ConfigError(Problem("ranker.model", f"{named} cannot be trained ({_words(error)})", right)) from error
    if not torch.allclose(before, alone, CLOSE, CLOSE):
        wrong = f"{named} gives a text another score beside longer ones (by {(before - alone).abs().max():.2g})"
        raise ConfigError(Problem("ranker.model", wrong, "a model that padding does not change"))
    with TemporaryDirectory() as folder:
        write_ranker(run, module, text, Path(folder, "ranker"), classes)
        try:
            read = load_ranker_folder(Path(folder, "ranker"))
        except DataError as error:
            wrong = f"{named} could be trained, but its ranker not be read again ({_words(error)})"
            raise ConfigError(Problem("ranker.model", wrong, "another model")) from error
        assert isinstance(read, SavedRanker), "it reads texts"
        if not torch.allclose(after := _scores(read.module, text), before, CLOSE, CLOSE):
            wrong = f"{named} would give other scores once it is saved (by {(after - before).abs().max():.2g})"
            raise ConfigError(Problem("ranker.model", wrong, "another model"))


def _scores(module: RankerModule, text: TextSide, which: Sequence[int] = (0, -1)) -> Tensor:
    module.eval()
    with torch.no_grad():
        return scores_of_some(module, text, which)


def scores_of_some(module: RankerModule, text: TextSide, which: Sequence[int] = (0, -1)) -> Tensor:
    """Scores, or logits, of the shortest (0) and the longest (-1) document, each with such a query."""
    rows = [np.argsort(side.lengths, kind="stable")[list(which)] for side in (text.queries, text.documents)]
    return module(**module.collate(text.queries, text.documents, *rows))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
