"""One training by several processes: the numbers of a single one."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from tests.support.group_trainings import CASES, Computed, compute_cases, computed
from trainables.training.parallel import ALONE, Ranks

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("size", [7, 8, 64, 3])
def test_the_parts_of_a_batch_are_the_whole(size: int) -> None:
    parts = [range(size)[Ranks(rank, 3).part(size)] for rank in range(3)]
    assert [sample for part in parts for sample in part] == list(range(size))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert ALONE.part(size) == slice(0, size)


def test_the_first_process_has_the_random_state_of_a_single_one() -> None:
    assert ALONE.seeded(3) == Ranks(0, 2).seeded(3) == (3,) != Ranks(1, 2).seeded(3)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Computed]]:
    meeting = tmp_path_factory.mktemp("two") / "meeting"
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        return list(pool.map(compute_cases, range(2), [2, 2], [meeting, meeting]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_processes_compute_the_numbers_of_one(case: str, of_two: list[dict[str, Computed]]) -> None:
    alone, first, second = computed(case), of_two[0][case], of_two[1][case]
    np.testing.assert_allclose(first.losses, alone.losses, **CLOSE)
    np.testing.assert_allclose(first.dev, alone.dev, **CLOSE)
    np.testing.assert_allclose(first.scores, alone.scores, **CLOSE)
    assert alone.gradients and alone.gradients.keys() == first.gradients.keys()
    for name, gradient in alone.gradients.items():
        np.testing.assert_allclose(first.gradients[name], gradient, **CLOSE, err_msg=name)
    for name, weight in alone.weights.items():
        np.testing.assert_allclose(first.weights[name], weight, **CLOSE, err_msg=name)
    assert all(np.array_equal(second.weights[name], weight) for name, weight in first.weights.items())
    assert (first.losses, first.dev) == (second.losses, second.dev)
    assert np.array_equal(first.scores, second.scores)
