"""What rankers over a model of transformers share: the text files that they make of its folder, the tokens of whole
texts, and pairs as one text in a prompt."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer
from transformers import PretrainedConfig

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, Problem
from trainables.data.columns import RankingData
from trainables.rankers.adapters import AdaptedModule
from trainables.rankers.encoders import (
    PAD,
    WHOLE_ATTENTION,
    encode_texts,
    files_identity,
    positions,
    read_encoder,
    tiny_config,
    train_wordpiece,
    training_texts,
)
from trainables.rankers.fast.packing import unpacked
from trainables.rankers.folder import CONFIG, OURS, ModelFolder, read_folder
from trainables.rankers.ranker import Ranker, TextSide, Tokens
from trainables.rankers.settings import TINY
from trainables.rankers.text_pairs import PairTemplate, cached_text_side, keeps_latest

TOKENIZER, PAIRS = "tokenizer.json", "pairs.json"
ENDLESS = 10**6  # tokens that a model reads if neither it nor its tokenizer sets a limit
PROMPTS = "prompts.json"  # among the text files: what stands before queries and before documents


class PretrainedRanker(Ranker):
    """A ranker over a model of transformers, whose files stand in TextSide.files: TOKENIZER, CONFIG, PAIRS and, where
    the model has any, PROMPTS."""

    cache_kind: ClassVar[str] = "bert"

    @abstractmethod
    def files(self, settings: Any, from_front: bool) -> dict[str, str]:
        """The text files of `ranker.model`. `from_front`: whether long queries lose their first tokens. Raises
        ConfigError if it is not a model of this ranker's."""

    def own_files(self, settings: Any) -> dict[str, str]:
        """Text files of what the ranker's keys put before texts."""
        return {}

    def prepare(self, data: RankingData, settings: Any, seed: int) -> TextSide:
        """The seed is not used: the vocabulary is the model's, and that of `tiny` follows from the training texts."""
        from_front = keeps_latest(data, settings.keep)
        if settings.model == TINY:
            files_of_ranker = self.own_files(settings)
            digest = digest_of(
                data.digest, TINY, settings.vocabulary_size, from_front, *([files_of_ranker] if files_of_ranker else [])
            )
            return cached_text_side(
                self.cache_kind,
                digest,
                lambda: self._text_side(data, settings, tiny_files(data, settings, from_front) | files_of_ranker),
            )
        files = self.files(settings, from_front)
        return cached_text_side(
            self.cache_kind, digest_of(data.digest, files), lambda: self._text_side(data, settings, files)
        )

    def _text_side(self, data: RankingData, settings: Any, files: Mapping[str, str]) -> TextSide:
        queries = self.encode_queries(files, settings, data.query_texts())
        return TextSide(queries, self.encode(files, settings, data.documents), files)

    def weights_identity(self, settings: Any) -> list[object]:
        return [] if settings.model == TINY else files_identity(Path(read_folder(settings.model).at))

    def encode(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Any:
        return encode_texts(Tokenizer.from_str(files[TOKENIZER]), behind_prompt(files, 1, texts))

    def encode_queries(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Any:
        return encode_texts(Tokenizer.from_str(files[TOKENIZER]), behind_prompt(files, 0, texts))

    def most_tokens(self, files: Mapping[str, str]) -> int:
        """Most tokens that the model reads."""
        return json.loads(files[PAIRS])["longest"]


def behind_prompt(files: Mapping[str, str], side: int, texts: Iterable[str]) -> Iterable[str]:
    """The texts with the prompt before them, if the ranker has one for queries (0) or documents (1)."""
    prompt = json.loads(files[PROMPTS])[side] if PROMPTS in files else ""
    return (prompt + text for text in texts) if prompt else texts


def folder_files(folder: ModelFolder, from_front: bool, cls: bool = True) -> dict[str, str]:
    """Files of the tokenizer and configuration of an encoder. `cls`: whether texts must begin with its [CLS] token."""
    config, tokenizer = read_encoder(folder.at, cls, folder.sentences is not None and folder.sentences.lower)
    longest = min(tokenizer.model_max_length, positions(config, ENDLESS), ENDLESS)
    longest = (getattr(config, OURS, None) or {}).get("longest", longest)  # our folders give another length to others
    pad = tokenizer.convert_tokens_to_ids(str(tokenizer.pad_token))
    assert isinstance(pad, int)
    typed = "token_type_ids" in tokenizer.model_input_names  # else transformers gives all tokens type 0
    return _files(tokenizer.backend_tokenizer, config, longest, pad, from_front, typed)


def tiny_files(data: RankingData, settings: Any, from_front: bool) -> dict[str, str]:
    """Files of model `tiny`, whose vocabulary is of the training texts."""
    tokenizer = train_wordpiece(training_texts(data), settings.vocabulary_size)
    config = tiny_config(tokenizer.get_vocab_size())
    return _files(tokenizer, config, config.max_position_embeddings, PAD, from_front)


def _files(
    tokenizer: Tokenizer, config: PretrainedConfig, longest: int, pad: int, from_front: bool, typed: bool = True
) -> dict[str, str]:
    template = PairTemplate.of(tokenizer, longest, pad, from_front)
    return {
        TOKENIZER: tokenizer.to_str(),
        CONFIG: config_file(config),
        PAIRS: replace(template, second_segment=template.second_segment and typed).to_json(),
    }


def config_file(config: PretrainedConfig) -> str:
    """config.json of the weights as a training has them: in float32, whatever the folder stores."""
    fields = {key: value for key, value in config.to_dict().items() if key != "_name_or_path"}
    fields |= WHOLE_ATTENTION.get(config.model_type, {})
    return json.dumps(_in_float32(fields), sort_keys=True)


def _in_float32(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with any `dtype` that they name, of parts of a model too, as float32."""
    stated = ("dtype", "torch_dtype")
    return {
        key: "float32" if key in stated and value else _in_float32(value) if isinstance(value, dict) else value
        for key, value in fields.items()
    }


def require_positions(model: str, longest: int, max_length: int) -> None:
    """Raises ConfigError if an encoder reads fewer tokens than `training.max_length`."""
    if max_length > longest:
        wrong = f"{max_length} tokens, but {model} reads {longest}"
        raise ConfigError(Problem("training.max_length", wrong, f"at most {longest}"))


class PromptedModule(AdaptedModule):
    """A language model that reads a pair as one text, between the tokens of a prompt."""

    template: PairTemplate
    max_length: int

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        inputs = self.template.assemble(queries, documents, query_rows, document_rows, self.max_length)
        return unpacked({name: inputs[name] for name in ("input_ids", "attention_mask")})

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Tokens of the truncated pair, those of the prompt included."""
        return self.template.pair_lengths(queries, documents, query_rows, document_rows, self.max_length)
