"""What a verdict or a search says, once: the terminal, the page, model cards and notebooks render these parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainables.core.prose import counted, short
from trainables.evaluation.metrics import in_words
from tune_cl.experiment.arms import CURRICULUM, PLAIN
from tune_cl.results import Effects, SearchResult, Tested, Trial, Verdict
from tune_cl.search.remarks import in_sentences
from tune_cl.space.wording import (
    CAUTION,
    DEFAULT,
    arm_words,
    label_free_rows,
    label_free_words,
    not_tuned,
    tuning_words,
)
from tune_cl.verdict.figures import NONE, interval_words, number, p_value, signed
from tune_cl.verdict.sentences import badge, size_words

MOST_TRIALS = 10  # of an arm in a table


@dataclass(frozen=True)
class Table:
    """Cells as texts, empty where there is nothing to say."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Part:
    """A title, sentences that end in a full stop, the most important first, and a table."""

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None


def part(title: str, sentences: Sequence[str] = (), table: Table | None = None) -> list[Part]:
    """A part without its empty sentences; none if nothing is left."""
    kept = tuple(one for one in sentences if one)
    shown = table if table and table.rows else None
    return [Part(title, kept, shown)] if kept or shown else []


# -- a verdict -----------------------------------------------------------------------------------------------------


def of_verdict(verdict: Verdict) -> list[Part]:
    """The answer with what explains it and what to know before one believes it; then what it rests on."""
    free = label_free_rows(verdict.first_stage, verdict.label_free)
    rows = [(one.label, "without training labels", number(one.mean), *("",) * 4) for one in free]
    rows += _rows(verdict, verdict)
    what = "curriculum" if verdict.over_curricula else "configuration"
    parts = [
        *part(badge(verdict), verdict.sentences),
        *part("Tests", [_sample(verdict)], _tests_table(verdict, rows)),
    ]
    for one in verdict.others:
        answer = f"{one.curriculum.label}: {one.verdict}."
        parts += part(f"Further {what}", [answer], _tests_table(verdict, _rows(verdict, one)))
    return [*parts, *_selection(verdict)]


def _sample(verdict: Verdict) -> str:
    seeds = ", ".join(str(seed) for seed in verdict.seeds)
    return f"Means over {counted(verdict.queries, 'query')} and {counted(len(verdict.seeds), 'seed')} ({seeds})."


def _tests_table(verdict: Verdict, rows: Sequence[tuple[str, ...]]) -> Table:
    columns = "training", "is", f"{in_words(verdict.metric)} on {verdict.split}", "SD", "difference", "95 % CI", "p"
    return Table(columns, tuple(rows))


def _rows(verdict: Verdict, tested: Tested) -> list[tuple[str, ...]]:
    """A curriculum that is `tested`, then its opponents, each with the curriculum's difference from it."""
    curriculum = tested.curriculum
    name = f"{arm_words(CURRICULUM, verdict.over_curricula)} {curriculum.trial_id or ''}".rstrip()
    first = (curriculum.label, name, number(curriculum.mean), number(curriculum.sd), "", "", "")
    others = [
        (one.label, ", ".join(one.roles), number(one.mean), number(one.sd), signed(one.difference),
         interval_words(one.ci95), p_value(one.p))
        for one in tested.opponents
    ]  # fmt: skip
    return [first, *others]


def _selection(verdict: Verdict) -> list[Part]:
    seeds = max((len(row.values) for row in verdict.selection), default=0)
    if not seeds:
        return []
    names = {arm: arm_words(arm, verdict.over_curricula) for arm in (PLAIN, CURRICULUM)}
    rows = tuple(
        (names[row.arm], f"{row.trial_id} {row.label}", number(row.mean), "chosen" if row.chosen else "")
        for row in verdict.selection
    )
    table = Table(("arm", "training", f"dev {in_words(verdict.metric)}", ""), rows)
    return part("Selection on dev", [f"Means over {counted(seeds, 'new seed')}."], table)


# -- a search ------------------------------------------------------------------------------------------------------


def of_search(result: SearchResult) -> list[Part]:
    """What puts a search in doubt, what ran, the best trial of each arm beside the default, what curricula change, and
    what else to know."""
    ended = f"What ended the search: {result.ended_by}." if result.ended_by else ""
    return [
        *part("Warnings", [*in_sentences(result.remarks, warnings=True)]),
        *part(f"Search {result.name}", [_ran(result), ended]),
        *part("On dev", on_dev(result), comparison(result)),
        *of_effects(result.effects),
        *part("Notes", [*in_sentences(result.remarks, warnings=False)]),
    ]


def of_effects(effects: Effects | None) -> list[Part]:
    """What curricula change over all pairs."""
    if effects is None:
        return []
    title = "What curricula change" if effects.over_curricula else "What the settings change"
    return part(title, effects.sentences)


