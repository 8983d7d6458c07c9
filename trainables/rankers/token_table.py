"""Tables of token vectors as encoders of a bi-encoder: a text's vector is the mean of its tokens' vectors
(sentence-transformers' StaticEmbedding, and the folders of model2vec). There are no layers and no special tokens; a
text without tokens has the vector 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import read_text
from trainables.rankers.folder import ModelFolder
from trainables.rankers.hub import file_of, unusable
from trainables.rankers.pretrained import ENDLESS, PAIRS, TOKENIZER
from trainables.rankers.ranker import Tokens, padded_rows
from trainables.rankers.settings import BiEncoderSettings
from trainables.rankers.text_pairs import PairTemplate

TABLE = "table.json"  # among the text files: tokens and dimensions of the table
WEIGHTS = "model.safetensors"
RIGHT = "a StaticEmbedding as sentence-transformers writes it, or a folder of model2vec"


class TokenTable(nn.Module):
    """Vectors [N, D] of texts. `weight`: one row for each token, float32 [V, D]."""

    def __init__(self, weight: Tensor):
        super().__init__()
        self.embedding = nn.EmbeddingBag.from_pretrained(weight, freeze=False, mode="mean")
        self.config = SimpleNamespace(hidden_size=weight.shape[1], model_type="StaticEmbedding")

    def forward(self, input_ids: Tensor, offsets: Tensor) -> Tensor:
        return self.embedding(input_ids, offsets)


def flat_texts(sides: Sequence[tuple[Tokens, np.ndarray, int, bool]]) -> dict[str, Tensor]:
    """`input_ids` int64 [T] of the texts of all sides, one after the other, and `offsets` int64 [N], where each begins.
    A side as of `TextTemplate.assemble`."""
    parts = [padded_rows(texts, rows, most, last=last) for texts, rows, most, last in sides]
    lengths = torch.cat([mask.sum(1) for _, mask in parts])
    return {"input_ids": torch.cat([ids[mask] for ids, mask in parts]), "offsets": lengths.cumsum(0) - lengths}


def table_files(folder: ModelFolder, from_front: bool) -> tuple[dict[str, str], int | None]:
    """Text files of a folder or hub name, and how many tokens of a text it reads; None: all."""
    try:
        tokenizer = Tokenizer.from_str(read_text(_file(folder, TOKENIZER)))
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - tokenizers has no errors of its own
        raise _unreadable(folder, TOKENIZER, error) from None
    limit = (tokenizer.truncation or {}).get("max_length")
    table = read_table(folder)
    if max(tokenizer.get_vocab().values(), default=0) >= len(table):
        wrong = f"has a tokenizer of {tokenizer.get_vocab_size():,} tokens, and vectors of {len(table):,}"
        raise unusable(folder.model, wrong, RIGHT)
    template = PairTemplate((), (), (), second_segment=False, longest=ENDLESS, pad=0, from_front=from_front)
    files = {TOKENIZER: uncut(tokenizer), PAIRS: template.to_json(), TABLE: json.dumps(list(table.shape))}
    return files, limit


def uncut(tokenizer: Tokenizer) -> str:
    """The tokenizer's file, of one that reads whole texts."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer.to_str()


def cut_tokenizer(text: str, length: int) -> str:
    """The tokenizer's file, of one that reads so many tokens of a text: no other file of the form could say so."""
    tokenizer = Tokenizer.from_str(text)
    if length < ENDLESS:
        tokenizer.enable_truncation(length)
    return tokenizer.to_str()


def read_table(folder: ModelFolder) -> Tensor:
    """The vectors of all tokens, float32 [V, D]. Raises ConfigError if they cannot be read."""
    file = _file(folder, WEIGHTS)
    try:
        tensors = load_file(file)
        table = tensors["embedding.weight"] if "embedding.weight" in tensors else _of_model2vec(tensors)
        if table.ndim != 2 or not table.is_floating_point():
            raise ValueError(f"a table of shape {list(table.shape)}, {table.dtype}")
    except (SafetensorError, OSError, KeyError, IndexError, RuntimeError, ValueError) as error:
        raise _unreadable(folder, WEIGHTS, error) from None
    return table.float().contiguous()


def _of_model2vec(tensors: Mapping[str, Tensor]) -> Tensor:
    """`mapping` gives the row of each token where tokens share rows, and `weights` how much each token counts."""
    table = tensors["embeddings"]
    if "mapping" in tensors:
        table = table[tensors["mapping"].long()]
    return table.float() * tensors["weights"].float()[:, None] if "weights" in tensors else table


def empty_table(files: Mapping[str, str]) -> TokenTable:
    """A table for weights that are loaded next. Its memory is not touched before, so a size that a stranger wrote costs
    none."""
    return TokenTable(torch.empty(json.loads(files[TABLE])))


def require_table_keys(settings: BiEncoderSettings) -> None:
    """Raises ConfigError for keys that ask for what a table lacks: layers, or a length for each kind of text."""
    asked = {
        "lora.rank": settings.lora.rank or None,
        "freeze": settings.freeze,
        "checkpointing": settings.checkpointing or None,
        "query_length": settings.query_length,
    }
    lacks = {"query_length": "whose saved form has one length for all texts"}
    problems = [
        Problem(
            f"ranker.{key}",
            f"{value}, but '{settings.model}' is a table of token vectors, {lacks.get(key, 'which has no layers')}",
            "leave it out",
        )
        for key, value in asked.items()
        if value is not None
    ]
    if problems:
        raise ConfigError(problems)


def _file(folder: ModelFolder, name: str) -> Path:
    assert folder.sentences is not None and folder.sentences.table is not None
    if (file := file_of(folder.model, str(PurePosixPath(folder.sentences.table, name)))) is None:
        raise unusable(folder.model, f"is a table of token vectors, and has no {name}", RIGHT)
    return file


def _unreadable(folder: ModelFolder, name: str, error: Exception) -> ConfigError:
    return unusable(folder.model, f"has a {name} that cannot be read ({' '.join(str(error).split())[:200]})", RIGHT)
