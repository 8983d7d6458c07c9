"""What a verdict or a search says, once: the terminal, the report, model cards and notebooks render these parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainables.core.prose import counted
from trainables.evaluation.metrics import in_words
from tune_cl.confirmation.intersection import DECIDE_HARM
from tune_cl.confirmation.request import ONE_TRAINING
from tune_cl.confirmation.verdict import (
    LEVEL,
    NOT_SHOWN,
    ConfigurationResult,
    Difference,
    Earlier,
    ExistingResult,
    OpponentResult,
    OverQueries,
    Trained,
    VerdictFacts,
)
from tune_cl.effects.words import sentences_of_search
from tune_cl.experiment.experiment import CURRICULUM, PLAIN
from tune_cl.report.wording import NONE, interval_words, number, p_value, signed
from tune_cl.results import LabelFree, SearchResult, Trial
from tune_cl.search.remarks import grouped, in_count, in_sentences
from tune_cl.space.space import short
from tune_cl.space.wording import (
    CAUTION,
    DEFAULT,
    PLAIN_TRAINING,
    arm_words,
    below_label_free,
    label_free_rows,
    label_free_words,
    not_tuned,
    setting,
    tuning_words,
)

MOST_KEYS = 4  # listed in a sentence
ON_DEV = "dev scores are biased: they chose the configurations and checkpoints, so this is not a verdict"
NOTHING_TO_TEST = "the differences are all equal, so no test can be made"
SAME_TREES = "The seed changes nothing in these trainings: with others they would be the same."
EVERY = "A configuration is better only if it is above each of its opponents."
CORRECTED = {"holm": "Holm", "bonferroni": "Bonferroni", "none": "no correction"}
CORRECTED |= dict.fromkeys(("bh", "benjamini-hochberg"), "Benjamini-Hochberg")
BADGES = {
    "better": "{} helps",
    NOT_SHOWN: "No evidence that {} helps",
    "worse": "{} harms",
}


@dataclass(frozen=True)
class Table:
    """Cells as texts, empty where there is nothing to say."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Part:
    """A title, sentences that end in a full stop, the most important first, a table, and the name of a chart."""

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    chart: str | None = None


def part(title: str, sentences: Sequence[str] = (), table: Table | None = None, chart: str | None = None) -> list[Part]:
    """A part without its empty sentences; none if nothing is left."""
    kept = tuple(one for one in sentences if one)
    shown = table if table and table.rows else None
    return [Part(title, kept, shown, chart)] if kept or shown else []


# -- a verdict -----------------------------------------------------------------------------------------------------


def of_verdict(verdict: VerdictFacts) -> list[Part]:
    """The answer with what explains it and what to know before one believes it; then what it rests on."""
    said = [headline(verdict), *explanations(verdict), *(f"Note: {note}." for note in verdict.notes)]
    return [
        *part(badge(verdict), said, chart="seeds"),
        *_selection(verdict),
        *_trainings(verdict),
        *_tests(verdict),
        *_among(verdict),
        *_existing(verdict),
        *_looks(verdict),
        *part("Not tested", [*_failed(verdict), *_dropped(verdict)]),
    ]


def badge(verdict: VerdictFacts) -> str:
    """The verdict in a few words."""
    if verdict.split == "dev":
        return "No verdict: compared on dev only"
    text = BADGES[verdict.verdict].format("the curriculum" if verdict.of_curricula else "the change")
    return f"{text[0].upper()}{text[1:]}"


def headline(verdict: VerdictFacts) -> str:
    """The verdict in one sentence: what differs from whom, by how much, and for what it holds."""
    row = verdict.leader
    difference = f"'{row.label}' is {beside(row.size, verdict.metric)} {opponent(verdict, row.opponent)}"
    if verdict.verdict == NOT_SHOWN:
        why = f"too few seeds for trainings that collapse ({_who_fell(verdict)}); " if verdict.too_few_seeds else ""
        reason = f"{_undecided(verdict, row)}{_as_given(verdict)}{_p_of(verdict, row)}"
        return f"Not significant: {why}{difference}; {reason}."
    answer = "Better" if verdict.verdict == "better" else "Worse"
    low, high = row.ci95_new
    for_new = f"for {_population(verdict, row)}{_p_of(verdict, row)}"
    return f"{answer}: {difference} (95 % CI {low:+.4f} to {high:+.4f}), {for_new}."


