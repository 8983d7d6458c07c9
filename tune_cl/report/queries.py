"""Sections about single queries: groups of them, and the queries that changed most."""

from __future__ import annotations

import numpy as np

from trainables.counting import counted
from trainables.errors import UserError, WorkFailed
from tune_cl.report.analysis import mean_interval
from tune_cl.report.charts import interval_chart, queries_a_bar, strip_chart
from tune_cl.report.findings import Findings
from tune_cl.report.markup import Html, cut, figure, legend, number, paragraph, signed, tag
from tune_cl.report.per_query import Groups, NothingToShow, PerQuery, by_domain, by_length, by_turns, per_query

SHOWN = 5  # queries that gained most, and that lost most
KEYS = (("best", "best curriculum"), ("baseline", "plain training"))
TEXT = 700  # characters of a text


def values_of(findings: Findings) -> PerQuery | str:
    """Per-query values, or in words why there are none."""
    try:
        return per_query(findings)
    except NothingToShow as error:
        return str(error)
    except UserError as error:
        why = str(error.problems[0]).removeprefix("error: ")
    except WorkFailed as error:
        why = str(error)
    return f"There are no values of single queries to show: {why}."


def groups_section(findings: Findings, values: PerQuery | str) -> list[Html]:
    """The metric by number of turns, by domain and by length: best against baseline."""
    if isinstance(values, str):
        return [paragraph(values)]
    queries = f"{counted(len(values.row), 'query')} of {values.split}"
    told = f"{values.label}, against {findings.in_terms('plain training')}; {queries}."
    kinds = [("By number of turns", by_turns(values)), ("By domain", by_domain(values)),
             ("By difficulty: mean words of an utterance", by_length(values))]  # fmt: skip
    charts = [_group_figure(title, groups, findings.metric, values) for title, groups in kinds if len(groups) > 1]
    single = [f"{title}: all queries are in one group ({groups[0][0]})." for title, groups in kinds if len(groups) == 1]
    note = (
        "Bars are 95 % intervals of each mean over its queries. Where those of one group overlap, that alone says "
        "little: the two are paired. Groups are many, so one that stands out may do so by chance."
    )
    keys = legend(findings.signs(KEYS))
    return [paragraph(told), keys, tag("div", *charts, class_="charts"), *map(paragraph, single), paragraph(note)]


def _group_figure(title: str, groups: Groups, metric: str, values: PerQuery) -> Html:
    names = [f"{name} ({int(member.sum())})" for name, member in groups]
    pairs = [(mean_interval(values.best[member]), mean_interval(values.baseline[member])) for _, member in groups]
    return figure(title, interval_chart(names, pairs, metric))


def changes_section(findings: Findings, values: PerQuery | str) -> list[Html]:
    """Sorted differences, and the texts of the queries that changed most."""
    if isinstance(values, str):
        return [paragraph(values)]
    chart = strip_chart(values.differences, f"{findings.metric}, best less baseline")
    order = np.argsort(-values.differences, kind="stable")
    gained = [int(at) for at in order[:SHOWN] if values.differences[at] > 0]
    lost = [int(at) for at in order[::-1][:SHOWN] if values.differences[at] < 0]
    return [
        tag("div", figure(_title(values), chart, paragraph(values.label)), class_="charts"),
        *_queries("Gained most", gained, findings, values),
        *_queries("Lost most", lost, findings, values),
    ]


def _title(values: PerQuery) -> str:
    each = queries_a_bar(len(values.row))
    if each == 1:
        return f"Each query of {values.split}"
    return f"Queries of {values.split}: each bar is the mean of {each} neighbouring queries"


def _queries(title: str, chosen: list[int], findings: Findings, values: PerQuery) -> list[Html]:
    if not chosen:
        return [paragraph(f"{title}: none.")]
    return [tag("h3", title), *(_query(at, findings, values) for at in chosen)]


def _query(at: int, findings: Findings, values: PerQuery) -> Html:
    """A query's values, its text, and its first relevant candidate; for a pair, its second sentence instead."""
    data, query = values.data, int(values.query[at])
    text = cut(data.query_text(query), TEXT)
    change = f"{number(values.baseline[at], 3)} → {number(values.best[at], 3)} "
    summary = tag("summary", tag("b", signed(float(values.differences[at]), 3)), f" ({change.strip()}) ", cut(text, 90))
    name = tag("span", f"{data.query_ids[query]}, {counted(int(data.turns[query]), 'turn')}", class_="muted")
    label, document = _answer(int(values.row[at]), findings, values)
    texts = paragraph(tag("b", "Query "), text), paragraph(tag("b", f"{label} "), document)
    return tag("details", summary, name, *texts)


def _answer(row: int, findings: Findings, values: PerQuery) -> tuple[str, str]:
    """A label and the text of a query's first relevant candidate; for a pair, its class and its second sentence."""
    data, split = values.data, values.data.splits[values.split]
    level = findings.experiment.base_run().evaluation.relevance_level
    start, end = int(split.offsets[row]), int(split.offsets[row + 1])
    pair = data.task == "classification"
    found = [0] if pair else np.flatnonzero(split.grade[start:end] >= level).tolist()
    if not found:
        return "Relevant", "no candidate of this query is relevant"
    label = data.classes[split.grade[start]].capitalize() if pair else "Relevant"
    return label, cut(data.documents[int(split.document[start + found[0]])], TEXT)
