"""BiDAF-T: its size, its characters, and what its two references learn. tests/test_rankers.py has its scores."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tests.support.builders import tiny_data
from trainables.extras.bidaf_t import (
    FIRST_CHARACTER,
    NO_CHARACTER,
    UNKNOWN_CHARACTER,
    BidafT,
    BidafTModule,
    alphabet_of,
    word_characters,
)
from trainables.extras.bidaf_t_settings import BidafTSettings
from trainables.rankers.word_vectors import FIRST_WORD, HASHED, PADDING

SMALL = BidafTSettings.model_validate({"vector_size": 12, "hidden": 5})


def made(reference: Literal["paper", "study"] = "paper") -> tuple[BidafTModule, dict[str, Tensor]]:
    """A module without dropout and the inputs of all training pairs of tiny data."""
    ranker, settings, data = BidafT(), SMALL.model_copy(update={"reference": reference}), tiny_data(queries=4)
    text = ranker.prepare(data, settings, seed=0)
    torch.manual_seed(0)
    module, train = ranker.build(text, settings, 32).eval(), data.splits["train"]
    return module, module.collate(text.queries, text.documents, train.query[train.owner], train.document)


def test_parameter_count_follows_from_the_layers() -> None:
    """At the sizes of Seo et al. (2017): 100 dimensions of words, 100 of characters, 100 hidden units per direction."""
    module = BidafTModule(
        torch.zeros(3, 100), np.zeros((3, 25), np.uint8), 36, BidafTSettings.model_validate({}), 32, from_front=False
    )

    def bi_lstm(inputs: int) -> int:
        return 2 * 4 * (inputs * 100 + 100 * 100 + 2 * 100)

    characters, highways = 38 * 8 + 8 * 5 * 100 + 100, 2 * 2 * (200 * 200 + 200)
    lstms = bi_lstm(200) + bi_lstm(800) + bi_lstm(200)
    trained = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
    assert trained == characters + highways + lstms + 3 * 200 + 200 + 1


def test_characters_of_every_row_of_the_vector_table() -> None:
    vocabulary = f"cat\na1\n{30 * 'x'}"
    table = word_characters(vocabulary, alphabet_of(vocabulary))
    assert table.shape == (FIRST_WORD + 3, 25) and table.dtype == np.uint8
    assert not table[PADDING].any()
    assert (table[1 : 1 + HASHED, 0] == UNKNOWN_CHARACTER).all() and not table[1 : 1 + HASHED, 1:].any()
    numbers = {character: FIRST_CHARACTER + i for i, character in enumerate("abcdefghijklmnopqrstuvwxyz0123456789")}
    for row, word in zip(table[FIRST_WORD:], ["cat", "a1", 25 * "x"], strict=True):
        assert row.tolist() == [numbers[c] for c in word] + [NO_CHARACTER] * (25 - len(word))


def test_letters_of_every_script_are_characters() -> None:
    vocabulary = "größer\n数据库"
    alphabet = alphabet_of(vocabulary)
    assert alphabet[:36] == "abcdefghijklmnopqrstuvwxyz0123456789" and sorted(alphabet[36:]) == sorted("öß数据库")
    rows = word_characters(vocabulary, alphabet)[FIRST_WORD:]
    read = [[alphabet[code - FIRST_CHARACTER] for code in row if code != NO_CHARACTER] for row in rows.tolist()]
    assert ["".join(word) for word in read] == vocabulary.split()


def test_in_the_study_s_way_the_document_s_own_weights_learn_nothing() -> None:
    """Softmax over the query cancels what is the same for all its words: the first third of Eq. 1's vector."""
    cases: list[tuple[Literal["paper", "study"], bool]] = [("paper", True), ("study", False)]
    for reference, learns in cases:
        module, inputs = made(reference)
        module(**inputs).sum().backward()
        gradient = module.attention.weight.grad
        assert gradient is not None and gradient[1:].abs().max() > 1e-6
        assert (gradient[0].abs().max() > 1e-6) == learns