def explanations(verdict: VerdictFacts) -> list[str]:
    """Where the verdict is better, over how many opponents; else what explains a gain, whom it is below, and what the
    design can show. Then what tuning alone was worth, and what holds for these trainings alone."""
    if verdict.verdict == "better":
        said = [_above_all(verdict)]
    else:
        unknown = verdict.verdict == NOT_SHOWN
        said = ["They may still differ."] if unknown and not verdict.leader.shown else []
        said += [shared_gain(verdict), *_below_others(verdict)]
        said += [_can_show(verdict)] if unknown else []
        said += [SAME_TREES] if unknown and not verdict.leader.seed_matters else []
    return [one for one in (*said, _of_tuning(verdict), of_these_seeds(verdict)) if one]


def effect(verdict: VerdictFacts) -> str:
    """The difference that the verdict is about, with its interval, p and sample."""
    row = verdict.leader
    between = ", 95 % CI {:+.4f} to {:+.4f}".format(*row.interval) if row.interval else ""
    return f"{row.size:+.4f} {in_words(verdict.metric)}{between}{_p_of(verdict, row)}"


def beside(difference: float, metric: str) -> str:
    """A difference of a metric in words, before its opponent, e.g. `0.0058 MAP below`."""
    if not round(difference, 4):
        return f"equal in {in_words(metric)}, to four digits, to"
    return f"{abs(difference):.4f} {in_words(metric)} {'below' if difference < 0 else 'above'}"


def opponent(verdict: VerdictFacts, one: OpponentResult) -> str:
    """An opponent in words, and how hard it was tuned."""
    name = baseline_of(verdict)
    if "champion" in one.roles:
        fair = verdict.fair
        if not fair.tuned:
            return f"{name} as given (not tuned)"
        keys = ", ".join(key.rpartition(".")[2] for key in fair.keys)
        return f"{name}, tuned over {counted(fair.trials[PLAIN], 'trial')} ({keys})"
    if "twin" in one.roles:
        return f"its own settings {verdict.plain}"
    if "default" in one.roles:
        return f"{name} with the defaults"
    return "the same pairs in random order" if "filter" in one.roles else f"'{one.label}'"


def baseline_of(verdict: VerdictFacts) -> str:
    """What the opponents train with, in words: plain training or, of another question, the baseline's values."""
    return PLAIN_TRAINING if verdict.of_curricula else verdict.plain.removeprefix("with ")


def _undecided(verdict: VerdictFacts, row: ConfigurationResult) -> str:
    """What a configuration's interval says where the verdict is not significant. It may exclude 0 all the same: it is
    of this configuration alone, while the test is corrected for all; or the configuration is not below each opponent
    that decides harm; or the search would have named another one, which was not tested."""
    if row.interval is None:
        return NOTHING_TO_TEST if len(row.runs) > 1 else "one seed says nothing about new trainings"
    low, high = row.interval
    if low == high:
        return NOTHING_TO_TEST
    between = f"95 % CI {low:+.4f} to {high:+.4f}"
    if not (low > 0 or high < 0):
        return between
    if not row.shown:
        return f"{between}, uncorrected; corrected for {_configurations(verdict)} it includes 0"
    harmless = [one for one in row.opponents if DECIDE_HARM & {*one.roles} and not (one.shown and one.difference < 0)]
    if harmless:
        named = " and ".join(opponent(verdict, one) for one in harmless)
        return f"{between}, but it is not significantly below {named}"
    return f"{between}, but the search recommended another configuration, which was not tested"


def _above_all(verdict: VerdictFacts) -> str:
    count = len(verdict.opponents)
    what = "plain opponents" if verdict.of_curricula else "opponents"
    return f"It is above all {count} {what}; this one is the least favourable." if count > 1 else ""


def shared_gain(verdict: VerdictFacts) -> str:
    """What a gain over another opponent owes to settings that plain training can have, too; empty where there is no
    such gain."""
    twin = next((one for one in verdict.opponents if "twin" in one.roles), None)
    if twin is None or (twin.difference > 0 and twin.shown):
        return ""
    for one in verdict.opponents:
        if one is not twin and one.difference > 0 and one.shown and "filter" not in one.roles:
            keys = [key for key, value in twin.params.items() if one.params.get(key) != value]
            settings = " ".join(setting(key, twin.params[key]) for key in keys[:MOST_KEYS])
            gain = f"The gain over {opponent(verdict, one)} ({one.size:+.4f}) is that of {settings}"
            return f"{gain}: {baseline_of(verdict)} with it has {twin.mean:.4f}."
    return ""


