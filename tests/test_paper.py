"""What `report --paper` writes: the verdict's numbers, as LaTeX that compiles, with the references that it cites."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.confirm_cases import Confirmed, confirmed, confirmed_folder, data
from tests.support.report_cases import HOSTILE, Case, whole
from trainables.core.registry import REGISTRIES
from tune_cl.api.search import Search
from tune_cl.api.start import open_search
from tune_cl.cli import main
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.paper import ENTRY, REFERENCES, write_paper
from tune_cl.results import Verdict

__all__ = ["confirmed", "confirmed_folder", "data"]  # fixtures
SPECIAL = "50%_of {the} #1 & $2 ~^\\"
CITED = re.compile(r"[A-Z][^\W\d_]+(?: & [A-Z][A-Za-z]+| et al\.)? (?:19|20)\d{2}")


def texts_of(folder: Path) -> dict[str, str]:
    assert sorted(path.name for path in folder.iterdir()) == [
        "figure.pdf", "methods.tex", "references.bib", "table.tex",
    ]  # fmt: skip
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


def require_numbers(texts: dict[str, str], verdict: Verdict) -> None:
    """Those of the verdict, of the champion and of each opponent."""
    table, row = texts["table.tex"], verdict.curriculum
    assert f"& {row.mean:.4f} ({row.sd:.4f}) &  &  &  \\\\" in table
    for one in verdict.opponents:
        figures = f"& {one.mean:.4f} ({one.sd:.4f}) & ${one.difference:+.4f}$"
        [line] = [line for line in table.splitlines() if figures in line]
        assert one.ci95 and f"[${one.ci95[0]:+.4f}$, ${one.ci95[1]:+.4f}$]" in line and f"${one.p:.3f}$" in line
    first = verdict.opponents[0]
    assert f"{abs(first.difference):.4f} MAP {'above' if first.difference >= 0 else 'below'}" in texts["methods.tex"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX")
def test_text_and_table_compile_and_fit_the_page(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4], "baseline")
    case.confirm()
    write_paper(case.write(), tmp_path / "paper")
    body = r"\input{paper/methods}\input{paper/table}\par\noindent\includegraphics[width=\linewidth]{paper/figure}"
    head = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}"
    (tmp_path / "main.tex").write_text(head + body + r"\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main"]
    log = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert all(float(width) < 30 for width in re.findall(r"Overfull .hbox \(([\d.]+)pt", log)), log


@pytest.fixture(autouse=True)
def no_cached_fonts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two tests at a time would write matplotlib's cache of fonts together."""
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))


def test_a_confirmed_search_is_written_with_its_verdict_s_numbers(
    confirmed: Confirmed, confirmed_folder: SearchFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    """A search that was trained and confirmed, two curricula against all their opponents."""
    assert main(["report", "toy", "--storage", str(confirmed_folder.storage), "--paper", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    folder = confirmed_folder.folder / "paper"
    assert told["output"] == str(folder) and told["files"]["figure"] == str(folder / "figure.pdf")
    assert told["verdict"]["verdict"]["split"] == "test"
    texts = texts_of(folder)
    require_latex(texts)
    require_numbers(texts, confirmed.verdict)
    assert "(Holm~" in texts["methods.tex"] and "(adjusted)" in texts["table.tex"]
    assert r"scoring=context\_words" in texts["table.tex"] and "penha2020" in texts["references.bib"]
    again = (folder / "figure.pdf").read_bytes()
    assert open_search("toy", storage=str(confirmed_folder.storage)).paper(progress=False) == folder
    assert (folder / "figure.pdf").read_bytes() == again


def test_without_a_confirmation_it_says_that_dev_is_all_there_is(tmp_path: Path) -> None:
    search_folder = whole(tmp_path).write()
    folder = Search(search_folder).paper(tmp_path / "mine", progress=False)
    assert folder == tmp_path / "mine" and not (search_folder.folder / "paper").exists()
    texts = texts_of(folder)
    require_latex(texts)
    for name in ("methods.tex", "table.tex"):
        assert "not confirmed" in texts[name] and "biased" in texts[name] and r"\dag" not in texts[name]
    assert "MAP (dev)" in texts["table.tex"] and "0.4500" in texts["table.tex"]


@pytest.mark.parametrize("label", [HOSTILE, SPECIAL, r"\input{/etc/passwd}"])
def test_labels_stay_text(label: str, tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4], "baseline")
    case.confirm()
    path = case.search_folder.folder / "confirmation" / "test.json"
    path.write_text(path.read_text().replace(json.dumps("root n=2, turns"), json.dumps(label)))
    texts = texts_of(write_paper(case.write()).output)
    require_latex(texts)
    assert "\\input" not in texts["methods.tex"] + texts["table.tex"]
    assert "$+0.1000$" in texts["table.tex"] and "not tuned)" in texts["table.tex"]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (["--paper", "{file}"], "--paper: "),
        (["--paper", "--format", "csv"], "--paper: not together with --output or --format"),
        (["--paper"], "NAME: no trial of 'toy' has a dev value yet"),
    ],
)
def test_what_cannot_be_written_is_bad_usage(
    given: list[str], wrong: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    search_folder = Case(tmp_path).write()
    (tmp_path / "file").write_text("")
    options = [one.format(file=tmp_path / "file") for one in given]
    assert main(["report", "toy", "--storage", str(search_folder.storage), *options]) == 2
    assert wrong in capfd.readouterr().err and not list(tmp_path.rglob("methods.tex"))


def test_every_paper_that_a_built_in_part_names_is_in_the_bibliography() -> None:
    known = {match["source"]: match for match in ENTRY.finditer(REFERENCES.read_text())}
    parts = [one for one in REGISTRIES if one.location.startswith(("ranker.", "curriculum.", "training.", "search."))]
    sources = [entry.source for registry in parts for entry in registry.entries.values() if entry.built_in]
    assert {name for source in sources for name in CITED.findall(source)} <= set(known)
    assert len({match["key"] for match in known.values()}) == len(known) == REFERENCES.read_text().count("@")
    for source, match in known.items():
        name, year = source.split()[0], source.split()[-1]
        plain = re.sub(r"\{\\\"([a-z])\}", r"\1", match["text"]).replace("{\\'e}", "e")
        assert f"year = {{{year}}}" in match["text"] and name.replace("ä", "a") in plain
