"""A verdict in sentences: the terminal, the report, model cards and notebooks show these, and word no number again."""

from __future__ import annotations

from collections.abc import Sequence

from trainables.core.prose import counted
from trainables.evaluation.metrics import in_words
from tune_cl.results import LEVEL, Collapse, Comparison, Opponent, Role, Verdict
from tune_cl.space.wording import below_label_free, label_free_rows, setting
from tune_cl.verdict.figures import interval_words, p_words
from tune_cl.verdict.power import GAIN

MOST_KEYS = 4  # listed in a sentence
ON_DEV = "dev scores are biased: they chose the configurations and checkpoints, so this is not a verdict"


def sentences(verdict: Verdict) -> list[str]:
    """The headline, what explains it, what the design could find, and the notes."""
    said = [headline(verdict)]
    if verdict.verdict == "better":
        said.append(_above_all(verdict))
    else:
        said += [_explained_gain(verdict), _design(verdict)]
    said += [_filter(verdict), _fixed_seeds(verdict), _look(verdict)]
    said += [f"Note: {note}." for note in verdict.notes]
    return [one for one in said if one]


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
    population = "new queries and new trainings" if _draws(verdict) else "new queries; the seed changes nothing"
    sample = f"for {population} ({_sample(verdict)})"
    return f"{verdict.verdict.capitalize()}: {difference} ({_tested(first)}), {sample}."


def size_words(difference: float, metric: str) -> str:
    """A difference before its opponent, e.g. `0.0058 MAP below`."""
    if not round(difference, 4):
        return f"equal in {in_words(metric)}, to four digits, to"
    return f"{abs(difference):.4f} {in_words(metric)} {'below' if difference < 0 else 'above'}"


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


def _draws(verdict: Verdict) -> bool:
    """Whether the seed changes anything: else one training of each is made, and tested over queries."""
    return len(verdict.seeds) > 1 or verdict.opponents[0].p is None


def _sample(verdict: Verdict) -> str:
    """What p is from."""
    sample = f"{counted(len(verdict.seeds), 'seed')}, {counted(verdict.queries, 'query')}"
    if verdict.clusters < verdict.queries:
        sample += f" in {counted(verdict.clusters, 'cluster')}"
    if verdict.others:
        sample += f"; Holm over {len(verdict.others) + 1} {'curricula' if verdict.over_curricula else 'configurations'}"
    return sample


def _tested(one: Opponent | Comparison) -> str:
    """Interval and p of a difference."""
    if one.ci95 is None or one.p is None:
        return "no interval: two seeds or more and differences that vary are needed"
    return f"95 % CI {interval_words(one.ci95)}, {p_words(one.p)}"


def _shown(one: Opponent | Comparison) -> bool:
    return one.p is not None and one.p <= LEVEL


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


def _with_role(verdict: Verdict, role: Role) -> Opponent | None:
    return next((one for one in verdict.opponents if role in one.roles), None)


def _design(verdict: Verdict) -> str:
    """What the test could find."""
    if verdict.verdict != "no difference shown" or verdict.detectable is None or verdict.power is None:
        return ""
    return (
        f"With {counted(len(verdict.seeds), 'seed')} a gain of {GAIN} {in_words(verdict.metric)} over all opponents is "
        f"found in {verdict.power * 100:.0f} % of cases, and one of {verdict.detectable:.4f} in 80 %."
    )


def _filter(verdict: Verdict) -> str:
    """Whether leaving pairs out helps by itself."""
    filtered = verdict.filter_against_plain
    if filtered is None or filtered.p is None:
        return ""
    what = f"Leaving out the pairs that its checkpoints never used, in random order and {_without(verdict)},"
    sure = "changes" if _shown(filtered) else "does not significantly change"
    return f"{what} {sure} {in_words(verdict.metric)} ({filtered.difference:+.4f}, {_tested(filtered)})."


def _fixed_seeds(verdict: Verdict) -> str:
    """What holds for these trainings alone, where it differs from the verdict."""
    fixed = verdict.fixed_seeds
    if fixed.verdict == verdict.verdict:
        return ""
    seeds = counted(len(verdict.seeds), "seed")
    return f"Over these {seeds} alone: {fixed.verdict} ({p_words(fixed.p)}); other seeds may differ."


def _look(verdict: Verdict) -> str:
    look = verdict.look
    if look.number == 1:
        return ""
    return (
        f"This is test {look.number} of this search on {verdict.split}, so its level is {look.level:g} in place of "
        f"{LEVEL}: p and intervals are adjusted for it."
    )


def notes(verdict: Verdict, untaught: Sequence[Collapse]) -> tuple[str, ...]:
    """What to know before one believes a verdict, without a full stop. untaught: trainings that stayed far below the
    search's trials, with their values on dev."""
    lines = []
    if verdict.collapses:
        lines.append(f"trainings collapsed: {_named(verdict.collapses, verdict.split)}")
    if untaught:
        lines.append(f"trainings stayed far below the search's trials: {_named(untaught, 'dev')}")
    plain = _with_role(verdict, "champion") or verdict.opponents[0]
    rows = label_free_rows(verdict.first_stage, verdict.label_free)
    if below := below_label_free(rows, verdict.metric, [plain.mean, verdict.curriculum.mean]):
        lines.append(below)
    lines += [f"'{one.label}' with seed {one.seed} failed: {one.reason}" for one in verdict.failures]
    if verdict.split == "dev":
        lines.append(ON_DEV)
    return tuple(lines)


def _named(trainings: Sequence[Collapse], split: str) -> str:
    return ", ".join(f"'{one.label}' with seed {one.seed} ({one.value:.4f} on {split})" for one in trainings)