def _below_others(verdict: VerdictFacts) -> list[str]:
    """Opponents beside the one of the headline that are significantly above the configuration."""
    others = [one for one in verdict.opponents if one.label != verdict.leader.against]
    return [
        f"It is {beside(one.size, verdict.metric)} {opponent(verdict, one)} (p = {one.p:.2g})."
        for one in others
        if one.difference < 0 and one.shown
    ]


def _can_show(verdict: VerdictFacts) -> str:
    """The minimum detectable difference of the design, and how many seeds the observed one needs."""
    if verdict.detectable is None:
        return ""
    design = f"{counted(len(verdict.seeds), 'seed')}, 80 % power"
    statement = f"Minimum detectable difference: {verdict.detectable:.4f} {in_words(verdict.metric)} ({design})"
    if not verdict.seeds_needed:
        return f"{statement}."
    observed = f"{abs(verdict.leader.size):.4f}"
    return f"{statement}; {counted(verdict.seeds_needed, 'seed')} would be needed to detect the observed {observed}."


def _of_tuning(verdict: VerdictFacts) -> str:
    """What tuning alone was worth to plain training, with its interval; empty where that is not known."""
    default = verdict.default
    if not default:
        return ""
    between = f" [{-default.interval[1]:+.4f}, {-default.interval[0]:+.4f}]" if default.interval else ""
    return f"Tuning alone was worth {-default.difference:+.4f}{between}."


def of_these_seeds(verdict: VerdictFacts) -> str:
    """What holds for these N trainings alone, where it differs from the verdict; else empty."""
    these = verdict.these_seeds
    if these == verdict.verdict:
        return ""
    if these == NOT_SHOWN:
        return "Over these seeds alone the difference is not significant."
    side = 1 if these == "better" else -1
    p = {row.label: max(one.p_adjusted for one in row.opponents) for row in verdict.configurations}
    rows = [row for row in verdict.configurations if p[row.label] <= LEVEL and side * row.difference > 0]
    if not (row := max(rows, key=lambda row: side * row.difference, default=None)):
        return ""
    seeds = counted(len(verdict.seeds), "seed")
    return f"Over these {seeds} alone '{row.label}' is {these} (p = {p[row.label]:.2g}); other seeds may differ."


def _population(verdict: VerdictFacts, row: Difference) -> str:
    """What the verdict holds for, and what it takes as given."""
    if not row.seed_matters:
        return "new queries; the seed changes nothing"
    anew = ["new queries", "new trainings"]
    anew += ["new teachers"] if verdict.teachers == "anew" else []
    anew += ["new draws of the label noise"] if verdict.noise == "anew" else []
    return f"{', '.join(anew[:-1])} and {anew[-1]}{_as_given(verdict)}"


def _as_given(verdict: VerdictFacts) -> str:
    once = ["this one teacher"] if verdict.teachers == "once" else []
    once += ["this draw of the label noise"] if verdict.noise == "once" else []
    return f", with {' and '.join(once)}" if once else ""


def _p_of(verdict: VerdictFacts, row: Difference) -> str:
    queries = counted(verdict.queries, "query")
    if verdict.clusters < verdict.queries:
        queries += f" in {counted(verdict.clusters, 'cluster')}"
    several = len(verdict.configurations) + len(verdict.dropped) > 1
    correction = f"; {CORRECTED.get(verdict.correction, verdict.correction)} over {_configurations(verdict)}"
    facts = f"{counted(len(verdict.seeds), 'seed')}, {queries}{correction if several else ''}"
    return f" ({facts})" if np.isnan(row.p) else f" (p = {row.p:.2g}, {facts})"


def _configurations(verdict: VerdictFacts) -> str:
    """How many p is corrected for, in words: those tested, and those that got no more seeds."""
    return counted(len(verdict.configurations) + len(verdict.dropped), "configuration")


