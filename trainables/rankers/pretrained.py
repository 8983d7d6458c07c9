"""What rankers over a model of sentence-transformers share: how texts become what its first module reads.

A tokenizer that puts fixed special tokens around its texts is run once per search, and pairs are laid out from the
tokens (`TOKENIZER` and `PAIRS` among the text files). What a model makes of a text in another way, such as a chat
template, is the library's `preprocess` on each batch; then the "tokens" of a text are its characters.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers.base.modules import Transformer
from tokenizers import Tokenizer
from transformers import BertConfig

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, Problem
from trainables.data.columns import RankingData
from trainables.rankers.hub import files_identity
from trainables.rankers.library import most_tokens
from trainables.rankers.ranker import Ranker, TextSide, Tokens
from trainables.rankers.settings import TINY
from trainables.rankers.text_pairs import PairTemplate, cached_text_side, keeps_latest
from trainables.rankers.wordpiece import PAD, encode_texts, train_wordpiece, training_texts

TOKENIZER, PAIRS, CONFIG = "tokenizer.json", "pairs.json", "config.json"
PROMPTS, CLASSES = "prompts.json", "classes.json"
CHARACTERS = 3  # of a text, that count as a token where the library tokenises it later


class PretrainedRanker(Ranker):
    """A ranker over a model that sentence-transformers loads."""

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
        classes = {CLASSES: json.dumps(data.classes)} if data.classes else {}
        if settings.model != TINY:
            files = self.files(settings, from_front) | classes
            digest = digest_of(data.digest, files)
            return cached_text_side("bert", digest, lambda: self._text_side(data, settings, files))
        added = self.own_files(settings) | classes
        digest = digest_of(data.digest, TINY, settings.vocabulary_size, from_front, added)

        def of_tiny() -> TextSide:
            return self._text_side(data, settings, tiny_files(data, settings.vocabulary_size, from_front) | added)

        return cached_text_side("bert", digest, of_tiny)

    def _text_side(self, data: RankingData, settings: Any, files: Mapping[str, str]) -> TextSide:
        queries = self.encode_queries(files, settings, data.query_texts())
        return TextSide(queries, self.encode(files, settings, data.documents), files)

    def weights_identity(self, settings: Any) -> list[object]:
        return [] if settings.model == TINY else files_identity(Path(settings.model))

    def encode(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Tokens:
        return tokens_of(files, 1, texts)

    def encode_queries(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Tokens:
        return tokens_of(files, 0, texts)


def tokens_of(files: Mapping[str, str], side: int, texts: Iterable[str]) -> Tokens:
    """Tokens of queries (0) or documents (1), behind their prompt; their characters, where the library tokenises."""
    if TOKENIZER not in files:
        return Tokens.of(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<i4") for text in texts)
    prompt = json.loads(files.get(PROMPTS, '["", ""]'))[side]
    return encode_texts(Tokenizer.from_str(files[TOKENIZER]), (prompt + text for text in texts))


def texts_of(tokens: Tokens, rows: np.ndarray) -> list[str]:
    """The texts of rows whose tokens are their characters."""
    ends = tokens.offsets[rows + 1]
    parts = [tokens.ids[start:end] for start, end in zip(tokens.offsets[rows], ends, strict=True)]
    return [part.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass") for part in parts]


def longest_of(files: Mapping[str, str]) -> int:
    """Most tokens that the model reads."""
    return json.loads(files[PAIRS])["longest"]


def files_of(first: Transformer, from_front: bool, prompts: Sequence[str], pairs: bool) -> dict[str, str]:
    """Text files of a model whose first module is a Transformer. `pairs`: whether it reads query and document as one
    sequence; `prompts`: of queries and documents."""
    tokenizer: Any = first.tokenizer
    longest = most_tokens(first)
    template = PairTemplate((), (), (), False, longest, 0, from_front)
    if not _is_laid_out(first, prompts):
        return {PAIRS: template.to_json()}
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # which stands for padding nowhere else, since texts are masked
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    template = PairTemplate.of(backend, longest, tokenizer.pad_token_id or 0, from_front)
    typed = "token_type_ids" in tokenizer.model_input_names and getattr(first.config, "type_vocab_size", 2) != 1
    if pairs and first.transformer_task == "feature-extraction":
        _require_cls_first(first, template)
    files = {TOKENIZER: backend.to_str(), PAIRS: template.typed(typed).to_json()}
    return files | ({PROMPTS: json.dumps(list(prompts))} if any(prompts) else {})


def _is_laid_out(first: Transformer, prompts: Sequence[str]) -> bool:
    """Whether what a model reads is the tokens of its texts between fixed special tokens, padded on the right."""
    tokenizer: Any = first.tokenizer
    if "message" in first.modality_config or first.transformer_task == "text-generation" or first.query_expansion:
        return False
    specials = [token for token in tokenizer.all_special_tokens if any(token in prompt for prompt in prompts)]
    return bool(tokenizer.is_fast and tokenizer.truncation_side == "right" and not specials)


def _require_cls_first(first: Transformer, template: PairTemplate) -> None:
    cls = first.tokenizer.cls_token_id  # pyright: ignore[reportOptionalMemberAccess]
    if cls is None or template.before[:1] != (cls,):
        wrong = f"does not begin a pair with a [CLS] token that could stand for it ({first.config.model_type})"
        raise ConfigError(Problem("ranker.model", wrong, "an encoder that does, or ranker.head: pretrained"))


def tiny_files(data: RankingData, vocabulary_size: int, from_front: bool) -> dict[str, str]:
    """Files of model `tiny`, a BERT of 2 layers, 128 wide, whose vocabulary is of the training texts."""
    tokenizer = train_wordpiece(training_texts(data), vocabulary_size)
    sizes: dict[str, Any] = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=tokenizer.get_vocab_size(), intermediate_size=512, **sizes)
    template = PairTemplate.of(tokenizer, config.max_position_embeddings, PAD, from_front)
    return {TOKENIZER: tokenizer.to_str(), CONFIG: json.dumps(config.to_dict()), PAIRS: template.to_json()}


def require_positions(model: str, longest: int, max_length: int) -> None:
    """Raises ConfigError if an encoder reads fewer tokens than `training.max_length`."""
    if max_length > longest:
        wrong = f"{max_length} tokens, but {model} reads {longest}"
        raise ConfigError(Problem("training.max_length", wrong, f"at most {longest}"))
