"""A verdict and a search with all that there may be, as every renderer shows them: `tests/goldens/story`.

python -m tests.support.story_cases    # writes them anew, after a sentence was changed on purpose
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.support.confirm_documents import figures_of, made_verdict, opponent_of, row_of
from tests.support.report_cases import whole
from tests.support.terminal import result
from tune_cl.cli.tables import text
from tune_cl.confirmation.verdict import (
    Collapsed,
    ComparedResult,
    Dropped,
    Earlier,
    ExistingResult,
    Failure,
    LookResult,
    OverQueries,
    Selected,
    VerdictFacts,
)
from tune_cl.experiment import forecast
from tune_cl.model_card import BEGIN, CARD, END, write_verdict
from tune_cl.report import page as file
from tune_cl.report.facts import report_facts
from tune_cl.report.findings import gather
from tune_cl.report.output import latex_table
from tune_cl.report.story import notes, of_search, of_verdict
from tune_cl.results import Effects, LabelFree, Remark, SearchResult

GOLDENS = Path(__file__).parents[1] / "goldens" / "story"


def rich_verdict() -> VerdictFacts:
    weak = opponent_of("champion", **figures_of(0.0109, 0.02, 0.025, ci95_new=(0.001, 0.02)))
    weak = replace(weak, params={"training.loss": "pairwise"})
    twin = opponent_of("twin", mean=0.2422, **figures_of(-0.004, 0.6, 0.6, ci95_new=(-0.02, 0.012)))
    twin = replace(twin, params={"training.loss": "cross_entropy"})
    row = row_of(-0.004, 0.6, 0.6, against="twin", ci95_new=(-0.02, 0.012), opponents=(weak, twin))
    default = ComparedResult(
        label="plain, default", trial_id="t0000", params={}, runs=weak.runs, mean=0.48, sd=0.01,
        **figures_of(-0.02, 0.1, 0.1, ci95_new=(-0.05, 0.01)),
    )  # fmt: skip
    tested = OverQueries(0.1, 0.0004, 0.0008, (0.05, 0.15))
    look = LookResult(3, "root", "twin", -0.004, 0.6, 0.0011, "hopeless")
    found = made_verdict(
        row,
        verdict="no difference shown",
        these_seeds="worse",
        default=default,
        detectable=0.018,
        seeds_needed=58,
        first_stage=LabelFree(label="BM25 over words", mean=0.61),
        label_free=LabelFree(label="SDM", mean=0.63),
        selection=(
            Selected("plain", "t0000", "baseline", (0.5, 0.6), 0.55, True),
            Selected("curriculum", "t0001", "root", (0.6, 0.6), 0.6, True),
            Selected("curriculum", "t0002", "linear", (), None, False),
        ),
        collapsed=(Collapsed("root", 2, 0.1),),
        against=(ExistingResult("bm25.run", 0.41, "fp32", tested, "root", tested),),
        looks=(look,),
        failed=(Failure("step", 3, "the loss became nan", "/runs/step"),),
        dropped=(Dropped("linear", (1, 2)),),
        earlier=(Earlier(seeds=(1,), configurations=("root",), correction="holm", verdict="no difference shown"),),
    )
    return replace(found, notes=notes(found))


def rich_search() -> SearchResult:
    effects = Effects(
        search="x", metric="map", split="dev", queries=None, pairs=6, seeds=1, mean=0.0091, ci95=(-0.01, 0.03),
        sd_pairs=0.02, sd_true=None, sd_true_ci95=None, sd_seeds=None,
    )  # fmt: skip
    label_free = {
        "first_stage": LabelFree(label="BM25", mean=0.45),
        "label_free": LabelFree(label="SDM", mean=0.47),
    }
    text = "SDM alone has 0.4700 MAP: both are below it"
    remarks = (
        Remark(kind="below label-free", text=text, warning=True),
        Remark(kind="last iteration", text="t0001 was best at the last iteration (8 of 8)", trials=("t0001",)),
    )
    ended = "search.hours are used up"
    return result(0.5, 0.4, 0.45, metric="map", remarks=remarks, ended_by=ended, effects=effects, **label_free)


def card() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / CARD
        path.write_text(f"{BEGIN}\n{END}\n")
        write_verdict(Path(folder), rich_verdict(), "tune-cl confirm toy")
        return path.read_text()


@cache
def report() -> dict[str, str]:
    """The text of the report of a search before its confirmation, as a page to its curves and as a table, and after it,
    but for how to do it again, which has every default."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast, "DRAWS", 256)
        case = whole(Path(folder))
        before = report_facts(gather(case.write()))
        case.confirm()
        after = report_facts(gather(case.search_folder))
        drawn = file.page(before).partition('<section id="effects">')[0]
        drawn += file.page(after).partition('<section id="again">')[0]
    told = re.sub(r"<(svg|script|style|nav).*?</\1>", "", drawn, flags=re.DOTALL)
    told = re.sub(r"\S*tune-cl", "tune-cl", re.sub(r"<[^>]+>", "\n", told).replace(folder, "FOLDER"))
    text = "\n".join(line.strip() for line in told.splitlines() if line.strip()) + "\n"
    return {"page": text, "table": latex_table(before) + latex_table(after)}


RENDERED = {
    "confirm.txt": lambda: text(of_verdict(rich_verdict())) + "\n",
    "run.txt": lambda: text(of_search(rich_search())) + "\n",
    "card.md": card,
    "page.txt": lambda: report()["page"],
    "table.tex": lambda: report()["table"],
}

if __name__ == "__main__":
    GOLDENS.mkdir(parents=True, exist_ok=True)
    for name, render in RENDERED.items():
        (GOLDENS / name).write_text(render())