def _who_fell(verdict: VerdictFacts) -> str:
    labels = dict.fromkeys(one.label for one in verdict.rarely_collapsed)
    seeds = {label: [str(one.seed) for one in verdict.rarely_collapsed if one.label == label] for label in labels}
    return "; ".join(f"seed {' and '.join(of_label)} of '{label}'" for label, of_label in seeds.items())


# -- notes on a verdict --------------------------------------------------------------------------------------------


def notes(verdict: VerdictFacts) -> tuple[str, ...]:
    """What to know of a comparison before one believes it, without a full stop."""
    found = [_often_fails(verdict)] if verdict.often_fails else []
    found += [_fell(verdict)] if verdict.rarely_collapsed else []
    found += [_unsteady(label, len(verdict.seeds)) for label in verdict.two_groups]
    found += [_learned_nothing(verdict)] if verdict.untaught else []
    plain = next((one for one in verdict.every_opponent if "champion" in one.roles), verdict.baseline)
    means = [row.mean for row in (plain, *verdict.configurations)]
    found += filter(None, [below_label_free(label_free(verdict), verdict.metric, means)])
    if verdict.split == "dev":
        return (*found, ON_DEV)
    accounted = len(verdict.earlier) == len(verdict.readings_of_seeds)
    of_this = [_read_before(verdict.split, verdict.earlier, accounted)] if verdict.earlier else []
    others = [_read_by_others(verdict.split, len(verdict.readings))] if verdict.readings else []
    return (*found, *of_this, *others)


def label_free(verdict: VerdictFacts) -> list[LabelFree]:
    return label_free_rows(verdict.first_stage, verdict.label_free)


def _often_fails(verdict: VerdictFacts) -> str:
    """How often the trainings of each configuration fail, where some often do."""
    counts = Counter(one.label for one in verdict.collapsed)
    each = [f"{counts[row.label]} of {len(row.runs)} of '{row.label}'" for row in verdict.every_row]
    why = "the means count them, because so many show how often it happens"
    return f"trainings that collapsed: {', '.join(each)}; {why}"


def _fell(verdict: VerdictFacts) -> str:
    values = {row.label: [run.value for run in row.runs] for row in verdict.every_row}
    each = [
        f"'{one.label}' with seed {one.seed} ({one.value:.4f}; its median is {np.median(values[one.label]):.4f})"
        for one in verdict.rarely_collapsed
    ]
    return f"trainings collapsed: {', '.join(each)}; what is shown holds with and without these seeds"


def _unsteady(label: str, seeds: int) -> str:
    return (
        f"'{label}' fails under some seeds and works under others, and {seeds} seeds say little of how often; a lower "
        "learning rate may end that"
    )


def _learned_nothing(verdict: VerdictFacts) -> str:
    low = verdict.untaught
    of_label = {one.label: [str(each.seed) for each in low if each.label == one.label] for one in low}
    which = ", ".join(f"'{label}' with seed {' and '.join(seeds)}" for label, seeds in of_label.items())
    reached = f"{max(one.dev for one in low):.4f} {in_words(verdict.metric)} on dev at most"
    return f"trainings that stayed far below the search's trials: {which} ({reached})"


def _read_before(split: str, looks: Sequence[Earlier], accounted: bool) -> str:
    """Notes earlier tests on the same split."""
    last = looks[-1]
    tested = len(last.configurations) + len(last.dropped)
    times = f"{counted(len(looks), 'time')} before, last" if len(looks) > 1 else "before,"
    outcome = last.verdict.replace(NOT_SHOWN, "not significant")
    how = f"{counted(len(last.seeds), 'seed')} and {counted(tested, 'configuration')}: {outcome}"
    account = "p and intervals take account of it" if accounted else "p takes no account of what was asked after that"
    return f"{split} was read {times} with {how}; {account}"


def _read_by_others(split: str, readings: int) -> str:
    """What readings before this one do to its error, in words."""
    times = "once" if readings == 1 else f"{readings} times"
    return (
        f"these {split} queries were read {times} before or meanwhile by other searches or trainings: of "
        f"{readings + 1} verdicts at 5 % at least one is wrong by chance in up to "
        f"{1 - (1 - LEVEL) ** (readings + 1):.0%} of cases"
    )


# -- what a verdict rests on ---------------------------------------------------------------------------------------


def name_of(row: Trained) -> str:
    """A row's trial and, of an opponent, its roles."""
    roles = ", ".join(row.roles) if isinstance(row, OpponentResult) else ""
    return " ".join(one for one in (row.trial_id, roles) if one)


