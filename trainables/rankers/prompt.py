"""The prompt behind which a decoder says yes or no (model card of Qwen/Qwen3-Reranker-0.6B); without PyTorch."""

from __future__ import annotations

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
