"""Effects in sentences: the same on the terminal, in the report and in notebooks."""

from __future__ import annotations

from trainables.core.prose import counted
from trainables.evaluation.metrics import in_words as in_metric_words
from tune_cl.results import Effects

UNLIKELY = 0.1  # that there is anything to find
SEEDS = 5  # of the test that would find it


def worded(effects: Effects) -> Effects:
    """The same with its sentences."""
    return effects.model_copy(update={"sentences": tuple(_sentences(effects))})


def _sentences(effects: Effects) -> list[str]:
    """The mean effect, how much curricula differ, whether there is anything to find, and what for."""
    curriculum, curricula = _nouns(effects)
    metric = in_metric_words(effects.metric)
    each = f"with {counted(effects.seeds, 'seed')} each" if effects.queries else "that ran to the end"
    where = f"On {effects.split}, over {counted(effects.pairs, 'pair')} {each}"
    notes = [f"Note: {note}." for note in effects.notes]
    if not (effects.mean or effects.sd_pairs):
        return [f"{where}, {curriculum} changes nothing.", *notes]
    low, high = effects.ci95
    said = [
        f"{where}, {curriculum} changes {metric} by {effects.mean:+.4f} [{low:+.4f}, {high:+.4f}] on average; "
        f"{_differ(effects, curricula)}."
    ]
    if effects.worth_finding is not None and effects.worth_finding < UNLIKELY:
        chance = f"{effects.worth_finding * 100:.0f} %" if effects.worth_finding >= 0.01 else "below 1 %"
        said.append(
            f"Nothing to find: the chance that one of them truly gains more than a test with {SEEDS} seeds would find "
            f"is {chance}."
        )
    return [*said, _population(effects, curricula), *notes]


def _nouns(effects: Effects) -> tuple[str, str]:
    return ("a curriculum", "curricula") if effects.over_curricula else ("the setting", "settings")


def _differ(effects: Effects, curricula: str) -> str:
    """How much true effects differ."""
    if effects.sd_true is None or effects.sd_true_ci95 is None:
        return f"how much {curricula} differ beyond the noise of seeds is unknown"
    low, high = effects.sd_true_ci95
    if not low:
        return f"these {curricula} do not differ significantly more than seeds do (true SD 0 to {high:.4f})"
    return f"these {curricula} differ (true SD {effects.sd_true:.4f} [{low:.4f}, {high:.4f}])"


def _population(effects: Effects, curricula: str) -> str:
    """What the interval is for."""
    if effects.queries is None:
        covers = "tune-cl effects --seeds 2 covers all pairs, new seeds and test queries"
        return f"The interval is for further {curricula}, on these dev queries and this seed; {covers}."
    return f"The interval is for further {curricula} as the search chooses them, new seeds and new queries."


def value_name(key: str, value: object) -> str:
    """A value of a key in words: `pacing root`, `anti true`."""
    text = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    return f"{key.rpartition('.')[2]} {text}"
