"""Bi-encoders: a Transformer encoder reads query and document apart, and the score is the similarity of both vectors
(Sentence-BERT: Reimers & Gurevych 2019; dense retrieval: Karpukhin et al. 2020).

A text's vector is pooled from its tokens' last vectors, special tokens included (`ranker.pooling`); then what the dense
layers of a SentenceTransformer make of it; at unit length for cosines. Texts are cut at `training.max_length` tokens
each: documents lose their last tokens, and so do queries, except for queries of several utterances under
`ranker.keep: latest`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.adapters import AdaptedModule, require_changes
from trainables.rankers.bert import save_activations
from trainables.rankers.dense_layers import DenseLayer
from trainables.rankers.encoders import (
    empty_encoder,
    first_position,
    new_encoder,
    pop_pooler,
    pretrained_encoder,
)
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.fast.packing import (
    GROUP_COST,
    PACKED,
    cls_vectors,
    pack,
    pack_encoder,
    pooled,
    pooled_vectors,
    unpacked,
)
from trainables.rankers.folder import CONFIG, ModelFolder, Sentences, read_folder, require_known
from trainables.rankers.pretrained import PAIRS, PROMPTS, TOKENIZER, PretrainedRanker, folder_files, require_positions
from trainables.rankers.ranker import DualEncoder, RankerModule, TextSide, Tokens, padded_rows
from trainables.rankers.sentence_folder import dense_layers, read_weights, write_sentences
from trainables.rankers.settings import TINY, BiEncoderSettings
from trainables.rankers.text_pairs import PairTemplate
from trainables.rankers.token_table import (
    TABLE,
    TokenTable,
    empty_table,
    flat_texts,
    read_table,
    require_table_keys,
    table_files,
)

LAYERS = "dense.json"  # among the text files: the configurations of the dense layers
FORM = "sentences.json"  # likewise: the rest of what a SentenceTransformer makes of its encoder's vectors


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
        pairs = PairTemplate.from_json(files[PAIRS])
        if TABLE in files:  # no token is special
            return cls((), (), pairs.longest, pairs.pad, pairs.from_front)
        one = Tokenizer.from_str(files[TOKENIZER]).encode("a")
        text = np.flatnonzero([index == 0 for index in one.sequence_ids])
        before, after = tuple(one.ids[: text[0]]), tuple(one.ids[text[-1] + 1 :])
        return cls(before, after, pairs.longest, pairs.pad, pairs.from_front)

    @property
    def specials(self) -> int:
        return len(self.before) + len(self.after)

    def assemble(self, sides: Sequence[tuple[Tokens, np.ndarray, int, bool]]) -> dict[str, Tensor]:
        """`input_ids` int64 [N, L] and `attention_mask` bool [N, L], right-padded, of the texts of all sides, one side
        after the other. A side: its texts, rows int [n], most tokens of a text, special ones included, and whether long
        ones lose their first tokens."""
        parts = [padded_rows(texts, rows, most - self.specials, last=last) for texts, rows, most, last in sides]
        lengths = np.concatenate([mask.sum(1).numpy() for _, mask in parts])
        columns = np.arange(int(lengths.max()) + self.specials)
        first, last = len(self.before), len(self.before) + lengths[:, None]
        ids = np.full((len(lengths), len(columns)), self.pad, np.int64)
        ids[:, :first] = self.before
        ids[(columns >= first) & (columns < last)] = torch.cat([part[mask] for part, mask in parts])
        ids[(columns >= last) & (columns < last + len(self.after))] = np.tile(self.after, len(ids))
        mask = columns < last + len(self.after)
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}


def form_of(files: Mapping[str, str], settings: BiEncoderSettings, max_length: int) -> Sentences:
    """What a ranker makes of its encoder's vectors: as its text files say, and where they leave it open as its keys do.
    Raises ConfigError for keys that say something else than the model's folder."""
    saved_form = json.loads(files.get(FORM, "{}"))
    _require_same("pooling", settings, saved_form.get("pooling"))
    _require_same("similarity", settings, saved_form.get("similarity"))
    config = json.loads(files.get(CONFIG, "{}"))
    generates = any(name.endswith(("ForCausalLM", "GPT2LMHeadModel")) for name in config.get("architectures") or [])
    language_model = generates and config.get("is_causal", True)
    similarity = settings.similarity or saved_form.get("similarity") or "cosine"
    return Sentences(
        pooling=settings.pooling or saved_form.get("pooling") or ("lasttoken" if language_model else "mean"),
        similarity=similarity,
        normalised=saved_form.get("normalised", False) or similarity == "cosine",
        max_length=max_length,
        lengths=(
            settings.query_length or saved_form.get("lengths", [None])[0],
            saved_form.get("lengths", [None, None])[1],
        ),
        prompts=tuple(json.loads(files.get(PROMPTS, '["", ""]'))),
        dimensions=max(nested(settings)) if nested(settings) else saved_form.get("dimensions"),
        dense=tuple(_dense_configs(files)),
        table="" if TABLE in files else None,
    )


