"""What the report says about schedulers that judge within a curriculum, and how it names another search."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.report_cases import Case
from tests.support.toy_search import SPACE, Crew
from tune_cl.experiment.load import load_experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.findings import Findings, gather
from tune_cl.report.queries import _stopping
from tune_cl.report.trials import repeat_section


def found(folder: Path, *options: str) -> Findings:
    """What the report reads from a search that was run without Ray."""
    (folder / "toy.yaml").write_text(SPACE)
    Crew(folder / "a", load_experiment(str(folder / "toy.yaml"), ["search.searcher=random", *options])).work()
    return gather(SearchFolder(folder, "a"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["search.scheduler=asha", "search.grace=curriculum"],
            "No trial was compared before its own curriculum was",
        ),
        (["search.scheduler=model"], "compared while still inside their curriculum, too"),
        (
            ["search.scheduler=model", "search.promotion=false"],
            "while still inside their curriculum (search.grace: 2).",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_it_says_when_trials_were_compared(options: list[str], told: str, tmp_path: Path) -> None:
    assert told in _stopping(found(tmp_path, "search.trials=8", *options))


@pytest.mark.parametrize(("name", "new"), [("toy", "again"), ("again", "once-more")])
def test_how_to_do_it_again_takes_a_name_that_is_free(name: str, new: str, tmp_path: Path) -> None:
    case = Case(tmp_path, name)
    told = "".join(repeat_section(gather(case.write())))
    assert f"tune-cl run search.yaml --name {new} " in told and f"confirm {new} " in told
    assert f"(digest {case.events[0]['data']['digest'][:16]})" in told and ">ranker<" in told


def test_a_confirmation_of_version_0_1_is_asked_for_again_without_what_is_gone(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.confirm(asked={"top": 2, "seeds": 3, "race": True, "ablate": True})
    told = "".join(repeat_section(gather(case.write())))
    assert "confirm again " in told and "--top 2 --seeds 3 --split test --correction holm --ablate" in told
