"""What `report --paper` writes: the verdict's numbers, as LaTeX that compiles, with the references that it cites."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.report_cases import HOSTILE, Case, whole
from trainables.core.registry import REGISTRIES
from tune_cl.api.search import Search
from tune_cl.cli import main
from tune_cl.report.paper import ENTRY, REFERENCES, write_paper

SPECIAL = "50%_of {the} #1 & $2 ~^\\"
CITED = re.compile(r"[A-Z][^\W\d_]+(?: & [A-Z][A-Za-z]+| et al\.)? (?:19|20)\d{2}")


@pytest.fixture(autouse=True)
def no_cached_fonts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two tests at a time would write matplotlib's cache of fonts together."""
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))


def texts_of(folder: Path) -> dict[str, str]:
    names = ["figure.pdf", "methods.tex", "references.bib", "table.tex"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "figure.pdf").read_bytes().startswith(b"%PDF-") and (folder / "figure.pdf").stat().st_size > 4000
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix != ".pdf"}


def require_latex(texts: dict[str, str]) -> None:
    """Braces in pairs, no character that LaTeX would read, and every citation in the bibliography."""
    for name in ("methods.tex", "table.tex"):
        lines = [line for line in texts[name].splitlines() if not line.startswith("%")]
        text = re.sub(r"\\(?:[a-z]+|.)", "", "\n".join(lines))
        depths = [0]
        for character in re.findall("[{}]", text):
            depths.append(depths[-1] + (1 if character == "{" else -1))
        assert min(depths) == 0 and depths[-1] == 0, name
        assert not re.findall(r"[#%^]", text) and text.count("$") % 2 == 0, name
        rest = re.sub(r"~\{[\w,]+\}|\{tab:[\w-]+\}|\{[\w]+\}", "", text)
        assert "_" not in rest and "~" not in rest and (name == "table.tex" or "&" not in rest), name
    keys = set(re.findall(r"^@\w+\{(\w+),$", texts["references.bib"], re.MULTILINE))
    cited = {key for found in re.findall(r"\\cite\{([\w,]+)\}", texts["methods.tex"]) for key in found.split(",")}
    assert cited == keys and "tune_cl" in keys


def test_a_confirmed_search_is_written_with_its_verdict_s_numbers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    case = whole(tmp_path)
    verdict = case.confirm(label="pacing=root scoring=context_words")
    storage, folder = str(case.write().storage), tmp_path / "paper"
    assert main(["report", "toy", "--storage", storage, "--paper", str(folder), "--json"]) == 0
    written = json.loads(capfd.readouterr().out)
    assert written["output"] == str(folder) and written["files"]["figure.pdf"] == str(folder / "figure.pdf")
    texts = texts_of(folder)
    require_latex(texts)
    rows = texts["table.tex"].splitlines()
    for one in verdict.opponents:
        low, high = (f"{end:+.4f}".replace("-", "$-$") for end in one.ci95 or ())
        figures = f"& {one.mean:.4f} & {one.sd:.4f} & {one.difference:+.4f} & [{low}, {high}] & {one.p:.3f} "
        assert any(figures in row for row in rows)
    assert f"& {verdict.curriculum.mean:.4f} & {verdict.curriculum.sd:.4f} " in texts["table.tex"]
    methods = texts["methods.tex"]
    assert (
        "0.0150 MAP above its own settings" in methods and "p = 0.093" in methods and "3 seeds, 120 queries" in methods
    )
    assert r"scoring=context\_words" in texts["table.tex"] and "penha2020" in texts["references.bib"]
    again = (folder / "figure.pdf").read_bytes()
    assert Search(case.search_folder).paper(folder, progress=False) == folder
    assert (folder / "figure.pdf").read_bytes() == again


def test_without_a_confirmation_it_says_that_dev_is_all_there_is(tmp_path: Path) -> None:
    folder = Search(whole(tmp_path).write()).paper(tmp_path / "own", progress=False)
    texts = texts_of(folder)
    require_latex(texts)
    for name in ("methods.tex", "table.tex"):
        assert "not confirmed" in texts[name] and "biased" in texts[name]
    assert "MAP (dev)" in texts["table.tex"] and "0.4500" in texts["table.tex"]


@pytest.mark.parametrize("label", [HOSTILE, SPECIAL, r"\input{/etc/passwd}"])
def test_labels_stay_text(label: str, tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4], "baseline")
    case.confirm(label=label)
    texts = texts_of(Path(write_paper(case.write()).output))
    require_latex(texts)
    assert "\\input" not in texts["methods.tex"] + texts["table.tex"]


def test_what_cannot_be_written_is_bad_usage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    search_folder = Case(tmp_path).write()
    (tmp_path / "file").write_text("")
    for place, wrong in (("file", "--paper: "), ("paper", "NAME: no trial of 'toy' has a dev value yet")):
        command = ["report", "toy", "--storage", str(search_folder.storage), "--paper", str(tmp_path / place)]
        assert main(command) == 2 and wrong in capfd.readouterr().err
    assert not list(tmp_path.rglob("methods.tex"))


def test_every_paper_that_a_built_in_part_names_is_in_the_bibliography() -> None:
    entries = {match["source"]: match for match in ENTRY.finditer(REFERENCES.read_text())}
    parts = [one for one in REGISTRIES if one.location.startswith(("ranker.", "curriculum.", "training.", "search."))]
    sources = [entry.source for registry in parts for entry in registry.entries.values() if entry.built_in]
    assert {name for source in sources for name in CITED.findall(source)} <= set(entries)
    assert len({match["key"] for match in entries.values()}) == len(entries) == REFERENCES.read_text().count("@")
    for source, match in entries.items():
        name, year = source.split()[0], source.split()[-1]
        plain = re.sub(r"\{\\\"([a-z])\}", r"\1", match["text"]).replace("{\\'e}", "e")
        assert f"year = {{{year}}}" in match["text"] and name.replace("ä", "a") in plain
