"""The report's first words: what the confirmation has shown, and what it has not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.report_cases import whole
from tests.support.report_pages import Reader, report
from tune_cl.cli.commands.confirm import in_words, render
from tune_cl.confirmation.verdict import leader
from tune_cl.report.findings import gather
from tune_cl.report.formats import latex_table
from tune_cl.report.page import page


@pytest.mark.parametrize(
    ("verdict", "headline"), [("better", "Yes"), ("no difference shown", "Not shown: "), ("worse", "No: ")]
)
def test_with_a_confirmation_its_verdict_stands_first(tmp_path: Path, verdict: str, headline: str) -> None:
    case = whole(tmp_path)
    case.confirm(verdict=verdict)
    found, _ = report(case)
    told = found.sections["verdict"]
    assert told.startswith(f"Verdict{headline}") and "No verdict yet" not in told
    assert "root n=2, turns: map 0.6000 on test" in told and "+0.1000" in told and "3 seeds (1, 2, 3)" in told
    assert "0.6000‡ (0.0123)" in found.sections["configurations"]
    assert "means over 3 seeds, against the baseline; 12 queries of test" in found.sections["groups"]


def test_what_holds_for_these_seeds_alone_stands_in_the_second_line(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm(verdict="no difference shown", these_seeds="better", p_new=0.2)
    found, findings = report(case)
    verdict = found.sections["verdict"]
    assert "This data and 3 seeds can show differences from 0.0180 on; this one would take 4 seeds." in verdict
    alone = verdict.index("For the trainings with these 3 seeds alone 'root n=2, turns' is better (p = 0.002)")
    assert alone < verdict.index("of the baseline: a difference of")
    assert 'class="verdict better"' not in page(findings)


@pytest.mark.parametrize(
    ("ablation", "headline", "told"),
    [
        (None, "Better than the baseline, but not shown to be so by its curriculum", "--ablate measures its curric"),
        (
            {"difference": 0.07, "p_new_adjusted": 0.01},
            "Yes: 'root n=2, turns' is better than the baseline",
            "+0.0700",
        ),
        ({"difference": 0.02, "p_new_adjusted": 0.3}, "Better than the baseline, but not shown", "p 0.300"),
        ({"difference": -0.02, "p_new_adjusted": 0.01}, "Better than the baseline, but not shown", "-0.0200"),
    ],
)
def test_yes_is_said_of_a_curriculum_only_where_other_keys_cannot_be_the_reason(
    tmp_path: Path, ablation: dict[str, Any] | None, headline: str, told: str
) -> None:
    case = whole(tmp_path)
    case.confirm(verdict="better")
    path = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(path.read_text())
    document["configurations"][0]["also_differs"] = ["training.lr"]
    if ablation:
        own = {"label": "plain, lr=0.02", "mean": 0.5678, "sd": 0.0, "runs": [{}] * 3, "p_adjusted": 0.001}
        own |= {"trial_id": "t0001", "ci95_new": [0.0, 0.1]}
        document["configurations"][0]["ablation"] = own | ablation
    path.write_text(json.dumps(document))
    sections = report(case)[0].sections
    verdict, table = sections["verdict"], sections["configurations"]
    assert ("plain, lr=0.02" in table and "0.5678" in table) == bool(ablation)
    assert verdict.startswith(f"Verdict{headline}") and "differs from the baseline in training.lr too" in verdict
    assert told in verdict


OF_ITS_OWN = (
    "its own 95 % interval, -0.0172 to -0.0011, is uncorrected, and after correction for 2 configurations 0 is not "
    "ruled out"
)


@pytest.mark.parametrize(
    ("interval", "p_adjusted", "told"),
    [
        ([-0.0172, 0.0011], 0.09, "anything from -0.0172 to +0.0011 fits the data"),
        ([-0.0172, -0.0011], 0.076, OF_ITS_OWN),
        ([-0.0172, -0.0011], 0.02, "but the search would have named another, which was not tested"),
        ([0.0, 0.0], 1.0, "the differences are all equal, so no test can be made"),
    ],
)
def test_where_no_difference_is_shown_the_interval_does_not_say_that_one_is(
    tmp_path: Path, interval: list[float], p_adjusted: float, told: str
) -> None:
    """The interval is of one configuration, the test of all; the terminal says so as the report does."""
    case = whole(tmp_path)
    case.confirm(verdict="no difference shown", storage="", queries=90)
    path = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(path.read_text())
    found = {"difference": -0.0092, "ci95_new": interval, "p_new_adjusted": p_adjusted, "marks": ""}
    for row in document["configurations"]:
        row |= found | {"also_differs": [], "has_curriculum": True}
    path.write_text(json.dumps(document))
    assert told in in_words(document) and f"(p = {p_adjusted:.2g}, " in in_words(document)
    verdict = report(case)[0].sections["verdict"]
    assert told in verdict and "That is not proof of equality." in verdict


def test_p_values_that_were_not_corrected_are_not_called_adjusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    case = whole(tmp_path)
    case.write()
    for correction, column, latex in (("none", "p", "& $p$ \\\\"), ("holm", "p adjusted", "$p$ (adjusted)")):
        case.confirm(
            correction=correction, queries=90, dropped=[], failed=[], storage="", tracking_uri="", seeds=[1, 2]
        )
        path = case.search_folder.folder / "confirmation" / "test.json"
        document = json.loads(path.read_text())
        for row in (document["baseline"], *document["configurations"]):
            row |= {"also_differs": [], "has_curriculum": True}
        [line] = [line for line in render(document).splitlines() if line.startswith("configuration ")]
        assert [cell.strip() for cell in line.split("  ") if cell.strip()][-2:] == [column, "these seeds"]
        findings = gather(case.search_folder)
        found = Reader(page(findings))
        assert f'<th class="n">{column}</th>' in page(findings) and latex in latex_table(findings)
        assert ("uncorrected" in found.sections["verdict"]) == (correction == "none")
        assert ("corrected for all" in found.sections["configurations"]) == (correction != "none")


def over_learning_rates(folder: Path) -> Any:
    """A search that opens no key of the curriculum."""
    case = whole(folder)
    for event in case.events:
        if event["event"] == "trial":
            event["chosen"] = {"training.lr": 0.001 * (1 + event["number"])}
            event["params"] = {"curriculum.pacing": "none", "ranker.name": "conv_knrm", **event["chosen"]}
            event["chosen"] |= {"curriculum.pacing": "none"} if event["baseline"] else {}
    return case


def test_a_search_over_other_keys_alone_speaks_of_the_baseline(tmp_path: Path) -> None:
    case = over_learning_rates(tmp_path)
    told = report(case)[0].sections["verdict"]
    assert "curricul" not in told and "of the baseline (" in told
    case.confirm(verdict="better")
    path = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(path.read_text())
    for row in document["configurations"]:
        row |= {"also_differs": ["training.lr"], "has_curriculum": False}
    path.write_text(json.dumps(document))
    sections = Reader(page(gather(case.search_folder))).sections
    assert sections["verdict"].startswith("VerdictYes: 'root n=2, turns' is better than the baseline")
    assert "What differs is training.lr." in sections["verdict"] and "curricul" not in sections["verdict"]
    assert "† above the baseline at 95 %" in sections["configurations"]
    assert "best trial" in sections["groups"]
    document |= {"verdict": "no difference shown", "queries": 90}
    told = in_words(document)
    assert "curricul" not in told and told.endswith("What differs is training.lr.")


def test_no_difference_is_told_of_the_configuration_that_dev_chose() -> None:
    """Not of the one that happens to be highest on test, which is mentioned too."""
    tested = {"p_new_adjusted": 0.08, "ci95_new": [-0.017, -0.001], "marks": ""}
    tested |= {"also_differs": [], "has_curriculum": True, "runs": [1, 2], "p_adjusted": 0.3}
    rows = [{"label": "root", "trial_id": "t0005", "difference": -0.009, **tested}]
    rows += [{"label": "step", "trial_id": "t0002", "difference": 0.002, **tested, "ci95_new": [-0.01, 0.014]}]
    document = {"configurations": rows, "verdict": "no difference shown", "metric": "map", "split": "test"}
    document |= {"seeds": [1, 2], "queries": 90, "correction": "holm"}
    assert leader(document) == rows[0]
    told = in_words(document)
    assert told.startswith("Not shown: 'root', the best on dev, is -0.0090 map from the baseline; its own 95 % int")
    assert told.endswith("The highest on test is 'step' (+0.0020).")
    assert leader(document | {"configurations": rows[1:]}) == rows[1]
    assert "highest" not in in_words(document | {"configurations": rows[:1]})
    others = {"failed": [{"label": "best"}]}
    assert "'root', the best on dev of those tested, is" in in_words(document | others)


def test_seeds_and_looks_are_shown(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.write()
    look = {"label": "root n=2, turns", "difference": 0.1, "p_new": 0.0004, "boundary": 0.0011, "decision": "better"}
    dropped = [{"label": "linear, turns", "seeds": [1, 2, 3]}]
    case.confirm(looks=[look | {"seeds": 3}], dropped=dropped, asked={"max_seeds": 20})
    written = page(gather(case.search_folder))
    assert written.count('class="dot seed"') == 9, "three configurations of three seeds"
    found = Reader(written).sections
    assert "settled at" in found["configurations"] and "better" in found["configurations"]
    assert "linear, turns got no more seeds after 1, 2, 3" in found["verdict"]
