"""The prompt behind which a decoder says yes or no (model card of Qwen/Qwen3-Reranker-0.6B); without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.hub import cached_file_of
from trainables.rankers.settings import DecoderSettings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER = "tokenizer.json"

BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def query_part(instruction: str, query: str) -> str:
    """The prompt up to the document."""
    return f"{BEFORE}<Instruct>: {instruction}\n<Query>: {query}\n"


def document_part(document: str) -> str:
    """The prompt from the document on."""
    return f"<Document>: {document}{AFTER}"


def prompt(instruction: str, query: str, document: str) -> str:
    """The whole prompt of a pair."""
    return query_part(instruction, query) + document_part(document)


def prompt_tokens(tokenizer: Tokenizer, instruction: str) -> tuple[tuple[int, ...], ...]:
    """The prompt's tokens before the query, between query and document, and behind the document. The space in front of
    each text, and the end of the query's line, belong to the texts: a tokenizer joins them to what they touch."""

    def tokens(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False).ids)

    return tokens(BEFORE) + tokens(f"<Instruct>: {instruction}\n<Query>:"), tokens("<Document>:"), tokens(AFTER)


def require_room(length: int, max_length: int) -> None:
    """Raises ConfigError if a prompt of so many tokens leaves none to query and document."""
    if max_length <= length:
        wrong = f"{max_length} tokens, and the prompt alone has {length}"
        raise ConfigError(Problem("training.max_length", wrong, f"at least {length + 1}"))


def require_room_for(settings: DecoderSettings, max_length: int) -> None:
    """`require_room` before any data is read, for a decoder whose tokenizer is on this machine."""
    if (file := cached_file_of(settings.model, TOKENIZER)) is not None:
        from tokenizers import Tokenizer  # here: commands read the prompt's words without it

        tokenizer = Tokenizer.from_file(str(file))
        require_room(sum(map(len, prompt_tokens(tokenizer, settings.instruction))), max_length)