def nested(settings: BiEncoderSettings) -> tuple[int, ...]:
    """The dimensions at which the loss is trained (Matryoshka: Kusupati et al. 2022); none: all that are compared."""
    asked = settings.dimensions
    return () if asked is None else asked if isinstance(asked, tuple) else (asked,)


def _require_same(key: str, settings: BiEncoderSettings, own: str | None) -> None:
    """Raises ConfigError for another pooling or similarity than a SentenceTransformer's, whose scores would mean
    nothing."""
    asked = getattr(settings, key)
    if None not in (asked, own) and asked != own:
        wrong = f"'{asked}', but '{settings.model}' was trained with {own}"
        raise ConfigError(Problem(f"ranker.{key}", wrong, f"{own}, or leave it out"))


class BiEncoderModule(DualEncoder, AdaptedModule):
    """Scores [B] of pairs, from the vectors of their texts. `encoder`: a transformers encoder, as loaded, or a table.
    `dense`: the layers after pooling."""

    tolerates_bf16 = True

    def __init__(
        self,
        encoder: Any,
        dense: nn.Sequential,
        template: TextTemplate,
        settings: BiEncoderSettings,
        form: Sentences,
    ):
        super().__init__()
        self.template, self.settings, self.form = template, settings, form
        size = form.dense[-1]["out_features"] if form.dense else encoder.config.hidden_size
        if form.dimensions is not None and form.dimensions > size:
            wrong = f"{form.dimensions}, and the vectors have {size}"
            raise ConfigError(Problem("ranker.dimensions", wrong, f"at most {size}"))
        pop_pooler(encoder)
        self.encoder, self.dense, self.first_position = encoder, dense, first_position(encoder)
        self.packs = encoder.config.model_type in PACKED
        if self.packs:
            pack_encoder(encoder, cls_alone=form.pooling == "cls")
        speed_up(encoder)
        if settings.checkpointing:
            save_activations(encoder, settings.model)
        # Those that are not packed take none for segment 0; GPT-2 would add a word's vector for a 0.
        self.has_segments = self.packs and "token_type_ids" in inspect.signature(encoder.forward).parameters

    def most_tokens(self, side: int) -> int:
        """Tokens that are read of a query (0) or a document (1), special ones included."""
        assert self.form.max_length is not None
        return min(self.form.lengths[side] or self.form.max_length, self.form.max_length)

    def text_lengths(self, texts: Tokens, rows: np.ndarray) -> np.ndarray:
        return np.minimum(texts.lengths[rows] + self.template.specials, max(self.most_tokens(0), self.most_tokens(1)))

    def collate_texts(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        """What the encoder reads, packed if it can be; of a table, the tokens."""
        sides = [
            (queries, query_rows, self.most_tokens(0), self.template.from_front),
            (documents, document_rows, self.most_tokens(1), False),
        ]
        sides = [side for side in sides if len(side[1])]
        if self.form.table is not None:
            return flat_texts(sides)
        inputs = self.template.assemble(sides)
        if self.has_segments:
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        if not self.packs:
            return unpacked(inputs)
        return pack(inputs, GROUP_COST[next(self.parameters()).device.type], self.first_position)

    def embed(self, packed_index: Tensor | None = None, **inputs: Any) -> Tensor:
        given = self.encoder(**inputs)
        states = given if self.form.table is not None else given.last_hidden_state
        # In bf16, vectors would have 8 bits, and scores would tie.
        with torch.autocast(states.device.type, enabled=False):
            vectors = self.dense(self._pooled(states.to(next(self.parameters()).dtype), packed_index, inputs))
            if self.form.normalised:
                vectors = functional.normalize(vectors, dim=1)
            return vectors if self.form.dimensions is None else self._cut(vectors, self.form.dimensions)

    def _cut(self, vectors: Tensor, dimensions: int) -> Tensor:
        vectors = vectors[:, :dimensions]
        return functional.normalize(vectors, dim=1) if self.form.similarity == "cosine" else vectors

    def views(self, vectors: Tensor) -> list[Tensor]:
        cuts = nested(self.settings) if self.training else ()
        return [self._cut(vectors, cut) for cut in cuts] if len(cuts) > 1 else [vectors]

    def _pooled(self, states: Tensor, packed_index: Tensor | None, inputs: Mapping[str, Any]) -> Tensor:
        """Vectors [N, D] of the encoder's last ones, [N, L, D] or packed; a table's are pooled."""
        how = self.form.pooling
        if self.form.table is not None:
            return states
        if packed_index is None:
            return pooled(states, inputs["attention_mask"], how)
        if how == "cls":
            return cls_vectors(states, inputs["starts"], packed_index)
        return pooled_vectors(states, inputs["groups"], inputs["reads"], packed_index, how)


class BiEncoder(PretrainedRanker):
    def files(self, settings: BiEncoderSettings, from_front: bool) -> dict[str, str]:
        folder = require_known(read_folder(settings.model))
        form = folder.sentences
        if form is not None and form.table is not None:
            files, length = table_files(folder, from_front)
            form = replace(form, max_length=length)
        else:
            files = folder_files(folder, from_front, form is not None and form.pooling == "cls")
        return files | (_form_files(form) if form else {}) | self.own_files(settings)

    def own_files(self, settings: BiEncoderSettings) -> dict[str, str]:
        asked = settings.query_prompt, settings.document_prompt
        if asked == (None, None):
            return {}
        form = read_folder(settings.model).sentences
        prompts = form.prompts if form else ("", "")
        return {PROMPTS: json.dumps([prompts[side] if text is None else text for side, text in enumerate(asked)])}

    def most_tokens(self, files: Mapping[str, str]) -> int:
        longest = super().most_tokens(files)
        return min(json.loads(files.get(FORM, "{}")).get("max_length") or longest, longest)

    def notes(self, text: TextSide, settings: BiEncoderSettings) -> tuple[str, ...]:
        form_of(text.files, settings, super().most_tokens(text.files))
        if TABLE in text.files:
            require_table_keys(settings)
        elif settings.lora.rank or settings.freeze is not None:
            require_changes(empty_encoder(json.loads(text.files[CONFIG])), settings.lora, settings.freeze)
        return ()

    def build(self, text: TextSide, settings: BiEncoderSettings, max_length: int, outputs: int = 1) -> BiEncoderModule:
        """Raises ConfigError if the encoder has fewer positions than `max_length`, or its weights are missing, or for
        classes."""
        template = TextTemplate.of(text.files)
        require_positions(settings.model, template.longest, max_length)
        if settings.model == TINY:
            module = self.restore(text.files, settings, max_length, outputs)
        else:
            _require_scores(outputs)
            form, folder = form_of(text.files, settings, max_length), read_folder(settings.model)
            encoder = _table(folder, settings) if TABLE in text.files else pretrained_encoder(folder.at)
            module = BiEncoderModule(encoder, dense_layers(folder), template, settings, form)
        module.add_adapters(module.encoder, settings.lora)
        module.freeze(module.encoder, settings.freeze, text)
        return module

    def restore(
        self, files: Mapping[str, str], settings: BiEncoderSettings, max_length: int, outputs: int = 1
    ) -> BiEncoderModule:
        _require_scores(outputs)
        dense = nn.Sequential(*map(DenseLayer, _dense_configs(files)))
        form = form_of(files, settings, max_length)
        encoder = empty_table(files) if TABLE in files else new_encoder(json.loads(files[CONFIG]))
        return BiEncoderModule(encoder, dense, TextTemplate.of(files), settings, form)

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> dict[str, str] | None:
        """Writes a folder for SentenceTransformer (see sentence_folder)."""
        assert isinstance(module, BiEncoderModule)
        size = module.encoder.config.hidden_size
        write_sentences(module.encoder, module.dense, size, module.form, files, folder)
        kept = {name: files[name] for name in (CONFIG, PAIRS, TABLE) if name in files}  # the encoder's, as they came
        return kept | _form_files(module.form)

    def read(self, folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
        return read_weights(folder)


def _table(folder: ModelFolder, settings: BiEncoderSettings) -> TokenTable:
    require_table_keys(settings)
    return TokenTable(read_table(folder))


def _form_files(form: Sentences) -> dict[str, str]:
    """Text files of what a SentenceTransformer has beside its encoder."""
    prompts = {PROMPTS: json.dumps(form.prompts)} if any(form.prompts) else {}
    layers = {LAYERS: json.dumps(form.dense)} if form.dense else {}
    kept = ("pooling", "similarity", "normalised", "max_length", "lengths", "dimensions")
    return prompts | layers | {FORM: json.dumps({key: getattr(form, key) for key in kept})}


def _dense_configs(files: Mapping[str, str]) -> list[dict[str, Any]]:
    return json.loads(files.get(LAYERS, "[]"))


def _require_scores(outputs: int) -> None:
    """Raises ConfigError for classes: a similarity is one number."""
    if outputs > 1:
        wrong = "bi_encoder gives one similarity a pair, and the data is pairs to classify"
        raise ConfigError(Problem("ranker.name", wrong, "bert, which gives a logit for each class"))
