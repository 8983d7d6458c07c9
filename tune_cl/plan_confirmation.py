"""How many seeds the confirmation of a search needs: `Search.plan` and `tune-cl plan`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trainables.config.function import Objective
from trainables.core.errors import ConfigError, Problem
from tune_cl.confirmation.plan import Variances, of_confirmation, of_pilot, plan_of, seconds_of
from tune_cl.confirmation.request import last_verdict
from tune_cl.confirmation.verdict import LEVEL
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import replay
from tune_cl.process import loading
from tune_cl.search.progress_panel import Panel, PanelKind


def plan_seeds(
    search_folder: SearchFolder,
    difference: float | None,
    power: float,
    top: int,
    pilot: int | None,
    address: str | None,
    objective: Objective | None = None,
    panel: PanelKind = Panel,
) -> dict[str, Any]:
    """The document of `tune-cl plan`. `pilot`: how often the baseline is trained first, to measure the variances;
    `objective`: the function of a search that trains by one.

    Raises ConfigError for numbers that make no sense, or if nothing is known of the variances.
    """
    _require_sense(difference, power, top, pilot)
    variances = _measured(search_folder, pilot, address, objective, panel) if pilot else _recorded(search_folder)
    if not any(asdict(variances.components).values()):
        wrong = f"the values do not vary: {variances.source}"
        raise ConfigError(Problem("NAME", wrong, "a search whose trainings differ; see training.lr"))
    state = replay(read_events(search_folder.journal))
    document = plan_of(variances, top, power, seconds_of(state))
    needed = variances.seeds_needed(difference, LEVEL, power) if difference else None
    head = {"search": state.name, "metric": state.metric, "difference": difference}
    return head | document | {"seeds_needed": needed}


def _require_sense(difference: float | None, power: float, top: int, pilot: int | None) -> None:
    problems = []
    if difference is not None and not 0 < difference <= 1:
        problems.append(Problem("--difference", f"{difference} is not above 0 and at most 1", "a difference to show"))
    if not 0 < power < 1:
        problems.append(Problem("--power", f"{power} is not between 0 and 1", "the chance to show it, such as .8"))
    if pilot is not None and pilot < 2:
        problems.append(Problem("--pilot", f"{pilot} says nothing of how much the seed matters", "2 or more"))
    if top < 1:
        problems.append(Problem("--top", f"{top} is below 1", "1 or more"))
    if problems:
        raise ConfigError(problems)


def _recorded(search_folder: SearchFolder) -> Variances:
    """Raises ConfigError if the search has no variances yet."""
    documents = (last_verdict(search_folder.folder, split) for split in ("test", "dev"))
    if confirmed := next((variances for document in documents if (variances := of_confirmation(document))), None):
        return confirmed
    wrong = f"search '{search_folder.name}' has no confirmation whose variances are on record"
    right = "--pilot 3, which trains the baseline three times; or tune-cl confirm first"
    raise ConfigError(Problem("NAME", wrong, right))


def _measured(
    search_folder: SearchFolder, trainings: int, address: str | None, objective: Objective | None, panel: PanelKind
) -> Variances:
    with loading():
        from tune_cl.run_confirmation import pilot

    return of_pilot(pilot(search_folder, trainings, address, objective, panel))
