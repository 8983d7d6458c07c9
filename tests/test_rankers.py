"""The contract that every ranker keeps, whatever its architecture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.support.gradients import with_gradients
from tests.support.plain_rankers import PLAIN
from tests.support.ranker_cases import NETWORKS, SMALL, VARIANTS
from trainables.rankers import RANKERS, load_ranker
from trainables.rankers.ranker import Tokens
from tune_cl.testing.rankers import RANKER, RATE, Case, inputs, ranker_case

LEARNING_RATES = {"drmm_tks": 2e-2}  # 80 steps are few for a network that reads 20 numbers
SAME_START = {"embedding"}  # its first score is the cosine, whatever the seed


@pytest.mark.parametrize("name", RANKERS)
def test_settings_are_those_of_their_ranker(name: str) -> None:
    kind = RANKERS[name]
    assert kind.settings.model_validate({}).name == name
    assert kind.settings.text_keys <= kind.settings.model_fields.keys()
    assert bool(kind.settings.text_side) == (kind.reads == "texts"), "rankers of one text side share what is prepared"


def test_a_ranker_of_trees_is_no_network() -> None:
    with pytest.raises(TypeError, match="lambdamart is not a network over texts"):
        load_ranker("lambdamart")


@pytest.fixture(params=[*NETWORKS, *VARIANTS])
def case(request: pytest.FixtureRequest) -> Case:
    keys = VARIANTS.get(request.param, {"name": request.param})
    settings = SMALL.get(keys["name"], {}) | keys
    return ranker_case(lr=LEARNING_RATES.get(keys["name"], RATE), **settings)


@pytest.mark.parametrize("promise", RANKER)
def test_every_ranker_keeps_the_contract(case: Case, promise: Callable[[Case], None]) -> None:
    promise(case)


def test_another_seed_is_another_network(case: Case) -> None:
    one, other = (case.score(case.build(seed), *case.pairs) for seed in (1, 2))
    assert torch.allclose(one, other) == (case.settings.name in SAME_START)


def test_scores_and_gradients_are_those_of_the_plain_ranker(case: Case) -> None:
    """In float64, for texts of unequal lengths in one batch, some in several pairs."""
    assert PLAIN.keys() == set(NETWORKS)
    module, (queries, documents) = case.build().double().eval(), (np.array([0, 2, 1, 2, 0]), np.array([4, 3, 5, 6, 3]))
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3) if not parameter.any() else None  # a layer that starts at zero
    words, rng = case.text.documents.ids, np.random.default_rng(0)
    texts = Tokens.of([rng.choice(words, length) for length in (1, 6, 3, 1, 4, 11, 20)])
    plain = PLAIN[case.settings.name]
    rows = [
        [torch.from_numpy(texts.ids[texts.offsets[i] : texts.offsets[i + 1]]).long() for i in pair]
        for pair in zip(queries, documents, strict=True)
    ]
    tensors = inputs(module, texts, texts, queries, documents)
    right = torch.stack([plain(module, *pair) for pair in rows])
    if module.reads_first_stage:
        tensors["first_stage"] = tensors["first_stage"].double()
        neural = module.additivity.alpha.sigmoid()
        right = neural * right + (1 - neural) * tensors["first_stage"]
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    got = with_gradients(module(**tensors), trained)
    torch.testing.assert_close(got, with_gradients(right, trained), rtol=1e-6, atol=1e-8)
