"""Who has seen what a split shows and asks again is reminded of it: p does not know what was asked before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.confirm_cases import LABELS, LocalCrew, confirm, crew, data, search_folder, state_of
from tests.support.report_pages import Reader
from tune_cl.cli.commands.confirm import in_words
from tune_cl.confirmation.request import Request, looks_before
from tune_cl.confirmation.verdict import notes_of
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.findings import gather
from tune_cl.report.page import page

__all__ = ["crew", "data", "search_folder"]


def document(seeds: int, *labels: str, dropped: tuple[str, ...] = (), **values: Any) -> dict[str, Any]:
    return {
        "split": "test",
        "seeds": list(range(1, seeds + 1)),
        "configurations": [{"label": label} for label in labels],
        "dropped": [{"label": label, "seeds": [1]} for label in dropped],
        "correction": "holm",
        "verdict": "no difference shown",
    } | values


def test_the_first_look_has_none_before_it() -> None:
    assert looks_before(None, document(1, "a")) == []


@pytest.mark.parametrize(
    "later",
    [
        document(5, "a", "b"),
        document(2, "a"),
        document(2, "a", "c"),
        document(2, "a", dropped=("b",)),
        document(2, "a", "b", correction="none"),
    ],
)
def test_another_request_remembers_what_was_seen(later: dict[str, Any]) -> None:
    [look] = looks_before(document(2, "a", "b"), later)
    assert look == {"seeds": [1, 2], "configurations": ["a", "b"], "dropped": [], "correction": "holm",
                    "verdict": "no difference shown"}  # fmt: skip


def test_the_same_request_again_is_no_further_look() -> None:
    first, second = document(2, "a", "b"), document(4, "a", "b")
    second |= {"earlier": looks_before(first, second)}
    assert looks_before(second, second) == second["earlier"]
    third = document(2, "a", "b")
    assert [len(look["seeds"]) for look in looks_before(second, third)] == [4], "the first is this one"


def test_looks_add_up() -> None:
    known = document(1, "a")
    for seeds in (2, 3, 4):
        known = document(seeds, "a") | {"earlier": looks_before(known, document(seeds, "a"))}
    assert [len(look["seeds"]) for look in known["earlier"]] == [1, 2, 3]
    assert "test was read 3 times before, last with 3 seeds and 1 configuration: no diff" in notes_of(known)[0]


def test_dev_was_read_before_anyway() -> None:
    later = document(5, "a", split="dev", earlier=[document(1, "a")])
    [note] = notes_of(later)
    assert "was read" not in note and "no verdict" in note


@pytest.mark.slow
def test_document_terminal_and_report_say_so(search_folder: SearchFolder, crew: type[LocalCrew]) -> None:
    first = confirm(search_folder, top=2, seeds=2)
    assert first["earlier"] == [] and first["notes"] == [] and "was read" not in in_words(first)
    assert "was read" not in Reader(page(gather(search_folder))).sections["verdict"]
    second = confirm(search_folder, top=1, seeds=2, ablate=True)
    [note] = second["notes"]
    assert note == (
        "test was read before, with 2 seeds and 2 configurations: no difference shown; p takes no account of what was "
        "asked after that"
    )
    assert second["earlier"][0]["configurations"] == [*LABELS]
    assert f" Note: {note}." in in_words(second)
    found = Reader(page(gather(search_folder)))
    assert note[1:] in found.sections["verdict"]
    assert "--top 1 --seeds 2 --split test --correction holm --ablate" in found.sections["again"], "as it was asked"
    assert Request(**second["asked"]) == Request(1, 2, ablate=True)


@pytest.mark.slow
def test_more_seeds_train_only_those_that_are_missing(search_folder: SearchFolder, crew: type[LocalCrew]) -> None:
    first = confirm(search_folder, top=1, seeds=1)
    assert crew.trained == ["baseline, seed 1", f"{LABELS[0]}, seed 1"]
    crew.trained.clear()
    second = confirm(search_folder, top=2, seeds=2)
    assert crew.trained == [f"{LABELS[1]}, seed 1", *(f"{label}, seed 3" for label in ("baseline", *LABELS))]
    assert second["baseline"]["runs"][0]["value"] == first["baseline"]["runs"][0]["value"]
    crew.trained.clear()
    again = confirm(search_folder, top=1, seeds=1) | {"earlier": [], "notes": []}
    assert repr(again) == repr(first) and crew.trained == []
    state = state_of(search_folder)
    assert len(state.confirmations) == 6 and state.seconds == 10, "the time of a confirmation is not the search's"
