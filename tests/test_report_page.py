"""What the report calls things, and what its drawings and tables say about themselves."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.report_cases import Case, whole
from tests.support.report_pages import report
from tune_cl.experiment.load import load_experiment
from tune_cl.report import charts
from tune_cl.report.findings import gather
from tune_cl.report.formats import latex_table
from tune_cl.report.page import STYLE, page


def test_the_first_line_names_all_rankers_that_were_searched(tmp_path: Path) -> None:
    findings = gather(Case(tmp_path).write())
    assert "<p>conv_knrm on " in page(findings)
    space = (tmp_path / "toy.yaml").read_text().replace("ranker: conv_knrm", "ranker.name: {choice: [conv_knrm, knrm]}")
    (tmp_path / "two.yaml").write_text(space)
    text = page(replace(findings, experiment=load_experiment(str(tmp_path / "two.yaml"))))
    assert "<p>conv_knrm, knrm on " in text
    assert "<td>rankers</td><td>conv_knrm, knrm</td>" in text


def test_bars_that_are_means_of_several_queries_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = whole(tmp_path)
    assert "Each query of dev" in report(case)[0].sections["queries"]
    monkeypatch.setattr(charts, "MOST_BARS", 5)
    told = page(gather(case.search_folder))
    assert "Queries of dev: each bar is the mean of 3 neighbouring queries" in told and "Each query of" not in told


@pytest.mark.parametrize(("most", "bars"), [(100, [4.0, 3.0, 1.0, 0.0, -2.0]), (2, [8 / 3, -1.0]), (3, [3.5, 0.5, -2])])
def test_bars_have_equally_many_queries_but_for_the_last(
    most: int, bars: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "MOST_BARS", most)
    assert charts.bars(np.array([1.0, -2.0, 4.0, 0.0, 3.0])) == pytest.approx(bars)


def ablated(case: Case) -> None:
    """A confirmation of three configurations, one of them without an ablation."""
    case.confirm()
    path = case.search_folder.folder / "confirmation" / "test.json"
    document: dict[str, Any] = json.loads(path.read_text())
    own = {"label": "plain, lr=0.02", "trial_id": "t0003", "mean": 0.5678, "sd": 0.0321, "runs": [{}] * 3}
    own |= {"difference": 0.0322, "ci95_new": [0.01, 0.05], "p_adjusted": 0.001, "p_new_adjusted": 0.004, "marks": "‡"}
    for number, row in enumerate(document["configurations"], 3):
        row |= {"trial_id": f"t{number:04d}", "also_differs": ["training.lr"]}
    document["configurations"][0]["ablation"] = own
    path.write_text(json.dumps(document))


def test_confirmed_configurations_have_their_trial_ids(tmp_path: Path) -> None:
    case = whole(tmp_path)
    ablated(case)
    found, _ = report(case)
    table = found.sections["configurations"]
    assert table.index("t0000 baseline") < table.index("t0003 root n=2, turns") < table.index("t0004 ")
    assert found.sections["verdict"].count("t0003") == 0, "sentences go by the label"


def test_ablations_stand_beside_their_configurations_with_their_own_differences(tmp_path: Path) -> None:
    case = whole(tmp_path)
    ablated(case)
    found, findings = report(case)
    first, second = re.findall("<table>.*?</table>", page(findings).partition('id="configurations"')[2])[:2]
    assert "plain, lr=0.02" not in first and "0.5678" not in first
    cells = re.findall("<td.*?>(.*?)</td>", second)
    texts = [re.sub("<.*?>", "", cell) for cell in cells]
    assert texts == ["t0003 root n=2, turns", "t0003 plain, lr=0.02", "0.5678 (0.0321)", "+0.0322‡",
                     "[+0.0100, +0.0500]", "0.004"]  # fmt: skip
    assert "without its curriculum" in second and "same values of all other keys" in found.sections["configurations"]


def test_without_ablations_there_is_no_table_of_them(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm()
    assert "without its curriculum" not in report(case)[0].sections["configurations"]


def test_latex_has_a_table_of_ablations_where_there_are_any(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm()
    plain = latex_table(gather(case.write()))
    assert plain.count(r"\begin{tabular}") == 1
    ablated(case)
    text = latex_table(gather(case.search_folder))
    assert text.startswith(plain) and text.count(r"\begin{tabular}") == 2
    row = r"root n=2, turns & plain, lr=0.02 & 0.5678 (0.0321) & $+0.0322$\textsuperscript{\ddag{}} & $0.004$ \\"
    assert row in text.splitlines()


def test_tables_break_no_words_and_hint_at_what_is_cut() -> None:
    rules = dict(re.findall(r"^([^\n{@]+?) \{([^}]*)\}", STYLE, re.MULTILINE))
    assert "anywhere" not in rules[".wide"]
    scroll = next(body for selector, body in rules.items() if selector.startswith(".scroll"))
    assert "overflow-x: auto" in scroll and "local" in scroll and "var(--shade)" in scroll
