"""The keys of ranker bidaf_t, without PyTorch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainables.rankers import RankerKind
from trainables.rankers.settings import WordSettings


class BidafTSettings(WordSettings):
    name: str = "bidaf_t"
    hidden: int = Field(100, ge=1, description="units of each LSTM in each direction (Seo et al. 100, the study 200)")
    dropout: float = Field(0.2, ge=0, lt=1, description="the dropout rate before each LSTM and the last layer")
    reference: Literal["paper", "study"] = Field(
        "paper",
        description="query-to-document attention from the similarities, or as in the study from their softmax over "
        "the query",
    )


KIND = RankerKind(BidafTSettings, "trainables.extras.bidaf_t:BidafT")
