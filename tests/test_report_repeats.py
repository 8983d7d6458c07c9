"""What the report makes of configurations that were trained under several seeds (`search.repeats`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.report_cases import SPACE, Case
from tests.support.report_pages import Reader
from tune_cl.report import queries as per_query
from tune_cl.report import trials as trees
from tune_cl.report.findings import gather
from tune_cl.report.page import page

REPEATED = SPACE.replace("trials: 16", "trials: 16, repeats: 3")


def add(case: Case, dev: list[float], outcome: str | None, seed: int = 0, first: str | None = None) -> str:
    """Adds a trial; `first`: the trial that it repeats under this seed."""
    trial = case.add(dev, outcome)
    begun = {event["trial"]: event for event in case.events if event["event"] == "trial"}
    begun[trial]["seed"] = seed
    if first:
        same = ("chosen", "params", "baseline")
        begun[trial] |= {"repeat_of": first, **{key: begun[first][key] for key in same}}
    return trial


def repeated(folder: Path) -> Case:
    """Baseline t0000 to t0002 and a better configuration t0003 to t0005, both best under seed 8; then others."""
    case = Case(folder, space=REPEATED)
    for values, outcome in (((0.40, 0.46, 0.43), "baseline"), ((0.41, 0.47, 0.44), "completed")):
        first = add(case, [values[0]] * 8, outcome)
        for seed, value in zip((8, 9), values[1:], strict=True):
            add(case, [value] * 8, outcome, seed, first)
    for place in range(3):
        add(case, [0.2 + 0.01 * place] * 8, "completed")
    return case


def test_single_queries_are_compared_over_the_same_seeds(tmp_path: Path) -> None:
    findings = gather(repeated(tmp_path).write())
    assert findings.ranked[0][0].trial == "t0004", "its luckiest seed"
    split, label, best, baseline = per_query._files(findings)
    assert split == "dev" and label.startswith("t0003 ") and label.endswith(", means over 3 seeds")
    assert [path.parent.name for path in best] == ["t0003", "t0004", "t0005"]
    assert [path.parent.name for path in baseline] == ["t0000", "t0001", "t0002"]


def test_seeds_that_only_one_of_two_has_ended_are_left_out(tmp_path: Path) -> None:
    case = repeated(tmp_path)
    case.events = [one for one in case.events if (one["event"], one.get("trial")) != ("end", "t0002")]
    _, label, best, baseline = per_query._files(gather(case.write()))
    assert label.endswith(", means over 2 seeds")
    assert [path.parent.name for path in (*best, *baseline)] == ["t0003", "t0004", "t0000", "t0001"]


def test_without_a_shared_seed_there_is_nothing_to_compare(tmp_path: Path) -> None:
    case = Case(tmp_path)
    add(case, [0.3], "baseline")
    add(case, [0.4], "completed", seed=8)
    with pytest.raises(per_query.NothingToShow, match="have no dev values of one seed"):
        per_query._files(gather(case.write()))


def test_trees_are_compared_under_one_seed(tmp_path: Path) -> None:
    findings = gather(repeated(tmp_path).write())
    for trial in findings.state.trials.values():
        trial.params[trees.TREES] = 10
    [shown] = trees.trees_section(findings)
    assert "trees of t0003 " in str(shown) and "0.4100" in str(shown) and "0.4700" not in str(shown)


def test_a_repeated_configuration_counts_once_in_how_early_values_rank(tmp_path: Path) -> None:
    """Seeds of one configuration are no independent trials, which the interval of Kendall's tau takes them to be."""
    case = repeated(tmp_path)
    add(case, [0.3] * 8, "completed")
    findings = gather(case.write())
    assert [trial.trial for trial, _ in findings.ended] == ["t0003", "t0009", "t0008", "t0007", "t0006", "t0000"]
    assert "over 6 trials" in Reader(page(findings)).sections["ranking"]
