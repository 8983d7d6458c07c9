"""Near-duplicate queries (`data.query_clusters`): a verdict that counted each of them would be too sure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import RankingData, required_split

KEY, PREFIX, NONE = "data.query_clusters", "prefix:", "none"


def query_clusters(data: RankingData, name: str, given: str | None) -> dict[str, int] | None:
    """The cluster, from 0, of each query of a split by its id; None if each query is a cluster of its own.

    given: the key's value. Raises DataError for a file that is missing or lacks a query."""
    split = required_split(data, name)
    ids = [data.query_ids[query] for query in split.query]
    names = _names(data, ids, split.query.tolist(), given)
    numbers = {cluster: number for number, cluster in enumerate(dict.fromkeys(names))}
    return (
        None if len(numbers) == len(ids) else {one: numbers[cluster] for one, cluster in zip(ids, names, strict=True)}
    )


def _names(data: RankingData, ids: Sequence[str], queries: Sequence[int], given: str | None) -> list[str]:
    """The name of each query's cluster."""
    if given == NONE:
        return list(ids)
    if given is None and data.group is not None:
        return [str(group) for group in data.group[list(queries)].tolist()]
    if given is None:
        texts = (data.query_text(query) for query in queries)
        return list(ids) if data.features is not None else [" ".join(text.lower().split()) for text in texts]
    if given.startswith(PREFIX):
        separator = given.removeprefix(PREFIX)
        return [one.rpartition(separator)[0] or one for one in ids] if separator else list(ids)
    by_query = _of_file(Path(given).expanduser())
    if missing := [one for one in ids if one not in by_query]:
        raise DataError(
            Problem(given, f"lacks {counted(len(missing), 'query')}, such as '{missing[0]}'", "a line for each query")
        )
    return [by_query[one] for one in ids]


def _of_file(path: Path) -> dict[str, str]:
    """Cluster by query id, from lines of both, separated by white space."""
    if not path.is_file():
        raise DataError(Problem(KEY, f"'{path}' is not a file", f"a file, or {PREFIX}SEPARATOR"))
    from trainables.data.tables import Reading  # here: pandas takes half a second

    reading = Reading()
    table = reading.table(path, ("query", "cluster"), separator=None)
    reading.finish()
    return dict(zip(table["query"], table["cluster"], strict=True))


def cluster_notes(data: RankingData, given: str | None) -> list[str]:
    """A note on how many the test queries count in a verdict, where near-duplicates were found and not given."""
    if given is not None or not len(data.splits.get("test", ())):
        return []
    clusters = query_clusters(data, "test", None)
    if clusters is None:
        return []
    counted_as = f"a verdict counts the {len(clusters):,} test queries as {len(set(clusters.values())):,}"
    counts = Counter(clusters.values())
    like = [name for name, cluster in clusters.items() if cluster == counts.most_common(1)[0][0]][:2]
    which = f"for some are near-duplicates (such as {' and '.join(like)})"
    return [f"{counted_as}, {which}; {KEY}: {NONE} counts each"]