def p_heading(verdict: VerdictFacts) -> str:
    """What a column of p-values is called."""
    return "p adjusted" if verdict.corrected else "p"


def _figures(one: Difference) -> tuple[str, str, str]:
    """The verdict's size, interval and p."""
    return signed(one.size), interval_words(one.interval) if one.interval else "", p_value(one.p)


def _selection(verdict: VerdictFacts) -> list[Part]:
    seeds = max((len(row.devs) for row in verdict.selection), default=0)
    if not seeds:
        return []
    names = {arm: arm_words(arm, verdict.of_curricula) for arm in (PLAIN, CURRICULUM)}
    rows = tuple(
        (names[row.arm], f"{row.trial_id} {row.label}", number(row.mean), "chosen" if row.chosen else "")
        for row in verdict.selection
    )
    table = Table(("arm", "training", f"dev {in_words(verdict.metric)}", ""), rows)
    return part("Selection on dev", [f"Means over {counted(seeds, 'new seed')}."], table)


def _trainings(verdict: VerdictFacts) -> list[Part]:
    """What needs no training labels, opponents and configurations: their means, of folds also those of each."""
    folds, several = verdict.folds or (), len(verdict.seeds) > 1
    rows = [("", one.label, number(one.mean), *[""] * (several + len(folds))) for one in label_free(verdict)]
    rows += [
        (name_of(row), row.label, number(row.mean), *([number(row.sd)] if several else []),
         *(number(mean) for mean in row.folds or ()))
        for row in verdict.every_row
    ]  # fmt: skip
    title = f"{in_words(verdict.metric)} on {verdict.split}"
    over = f"Means over {counted(verdict.queries, 'query')} and {counted(len(verdict.seeds), 'seed')}"
    over += f" ({', '.join(map(str, verdict.seeds))}), with the standard deviation over seeds." if several else "."
    columns = "", "training", "mean", *(["SD"] if several else []), *folds
    return part(title, [over], Table(columns, tuple(rows)))


def _tests(verdict: VerdictFacts) -> list[Part]:
    """Each configuration against its opponents."""
    rows = tuple(
        (name_of(row) if place == 0 else "", name_of(one), *_figures(one), one.marks)
        for row in verdict.configurations
        for place, one in enumerate(row.opponents)
    )
    said = [EVERY] if any(len(row.opponents) > 1 for row in verdict.configurations) else []
    said += ["† and ‡: above it at 95 and 99 % confidence."] if any(row[-1] for row in rows) else []
    if (count := len(verdict.configurations)) > 1 and verdict.corrected:  # so one that lacks 0 proves nothing
        said.append(f"Each interval is of one configuration; p is corrected for all {count}.")
    columns = "", "against", "difference", "95 % CI", p_heading(verdict), ""
    return part("Tests", said, Table(columns, rows))


def _among(verdict: VerdictFacts) -> list[Part]:
    rows = tuple((f"{row.label} - {row.other}", *_figures(row)) for row in verdict.among or ())
    return part("One against another", [], Table(("", "difference", "95 % CI", p_heading(verdict)), rows))


def _existing(verdict: VerdictFacts) -> list[Part]:
    if not verdict.against:
        return []
    rows = tuple(
        (_named(one), number(one.mean), *_over_queries(one.from_baseline), *_over_queries(one.to_best))
        for one in verdict.against
    )
    best = f"'{verdict.against[0].best}' is above it by"
    columns = "", in_words(verdict.metric), "from the baseline", "95 % CI", "p", best, "95 % CI", "p"
    return part("Existing rankers", [ONE_TRAINING], Table(columns, rows))


def _named(one: ExistingResult) -> str:
    """An existing ranker's name, with the precision that its scores were computed in."""
    return f"{one.label} ({one.precision})" if one.precision else one.label


def _over_queries(one: OverQueries) -> tuple[str, str, str]:
    return signed(one.difference), interval_words(one.ci95), p_value(one.p_adjusted)


