"""`tune-cl plan`: what a design can show, from a confirmation, or from a pilot."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.confirm_cases import confirm, confirmed, confirmed_folder, data, search_folder, trainer
from trainables.core.errors import ConfigError
from trainables.core.randomness import generator
from trainables.evaluation.significance import Components, detectable
from trainables.training.trainer import Training
from tune_cl import run_confirmation as runner
from tune_cl.cli import main
from tune_cl.confirmation.plan import Variances, of_pilot, plan_of
from tune_cl.confirmation.request import MANY, PlanRequest, Request
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.run_confirmation import pilot
from tune_cl.space.wording import DEFAULT

__all__ = ["confirmed", "confirmed_folder", "data", "search_folder", "trainer"]  # fixtures
KNOWN = Components(of_seed=1e-4, of_query=9e-4, residual=0.02)


def drawn(known: Components, seeds: int, queries: int) -> np.ndarray:
    """Values [N, Q] with these variances."""
    rng = generator(3, "plan")
    parts = (known.of_seed, (seeds, 1)), (known.of_query, (1, queries)), (known.residual, (seeds, queries))
    return sum((rng.normal(0, variance**0.5, shape) for variance, shape in parts), np.zeros((seeds, queries)))


def test_the_table_is_what_the_test_can_show() -> None:
    trained = [{"metrics": {"seconds": 36.0}}]
    state: Any = SimpleNamespace(name="toy", metric="map", confirmations=trained, by_number=list)
    plan = plan_of(state, Variances(KNOWN, 100, "a test"), PlanRequest(top=2))
    row = next(row for row in plan.table if (row.seeds, row.queries) == (10, 200))
    assert row.detectable == pytest.approx(detectable(KNOWN, 10, 200))
    assert row.hours == pytest.approx((10 * 2 + 2 * 2) * 36 / 3600), "after the selection"
    by_seeds = [row.detectable for row in plan.table if row.queries == 100]
    assert by_seeds == sorted(by_seeds, reverse=True), "more seeds show smaller differences"


def test_a_pilot_gives_twice_the_variance_of_one_training() -> None:
    found = of_pilot(0.5 + drawn(KNOWN, 400, 300), paired=False).components
    assert found.of_seed == pytest.approx(2e-4, rel=0.2)
    assert found.residual == pytest.approx(0.04, rel=0.05)
    assert found.of_query == 0


def test_a_confirmation_is_planned_from(
    confirmed_folder: SearchFolder, trainer: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """At its own number of seeds and queries the table says what the confirmation's document says."""
    document = confirm(confirmed_folder, seeds=3, top=2)
    arguments = ["plan", "toy", "--storage", str(confirmed_folder.storage), "--top", "2", "--difference", ".2"]
    assert main([*arguments, "--json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    own = {(row["seeds"], row["queries"]): row for row in plan["table"]}[3, 12]
    assert own["detectable"] == pytest.approx(document["detectable"])
    assert plan["seeds_needed"] is not None and own["hours"] > 0
    assert main(arguments) == 0
    assert f"{plan['seeds_needed']} seeds" in capfd.readouterr().out


def test_a_pilot_trains_the_baseline_alone_once(search_folder: SearchFolder, trainer: Any) -> None:
    """Even of a search of the baseline alone, which has nothing to confirm."""
    events = [event for event in read_events(search_folder.journal) if event.get("trial", "t0000") == "t0000"]
    search_folder.journal.unlink()
    with Journal(search_folder.folder) as journal:
        for event in events:
            journal.append(event)
    assert pilot(search_folder, 2, None)[0].shape == (2, 12)
    assert trainer.trained == [f"{DEFAULT}, seed 1", f"{DEFAULT}, seed 3"]
    with pytest.raises(ConfigError, match="no configuration"):
        confirm(search_folder, seeds=2, top=1)


def test_a_pilot_and_a_confirmation_share_their_trainings(
    confirmed_folder: SearchFolder, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Training, "iterate", lambda self: pytest.fail("trained again"))
    assert pilot(confirmed_folder, 2, None)[0].shape == (2, 12)
    trainer.trained.clear()
    confirm(confirmed_folder, seeds=2, top=1, split="dev")
    assert trainer.trained and not any(name.startswith(DEFAULT) for name in trainer.trained)


def test_values_that_do_not_vary_are_named(
    search_folder: SearchFolder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "pilot", lambda *given: (np.full((3, 12), 0.5), False))
    assert main(["plan", "toy", "--storage", str(search_folder.storage), "--pilot", "3"]) == 2
    err = capfd.readouterr().err
    assert "NAME: " in err and "vary" in err


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ([], "NAME"),
        (["--pilot", "1"], "--pilot"),
        (["--difference", "0"], "--difference"),
        (["--power", "1"], "--power"),
    ],
)
def test_what_cannot_be_planned(
    options: list[str], key: str, search_folder: SearchFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "toy", "--storage", str(search_folder.storage), *options]) == 2
    assert f"{key}: " in capfd.readouterr().err


def test_a_long_search_has_more_candidates_of_a_selection() -> None:
    assert [Request().candidates(trials) for trials in (2, MANY - 1, MANY)] == [2, 2, 3]
    assert (Request(each=True).candidates(2), Request(top=4).candidates(2)) == (3, 4)
