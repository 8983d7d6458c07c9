"""What the report says about searches with repeats, and about schedulers that judge within a curriculum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.report_cases import Case
from tests.support.toy_search import SPACE, Crew
from tune_cl.experiment.load import load_experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.findings import Findings, gather
from tune_cl.report.formats import latex_table
from tune_cl.report.queries import _stopping
from tune_cl.report.trials import importances, repeat_section
from tune_cl.report.verdict_section import _on_dev, rows
from tune_cl.search_document import baseline_result, best_of


def found(folder: Path, *options: str) -> Findings:
    """What the report reads from a search that was run without Ray."""
    (folder / "toy.yaml").write_text(SPACE)
    Crew(folder / "a", load_experiment(str(folder / "toy.yaml"), ["search.searcher=random", *options])).work()
    return gather(SearchFolder(folder, "a"))


def test_it_goes_by_means_over_seeds_as_the_result_does(tmp_path: Path) -> None:
    findings = found(tmp_path, "search.scheduler=none", "search.repeats=3", "search.trials=20")
    best, baseline = best_of(findings.state), baseline_result(findings.state)
    assert best and baseline and len(best["seeds"]) > 1
    first, second, *_ = rows(findings)
    assert (first.mean, second.mean) == pytest.approx((baseline["dev_mean"], best["dev_mean"]))
    assert second.difference == pytest.approx(best["dev_mean"] - baseline["dev_mean"])
    assert f"the mean over {len(best['seeds'])} seeds" in _on_dev(findings)
    assert "% search toy; means over seeds where there are several, no test: not confirmed" in latex_table(findings)
    configurations = {trial.configuration for trial, _ in findings.ranked}
    assert len(configurations) < len(findings.ranked)
    ranked, _ = importances(findings)
    assert {one.key: one.trials for one in ranked}["curriculum.delta"] == len(configurations)
    assert all(np.isfinite(one.share) for one in ranked)


def test_differences_are_over_the_seeds_that_both_have(tmp_path: Path) -> None:
    findings = found(tmp_path, "search.scheduler=none", "search.repeats=3", "search.trials=20")
    by_seed = findings.state.by_seed()
    baseline = by_seed["t0000"]
    assert len({len(values) for values in by_seed.values()}) > 1, "some have fewer seeds than the baseline"
    for row, (trial, _, _) in list(zip(rows(findings), findings.standings, strict=False))[1:]:
        own = by_seed[trial.configuration]
        assert row.difference == pytest.approx(np.mean([own[seed] - baseline[seed] for seed in own]))


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
        (["search.scheduler=pbt", "search.interval=2"], "compared while still inside their curriculum, too"),
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
