"""Effects in sentences: the same on the terminal, in the report and in notebooks."""

from __future__ import annotations

from trainables.core.prose import counted
from trainables.evaluation.metrics import in_words
from tune_cl.results import TEST_SEEDS, Effects
from tune_cl.verdict.figures import interval_words

UNLIKELY = 0.1  # that there is anything to find


def worded(effects: Effects) -> Effects:
    """The same with its sentences."""
    return effects.model_copy(update={"sentences": tuple(_sentences(effects))})


def _sentences(effects: Effects) -> list[str]:
    """The mean effect, how much curricula differ, whether there is anything to find, and what for."""
    curriculum, curricula = ("a curriculum", "curricula") if effects.over_curricula else ("the setting", "settings")
    trained = f"with {counted(effects.seeds, 'seed')} each" if effects.queries else "that ran to the end"
    where = f"On {effects.split}, over {counted(effects.pairs, 'pair')} {trained}"
    notes = [f"Note: {note}." for note in effects.notes]
    if not (effects.mean or effects.sd_pairs):
        return [f"{where}, {curriculum} changes nothing.", *notes]
    change = f"{effects.mean:+.4f} {interval_words(effects.ci95)} on average"
    said = [f"{where}, {curriculum} changes {in_words(effects.metric)} by {change}; {_differ(effects, curricula)}."]
    if effects.worth_finding is not None and effects.worth_finding < UNLIKELY:
        chance = f"{100 * effects.worth_finding:.0f} %" if effects.worth_finding >= 0.01 else "below 1 %"
        gain = f"one of them truly gains more than a test with {TEST_SEEDS} seeds would find"
        said.append(f"Nothing to find: the chance that {gain} is {chance}.")
    if effects.queries is None:
        covers = "tune-cl effects --seeds 2 covers all pairs, new seeds and test queries"
        said.append(f"The interval is for further {curricula}, on these dev queries and this seed; {covers}.")
    else:
        said.append(f"The interval is for further {curricula} as the search chooses them, new seeds and new queries.")
    return [*said, *notes]


def _differ(effects: Effects, curricula: str) -> str:
    """How much true effects differ."""
    if effects.sd_true is None or effects.sd_true_ci95 is None:
        return f"how much {curricula} differ beyond the noise of seeds is unknown"
    low, high = effects.sd_true_ci95
    if not low:
        return f"these {curricula} do not differ significantly more than seeds do (true SD 0 to {high:.4f})"
    return f"these {curricula} differ (true SD {effects.sd_true:.4f} [{low:.4f}, {high:.4f}])"
