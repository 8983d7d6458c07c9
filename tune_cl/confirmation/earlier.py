"""What a split had shown to this search before a confirmation."""

from __future__ import annotations

from collections.abc import Sequence

from tune_cl.confirmation.verdict import Earlier, VerdictFacts


def readings_before(
    last: VerdictFacts | None, labels: Sequence[str], seeds: Sequence[int], new_noise: bool
) -> tuple[int, ...]:
    """With how many seeds a split was read before, each a part of `seeds` and of the same configurations (`labels`,
    without the baseline) with the same draws of the label noise: a second test with more seeds is a second chance to
    err. Readings with looks do not count."""
    if last is None:
        return ()
    same = [
        look.seeds
        for look in (*last.earlier, _seen(last))
        if look.configurations == tuple(labels)
        and bool(look.new_noise) == new_noise
        and not look.dropped
        and look.max_seeds is None
    ]
    return tuple(sorted({len(read) for read in same if 1 < len(read) < len(seeds) and set(read) < set(seeds)}))


def looks_before(last: VerdictFacts | None, verdict: VerdictFacts) -> tuple[Earlier, ...]:
    """What was seen on the split before this verdict, oldest first: each confirmation that had other seeds,
    configurations, draws of the label noise or another correction. `last`: the one before."""
    if last is None:
        return ()
    now = _seen(verdict)
    return tuple(look for look in (*last.earlier, _seen(last)) if look != now)


def _seen(verdict: VerdictFacts) -> Earlier:
    return Earlier(
        seeds=verdict.seeds,
        configurations=tuple(row.label for row in verdict.configurations),
        dropped=tuple(one.label for one in verdict.dropped),
        max_seeds=verdict.asked.max_seeds if verdict.looks else None,
        new_noise=verdict.asked.new_noise or None,
        correction=verdict.correction,
        verdict=verdict.verdict,
    )
