"""Text sides on disk, so that a second search on the same data need not tokenise it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainables.data.cache import cached, load_arrays, save_arrays
from trainables.files import read_text
from trainables.rankers.base import TextSide, Tokens

_FILES, _ARRAYS, _TOKENS = "files", "arrays", "tokens"


def cached_text_side(kind: str, digest: str, build: Callable[[], TextSide]) -> TextSide:
    """The text side of this digest, built if the cache has none; its arrays are memory-mapped."""
    return _load(cached(kind, digest, lambda folder: _save(build(), folder)))


def _save(text: TextSide, folder: Path) -> None:
    columns = {"queries": text.queries, "documents": text.documents}
    for part in ("ids", "offsets"):
        save_arrays(folder / _TOKENS, {f"{name}.{part}": getattr(tokens, part) for name, tokens in columns.items()})
    save_arrays(folder / _ARRAYS, text.arrays)
    (folder / _FILES).mkdir()
    for name, content in text.files.items():
        (folder / _FILES / name).write_text(content, encoding="utf-8")


def _load(folder: Path) -> TextSide:
    columns = load_arrays(folder / _TOKENS)
    return TextSide(
        queries=Tokens(columns["queries.ids"], columns["queries.offsets"]),
        documents=Tokens(columns["documents.ids"], columns["documents.offsets"]),
        files={path.name: read_text(path) for path in sorted((folder / _FILES).iterdir())},
        arrays=load_arrays(folder / _ARRAYS),
    )
