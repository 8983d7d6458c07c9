"""What a paper says of a search: a methods paragraph, a table, a figure and the references, with the numbers of the
verdict; before a confirmation those of dev, which they say."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import require_folder, write_text
from trainables.core.prose import counted, visible
from trainables.core.registry import REGISTRIES
from trainables.evaluation.metrics import in_words
from tune_cl.history.search_folder import SearchFolder
from tune_cl.process import versions
from tune_cl.report.charts import draw_curves, draw_forest
from tune_cl.report.contents import Contents, contents_of
from tune_cl.report.story import best_trials, on_dev
from tune_cl.results import Configuration, Opponent, SearchResult, Verdict, Written
from tune_cl.space.wording import CAUTION, label_free_rows
from tune_cl.verdict.figures import interval_words, number, p_value, signed
from tune_cl.verdict.sentences import opponent_words

FOLDER = "paper"  # in the search's folder
REFERENCES = Path(__file__).parent / "templates" / "references.bib"
ENTRY = re.compile(r"^% (?P<source>.+)\n(?P<text>@\w+\{(?P<key>\w+),\n(?:.*\n)*?\})$", re.MULTILINE)
CROSSED, LENT, EVERY, HOLM = "Clark 1973", "Smyth 2004", "Berger 1982", "Holm 1979"  # what the test rests on
OWN = r"""@misc{tune_cl,
  author = {{The tune\_cl maintainers}},
  title = {tune\_cl: Curriculum Search for Neural Rankers},
  note = {Version %s}
}"""
NOT_CONFIRMED = "The search was not confirmed: there is no result on test queries."
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--",
}  # fmt: skip


def write_paper(search_folder: SearchFolder, folder: Path | None = None) -> Written:
    """Writes methods.tex, table.tex, figure.pdf and references.bib to a folder, by default `paper` in the search's.
    Raises ConfigError for a folder that cannot be written to or a search without values, DataError for a damaged
    search."""
    folder = folder or search_folder.folder / FOLDER
    require_folder("--paper", folder)
    contents = contents_of(search_folder)
    if contents.result is None:
        wrong, right = f"no trial of '{contents.state.name}' has a dev value yet", search_folder.command("resume")
        raise ConfigError(Problem("NAME", wrong, right))
    cited = _Cited()
    texts: dict[str, str | bytes] = {
        "methods.tex": _methods(contents, contents.result, cited),
        "table.tex": _table(contents.result, contents.verdict),
        "figure.pdf": _figure(contents, contents.result),
        "references.bib": cited.bibtex(),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    files = {name: str(folder / name) for name in texts}
    return Written(output=str(folder), files=files, result=contents.result, verdict=contents.verdict)


def latex(text: str) -> str:
    """The text on one line, escaped for LaTeX, with minus signs before its numbers."""
    escaped = "".join(LATEX.get(character, character) for character in visible(" ".join(text.split())))
    return re.sub(r"(?<![^\s\[(])-(?=[0-9])", "$-$", escaped)


# -- references ----------------------------------------------------------------------------------------------------


class _Cited:
    """The references that the text has cited so far."""

    def __init__(self) -> None:
        self._entries = {match["source"]: match for match in ENTRY.finditer(REFERENCES.read_text(encoding="utf-8"))}
        self._used: dict[str, str] = {}  # texts of entries, by key

    def __call__(self, sources: str | Iterable[str]) -> str:
        """LaTeX that cites the papers named in `sources`, e.g. `Dai et al. 2018; MacAvaney et al. 2020`, with a space
        before it; empty if it names none that is known."""
        source = sources if isinstance(sources, str) else "; ".join(sources)
        named = [match for name, match in self._entries.items() if name in source]
        self._used |= {match["key"]: match["text"] for match in named}
        return f"~\\cite{{{','.join(match['key'] for match in named)}}}" if named else ""

    def bibtex(self) -> str:
        """The entries that were cited, and that of tune_cl."""
        return "\n\n".join([OWN % _version(), *self._used.values()]) + "\n"


def _version() -> str:
    return versions(["tune-cl"])["tune-cl"] or "unknown"


def _source(location: str, name: Any) -> str:
    """The source of a part by the key that holds its name; empty for a value that names none."""
    entries = (registry.entries.get(str(name)) for registry in REGISTRIES if registry.location == location)
    return next((entry.source for entry in entries if entry and name != "none"), "")


def _sources(params: Mapping[str, Any]) -> list[str]:
    """Those of all parts of a configuration but its ranker, which is cited once."""
    return [_source(key, value) for key, value in params.items() if key != "ranker.name"]


# -- the methods paragraph -----------------------------------------------------------------------------------------


def _methods(contents: Contents, result: SearchResult, cited: _Cited) -> str:
    sentences = [*_searched(contents, result, cited)]
    if verdict := contents.verdict:
        sentences += _tested(verdict, cited)
        sentences += [latex(sentence) for sentence in verdict.sentences]
    else:
        sentences += [*map(latex, on_dev(result)), NOT_CONFIRMED]
    head = f"% search {latex(result.name)}; numbers as in `tune-cl report --json`; needs references.bib\n"
    return head + "\n".join(sentences) + "\n"


def _searched(contents: Contents, result: SearchResult, cited: _Cited) -> Iterator[str]:
    """The search: its trials, how they were proposed and stopped."""
    search, plain = contents.experiment.search, len(result.of_arm("plain"))
    rankers = ", ".join(latex(name) + cited(_source("ranker.name", name)) for name in contents.state.rankers)
    what = "training curricula" if result.over_curricula else "training settings"
    with_tool = f"with tune\\_cl~\\cite{{tune_cl}} (version {latex(_version())})"
    yield f"We searched {what} for {rankers} on {latex(result.data)} {with_tool}."
    of_plain = "plain training" if result.plain is None or result.over_curricula else f"with {latex(result.plain)}"
    yield f"It made {counted(len(result.trials), 'trial')}, {plain} of them {of_plain}."
    if any(trial.twin for trial in result.of_arm("curriculum")):
        yield "Each of the others has one of these as its twin, with equal other settings and seed."
    if result.further_seeds:
        yield f"{counted(result.further_seeds, 'trial')} repeated the best of both with further seeds."
    searcher = latex(search.searcher) + cited(_source("search.searcher", search.searcher))
    scheduler = latex(search.scheduler) + cited(_source("search.scheduler", search.scheduler))
    stopped = "no trial was stopped early" if search.scheduler == "none" else f"{scheduler} stopped trials early"
    yield f"The searcher {searcher} proposed the configurations; {stopped}."


def _tested(verdict: Verdict, cited: _Cited) -> Iterator[str]:
    """How the champion was chosen and tested."""
    most = max((len(one.values) for one in verdict.selection), default=0)
    if most:
        count = len(verdict.selection)
        yield f"The best {count} on dev were trained again with {counted(most, 'new seed')}, and dev chose one an arm."
    sources = cited(_sources(verdict.curriculum.params))
    yield f"The configuration under test is {latex(verdict.curriculum.label)}{sources}."
    opponents = [latex(opponent_words(verdict, one)) for one in verdict.opponents]
    listed = " and ".join(filter(None, [", ".join(opponents[:-1]), opponents[-1]]))
    yield f"It was compared with {listed}."
    seeds = ", ".join(str(seed) for seed in verdict.seeds)
    yield (
        f"Each was trained with {counted(len(verdict.seeds), 'further seed')} ({seeds}) and evaluated by "
        f"{latex(in_words(verdict.metric))} on the {counted(verdict.queries, 'query')} of the {verdict.split} split."
    )
    if len(verdict.seeds) > 1:
        shared = f"and configurations share their estimates of the seeds' variance{cited(LENT)}"
        yield f"The tests take queries and seeds as random samples{cited(CROSSED)}, {shared}."
    if len(verdict.opponents) > 1:
        yield (
            "A configuration counts as better only if it is better than each of its opponents at the 5\\,\\% level: "
            f"an intersection-union test, which needs no correction{cited(EVERY)}."
        )
    if verdict.others:
        yield f"$p$ is corrected over {len(verdict.others) + 1} configurations (Holm{cited(HOLM)})."


# -- the table -----------------------------------------------------------------------------------------------------


def _table(result: SearchResult, verdict: Verdict | None) -> str:
    """A table with caption and label; needs booktabs."""
    metric = latex(in_words(result.metric))
    if verdict:
        tested = [(verdict.curriculum, verdict.opponents), *((one.curriculum, one.opponents) for one in verdict.others)]
        free = label_free_rows(verdict.first_stage, verdict.label_free)
        rows = [[latex(f"{one.label}, no training labels"), number(one.mean), "", "", "", ""] for one in free]
        rows += [row for curriculum, opponents in tested for row in _test_rows(verdict, curriculum, opponents)]
        heads, form = f"{metric} & SD & Difference & 95\\,\\% CI & $p$", "rrrrr"
        over = f"{counted(len(verdict.seeds), 'seed')} on the {counted(verdict.queries, 'query')} of the"
        caption = (
            f"Mean and standard deviation of {metric} over {over} {verdict.split} split of {latex(result.data)}. "
            "Differences are those of the training above from each opponent, with 95\\,\\% confidence intervals and "
            "$p$-values for new queries and new trainings."
        )
    else:
        [trials] = best_trials(result)
        rows = [[latex(row[0]), row[1], row[3]] for row in (trials.table.rows if trials.table else ())]
        heads, form = f"{metric} (dev) & Iterations", "rr"
        caption = f"{metric} on the dev split of {latex(result.data)}, one seed. {NOT_CONFIRMED} {latex(CAUTION)}"
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \label{{tab:{re.sub('[^A-Za-z0-9]+', '-', result.name)}}}",
        r"  \footnotesize\setlength{\tabcolsep}{4pt}",
        rf"  \begin{{tabular}}{{p{{0.28\linewidth}}{form}}}",
        r"    \toprule",
        rf"    Training & {heads} \\",
        r"    \midrule",
        *(rf"    \raggedright {' & '.join(cells)} \\" for cells in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _test_rows(verdict: Verdict, curriculum: Configuration, opponents: Sequence[Opponent]) -> Iterator[list[str]]:
    yield [latex(curriculum.label), number(curriculum.mean), latex(number(curriculum.sd)), "", "", ""]
    for one in opponents:
        name = rf"\quad against {latex(opponent_words(verdict, one))}"
        between = latex(interval_words(one.ci95)) if one.ci95 else "--"
        figures = [number(one.mean), latex(number(one.sd)), latex(signed(one.difference)), between]
        yield [name, *figures, p_value(one.p).replace("<", "$<$").replace("–", "--")]


# -- the figure ----------------------------------------------------------------------------------------------------


def _figure(contents: Contents, result: SearchResult) -> bytes:
    """A PDF: the curriculum's difference from each opponent; without a verdict, dev over iterations of the best trial
    of each arm."""
    style: dict[Any, Any] = {"pdf.fonttype": 42, "font.size": 8, "text.parse_math": False, "legend.frameon": False}
    with matplotlib.rc_context(style):
        verdict = contents.verdict
        height = 0.8 + 0.5 * len(verdict.opponents) if verdict else 2.4
        figure = Figure(figsize=(6.3, height), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        if verdict:
            draw_forest(axes, verdict)
        else:
            state = contents.state
            curves = {trial.trial: trial.dev(state.metric) for trial in state.by_number()}
            draw_curves(axes, result, curves, others=False)
        target = io.BytesIO()
        figure.savefig(target, format="pdf", metadata={"CreationDate": None})  # the same bytes for the same search
    return target.getvalue()
