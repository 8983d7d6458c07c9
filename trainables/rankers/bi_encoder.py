"""Bi-encoders: a Transformer encoder reads query and document apart, and the score is the similarity of both vectors
(Sentence-BERT: Reimers & Gurevych 2019; dense retrieval: Karpukhin et al. 2020).

A text's vector is the mean of its tokens' last vectors, special tokens included, or that of [CLS]; then what the dense
layers of a SentenceTransformer make of it; under `ranker.similarity: cosine` at unit length. Texts are cut at
`training.max_length` tokens each: documents lose their last tokens, and so do queries, except for queries of several
utterances under `ranker.keep: latest`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, Problem
from trainables.data.columns import RankingData
from trainables.rankers.bert import EncoderRanker, hub_files, require_positions, save_activations
from trainables.rankers.classifier_folder import CONFIG, PAIRS, TOKENIZER
from trainables.rankers.dense_layers import DenseLayer
from trainables.rankers.encoders import first_position, new_encoder, pop_pooler, pretrained_encoder
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.fast.packing import GROUP_COST, PACKED, cls_vectors, mean_vectors, pack, pack_encoder
from trainables.rankers.ranker import DualEncoder, RankerModule, TextSide, Tokens, padded_rows
from trainables.rankers.sentence_folder import (
    Sentences,
    dense_layers,
    encoder_of,
    read_sentences,
    read_weights,
    write_sentences,
)
from trainables.rankers.settings import TINY, BiEncoderSettings
from trainables.rankers.text_pairs import PairTemplate, cached_text_side, keeps_latest

PROMPTS = "prompts.json"  # among the text files: what stands before queries and before documents
LAYERS = "dense.json"  # among the text files: the configurations of the dense layers


@dataclass(frozen=True)
class TextTemplate:
    """Special tokens around one text, e.g. [CLS] text [SEP], and how it is cut.

    longest     most tokens that the encoder reads
    pad         id of padding
    from_front  whether a query that is too long loses its first tokens, not its last
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    longest: int
    pad: int
    from_front: bool

    @classmethod
    def of(cls, files: Mapping[str, str]) -> TextTemplate:
        """Reads the template off a text that the tokenizer's own post-processor encodes."""
        one = Tokenizer.from_str(files[TOKENIZER]).encode("a")
        text = np.flatnonzero([index == 0 for index in one.sequence_ids])
        pairs = PairTemplate.from_json(files[PAIRS])
        before, after = tuple(one.ids[: text[0]]), tuple(one.ids[text[-1] + 1 :])
        return cls(before, after, pairs.longest, pairs.pad, pairs.from_front)

    @property
    def specials(self) -> int:
        return len(self.before) + len(self.after)

    def assemble(self, sides: Sequence[tuple[Tokens, np.ndarray, bool]], max_length: int) -> dict[str, Tensor]:
        """`input_ids` int64 [N, L] and `attention_mask` bool [N, L], right-padded, of the texts of all sides, one side
        after the other. A side: its texts, rows int [n], and whether long ones lose their first tokens."""
        limit = max_length - self.specials
        parts = [padded_rows(texts, rows, limit, last=last) for texts, rows, last in sides]
        lengths = np.concatenate([mask.sum(1).numpy() for _, mask in parts])
        columns = np.arange(int(lengths.max()) + self.specials)
        first, last = len(self.before), len(self.before) + lengths[:, None]
        ids = np.full((len(lengths), len(columns)), self.pad, np.int64)
        ids[:, :first] = self.before
        ids[(columns >= first) & (columns < last)] = torch.cat([part[mask] for part, mask in parts])
        ids[(columns >= last) & (columns < last + len(self.after))] = np.tile(self.after, len(ids))
        mask = columns < last + len(self.after)
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}


