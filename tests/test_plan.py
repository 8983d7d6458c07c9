"""`tune-cl plan`: what a design can show, from a confirmation, or from a pilot."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.support.confirm_cases import confirm, crew, data, search_folder
from trainables.core.errors import ConfigError
from trainables.core.randomness import generator
from trainables.evaluation.significance import Components, detectable
from tune_cl import run_confirmation as runner
from tune_cl.cli import main
from tune_cl.confirmation.plan import Variances, of_pilot, plan_of
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.run_confirmation import pilot

__all__ = ["crew", "data", "search_folder"]
KNOWN = Components(of_seed=1e-4, of_query=9e-4, residual=0.02)


def drawn(known: Components, seeds: int, queries: int) -> np.ndarray:
    """Values [N, Q] with these variances."""
    rng = generator(3, "plan")
    parts = (known.of_seed, (seeds, 1)), (known.of_query, (1, queries)), (known.residual, (seeds, queries))
    return sum((rng.normal(0, variance**0.5, shape) for variance, shape in parts), np.zeros((seeds, queries)))


def test_the_table_is_what_the_test_can_show() -> None:
    plan = plan_of(Variances(KNOWN, 100, "a test"), 2, "holm", 0.8, 36.0)
    row = next(row for row in plan["table"] if (row["seeds"], row["queries"]) == (10, 200))
    assert row["detectable"] == pytest.approx(detectable(KNOWN, 10, 200, level=0.025))
    assert row["hours"] == pytest.approx(10 * 3 * 36 / 3600)
    by_seeds = [row["detectable"] for row in plan["table"] if row["queries"] == 100]
    assert by_seeds == sorted(by_seeds, reverse=True), "more seeds show smaller differences"


def test_a_pilot_gives_twice_the_variance_of_one_training() -> None:
    found = of_pilot(0.5 + drawn(KNOWN, 400, 300)).components
    assert found.of_seed == pytest.approx(2e-4, rel=0.2)
    assert found.residual == pytest.approx(0.04, rel=0.05)
    assert found.of_query == 0


def test_a_confirmation_is_planned_from(
    search_folder: SearchFolder, crew: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """At its own number of seeds and queries the table says what the confirmation's document says."""
    document = confirm(search_folder, seeds=3, top=2)
    arguments = ["plan", "toy", "--storage", str(search_folder.storage), "--top", "2", "--difference", ".2"]
    assert main([*arguments, "--json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    own = {(row["seeds"], row["queries"]): row for row in plan["table"]}[3, document["queries"]]
    assert own["detectable"] == pytest.approx(document["detectable"])
    assert plan["seeds_needed"] is not None and own["hours"] > 0
    assert main(arguments) == 0
    assert f"{plan['seeds_needed']} seeds" in capfd.readouterr().out


def test_a_pilot_trains_the_baseline_alone(search_folder: SearchFolder, crew: Any) -> None:
    values = pilot(search_folder, 2, None)
    assert values.shape == (2, 12) and crew.trained == ["baseline, seed 1", "baseline, seed 3"]
    crew.trained.clear()
    confirm(search_folder, seeds=2, top=1, split="dev")
    assert not any(name.startswith("baseline") for name in crew.trained), "its trainings are reused"


def test_values_that_do_not_vary_are_named(
    search_folder: SearchFolder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "pilot", lambda *given: np.full((3, 12), 0.5))
    assert main(["plan", "toy", "--storage", str(search_folder.storage), "--pilot", "3"]) == 2
    assert "NAME: the values do not vary: 3 trainings of the baseline on dev; " in capfd.readouterr().err


def test_a_search_of_the_baseline_alone_has_a_pilot(search_folder: SearchFolder, crew: Any) -> None:
    events = [event for event in read_events(search_folder.journal) if event.get("trial", "t0000") == "t0000"]
    search_folder.journal.unlink()
    with Journal(search_folder.folder) as journal:
        for event in events:
            journal.append(event)
    assert pilot(search_folder, 2, None).shape == (2, 12)
    with pytest.raises(ConfigError, match="no configuration to confirm"):
        confirm(search_folder, seeds=2, top=1)


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