def _looks(verdict: VerdictFacts) -> list[Part]:
    rows = tuple(
        (str(one.seeds), one.label, one.against, signed(one.difference), p_value(one.p_new), f"{one.boundary:.2g}",
         one.decision)
        for one in verdict.looks
    )  # fmt: skip
    said = (
        "After each seed: the configuration with the smallest p against its least favourable opponent, and the p at "
        "which training stops. The overall error stays at 5 %; p and intervals of the tests are adjusted for all "
        "interim analyses."
    )
    columns = "seeds", "configuration", "against", "difference", "p", "stops at", "decision"
    return part("Interim analyses", [said], Table(columns, rows)) if rows else []


def _failed(verdict: VerdictFacts) -> Iterator[str]:
    reasons = {f"{one.label}, seed {one.seed}": one.reason for one in verdict.failed}
    for reason, names in grouped(reasons).items():
        yield f"{in_count(names)} failed: {reason}."


def _dropped(verdict: VerdictFacts) -> Iterator[str]:
    for one in verdict.dropped:
        yield f"'{one.label}' got no more seeds after {', '.join(map(str, one.seeds))}: it could hardly win."


# -- a search ------------------------------------------------------------------------------------------------------


def of_search(result: SearchResult) -> list[Part]:
    """What puts a search in doubt, what ran, the best trial of each arm beside the default, what curricula change, and
    what else to know."""
    ended = f"What ended the search: {result.ended_by}." if result.ended_by else ""
    changes = "What curricula change" if result.over_curricula else "What the settings change"
    return [
        *part("Warnings", [*in_sentences(result.remarks, warnings=True)]),
        *part(f"Search {result.name}", [_ran(result), ended]),
        *part("On dev", on_dev(result), comparison(result)),
        *part(changes, sentences_of_search(result.effects, result.over_curricula)),
        *part("Notes", [*in_sentences(result.remarks, warnings=False)]),
    ]


def _ran(result: SearchResult) -> str:
    plain, others = len(result.of_arm(PLAIN)), len(result.of_arm(CURRICULUM))
    trials = counted(len(result.trials), "trial")
    if is_tuned(result):
        other = "with a curriculum" if result.over_curricula else "others"
        trials = f"{len(result.trials)} trials, {plain} plain and {others} {other}"
    outcomes = Counter(trial.outcome for trial in result.trials)
    stopped = f"{outcomes['stopped_early']} stopped early, {outcomes['failed']} failed"
    cost = f"{counted(result.iterations, 'iteration')}, {result.seconds:.0f} s"
    return f"{result.ranker} on {result.data}: {trials} ({stopped}), {cost}."


def is_tuned(result: SearchResult) -> bool:
    """Whether there were plain trials besides the default."""
    return len(result.of_arm(PLAIN)) > 1


def could_be_tuned(result: SearchResult) -> bool:
    return result.plain is not None and not is_tuned(result)


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
    if best is None or best.dev is None or result.plain is None:
        return ""
    if not is_tuned(result):
        return not_tuned(result.plain)
    if default is None or default.dev is None:
        return ""
    trials = len(result.of_arm(PLAIN))
    return tuning_words(result.metric, trials, result.searched(PLAIN), best.dev, default.dev, result.plain)


def _above_plain(result: SearchResult) -> str:
    against = f"tuned {result.plain}" if is_tuned(result) else f"{result.plain} as given"
    against = "the default" if result.plain is None else against
    best, plain = result.trial(result.best_curriculum), result.trial(result.best_plain)
    if plain is None or plain.dev is None:
        return f"There is no dev value of {against}, so there is nothing to compare with."
    if best is None or best.dev is None:
        return f"No trial but {against} gave a dev value, so there is nothing to compare it with."
    what, size = other_trial(result.over_curricula), beside(best.dev - plain.dev, result.metric)
    if best.dev <= plain.dev:
        if not round(best.dev - plain.dev, 4):
            size = f"equal in {in_words(result.metric)} to four digits"
        return f"No {what} beat {against} on dev: the best, {best.trial_id}, was {size}."
    return f"The best {what} was {size} {against} on dev. {CAUTION}"


def other_trial(over_curricula: bool) -> str:
    """What a trial of the other arm is called."""
    return "curriculum" if over_curricula else "other trial"


def comparison(result: SearchResult) -> Table:
    """Dev values, and the searched parameters in which the best trials of the arms and the default differ."""
    columns = _columns(result)
    rows = [
        (f"dev {in_words(result.metric)}", *(number(one and one.dev) for one in columns.values())),
        ("at iteration", *(str(one.iteration) if one else NONE for one in columns.values())),
    ]
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
