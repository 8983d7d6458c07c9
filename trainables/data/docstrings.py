"""Ranking data from the documentation strings of installed packages, which are read without an import."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from trainables.core.cache import digest_of
from trainables.core.errors import WorkFailed
from trainables.core.randomness import generator
from trainables.data.bm25 import Bm25
from trainables.data.columns import SPLITS, RankingData, Split, TextColumn, ranks
from trainables.data.data_cache import cached_data
from trainables.data.settings import Bm25Config, DataConfig
from trainables.data.words import index_words, look_up, normalised, words

NAME = "docstrings"
PACKAGES = {  # import name -> distribution
    "matplotlib": "matplotlib",
    "networkx": "networkx",
    "numpy": "numpy",
    "pandas": "pandas",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
}
FEWEST_WORDS, MOST_WORDS = 3, 120  # of a part; longer ones are cut
FEWEST_PARTS = 3
MOST_TURNS = 5
CANDIDATES = 10
NEAR = 7  # wrong responses drawn from the NEAREST parts by BM25; the others come from the whole fold
NEAREST = 10
HELD_OUT = ("test", "dev")
FOLD = 1000  # documentation strings in a held-out split; training is cut into folds of about that size
MOST_CONTEXTS = {"test": 800, "dev": 400}
_FORMAT = 4  # raise it when the construction changes
_SEED = 0  # one fixed data set, whatever the seed of a training
_BLANK = re.compile(r"\n\s*\n")
_UNDERLINE = re.compile(r"(?m)^[ \t]*([-=~^*#+`])\1{2,}[ \t]*$")
_SPACE = re.compile(r"\s+")
_DIRECTIVE = (".. ", "%")  # directives and template marks
_DOCTEST = ">>>"
_OLD_PYTHON = "numpy.distutils."  # in NumPy for Python 3.11 only; the data must be the same on all versions
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def load_docstrings(config: DataConfig) -> RankingData:
    """The data set, built on first use (some 20 seconds) and cached by the packages' versions. Raises WorkFailed if a
    package is missing."""
    try:
        versions = {package: version(distribution) for package, distribution in PACKAGES.items()}
    except PackageNotFoundError as error:
        raise WorkFailed(f"the docstrings data reads the sources of {error.name}, which is not installed") from None
    digest = digest_of(NAME, _FORMAT, versions, config.bm25.k1, config.bm25.b)

    def read(_folder: Path) -> RankingData:
        folders = {package: _sources_of(package) for package in PACKAGES}
        return make_data([one for each in folders.items() for one in read_folder(*each)], config.bm25)

    return cached_data(digest, digest, read)


# -- documentation strings ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Docstring:
    """A documentation string cut into parts at its blank lines; the first is the summary."""

    package: str
    module: str
    name: str
    parts: tuple[str, ...]


def _sources_of(package: str) -> Path:
    spec = find_spec(package)  # for a top-level name, this imports nothing
    if spec is None or not spec.submodule_search_locations:
        raise WorkFailed(f"the docstrings data finds no sources of {package}")
    return Path(spec.submodule_search_locations[0])


def read_folder(package: str, root: Path) -> list[Docstring]:
    """The documentation strings of all modules, classes and functions of a package in a folder, in the order of the
    files. Leaves out tests, and modules that the package has only under some versions of Python."""
    docstrings = []
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).with_suffix("").parts
        module = ".".join((package, *inside)).removesuffix(".__init__")
        if not any(_is_test(part) for part in inside) and not f"{module}.".startswith(_OLD_PYTHON):
            docstrings += [Docstring(package, module, name, parts_of(text)) for name, text in _documented(path, module)]
    return docstrings


def _is_test(part: str) -> bool:
    return part in ("tests", "testing", "conftest", "_testing") or part.startswith("test_")


def _documented(path: Path, module: str) -> Iterator[tuple[str, str]]:
    """(qualified name, cleaned text) of everything that has a documentation string."""
    waiting: list[tuple[str, ast.Module | _Definition]] = [(module, ast.parse(path.read_bytes()))]
    while waiting:
        name, node = waiting.pop()
        if text := ast.get_docstring(node):
            yield name, text
        waiting += [(f"{name}.{child.name}", child) for child in reversed(node.body) if isinstance(child, _Definition)]


def parts_of(text: str) -> tuple[str, ...]:
    """The prose paragraphs of a documentation string, each on one line, without underlines, cut to MOST_WORDS."""
    parts = (_UNDERLINE.sub(" ", part).strip() for part in _BLANK.split(text))
    prose = (part for part in parts if not part.startswith(_DIRECTIVE) and _DOCTEST not in part)
    lines = (_SPACE.sub(" ", part) for part in prose)
    return tuple(" ".join(line.split(" ")[:MOST_WORDS]) for line in lines if len(words(line)) >= FEWEST_WORDS)


# -- contexts and candidates -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Context:
    """A documentation string cut after `turns` parts; the next part is the right response."""

    docstring: Docstring
    turns: int

    @property
    def utterances(self) -> tuple[str, ...]:
        return self.docstring.parts[: self.turns]


def make_data(docstrings: Sequence[Docstring], bm25: Bm25Config) -> RankingData:
    """Contexts and candidates, without a digest; the same input gives the same data."""
    parted = without_shared_parts(split_by_module(docstrings))
    contexts = {split: draw_contexts(split, parted[split]) for split in SPLITS}
    pool = Pool(parted, bm25)
    splits, start = {}, 0
    for split, drawn in contexts.items():
        splits[split] = pool.candidates(split, drawn, start)
        start += len(drawn)
    everything = list(chain.from_iterable(contexts.values()))
    packages = {package: number for number, package in enumerate(PACKAGES)}
    return RankingData(
        name=NAME,
        digest="",
        document_ids=pool.ids,
        documents=TextColumn.of(pool.texts),
        query_ids=TextColumn.of(context.docstring.name for context in everything),
        utterances=TextColumn.of(part for context in everything for part in context.utterances),
        utterance_offsets=np.cumsum([0] + [context.turns for context in everything]).astype(np.int64),
        domain=np.array([packages[context.docstring.package] for context in everything], np.int16),
        domains=tuple(PACKAGES),
        splits=splits,
        group=np.unique([context.docstring.module for context in everything], return_inverse=True)[1].astype(np.int32),
    )


def split_by_module(docstrings: Sequence[Docstring]) -> dict[str, list[Docstring]]:
    """Documentation strings by split, modules in random order; strings with too few parts are left out.

    All strings of a module go to one split, so that no file is in two. Of strings with the same name (the
    parts of a property) the last counts.
    """
    modules: dict[str, list[Docstring]] = {}
    for docstring in {one.name: one for one in docstrings}.values():
        if len(docstring.parts) >= FEWEST_PARTS:
            modules.setdefault(docstring.module, []).append(docstring)
    names = sorted(modules)
    generator(_SEED, "docstring modules").shuffle(names)
    splits: dict[str, list[Docstring]] = {split: [] for split in SPLITS}
    for name in names:
        unfilled = (split for split in HELD_OUT if len(splits[split]) < FOLD)
        splits[next(unfilled, "train")] += modules[name]
    return splits


def without_shared_parts(splits: Mapping[str, list[Docstring]]) -> dict[str, list[Docstring]]:
    """Drops parts whose text occurs in several splits (shared boilerplate), and repeats within one string."""
    counts = Counter[str]()
    for docstrings in splits.values():
        counts.update({normalised(part) for docstring in docstrings for part in docstring.parts})
    kept: dict[str, list[Docstring]] = {}
    for split, docstrings in splits.items():
        own = [replace(docstring, parts=_own_parts(docstring, counts)) for docstring in docstrings]
        kept[split] = [docstring for docstring in own if len(docstring.parts) >= FEWEST_PARTS]
    return kept


def _own_parts(docstring: Docstring, splits_with: Mapping[str, int]) -> tuple[str, ...]:
    """The parts that are in one split, each text once."""
    parts: dict[str, str] = {}
    for part in docstring.parts:
        parts.setdefault(normalised(part), part)
    return tuple(part for key, part in parts.items() if splits_with[key] == 1)


def draw_contexts(split: str, docstrings: Sequence[Docstring]) -> list[Context]:
    """One context per documentation string, cut at a random part; held-out splits keep a random MOST_CONTEXTS."""
    rng = generator(_SEED, f"docstring contexts {split}")
    order = rng.permutation(len(docstrings))[: MOST_CONTEXTS.get(split)]
    most = [min(MOST_TURNS, len(docstrings[i].parts) - 1) for i in order]
    turns = rng.integers(1, np.array(most, np.int64), endpoint=True)
    return [Context(docstrings[i], int(n)) for i, n in zip(order, turns, strict=True)]


class Pool:
    """All parts except summaries, one document per distinct text; the parts of a split lie together."""

    def __init__(self, splits: Mapping[str, list[Docstring]], bm25: Bm25Config):
        self.rows: dict[str, int] = {}
        self.texts: list[str] = []
        self.parts: dict[str, slice] = {}
        ids: list[str] = []
        for split, docstrings in splits.items():
            start = len(ids)
            for docstring in docstrings:
                for index, part in enumerate(docstring.parts[1:], 1):
                    if self.rows.setdefault(normalised(part), len(ids)) == len(ids):
                        ids.append(f"{docstring.name}/{index}")
                        self.texts.append(part)
            self.parts[split] = slice(start, len(ids))
        self.ids = TextColumn.of(ids)
        indexed = index_words(self.texts)
        self.vocabulary = indexed.vocabulary
        self.bm25 = Bm25(indexed, "lucene", bm25.k1, bm25.b)

    def candidates(self, split: str, contexts: Sequence[Context], start: int) -> Split:
        """The split's columns; its queries are numbered from `start` on.

        Wrong responses come from the right one's fold: in a larger pool the nearest parts would be nearer, which
        would make training contexts harder than held-out ones.
        """
        queries = look_up((" ".join(context.utterances) for context in contexts), self.vocabulary)
        responses = [context.docstring.parts[context.turns] for context in contexts]
        right = np.array([self.rows[normalised(response)] for response in responses], np.int64)
        rng = generator(_SEED, f"docstring negatives {split}")
        longest = max((len(context.docstring.parts) for context in contexts), default=0)
        documents: list[list[int]] = [[] for _ in contexts]
        for fold in self._folds(split):
            in_fold = np.flatnonzero((right >= fold.start) & (right < fold.stop))
            nearest, _ = self.bm25.within(fold).top(queries, NEAREST + longest, in_fold)
            for index, near in zip(in_fold.tolist(), (nearest + fold.start).tolist(), strict=True):
                documents[index] = [int(right[index]), *self._wrong(contexts[index], near, fold, rng)]
        sizes = np.array([len(rows) for rows in documents], np.int64)
        owner = np.repeat(np.arange(len(contexts)), sizes)
        document = np.array(list(chain.from_iterable(documents)), np.int64)
        score = self.bm25.pair_scores(queries, owner, document)
        order, rank = ranks(owner, score, document, self.ids)
        listed = Split.listed(start, sizes, document[order], (document == right[owner])[order])
        return replace(listed, rank=rank.astype(np.int32), score=score[order])

    def _folds(self, split: str) -> list[slice]:
        """The split's rows in parts of about the size of the smallest split."""
        rows = self.parts[split]
        size = rows.stop - rows.start
        smallest = min((part.stop - part.start for part in self.parts.values() if part.stop > part.start), default=1)
        bounds = np.linspace(rows.start, rows.stop, max(1, size // smallest) + 1).astype(int)
        return [slice(int(start), int(stop)) for start, stop in pairwise(bounds)]

    def _wrong(self, context: Context, nearest: list[int], fold: slice, rng: np.random.Generator) -> list[int]:
        """Up to CANDIDATES - 1 rows, none of them a part of the context's own documentation string."""
        rows_of_context = {self.rows.get(normalised(text)) for text in context.docstring.parts}
        near = [row for row in nearest if row not in rows_of_context][:NEAREST]
        far = rng.integers(fold.start, fold.stop, 8 * CANDIDATES).tolist()
        drawn = chain(rng.permutation(near).tolist()[:NEAR], (row for row in far if row not in rows_of_context))
        return list(dict.fromkeys(drawn))[: CANDIDATES - 1]