class BiEncoderModule(DualEncoder):
    """Scores [B] of pairs, from the vectors of their texts. `encoder`: a transformers encoder, as loaded. `dense`: the
    layers after pooling."""

    tolerates_bf16 = True

    def __init__(
        self,
        encoder: PreTrainedModel,
        dense: nn.Sequential,
        template: TextTemplate,
        settings: BiEncoderSettings,
        max_length: int,
    ):
        super().__init__()
        self.template, self.settings, self.max_length = template, settings, max_length
        pop_pooler(encoder)
        self.encoder, self.dense, self.first_position = encoder, dense, first_position(encoder)
        self.packs = encoder.config.model_type in PACKED
        if self.packs:
            pack_encoder(encoder, cls_alone=settings.pooling == "cls")
        speed_up(encoder)
        if settings.checkpointing:
            save_activations(encoder, settings.model)
        self.has_segments = "token_type_ids" in inspect.signature(encoder.forward).parameters

    def text_lengths(self, texts: Tokens, rows: np.ndarray) -> np.ndarray:
        return np.minimum(texts.lengths[rows] + self.template.specials, self.max_length)

    def collate_texts(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        """What the encoder reads, packed if it can be."""
        sides = [(queries, query_rows, self.template.from_front), (documents, document_rows, False)]
        inputs = self.template.assemble([side for side in sides if len(side[1])], self.max_length)
        if self.has_segments:
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        if not self.packs:
            return inputs
        return pack(inputs, GROUP_COST[next(self.parameters()).device.type], self.first_position)

    def embed(self, packed_index: Tensor | None = None, **inputs: Any) -> Tensor:
        states = self.encoder(**inputs).last_hidden_state
        # In bf16, vectors would have 8 bits, and scores would tie.
        with torch.autocast(states.device.type, enabled=False):
            vectors = self.dense(self._pooled(states.to(next(self.parameters()).dtype), packed_index, inputs))
            return functional.normalize(vectors, dim=1) if self.settings.similarity == "cosine" else vectors

    def _pooled(self, states: Tensor, packed_index: Tensor | None, inputs: Mapping[str, Any]) -> Tensor:
        """Vectors [N, D] of the encoder's last ones, [N, L, D] or packed."""
        if self.settings.pooling == "cls":
            return states[:, 0] if packed_index is None else cls_vectors(states, inputs["starts"], packed_index)
        if packed_index is not None:
            return mean_vectors(states, inputs["groups"], inputs["reads"], packed_index)
        mask = inputs["attention_mask"][:, :, None]
        return (states * mask).sum(1) / mask.sum(1)


class BiEncoder(EncoderRanker):
    def location(self, model: str) -> str:
        return encoder_of(model)

    def prepare(self, data: RankingData, settings: Any, seed: int) -> TextSide:
        own = _form_files(read_sentences(settings.model))
        if not own:
            return super().prepare(data, settings, seed)
        files = hub_files(self.location(settings.model), keeps_latest(data, settings.keep)) | own
        return cached_text_side(
            "bert",
            digest_of(data.digest, files),
            lambda: TextSide(
                self.encode_queries(files, settings, data.query_texts()),
                self.encode(files, settings, data.documents),
                files,
            ),
        )

    def encode(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Tokens:
        return super().encode(files, settings, _behind_prompt(files, 1, texts))

    def encode_queries(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Tokens:
        return super().encode(files, settings, _behind_prompt(files, 0, texts))

    def build(self, text: TextSide, settings: BiEncoderSettings, max_length: int, outputs: int = 1) -> BiEncoderModule:
        """Raises ConfigError if the encoder has fewer positions than `max_length`, or its weights are missing, or for
        classes."""
        template = TextTemplate.of(text.files)
        require_positions(settings.model, template.longest, max_length)
        if settings.model == TINY:
            return self.restore(text.files, settings, max_length, outputs)
        _require_scores(outputs)
        _require_pooling(settings)
        encoder, dense = pretrained_encoder(encoder_of(settings.model)), dense_layers(settings.model)
        return BiEncoderModule(encoder, dense, template, settings, max_length)

    def restore(
        self, files: Mapping[str, str], settings: BiEncoderSettings, max_length: int, outputs: int = 1
    ) -> BiEncoderModule:
        _require_scores(outputs)
        dense = nn.Sequential(*map(DenseLayer, _dense_configs(files)))
        encoder = new_encoder(json.loads(files[CONFIG]))
        return BiEncoderModule(encoder, dense, TextTemplate.of(files), settings, max_length)

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> dict[str, str] | None:
        """Writes a folder for SentenceTransformer (see sentence_folder)."""
        assert isinstance(module, BiEncoderModule)
        settings = module.settings
        prompts = json.loads(files[PROMPTS]) if PROMPTS in files else ("", "")
        dense = tuple(_dense_configs(files))
        form = Sentences(settings.pooling, settings.similarity, module.max_length, prompts, dense)
        write_sentences(module.encoder, module.dense, module.encoder.config.hidden_size, form, files, folder)
        kept = (CONFIG, PAIRS, PROMPTS, LAYERS)  # the encoder's configuration, as it came
        return {name: files[name] for name in kept if name in files}

    def read(self, folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
        return read_weights(folder)


def _form_files(form: Sentences | None) -> dict[str, str]:
    """Text files of what a SentenceTransformer has beside its encoder."""
    if form is None:
        return {}
    prompts = {PROMPTS: json.dumps(form.prompts)} if any(form.prompts) else {}
    return prompts | ({LAYERS: json.dumps(form.dense)} if form.dense else {})


def _dense_configs(files: Mapping[str, str]) -> list[dict[str, Any]]:
    return json.loads(files.get(LAYERS, "[]"))


def _behind_prompt(files: Mapping[str, str], side: int, texts: Iterable[str]) -> Iterable[str]:
    """The texts with the prompt before them, if the ranker has one for queries (0) or documents (1)."""
    prompt = json.loads(files[PROMPTS])[side] if PROMPTS in files else ""
    return (prompt + text for text in texts) if prompt else texts


def read_bi_encoder(model: str) -> tuple[BiEncoderSettings, BiEncoderModule, dict[str, str]]:
    """Settings, module and text files of a SentenceTransformer's folder or hub name. Raises ConfigError if it has parts
    that a bi_encoder lacks."""
    form, files = read_sentences(model), hub_files(encoder_of(model), from_front=False)
    assert form is not None, f"{model} is no SentenceTransformer"
    files |= _form_files(form)
    settings = BiEncoderSettings.model_validate(
        {"model": model, "pooling": form.pooling, "similarity": form.similarity}
    )
    text, longest = TextSide(Tokens.of(()), Tokens.of(()), files), TextTemplate.of(files).longest
    return settings, BiEncoder().build(text, settings, min(form.max_length or longest, longest)), files


def _require_pooling(settings: BiEncoderSettings) -> None:
    """Raises ConfigError for another pooling than that of a SentenceTransformer, whose vectors would mean nothing."""
    form = read_sentences(settings.model)
    if form is not None and form.pooling != settings.pooling:
        wrong = f"'{settings.pooling}', but '{settings.model}' was trained with {form.pooling}"
        raise ConfigError(Problem("ranker.pooling", wrong, form.pooling))


def _require_scores(outputs: int) -> None:
    """Raises ConfigError for classes: a similarity is one number."""
    if outputs > 1:
        wrong = "bi_encoder gives one similarity a pair, and the data is pairs to classify"
        raise ConfigError(Problem("ranker.name", wrong, "bert, which gives a logit for each class"))
