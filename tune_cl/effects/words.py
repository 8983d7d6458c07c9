"""Effects in sentences: the same on the terminal, in the report and in notebooks."""

from __future__ import annotations

from trainables.core.prose import counted
from trainables.evaluation.effects import Effects
from trainables.evaluation.metrics import in_words as in_metric_words
from tune_cl.effects.pairs import FamilyEffects


def sentences_of_search(search: str, metric: str, effects: Effects | None, of_curricula: bool) -> list[str]:
    """Of a search's own pairs, on dev; empty for fewer than two."""
    if effects is None:
        return []
    return sentences(FamilyEffects(search, metric, "dev", (), None, effects, (), of_curricula=of_curricula))


def sentences(family: FamilyEffects) -> list[str]:
    """The mean effect, how much curricula differ, and what the interval is for."""
    effects, curriculum = family.effects, "a curriculum" if family.of_curricula else "the setting"
    metric, pairs = in_metric_words(family.metric), counted(effects.pairs, "pair")
    each = f"with {counted(len(family.seeds), 'seed')} each" if family.queries else "that ran to the end"
    where = f"On {family.split}, over {pairs} {each}"
    if not (effects.mean or effects.sd_pairs):
        return [f"{where}, {curriculum} changes nothing."]
    changes = f"{where}, {curriculum} changes {metric} by {_signed(effects.mean)} {_interval(effects)} on average"
    return [f"{changes}; {_differ(effects, family.of_curricula)}.", _interval_is_for(family)]


def _differ(effects: Effects, of_curricula: bool) -> str:
    """How much true effects differ."""
    those = "curricula" if of_curricula else "settings"
    if effects.sd_true_ci95 is None:
        return f"how much {those} differ beyond the noise of seeds is unknown"
    low, high = effects.sd_true_ci95
    if not low:
        return f"{those} do not differ significantly more than seeds do (true SD 0 to {high:.4f})"
    return f"{those} differ (true SD {effects.sd_true:.4f} [{low:.4f}, {high:.4f}])"


def _interval_is_for(family: FamilyEffects) -> str:
    those = "curricula" if family.of_curricula else "settings"
    if family.queries is None:
        covers = "tune-cl effects --seeds 2 covers all pairs, new seeds and test queries"
        return f"The interval is for further {those}, on these dev queries and this seed; {covers}."
    return f"The interval is for new {those} of this space, new seeds and new queries; no winner was chosen."


def value_name(key: str, value: object) -> str:
    """A value of a key in words: `pacing root`, `anti true`."""
    text = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    return f"{key.rpartition('.')[2]} {text}"


def _interval(effects: Effects) -> str:
    low, high = effects.mean_ci95
    return f"[{_signed(low)}, {_signed(high)}]"


def _signed(value: float) -> str:
    return f"{value:+.4f}"
