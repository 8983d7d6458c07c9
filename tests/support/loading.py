"""Loading data from a folder: the data, its candidates, and the problems of a bad folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainables.core.errors import DataError
from trainables.data import load_data
from trainables.data.columns import NO_RANK, RankingData
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


def check(data: RankingData) -> None:
    """Checks what RankingData promises."""
    queries = np.concatenate([split.query for split in data.splits.values()])
    assert queries.tolist() == list(range(len(data.query_ids)))
    assert len(data.documents) == len(data.document_ids)
    assert len(data.domain) == len(data.turns) == len(data.query_ids)
    assert data.utterance_offsets[-1] == len(data.utterances)
    dtypes = {"query": "int32", "offsets": "int64", "document": "int32", "grade": "int16", "rank": "int32",
              "score": "float64", "judged_grade": "int16", "judged_offsets": "int64"}  # fmt: skip
    for split in data.splits.values():
        assert {name: str(getattr(split, name).dtype) for name in dtypes} == dtypes
        assert split.offsets[-1] == len(split.document) == len(split.grade) == len(split.rank) == len(split.score)
        assert len(split.judged_offsets) == len(split.offsets) == len(split) + 1
        assert split.judged_offsets[-1] == len(split.judged_grade)
        assert (np.diff(split.judged_offsets) > 0).all()
        assert ((split.document >= 0) & (split.document < len(data.documents))).all()
        for start, stop in zip(split.offsets, split.offsets[1:], strict=False):
            if (split.rank == NO_RANK).all():
                assert np.isnan(split.score).all()
                break
            assert split.rank[start:stop].tolist() == list(range(1, stop - start + 1))
            assert (np.diff(split.score[start:stop]) <= 0).all()
