"""Parts of data sets, and two data sets as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import tiny_data
from trainables.data.columns import Split
from trainables.data.combine import joined, one_split, some_queries, with_training_share

DATA = tiny_data(queries={"train": 30, "dev": 6, "test": 6})


def with_order(split: Split) -> Split:
    """The split as if read from a file that lists its candidates last to first."""
    return replace(split, given=np.arange(len(split.document))[::-1].astype(np.int32))


def test_the_order_given_is_kept_where_all_have_one() -> None:
    split = tiny_data(queries=4, candidates=3).splits["train"]
    given = with_order(split)
    assert some_queries(given, np.array([2, 0])).given.tolist() == [5, 4, 3, 11, 10, 9]
    assert one_split([given, split]).given is None
    assert one_split([given, given]).given.tolist() == [*given.given, *given.given]


def test_the_digest_says_which_data_and_which_queries_are_trained_on() -> None:
    one, two = tiny_data(queries=3), tiny_data(queries=3, seed=1)
    fewer = replace(two, splits=two.splits | {"train": some_queries(two.splits["train"], np.array([0, 2]))})
    of_texts = replace(two, digest="other texts")
    assert len({joined(one, other).digest for other in (two, fewer, of_texts)}) == 3


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_larger_share_of_the_training_queries_has_all_of_a_smaller_one(one: float, other: float) -> None:
    low, high = (with_training_share(DATA, share) for share in sorted((one, other)))
    few, more = low.splits["train"], high.splits["train"]
    assert (len(few), len(more)) == (max(1, round(min(one, other) * 30)), max(1, round(max(one, other) * 30)))
    assert np.isin(few.query, more.query).all()
    assert low.splits["dev"] is DATA.splits["dev"] and low.splits["test"] is DATA.splits["test"]
    assert low.digest != DATA.digest and f"{len(few)} of 30" in low.notes[-1]
    assert with_training_share(DATA, 1) is DATA
