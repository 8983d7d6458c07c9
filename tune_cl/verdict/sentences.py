"""A verdict in sentences: the terminal, the report, model cards and notebooks show these, and word no number again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from trainables.core.prose import counted
from trainables.evaluation.collapses import OFTEN
from trainables.evaluation.metrics import in_words
from tune_cl.results import LEVEL, Collapse, Opponent, Verdict
from tune_cl.space.wording import below_label_free, label_free_rows, setting
from tune_cl.verdict.power import GAIN

FEW_SOUND = 6  # seeds: with fewer, nothing is known of how often trainings collapse
MOST_KEYS = 4  # listed in a sentence
ON_DEV = "dev scores are biased: they chose the configurations and checkpoints, so this is not a verdict"


def badge(verdict: Verdict) -> str:
    """The verdict in a few words."""
    if verdict.split == "dev":
        return "No verdict: compared on dev only"
    return f"{'The curriculum' if verdict.over_curricula else 'The change'}: {verdict.verdict}"


def headline(verdict: Verdict) -> str:
    """The verdict in one sentence: what differs from whom, by how much, and for what it holds."""
    first = verdict.opponents[0]
    size = size_words(first.difference, verdict.metric)
    difference = f"'{verdict.curriculum.label}' is {size} {opponent_words(verdict, first)}"
    between = interval_words(first)
    if verdict.verdict != "no difference shown":
        population = "new queries and new trainings" if _draws(verdict) else "new queries; the seed changes nothing"
        return f"{verdict.verdict.capitalize()}: {difference} ({between}), for {population}{p_words(verdict)}."
    return f"No difference shown: {_too_few(verdict)}{difference}; {between}{p_words(verdict)}."


def _draws(verdict: Verdict) -> bool:
    """Whether the seed changes anything: else one training of each is made, and tested over queries."""
    return len(verdict.seeds) > 1 or verdict.opponents[0].p is None


def size_words(difference: float, metric: str) -> str:
    """A difference before its opponent, e.g. `0.0058 MAP below`."""
    if not round(difference, 4):
        return f"equal in {in_words(metric)}, to four digits, to"
    return f"{abs(difference):.4f} {in_words(metric)} {'below' if difference < 0 else 'above'}"


def interval_words(one: Opponent) -> str:
    if one.ci95 is None:
        return "one seed says nothing about new trainings" if len(one.values) < 2 else _NOTHING
    low, high = one.ci95
    return _NOTHING if low == high else f"95 % CI {low:+.4f} to {high:+.4f}"


_NOTHING = "all differences are equal, so no test can be made"


def p_words(verdict: Verdict) -> str:
    """p with the sample that it is from, in brackets."""
    queries = counted(verdict.queries, "query")
    if verdict.clusters < verdict.queries:
        queries += f" in {counted(verdict.clusters, 'cluster')}"
    sample = f"{counted(len(verdict.seeds), 'seed')}, {queries}"
    if verdict.others:
        sample += f"; Holm over {len(verdict.others) + 1} {'curricula' if verdict.over_curricula else 'configurations'}"
    p = verdict.opponents[0].p
    return f" ({sample})" if p is None else f" (p = {p:.2g}, {sample})"


def opponent_words(verdict: Verdict, one: Opponent) -> str:
    """An opponent, and how hard it was tuned."""
    if "champion" in one.roles:
        if verdict.plain_trials < 2:
            return f"{verdict.plain} as given (not tuned)"
        keys = ", ".join(key.rpartition(".")[2] for key in verdict.plain_keys)
        return f"{verdict.plain}, tuned over {verdict.plain_trials} trials ({keys})"
    if "twin" in one.roles:
        return f"its own settings {_without(verdict)}"
    return f"{verdict.plain} with the defaults" if "default" in one.roles else "the same pairs in random order"


def _without(verdict: Verdict) -> str:
    return "without the curriculum" if verdict.over_curricula else f"with {verdict.plain}"


def sentences(verdict: Verdict) -> list[str]:
    """The headline, what explains it, what the design could find, and the notes."""
    said = [headline(verdict)]
    if verdict.verdict == "better":
        said.append(_above_all(verdict))
    else:
        said += [_unequal(verdict), _explained_gain(verdict), *_below_others(verdict), _design(verdict)]
    said += [_filter(verdict), _fixed_seeds(verdict), _look(verdict)]
    said += [f"Note: {note}." for note in verdict.notes]
    return [one for one in said if one]


def _unequal(verdict: Verdict) -> str:
    first = verdict.opponents[0]
    unknown = verdict.verdict == "no difference shown" and not (first.p is not None and first.p <= LEVEL)
    return "This does not show that they are equal." if unknown and first.difference else ""


def _above_all(verdict: Verdict) -> str:
    count = len(verdict.opponents)
    return f"It is above all {count} opponents; this one is the least favourable." if count > 1 else ""


def _explained_gain(verdict: Verdict) -> str:
    """What else may explain a significant gain over another opponent: settings that plain training can have, or the
    pairs that are left out. Empty where there is no such gain."""
    gains = [one for one in verdict.opponents if _shown(one) and one.difference > 0]
    if not gains:
        return ""
    above = f"It is significantly above {opponent_words(verdict, gains[0])} ({gains[0].difference:+.4f})"
    gain = f"{above}, but not significantly above"
    twin, left_out = _with_role(verdict, "twin"), _with_role(verdict, "filter")
    if twin and twin not in gains:
        keys = [key for key, value in twin.params.items() if gains[0].params.get(key) != value]
        settings = " ".join(setting(key, twin.params[key]) for key in keys[:MOST_KEYS])
        with_these = f" ({settings}: {twin.mean:.4f})" if settings else f" ({twin.mean:.4f})"
        return f"{gain} its own settings {_without(verdict)}{with_these}: these may explain the gain."
    if left_out and left_out not in gains:
        return f"{gain} the same pairs in random order ({left_out.mean:.4f}): the filter may explain it."
    return ""


def _with_role(verdict: Verdict, role: str) -> Opponent | None:
    return next((one for one in verdict.opponents if role in one.roles), None)


def _shown(one: Opponent) -> bool:
    return one.p is not None and one.p <= LEVEL


def _below_others(verdict: Verdict) -> list[str]:
    """Opponents beside the one of the headline that are significantly above the curriculum."""
    return [
        f"It is {size_words(one.difference, verdict.metric)} {opponent_words(verdict, one)} (p = {one.p:.2g})."
        for one in verdict.opponents[1:]
        if one.difference < 0 and _shown(one)
    ]


def _design(verdict: Verdict) -> str:
    """What the test could find."""
    if verdict.verdict != "no difference shown":
        return ""
    if not _draws(verdict):
        return "The seed changes nothing in these trainings: with others they would be the same."
    if verdict.detectable is None or verdict.power is None:
        return ""
    metric = in_words(verdict.metric)
    said = (
        f"With {counted(len(verdict.seeds), 'seed')} a gain of {GAIN} {metric} over all opponents is found in "
        f"{verdict.power * 100:.0f} % of cases, and one of {verdict.detectable:.4f} in 80 %"
    )
    needed = verdict.seeds_needed
    return f"{said}; what was observed would need {counted(needed, 'seed')}." if needed else f"{said}."


def _filter(verdict: Verdict) -> str:
    """Whether leaving pairs out helps by itself."""
    filtered = verdict.filter_against_plain
    if filtered is None or filtered.ci95 is None or filtered.p is None:
        return ""
    what = "Leaving out the pairs that its checkpoints never used, in random order and"
    size = f"{filtered.difference:+.4f} {in_words(verdict.metric)}"
    between = f"95 % CI {filtered.ci95[0]:+.4f} to {filtered.ci95[1]:+.4f}, p = {filtered.p:.2g}"
    sure = "changes" if filtered.p <= LEVEL else "does not significantly change"
    return f"{what} {_without(verdict)}, {sure} {in_words(verdict.metric)} ({size}, {between})."


def _fixed_seeds(verdict: Verdict) -> str:
    """What holds for these trainings alone, where it differs from the verdict."""
    fixed = verdict.fixed_seeds
    if fixed.verdict == verdict.verdict:
        return ""
    seeds = counted(len(verdict.seeds), "seed")
    if fixed.verdict == "no difference shown":
        return f"Over these {seeds} alone no difference is shown (p = {fixed.p:.2g})."
    return f"Over these {seeds} alone it is {fixed.verdict} (p = {fixed.p:.2g}); other seeds may differ."


def _look(verdict: Verdict) -> str:
    look = verdict.look
    if look.number == 1:
        return ""
    return (
        f"This is test {look.number} of this search on {verdict.split}, so its level is {look.level:g} in place of "
        f"{LEVEL}: p and intervals are adjusted for it."
    )


# -- collapses -----------------------------------------------------------------------------------------------------


def _rare(verdict: Verdict) -> list[Collapse]:
    """Collapses of configurations that rarely do: what is shown holds with and without these seeds."""
    counts = Counter(one.label for one in verdict.collapses)
    return [one for one in verdict.collapses if counts[one.label] < OFTEN]


def _too_few(verdict: Verdict) -> str:
    """Which trainings collapsed, where too few seeds are without a collapse to tell how often it happens; else
    empty."""
    rare = _rare(verdict)
    sound = {*verdict.seeds} - {one.seed for one in rare}
    if not rare or len(sound) >= FEW_SOUND:
        return ""
    named = "; ".join(f"seed {one.seed} of '{one.label}'" for one in rare)
    return f"too few seeds for trainings that collapse ({named}); "


# -- notes ---------------------------------------------------------------------------------------------------------


def notes(verdict: Verdict, untaught: Sequence[Collapse], two_groups: Sequence[str]) -> tuple[str, ...]:
    """What to know before one believes a verdict, without a full stop.

    untaught    trainings that stayed far below the search's trials, with their values on dev
    two_groups  labels of configurations that fail under some seeds and work under others
    """
    lines = [_often_fails(verdict), _fell(verdict)]
    lines += [
        f"'{label}' fails under some seeds and works under others, and {len(verdict.seeds)} seeds say little of how "
        "often; a lower learning rate may end that"
        for label in two_groups
    ]
    if untaught:
        names = ", ".join(f"'{one.label}' with seed {one.seed} ({one.value:.4f} on dev)" for one in untaught)
        lines.append(f"trainings that stayed far below the search's trials: {names}")
    plain = _with_role(verdict, "champion") or verdict.opponents[0]
    rows = label_free_rows(verdict.first_stage, verdict.label_free)
    lines.append(below_label_free(rows, verdict.metric, [plain.mean, verdict.curriculum.mean]))
    lines += [f"'{one.label}' with seed {one.seed} failed: {one.reason}" for one in verdict.failures]
    lines += [ON_DEV] if verdict.split == "dev" else []
    return tuple(one for one in lines if one)


def _often_fails(verdict: Verdict) -> str:
    """How often the trainings of each configuration fail, where some often do."""
    counts = Counter(one.label for one in verdict.collapses)
    if max(counts.values(), default=0) < OFTEN:
        return ""
    rows = [verdict.curriculum, *verdict.opponents]
    each = ", ".join(f"{counts[row.label]} of {len(row.values)} of '{row.label}'" for row in rows)
    return f"trainings that collapsed: {each}; the means count them, because so many show how often it happens"


def _fell(verdict: Verdict) -> str:
    values = {row.label: row.values for row in (verdict.curriculum, *verdict.opponents)}
    each = [
        f"'{one.label}' with seed {one.seed} ({one.value:.4f}; its median is {np.median(values[one.label]):.4f})"
        for one in _rare(verdict)
        if one.label in values
    ]
    return f"trainings collapsed: {', '.join(each)}; what is shown holds with and without these seeds" if each else ""


# -- for MLflow -----------------------------------------------------------------------------------------------------


def markdown(verdict: Verdict) -> str:
    """The headline and the table."""
    lines = [headline(verdict), "", "| | mean | SD | difference | 95 % CI | p |", "|---|---|---|---|---|---|"]
    for one in (verdict.curriculum, *verdict.opponents):
        sd = "" if one.sd is None else f"{one.sd:.4f}"
        compared = "| | |"
        if isinstance(one, Opponent):
            between = f"{one.ci95[0]:+.4f} to {one.ci95[1]:+.4f}" if one.ci95 else ""
            compared = f"{one.difference:+.4f} | {between} | {'' if one.p is None else f'{one.p:.2g}'} |"
        lines.append(f"| {one.label} | {one.mean:.4f} | {sd} | {compared}")
    return "\n".join(lines)
