"""Effects in sentences: the same on the terminal, in the report and in notebooks."""

from __future__ import annotations

from trainables.core.prose import counted
from trainables.evaluation.metrics import in_words as in_metric_words
from tune_cl.effects.pairs import FamilyEffects
from tune_cl.results import Effects


def sentences_of_search(effects: Effects | None, of_curricula: bool) -> list[str]:
    """Of a search's own pairs, on dev; empty for fewer than two."""
    return [] if effects is None else _sentences(effects, of_curricula)


def sentences(family: FamilyEffects) -> list[str]:
    """The mean effect, how much curricula differ, and what the interval is for."""
    return _sentences(family.result, family.of_curricula)


def _sentences(effects: Effects, of_curricula: bool) -> list[str]:
    curriculum = "a curriculum" if of_curricula else "the setting"
    metric, pairs = in_metric_words(effects.metric), counted(effects.pairs, "pair")
    each = f"with {counted(effects.seeds, 'seed')} each" if effects.queries else "that ran to the end"
    where = f"On {effects.split}, over {pairs} {each}"
    if not (effects.mean or effects.sd_pairs):
        return [f"{where}, {curriculum} changes nothing."]
    changes = f"{where}, {curriculum} changes {metric} by {_signed(effects.mean)} {_interval(effects)} on average"
    return [f"{changes}; {_differ(effects, of_curricula)}.", _interval_is_for(effects, of_curricula)]


def _differ(effects: Effects, of_curricula: bool) -> str:
    """How much true effects differ."""
    those = "curricula" if of_curricula else "settings"
    if effects.sd_true is None or effects.sd_true_ci95 is None:
        return f"how much {those} differ beyond the noise of seeds is unknown"
    low, high = effects.sd_true_ci95
    if not low:
        return f"{those} do not differ significantly more than seeds do (true SD 0 to {high:.4f})"
    return f"{those} differ (true SD {effects.sd_true:.4f} [{low:.4f}, {high:.4f}])"


def _interval_is_for(effects: Effects, of_curricula: bool) -> str:
    those = "curricula" if of_curricula else "settings"
    if effects.queries is None:
        covers = "tune-cl effects --seeds 2 covers all pairs, new seeds and test queries"
        return f"The interval is for further {those}, on these dev queries and this seed; {covers}."
    return f"The interval is for new {those} of this space, new seeds and new queries; no winner was chosen."


def value_name(key: str, value: object) -> str:
    """A value of a key in words: `pacing root`, `anti true`."""
    text = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    return f"{key.rpartition('.')[2]} {text}"


def _interval(effects: Effects) -> str:
    low, high = effects.ci95
    return f"[{_signed(low)}, {_signed(high)}]"


def _signed(value: float) -> str:
    return f"{value:+.4f}"
