"""The keys `data.*`: which data a training reads, and which candidates it ranks."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field

from trainables.core.validation import ActiveIf, Section

T = TypeVar("T")
Noisy = Annotated[T, ActiveIf("data.label_noise.share above 0", lambda run: run.data.label_noise.share > 0)]
ForNetworks = Annotated[T, ActiveIf("a ranker over texts", lambda run: run.reads != "features")]


class Bm25Config(Section):
    """`data.bm25.*`: parameters of Lucene's BM25 (Robertson et al. 1994)."""

    k1: float = Field(default=0.9, ge=0, description="BM25's saturation of the term frequency (Anserini's default)")
    b: float = Field(default=0.4, ge=0, le=1, description="BM25's length normalisation (Anserini's default)")


class LabelNoise(Section):
    """`data.label_noise.*`: wrong training labels, drawn once for all trials and seeds."""

    share: float = Field(
        default=0,
        ge=0,
        le=1,
        description="fraction of the relevant training candidates whose grade is swapped with another; a larger one "
        "includes the swaps of a smaller one",
    )
    kind: Noisy[Literal["swap", "random", "hard"]] = Field(
        default="swap",
        description="what becomes relevant instead: swap: another candidate of the query; random: any document; "
        "hard: its candidate that BM25 scores highest",
    )
    seed: Noisy[int] = Field(
        default=0, ge=0, description="the seed of the draw, which trials and seeds of a search share"
    )


class ColumnNames(Section):
    """`data.columns.*`: the columns of pairs, where they have names of your own; others are then not read."""

    query: str | None = Field(
        default=None,
        description="the column of pairs that holds the query; where a column is named, only named ones are read",
    )
    positive: str | None = Field(default=None, description="the column of a relevant document, or of a list of them")
    negative: str | None = Field(
        default=None, description="the column of another document, or of a list; NAME_1, NAME_2, ... too"
    )
    document: str | None = Field(
        default=None, description="the column of a document with a label, or of a list of them"
    )
    label: str | None = Field(default=None, description="the column of the documents' grades")
    score: str | None = Field(default=None, description="the column of a teacher's scores")

    def named(self) -> dict[str, str]:
        """The columns that are named, by role."""
        return self.model_dump(exclude_none=True)


TOP_K = 100
Depth = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class DataConfig(Section):
    """`data.*`."""

    source: str = Field(
        default="docstrings",
        min_length=1,
        description="docstrings (the built-in data), a folder, ir_datasets:NAME, or hf:NAME of the Hugging Face hub",
    )
    candidates: ForNetworks[Literal["auto", "run", "qrels", "bm25"]] = Field(
        default="auto",
        description="where the documents to rank come from. auto: the run; without one the judged documents if "
        "non-relevant ones are judged too; else BM25",
    )
    top_k: ForNetworks[Depth | dict[Literal["train", "dev", "test"], Depth]] = Field(
        default=TOP_K,
        description="candidates of a query that are kept from a first-stage run or retrieved; or a number for each "
        "split, {train: 10, dev: 100, test: 1000} (100 for one that is not named)",
    )
    unretrieved_positives: ForNetworks[Literal["drop", "keep"]] = Field(
        default="drop",
        description="relevant training documents outside the run: they are left out, or kept as candidates without a "
        "first-stage rank",
    )
    bm25: ForNetworks[Bm25Config] = Bm25Config()
    identical_ids: ForNetworks[Literal["drop", "keep"]] = Field(
        default="drop",
        description="a document that is its query itself, as in ArguAna and Quora: it has the query's id and, where "
        "ids are numbers, its text. drop: it is never a candidate",
    )
    words: ForNetworks[Literal["auto", "spaces", "bigrams"]] = Field(
        default="auto",
        description="how BM25, scorings and word rankers cut texts into words. auto: at spaces, and words of scripts "
        "without spaces (Chinese, Japanese, Thai, ...) into bigrams of letters, if a hundredth of the "
        "queries has such; spaces: only at spaces; bigrams: every word into bigrams",
    )
    columns: ForNetworks[ColumnNames] = ColumnNames()
    split: tuple[Share, Share, Share] | None = Field(
        default=None,
        description="[TRAIN, DEV, TEST]: fractions of the queries, drawn with a fixed seed; null: the splits as given, "
        "and a tenth of the training queries as dev where there is none",
    )
    query_clusters: str | None = Field(
        default=None,
        min_length=1,
        description="near-duplicate queries, which a verdict counts as one: a file with a query id and its cluster on "
        "each line; prefix:SEPARATOR for ids that are equal before the last separator; none; null: as the data's "
        "reader knows (docstrings: those of a module; SemEval: those of a question), else those of equal text",
    )
    strict: bool = Field(default=False, description="whether a row that cannot be used is an error, not left out")
    train_share: float = Field(
        default=1,
        gt=0,
        le=1,
        description="fraction of the training queries that is used; a larger one has all queries of a smaller one",
    )
    label_noise: LabelNoise = LabelNoise()

    def depth(self, split: str | None = None) -> int:
        """`top_k` of a split, or the largest of all."""
        if isinstance(self.top_k, int):
            return self.top_k
        depths: dict[str, int] = {**dict.fromkeys(("train", "dev", "test"), TOP_K), **self.top_k}
        return max(depths.values()) if split is None else depths[split]

    def depth_in_words(self) -> str:
        """`top_k` as notes have it: 100, or 10 (train), 100 (dev), 1000 (test)."""
        if isinstance(self.top_k, int):
            return str(self.top_k)
        return ", ".join(f"{self.depth(split)} ({split})" for split in ("train", "dev", "test"))
