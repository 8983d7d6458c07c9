"""The report for a paper: a methods paragraph, a table, a figure and the references, with the numbers of the verdict;
before a confirmation those of dev, which they say."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import read_text, require_folder, write_text
from trainables.core.prose import counted
from trainables.core.registry import REGISTRIES
from trainables.evaluation.metrics import in_words
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import TrialState
from tune_cl.process import versions
from tune_cl.report.document import MainFacts, Written
from tune_cl.report.facts import main_facts
from tune_cl.report.findings import Findings, gather
from tune_cl.report.output import latex
from tune_cl.report.story import other_trial
from tune_cl.report.wording import cut, number, p_value, signed, spread
from tune_cl.results import Verdict
from tune_cl.space.wording import CAUTION, label_free_rows
from tune_cl.verdict.sentences import badge, opponent_words

FOLDER = "paper"  # in the search's folder
REFERENCES = Path(__file__).parent / "templates" / "references.bib"
ENTRY = re.compile(r"^% (?P<source>.+)\n(?P<text>@\w+\{(?P<key>\w+),\n(?:.*\n)*?\})$", re.MULTILINE)
CROSSED, LENT, EVERY = "Clark 1973", "Smyth 2004", "Berger 1982"  # what the test rests on
HOLM = "Holm 1979"
OWN = r"""@misc{tune_cl,
  author = {{The tune\_cl maintainers}},
  title = {tune\_cl: Curriculum Search for Neural Rankers},
  note = {Version %s}
}"""
NAME_LENGTH = 60  # characters in a figure
NOT_CONFIRMED = "The search was not confirmed: there is no result on test queries."


def write_paper(search_folder: SearchFolder, folder: Path | None = None) -> Written:
    """Writes methods.tex, table.tex, figure.pdf and references.bib to a folder, by default `paper` in the search's.
    Raises ConfigError for a folder that cannot
    be written to or a search without values, DataError for a damaged search."""
    folder = folder or search_folder.folder / FOLDER
    require_folder("--paper", folder)
    findings = gather(search_folder)
    if not findings.plain and not findings.ranked:
        wrong, right = f"no trial of '{findings.state.name}' has a dev value yet", search_folder.command("resume")
        raise ConfigError(Problem("NAME", wrong, right))
    facts = main_facts(findings)
    cited = _Cited()
    texts: dict[str, str | bytes] = {
        "methods": _methods(findings, cited),
        "table": _table(findings, facts),
        "figure": _figure(findings, facts),
    }
    texts["references"] = cited.bibtex()
    suffixes = {"methods": ".tex", "table": ".tex", "figure": ".pdf", "references": ".bib"}
    files = {name: folder / f"{name}{suffix}" for name, suffix in suffixes.items()}
    for name, path in files.items():
        write_text(path, texts[name])
    return Written(folder, facts, files)


# -- references ----------------------------------------------------------------------------------------------------


class _Cited:
    """The references that the text has cited so far."""

    def __init__(self) -> None:
        self._known = {match["source"]: match for match in ENTRY.finditer(read_text(REFERENCES))}
        self._used: dict[str, re.Match[str]] = {}

    def __call__(self, sources: str | Iterable[str]) -> str:
        """LaTeX that cites the papers named in `sources`, e.g. `Dai et al. 2018; MacAvaney et al. 2020`, with a space
        before it; empty if it names none that is known."""
        source = sources if isinstance(sources, str) else "; ".join(sources)
        found = {name: match for name, match in self._known.items() if name in source}
        self._used |= found
        return f"~\\cite{{{','.join(match['key'] for match in found.values())}}}" if found else ""

    def bibtex(self) -> str:
        """The entries that were cited, and that of tune_cl."""
        return "\n\n".join([OWN % _version(), *(match["text"] for match in self._used.values())]) + "\n"


def _version() -> str:
    return versions(["tune-cl"])["tune-cl"] or "unknown"


def _source(location: str, name: Any) -> str:
    """The source of a part by the key that holds its name; empty for a value that names none."""
    entries = (registry.entries.get(str(name)) for registry in REGISTRIES if registry.location == location)
    return next((entry.source for entry in entries if entry and name != "none"), "")


def _sources(params: Mapping[str, Any]) -> list[str]:
    """Those of all parts of a configuration but its ranker, which is cited once."""
    return [_source(key, value) for key, value in params.items() if key != "ranker.name"]


def _prose(text: str) -> str:
    """A sentence for LaTeX, with minus signs before its numbers."""
    return re.sub(r"(?<![^\s\[(])-(?=[0-9])", "$-$", latex(text))


# -- the methods paragraph -----------------------------------------------------------------------------------------


def _methods(findings: Findings, cited: _Cited) -> str:
    confirmed = findings.confirmation
    sentences = [*_searched(findings, cited)]
    if confirmed is None:
        sentences += [*_on_dev(findings, cited)]
    else:
        sentences += [*_tested(findings, confirmed, cited), *_found(confirmed)]
    head = f"% search {latex(findings.state.name)}; numbers as in `tune-cl report --json`; needs references.bib\n"
    return head + "\n".join(sentences) + "\n"


def _searched(findings: Findings, cited: _Cited) -> Iterator[str]:
    """The search: its trials, how they were proposed and stopped."""
    state, search = findings.state, findings.experiment.search
    rankers = ", ".join(latex(name) + cited(_source("ranker.name", name)) for name in findings.experiment.rankers)
    what = "training curricula" if findings.over_curricula else "training settings"
    with_tool = f"with tune\\_cl~\\cite{{tune_cl}} (version {latex(_version())})"
    yield f"We searched {what} for {rankers} on {latex(state.data['name'])} {with_tool}."
    plainly = "were plain training" if findings.over_curricula else f"had {latex(findings.experiment.plain_words)}"
    trials = f"Of {counted(len(state.trials), 'trial')}, {len(state.trials_of('plain'))} {plainly}"
    twins = "; each of the others has one of these as its twin, with equal other settings and seed"
    yield f"{trials}{twins if state.pairs() else ''}."
    searcher, scheduler = (
        latex(name) + cited(_source(f"search.{part}", name))
        for part, name in (("searcher", search.searcher), ("scheduler", search.scheduler))
    )
    stopped = "no trial was stopped early" if search.scheduler == "none" else f"{scheduler} stopped trials early"
    yield f"The searcher {searcher} proposed the configurations; {stopped}."


def _on_dev(findings: Findings, cited: _Cited) -> Iterator[str]:
    """What dev alone shows of the best trial of each arm."""
    metric = latex(in_words(findings.metric))
    for arm, name in ((findings.ranked, other_trial(findings.over_curricula)), (findings.plain, "plain trial")):
        if arm:
            trial, at = arm[0]
            yield f"On dev, the best {name} ({_setting(trial, cited)}) has {number(at.dev)} {metric}."
    if (pair := findings.ranked[:1]) and findings.plain:
        difference = pair[0][1].dev - findings.plain[0][1].dev
        yield f"The difference on dev is {signed(difference)} {metric}, of one seed each."
    yield f"{NOT_CONFIRMED} {latex(CAUTION)}"


def _setting(trial: TrialState, cited: _Cited) -> str:
    return latex(trial.words) + cited(_sources(trial.params))


def _tested(findings: Findings, confirmed: Verdict, cited: _Cited) -> Iterator[str]:
    """How the champion was chosen and tested."""
    row, metric = confirmed.curriculum, latex(in_words(confirmed.metric))
    seeds, queries = confirmed.seeds, counted(confirmed.queries, "query")
    most = max((len(one.values) for one in confirmed.selection), default=0)
    if most:
        arms = Counter(one.arm for one in confirmed.selection)
        plain = "plain" if findings.over_curricula else f"with {confirmed.plain}"
        names = {"plain": plain, "curriculum": "curricula" if findings.over_curricula else "others"}
        each = " and ".join(f"{count} {latex(names[arm])}" for arm, count in arms.items())
        yield f"The best on dev ({each}) were trained again with {counted(most, 'new seed')}, and dev chose."
    yield f"The configuration under test is {latex(row.label)}{cited(_sources(row.params))}."
    words = [latex(opponent_words(confirmed, one)) for one in confirmed.opponents]
    yield f"It was compared with {_listed(words)}."
    trained = f"Each was trained with {counted(len(seeds), 'further seed')} ({', '.join(map(str, seeds))})"
    yield f"{trained} and evaluated by {metric} on the {queries} of the {confirmed.split} split."
    if len(seeds) > 1:
        shared = f", and configurations share their estimates of the seeds' variance{cited(LENT)}"
        yield f"The tests take queries and seeds as random samples{cited(CROSSED)}{shared}."
    if len(confirmed.opponents) > 1:
        yield (
            "A configuration counts as better only if it is better than each of its opponents at the 5\\,\\% level: "
            f"an intersection-union test, which needs no correction{cited(EVERY)}."
        )
    if confirmed.others:
        yield f"$p$ is corrected over {len(confirmed.others) + 1} configurations (Holm{cited(HOLM)})."


def _found(confirmed: Verdict) -> Iterator[str]:
    """The verdict, and what a reader must know."""
    yield f"Result: {latex(badge(confirmed))}."
    yield from (_prose(one) for one in confirmed.sentences)


def _listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last


# -- the table -----------------------------------------------------------------------------------------------------


def _table(findings: Findings, facts: MainFacts) -> str:
    """A table with caption and label; needs booktabs."""
    confirmed = findings.confirmation
    body = [*(_dev_rows(facts) if confirmed is None else _test_rows(confirmed))]
    metric, split = latex(in_words(facts.metric)), confirmed.split if confirmed else "dev"
    p = "$p$ (adjusted)" if confirmed and confirmed.others else "$p$"
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_caption(findings, metric)}}}",
        rf"  \label{{tab:{re.sub('[^A-Za-z0-9]+', '-', facts.search)}}}",
        r"  \footnotesize\setlength{\tabcolsep}{4pt}",
        r"  \begin{tabular}{p{0.28\linewidth}rrrr}",
        r"    \toprule",
        rf"    Training & {metric} ({split}) & Difference & 95\,\% CI & {p} \\",
        r"    \midrule",
        *(rf"    \raggedright {' & '.join(cells)} \\" for cells in body),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _caption(findings: Findings, metric: str) -> str:
    confirmed, data = findings.confirmation, latex(findings.state.data["name"])
    if confirmed is None:
        return f"{metric} on the dev split of {data}, one seed. {NOT_CONFIRMED} {latex(CAUTION)}"
    seeds, queries = counted(len(confirmed.seeds), "seed"), counted(confirmed.queries, "query")
    over = f"Mean (standard deviation) of {metric} over {seeds} on the {queries} of the {confirmed.split} split of"
    holds = "new queries and new trainings" if len(confirmed.seeds) > 1 else "new queries"
    text = f"{over} {data}. Differences are those of the first row of a group from each opponent below it, with"
    return text + f" 95\\,\\% confidence intervals and $p$-values for {holds}."


def _test_rows(confirmed: Verdict) -> Iterator[list[str]]:
    """What needs no training labels, then the curriculum above its opponents."""
    for one in label_free_rows(confirmed.first_stage, confirmed.label_free):
        yield [latex(f"{one.label}, no training labels"), number(one.mean), "", "", ""]
    row = confirmed.curriculum
    yield [latex(row.label), f"{number(row.mean)}{spread(row.sd)}", "", "", ""]
    for one in confirmed.opponents:
        name = rf"\quad against {latex(opponent_words(confirmed, one))}: {latex(one.label)}"
        ends = f"[${signed(one.ci95[0])}$, ${signed(one.ci95[1])}$]" if one.ci95 else latex("–")
        p = p_value(one.p).replace("–", "-")
        yield [name, f"{number(one.mean)}{spread(one.sd)}", f"${signed(one.difference)}$", ends, f"${p}$"]


def _dev_rows(facts: MainFacts) -> Iterator[list[str]]:
    """The best trials on dev, without tests."""
    for row in facts.configurations:
        difference = "" if row.difference is None else f"${signed(row.difference)}$"
        yield [latex(row.name), number(row.mean), difference, "", ""]


# -- the figure ----------------------------------------------------------------------------------------------------


def _figure(findings: Findings, facts: MainFacts) -> bytes:
    """A PDF: the champion's difference from each opponent with its interval; without a confirmation, dev over
    iterations of the best trial of each arm."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"pdf.fonttype": 42, "font.size": 8, "text.parse_math": False}):
        figure = Figure(figsize=(6.3, 2.4), layout="constrained")
        axes = figure.add_subplot()
        if findings.confirmation is None:
            _draw_curves(axes, facts)
        else:
            _draw_differences(axes, findings.confirmation)
        axes.spines[["top", "right"]].set_visible(False)
        target = io.BytesIO()
        figure.savefig(target, format="pdf", metadata={"CreationDate": None})  # the same bytes for the same search
    return target.getvalue()


def _draw_differences(axes: Any, confirmed: Verdict) -> None:
    rows = confirmed.opponents
    for place, one in enumerate(rows):
        low, high = one.ci95 or (one.difference,) * 2
        axes.plot([low, high], [place, place], color="0.3", linewidth=1.5)
        axes.plot([one.difference], [place], "o", color="black", markersize=5)
    axes.axvline(0, color="0.6", linewidth=0.8, linestyle="--")
    names = [cut(opponent_words(confirmed, one), NAME_LENGTH) for one in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"{in_words(confirmed.metric)} on {confirmed.split}: difference from each opponent, 95 % CI")


def _draw_curves(axes: Any, facts: MainFacts) -> None:
    styles = {"best": "-", "baseline": "--"}
    for curve in facts.curves:
        if style := styles.get(curve.role):
            axes.plot([*curve.dev], [*curve.dev.values()], style, label=cut(curve.name, NAME_LENGTH))
    axes.legend(frameon=False)
    axes.set_xlabel("iteration (dev, one seed, not confirmed)")
    axes.set_ylabel(f"dev {in_words(facts.metric)}")