def best_trials(result: SearchResult) -> list[Part]:
    """The best trials of each arm on dev, each curriculum beside its twin."""
    rows = []
    for arm in (PLAIN, CURRICULUM):
        trials = [trial for trial in result.of_arm(arm) if trial.dev is not None and trial.outcome != "failed"]
        for trial in sorted(trials, key=lambda trial: -(trial.dev or 0.0))[:MOST_TRIALS]:
            twin = result.trial(trial.twin) if arm == CURRICULUM else None
            difference = signed(trial.dev - twin.dev) if twin and twin.dev is not None and trial.dev is not None else ""
            outcome = (trial.outcome or "running").replace("_", " ")
            rows.append(
                (f"{trial.trial_id} {trial.label}", number(trial.dev), str(trial.iteration), str(trial.iterations),
                 outcome, twin.trial_id if twin else "", difference)
            )  # fmt: skip
    columns = "trial", f"dev {in_words(result.metric)}", "at iteration", "of", "outcome", "twin", "less twin"
    said = f"The best trials of each arm, at most {MOST_TRIALS}, of one seed each. {CAUTION}"
    return part("Trials", [said], Table(columns, tuple(rows))) if rows else []


def _ran(result: SearchResult) -> str:
    plain, others = len(result.of_arm(PLAIN)), len(result.of_arm(CURRICULUM))
    trials = counted(len(result.trials), "trial")
    if is_tuned(result):
        other = "with a curriculum" if result.over_curricula else "others"
        further = f", {result.further_seeds} under further seeds" if result.further_seeds else ""
        trials = f"{len(result.trials)} trials, {plain} plain and {others} {other}{further}"
    outcomes = Counter(trial.outcome for trial in result.trials)
    stopped = f"{outcomes['stopped_early']} stopped early, {outcomes['failed']} failed"
    cost = f"{counted(result.iterations, 'iteration')}, {result.seconds:.0f} s"
    return f"{result.ranker} on {result.data}: {trials} ({stopped}), {cost}."


def is_tuned(result: SearchResult) -> bool:
    """Whether there were plain trials besides the default."""
    return len(result.of_arm(PLAIN)) > 1


def on_dev(result: SearchResult) -> list[str]:
    """What tuning was worth to plain training, how far the best other trial is from it, twins that failed, and what
    needs no training labels."""
    failed = [trial.trial_id for trial in result.of_arm(PLAIN) if trial.outcome == "failed"]
    curricula = {name: [one.trial_id for one in result.of_arm(CURRICULUM) if one.twin == name] for name in failed}
    twins = [f"{name}, the twin of {', '.join(of_twin)}, failed." for name, of_twin in curricula.items() if of_twin]
    rows = label_free_rows(result.first_stage, result.label_free)
    said = [_tuning(result), _above_plain(result), *twins, label_free_words(rows, result.metric, "dev")]
    return [one for one in said if one]


def _tuning(result: SearchResult) -> str:
    """What tuning was worth to plain training, or that it was not tuned; empty where neither can be said."""
    best, default = result.trial(result.best_plain), result.trial(result.default)
    if best is None or best.mean is None or result.plain is None:
        return ""
    if not is_tuned(result):
        return not_tuned(result.plain)
    if default is None or default.mean is None:
        return ""
    trials = len(result.of_arm(PLAIN))
    return tuning_words(result.metric, trials, result.searched(PLAIN), best.mean, default.mean, result.plain)


def _above_plain(result: SearchResult) -> str:
    against = f"tuned {result.plain}" if is_tuned(result) else f"{result.plain} as given"
    against = "the default" if result.plain is None else against
    best, plain = result.trial(result.best_curriculum), result.trial(result.best_plain)
    if plain is None or plain.mean is None:
        return f"There is no dev value of {against}, so there is nothing to compare with."
    if best is None or best.mean is None:
        return f"No trial but {against} gave a dev value, so there is nothing to compare it with."
    what = "curriculum" if result.over_curricula else "other trial"
    size = size_words(best.mean - plain.mean, result.metric)
    if best.mean <= plain.mean:
        if not round(best.mean - plain.mean, 4):
            size = f"equal in {in_words(result.metric)} to four digits"
        return f"No {what} beat {against} on dev: the best, {best.trial_id}, was {size}."
    return f"The best {what} was {size} {against} on dev. {CAUTION}"


def comparison(result: SearchResult) -> Table:
    """Dev values, and the searched parameters in which the best trials of the arms and the default differ."""
    columns = _columns(result)
    rows = [
        (f"dev {in_words(result.metric)}", *(number(one and one.dev) for one in columns.values())),
        ("at iteration", *(str(one.iteration) if one else NONE for one in columns.values())),
    ]
    if any(one and one.mean != one.dev for one in columns.values()):
        rows.append(("mean over seeds", *(number(one and one.mean) for one in columns.values())))
    for key in result.searched():
        values = [one and one.params.get(key) for one in columns.values()]
        if any(value != values[0] for value in values):
            rows.append((key, *map(_setting, values)))
    return Table(("", *columns), tuple(rows))


def _columns(result: SearchResult) -> dict[str, Trial | None]:
    """The trials that are shown, by their headings."""
    best, plain = result.trial(result.best_curriculum), result.trial(result.best_plain)
    shown: dict[str, Trial | None] = {}
    if best:
        other = "best" if best.trial_id == result.best else "best other trial"
        shown[f"{'best curriculum' if result.over_curricula else other} ({best.trial_id})"] = best
    if plain and plain.trial_id != result.default:
        shown[f"plain, tuned ({plain.trial_id})"] = plain
    return shown | {f"{DEFAULT} (t0000)": result.trial(result.default)}


def _setting(value: Any) -> str:
    """A parameter's value: floats have three significant digits, for 0.00003 is not 0.0000."""
    return NONE if value is None else str(short(value) if isinstance(value, float) else value)
