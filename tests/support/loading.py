"""Loading data from a folder: the data, its candidates, and the problems of a bad folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainables.core.errors import DataError
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.data.settings import DataConfig


def configured(folder: Path, **keys: object) -> DataConfig:
    return DataConfig.model_validate({"source": str(folder), **keys})


def load(folder: Path, **keys: object) -> RankingData:
    return load_data(configured(folder, **keys))


def problems(folder: Path, **keys: object) -> list[str]:
    """The places, relative to the folder, and what is wrong there."""
    with pytest.raises(DataError) as caught:
        load(folder, **keys)
    return [
        f"{problem.location.removeprefix(str(folder)).removeprefix('/')}: {problem.wrong.replace(f'{folder}/', '')}"
        for problem in caught.value.problems
    ]


def candidates(data: RankingData, split: str, query: int) -> list[tuple[str, int, int]]:
    """(document id, grade, rank) of a query's candidates."""
    rows = data.splits[split]
    part = slice(rows.offsets[query], rows.offsets[query + 1])
    ids = [data.document_ids[i] for i in rows.document[part]]
    return list(zip(ids, rows.grade[part].tolist(), rows.rank[part].tolist(), strict=True))
