"""Rows of text files, plain or gzipped, with every problem noted at its line instead of ending the reading."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from trainables.errors import Problem

_BOM = b"\xef\xbb\xbf"


class Rows:
    """The rows of one file as (line number, fields); wrong lines are left out and added to `problems`.

    `columns` names the fields of a row; `separator` parts them (None = any white space). Blank lines are
    skipped; CRLF and a byte order mark are accepted. A file without rows is a problem.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], separator: str | None, problems: list[Problem]):
        self.path = path
        self.columns = columns
        self.separator = separator
        self.problems = problems

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        empty, noted = True, len(self.problems)
        for number, line in self._lines():
            empty = False
            fields = line.split(self.separator)
            if len(fields) == len(self.columns):
                yield number, fields
            else:
                self.problem(number, f"{len(fields)} columns instead of {len(self.columns)}", self._form())
        if empty and len(self.problems) == noted:
            self.file_problem("no rows", f"each row is {self._form()}")

    def problem(self, number: int, wrong: str, right: str) -> None:
        """Notes what is wrong with one line."""
        self.problems.append(self.at(number, wrong, right))

    def at(self, number: int, wrong: str, right: str) -> Problem:
        """A problem of one line, not noted yet."""
        return Problem(f"{self.path}:{number}", wrong, right)

    def file_problem(self, wrong: str, right: str) -> None:
        """Notes what is wrong with the whole file."""
        self.problems.append(Problem(str(self.path), wrong, right))

    def _form(self) -> str:
        return {"\t": " TAB ", None: " "}[self.separator].join(self.columns)

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Decoded lines that are not blank; ends early, with a problem, where the file cannot be read on."""
        number = 0
        try:
            with open_bytes(self.path) as stream:
                for number, raw in enumerate(stream, 1):
                    line = self._decoded(number, raw.removeprefix(_BOM) if number == 1 else raw)
                    if line and not line.isspace():
                        yield number, line
        except FileNotFoundError:
            self.file_problem("missing file", "give the file")
        except gzip.BadGzipFile:
            self.file_problem("not a gzip file", "compress it with gzip, or name it without .gz")
        except (EOFError, zlib.error):
            self.problem(number + 1, "the gzip data is broken or cut off here", "give the whole file")
        except OSError as error:
            self.file_problem(f"cannot be read ({error.strerror})", "give a readable file")

    def _decoded(self, number: int, raw: bytes) -> str:
        try:
            return raw.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            self.problem(number, f"byte {raw[error.start]:#04x} is not UTF-8", "save the file as UTF-8")
            return ""


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, uncompressed where its name ends in .gz."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def plain_or_gz(folder: Path, name: str) -> Path:
    """`folder/name`, or `folder/name.gz` where only that exists."""
    plain, packed = folder / name, folder / f"{name}.gz"
    return packed if packed.exists() and not plain.exists() else plain


def usable_id(name: str) -> bool:
    """Whether the id can stand in a TREC file: not empty, no white space."""
    return name.split() == [name]
