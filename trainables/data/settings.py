"""The keys `data.*`: which data a training reads, and which candidates it ranks."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field

from trainables.core.validation import ActiveIf, Section

T = TypeVar("T")
Noisy = Annotated[T, ActiveIf("data.label_noise.share above 0", lambda run: run.data.label_noise.share > 0)]
ForNetworks = Annotated[T, ActiveIf("a ranker over texts", lambda run: not run.grows_trees)]


class Bm25Config(Section):
    """`data.bm25.*`: parameters of Lucene's BM25 (Robertson et al. 1994)."""

    k1: float = Field(default=0.9, ge=0, description="term frequency saturation (Anserini's default)")
    b: float = Field(default=0.4, ge=0, le=1, description="length normalisation (Anserini's default)")


class LabelNoise(Section):
    """`data.label_noise.*`: wrong training labels, drawn once for all trials and seeds."""

    share: float = Field(default=0, ge=0, le=1, description="of the relevant training candidates; 0: the data's labels")
    kind: Noisy[Literal["swap", "random", "hard"]] = Field(
        default="swap",
        description="what becomes relevant instead: swap: another candidate of the query; random: any document; "
        "hard: its candidate that BM25 scores highest",
    )
    seed: Noisy[int] = Field(
        default=0, ge=0, description="of the draw: a larger share exchanges all that a smaller one does"
    )


class DataConfig(Section):
    """`data.*`."""

    source: str = Field(default="docstrings", min_length=1, description="docstrings | PATH | ir_datasets:NAME")
    candidates: ForNetworks[Literal["auto", "run", "qrels", "bm25"]] = Field(
        default="auto",
        description="auto: the run; without one the qrels if they judge non-relevant documents too; else BM25",
    )
    top_k: ForNetworks[int] = Field(default=100, ge=1, description="candidates a query kept from a first-stage run")
    unretrieved_positives: ForNetworks[Literal["drop", "keep"]] = Field(
        default="drop", description="relevant training documents outside the run; keep: as candidates of rank 0"
    )
    bm25: ForNetworks[Bm25Config] = Bm25Config()
    train_share: float = Field(
        default=1, gt=0, le=1, description="of the training queries; a larger share has all queries of a smaller one"
    )
    weak_labels: ForNetworks[Literal["none", "bm25"]] = Field(
        default="none",
        description="bm25: of each training query its best candidate by BM25 is relevant, whatever the judgments say",
    )
    label_noise: LabelNoise = LabelNoise()
