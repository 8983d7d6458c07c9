"""From per-query values over seeds to the verdict: tests, correction, marks, words (docs/explanation/verdict.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from trainables.core.prose import counted
from trainables.evaluation.metrics import in_words
from trainables.evaluation.significance import (
    PAIRED,
    SeededTest,
    Seeds,
    adjust,
    collapsed,
    detectable,
    seeded_tests,
    seeds_needed,
    two_groups,
    untaught,
)
from tune_cl.space.wording import PLAIN_TRAINING, below_label_free, setting

Verdict = Literal["better", "no difference shown", "worse"]
LEVEL = 0.05
MOST_KEYS = 4  # listed in a sentence
WITHOUT_CURRICULUM = "without the curriculum"
FEW_SOUND = 6  # seeds: with fewer, nothing is known of how often trainings collapse
ON_DEV = "dev scores are biased: they chose the configurations and checkpoints, so this is no verdict"
NOTHING_TO_TEST = "the differences are all equal, so no test can be made"
CORRECTED = {"holm": "Holm", "bonferroni": "Bonferroni", "none": "no correction"}
CORRECTED |= dict.fromkeys(("bh", "benjamini-hochberg"), "Benjamini-Hochberg")
MARKS = ((0.01, "‡"), (LEVEL, "†"))


@dataclass(frozen=True)
class Corrected:
    """A configuration's test against its reference, and its p-values corrected over all tested pairs: `p_adjusted` for
    these seeds, `p_new_adjusted` for new ones too (NaN where nothing can be said of these)."""

    test: SeededTest
    p_adjusted: float
    p_new_adjusted: float

    @property
    def marks(self) -> str:
        """† at 95 %, ‡ at 99 % after correction, and only if above the reference (Penha & Hauff 2020, Table 5)."""
        if self.test.difference <= 0:
            return ""
        return next((mark for level, mark in MARKS if self.p_new_adjusted <= level), "")

    def direction(self, new_seeds: bool) -> int:
        """1 above the reference, -1 below, 0 if neither is shown: for new seeds too, or for these alone."""
        p = self.p_new_adjusted if new_seeds else self.p_adjusted
        return int(np.sign(self.test.difference)) if p <= LEVEL else 0


def corrected_tests(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    correction: str,
    seed_matters: Sequence[bool] | None = None,
    seeds: Seeds = PAIRED,
) -> list[Corrected]:
    """Tests the first of each pair against the second, both values [N, Q] with equal seeds by row; corrected over all
    pairs.

    `seed_matters`: of each pair, whether the seed changes the trainings of either; None: of all. `seeds`: how the tests
    take them.
    """
    seed_matters = seed_matters or [True] * len(pairs)
    tests = seeded_tests(pairs, seed_matters, seeds)
    adjusted = adjust([test.p_value for test in tests], correction)
    new = np.array([test.new.p for test in tests], np.float64)
    unknown = np.isnan(new)  # with one seed
    new = np.where(unknown, np.nan, adjust(np.where(unknown, 1, new), correction))
    return [Corrected(test, float(p), float(p_new)) for test, p, p_new in zip(tests, adjusted, new, strict=True)]


def collapses(values: Mapping[str, np.ndarray], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Each training that collapsed, from per-query values [N, Q] by label: what a reader must know first."""
    means = {label: each.mean(axis=1) for label, each in values.items()}
    return [
        {"label": label, "seed": seed, "value": float(value)}
        for label, of_label in means.items()
        for seed, value, fell in zip(seeds, of_label, collapsed(of_label), strict=True)
        if fell
    ]


def in_two_groups(values: Mapping[str, np.ndarray]) -> list[str]:
    """The labels of configurations that fail under some seeds and work under others, from per-query values [N, Q]."""
    return [label for label, each in values.items() if two_groups(each.mean(axis=1))]


def untaught_runs(rows: Iterable[Mapping[str, Any]], trials: Sequence[float]) -> list[dict[str, Any]]:
    """Each training that learned next to nothing beside the search's trials. `trials`: their best values on dev."""
    found = []
    for row in rows:
        low = untaught(np.array([run["dev"] for run in row["runs"]]), np.array(trials))
        runs = (run for run, is_low in zip(row["runs"], low, strict=True) if is_low)
        found += [{"label": row["label"], "seed": run["seed"], "dev": run["dev"]} for run in runs]
    return found


def too_few_seeds(document: Mapping[str, Any]) -> bool:
    """Whether trainings collapse, and too few seeds are without a collapse to tell how often."""
    fell = {one["seed"] for one in document.get("collapsed", ())}
    return bool(fell) and len(set(document["seeds"]) - fell) < FEW_SOUND


def power_of(one: Corrected, seeds: int, queries: int, level: float, seed_matters: bool) -> dict[str, Any]:
    """What a comparison's design can show with probability .8: `detectable`, the smallest difference, and
    `seeds_needed`, the fewest seeds that would show the difference observed; and the variance `components` that both
    come from. None where that is not known: one seed, or differences that are all equal."""
    new, difference = one.test.new, one.test.difference
    if np.isnan(new.p) or not any(asdict(new.components).values()):
        return {"detectable": None, "seeds_needed": None, "components": None}
    freedom = new.seed_freedom if seed_matters else queries - 1
    basics = {"components": asdict(new.components) | {"seed_freedom": freedom, "lent": new.lent}}
    smallest = detectable(new.components, max(seeds, 2), queries, freedom, level, lent=new.lent)
    if not seed_matters:
        return basics | {"detectable": smallest, "seeds_needed": 1 if smallest <= abs(difference) else None}
    needed = seeds_needed(difference, new.components, queries, new.seed_freedom, level, lent=new.lent)
    return basics | {"detectable": smallest, "seeds_needed": needed}


def first_level(correction: str, count: int) -> float:
    """The level that the smallest of `count` p-values must reach."""
    return LEVEL if correction == "none" else LEVEL / count


def comparison(corrected: Corrected, interval: tuple[float, float]) -> dict[str, Any]:
    """The figures of a test as documents have them. `interval`: that of these seeds."""
    test = corrected.test
    return {
        "difference": test.difference,
        "p_value": test.p_value,
        "p_adjusted": corrected.p_adjusted,
        "ci95": list(interval),
        "p_new": test.new.p,
        "p_new_adjusted": corrected.p_new_adjusted,
        "ci95_new": list(test.new.ci95),
    }


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """What to know of a comparison before one believes it; of a document that has at least its `split`."""
    notes = [_fell(document)] if document.get("collapsed") else []
    notes += [_unsteady(label, len(document["seeds"])) for label in document.get("two_groups", ())]
    notes += [_learned_nothing(document)] if document.get("untaught") else []
    if "baseline" in document:
        plain = next((one for one in opponents(document) if "champion" in one["roles"]), document["baseline"])
        means = [row["mean"] for row in (plain, *document["configurations"])]
        notes += filter(None, [below_label_free(document, document["metric"], means)])
    if document["split"] == "dev":
        return [*notes, ON_DEV]
    looks = document.get("earlier", ())
    accounted = len(looks) == len(document.get("readings_of_seeds", ()))
    own = [_read_before(document["split"], looks, accounted)] if looks else []
    others = [_read_by_others(document["split"], len(readings))] if (readings := document.get("readings")) else []
    return [*notes, *own, *others]


def _fell(document: Mapping[str, Any]) -> str:
    runs = {row["label"]: row["runs"] for row in every_row(document)}
    each = []
    for one in document["collapsed"]:
        median = np.median([run["value"] for run in runs[one["label"]]])
        each.append(f"'{one['label']}' with seed {one['seed']} ({one['value']:.4f}; its median is {median:.4f})")
    return f"trainings collapsed: {', '.join(each)}; what is shown holds with and without these seeds"


def _unsteady(label: str, seeds: int) -> str:
    return (
        f"'{label}' fails under some seeds and works under others, and {seeds} seeds say little of how often; a lower "
        "learning rate may end that"
    )


def _learned_nothing(document: Mapping[str, Any]) -> str:
    low = document["untaught"]
    of_label = {one["label"]: [str(each["seed"]) for each in low if each["label"] == one["label"]] for one in low}
    which = ", ".join(f"'{label}' with seed {' and '.join(seeds)}" for label, seeds in of_label.items())
    reached = f"{max(one['dev'] for one in low):.4f} {in_words(document['metric'])} on dev at most"
    return f"trainings that learned next to nothing beside the search's trials: {which} ({reached})"


def _read_before(split: str, looks: Sequence[Mapping[str, Any]], accounted: bool) -> str:
    """Notes earlier tests on the same split."""
    last = looks[-1]
    tested = len(last["configurations"]) + len(last["dropped"])
    times = f"{counted(len(looks), 'time')} before, last" if len(looks) > 1 else "before,"
    told = last["verdict"].replace("no difference shown", "not significant")
    how = f"{counted(len(last['seeds']), 'seed')} and {counted(tested, 'configuration')}: {told}"
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


def leader(document: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that a confirmation's verdict is about."""
    return document["configurations"][0]


def opponents(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The opponents of all configurations, each once, champion first."""
    every = (one for row in document["configurations"] for one in row["opponents"])
    return list({one["label"]: one for one in every}.values())


def every_row(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All that was trained, each once: opponents, then configurations."""
    tested = {row["label"]: row for row in document["configurations"]}
    return [*(one for one in opponents(document) if one["label"] not in tested), *tested.values()]


def best_on_dev(document: Mapping[str, Any]) -> str:
    """Describes the first configuration's dev rank within its arm: better ones may have failed or got no more seeds."""
    what = (
        "curriculum"
        if any(row.get("has_curriculum", True) for row in document["configurations"])
        else "other configuration"
    )
    others = document.get("failed") or document.get("dropped")
    return f"the best {what} on dev of those tested" if others else f"the best {what} on dev"


def corrected(document: Mapping[str, Any]) -> bool:
    """Whether the p-values behind the verdict were corrected for the number of configurations."""
    return document.get("correction", "none") != "none"


def p_heading(document: Mapping[str, Any]) -> str:
    """What a column of p-values is called."""
    return "p adjusted" if corrected(document) else "p"


def interval_of(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """The 95 % interval for new seeds; None if nothing is known of these."""
    low, high = row.get("ci95_new") or (None, None)
    return None if low is None or high is None or np.isnan(low) else (low, high)


def shown(p: float | None) -> bool:
    """Whether a p-value shows a difference: not if there is none, null or NaN."""
    return p is not None and p <= LEVEL


def undecided(document: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """What a configuration's interval says where the verdict is not significant. It may exclude 0 all the same: it is
    of this configuration alone, while the test is corrected for all; or the configuration is above another opponent; or
    the search would have named another one, which was not tested."""
    interval = interval_of(row)
    if interval is None:
        return NOTHING_TO_TEST if len(row["runs"]) > 1 else "one seed says nothing about new trainings"
    low, high = interval
    if low == high:
        return NOTHING_TO_TEST
    between = f"95 % CI {low:+.4f} to {high:+.4f}"
    if not (low > 0 or high < 0):
        return between
    if not shown(row["p_new_adjusted"]):
        tested = configurations_of(document)
        return f"{between}, uncorrected; corrected for {tested} it includes 0"
    if above := [one for one in row["opponents"] if one["difference"] > 0]:
        return f"{between}, but it is above {' and '.join(opponent(document, one) for one in above)}"
    return f"{between}, but the search recommended another configuration, which was not tested"


def sentence(document: Mapping[str, Any]) -> str:
    """The verdict in one sentence, then what explains it, what the design can show and what tuning was worth."""
    return " ".join([headline(document), *remarks(document)])


def remarks(document: Mapping[str, Any]) -> list[str]:
    """Where the verdict is better, over how many opponents; else what explains a gain, whom it is below, and what the
    design can show. Then what tuning alone was worth. A sentence each."""
    if document["verdict"] == "better":
        said = [_above_all(document)]
    else:
        said = [shared_gain(document), *_below_others(document)]
        said += [_can_show(document)] if document["verdict"] == "no difference shown" else []
    return [one for one in (*said, of_tuning(document)) if one]


def headline(document: Mapping[str, Any]) -> str:
    """The verdict in one sentence, which terminal and report begin with."""
    row = leader(document)
    difference = f"{beside(size_of(row), document['metric'])} {opponent(document, against(row))}"
    if document["verdict"] == "no difference shown":
        which = "" if "selection" in document else f", {best_on_dev(document)},"
        why = f"too few seeds for trainings that collapse ({_who_fell(document)}); " if too_few_seeds(document) else ""
        statement = f"Not significant: {why}'{row['label']}'{which} is {difference}"
        return f"{statement}; {undecided(document, row)}{_as_given(document)}{_p_of(document, row)}."
    answer = "Better" if document["verdict"] == "better" else "Worse"
    low, high = row["ci95_new"]
    for_new = f"for {population(document, row)}{_p_of(document, row)}"
    return f"{answer}: '{row['label']}' is {difference} (95 % CI {low:+.4f} to {high:+.4f}), {for_new}."


def size_of(row: Mapping[str, Any]) -> float:
    """The estimate of a difference that every text and table gives."""
    return row["size"]


def against(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The opponent that a configuration's row is about, its least favourable one."""
    return next(one for one in row["opponents"] if one["label"] == row["against"])


def _above_all(document: Mapping[str, Any]) -> str:
    count = len(leader(document)["opponents"])
    what = "plain opponents" if of_curricula(document) else "opponents"
    return f"It is above all {count} {what}; this one is the least favourable." if count > 1 else ""


def shared_gain(document: Mapping[str, Any]) -> str:
    """What a gain over another opponent owes to settings that plain training can have, too; empty where there is no
    such gain."""
    row = leader(document)
    twin = next((one for one in row["opponents"] if "twin" in one["roles"]), None)
    if twin is None or (twin["difference"] > 0 and shown(twin["p_new_adjusted"])):
        return ""
    for one in row["opponents"]:
        if one is not twin and one["difference"] > 0 and shown(one["p_new_adjusted"]) and "filter" not in one["roles"]:
            keys = [key for key, value in twin["params"].items() if one["params"].get(key) != value]
            settings = " ".join(setting(key, twin["params"][key]) for key in keys[:MOST_KEYS])
            gain = f"The gain over {opponent(document, one)} ({size_of(one):+.4f}) is that of {settings}"
            return f"{gain}: {baseline_of(document)} with it has {twin['mean']:.4f}."
    return ""


def _below_others(document: Mapping[str, Any]) -> list[str]:
    """Opponents beside the one of the headline that are significantly above the configuration."""
    row = leader(document)
    others = [one for one in row["opponents"] if one["label"] != row["against"]]
    return [
        f"It is {beside(size_of(one), document['metric'])} {opponent(document, one)} (p = {one['p_new_adjusted']:.2g})."
        for one in others
        if one["difference"] < 0 and shown(one["p_new_adjusted"])
    ]


def beside(difference: float, metric: str) -> str:
    """A difference of a metric in words, e.g. `0.0058 MAP below`."""
    return f"{abs(difference):.4f} {in_words(metric)} {'below' if difference < 0 else 'above'}"


BADGES = {
    "better": "{} helps",
    "no difference shown": "No evidence that {} helps",
    "worse": "{} harms",
}


def badge(document: Mapping[str, Any]) -> str:
    """The verdict in a few words."""
    text = BADGES[document["verdict"]].format("the curriculum" if of_curricula(document) else "the change")
    return f"{text[0].upper()}{text[1:]}"


def of_curricula(document: Mapping[str, Any]) -> bool:
    """Whether the question is about curricula, and not about other keys of the baseline."""
    return document["plain"] == WITHOUT_CURRICULUM


def effect(document: Mapping[str, Any]) -> str:
    """The difference that the verdict is about, with its interval, p and sample."""
    row, metric = leader(document), in_words(document["metric"])
    between = ", 95 % CI {:+.4f} to {:+.4f}".format(*interval) if (interval := interval_of(row)) else ""
    return f"{size_of(row):+.4f} {metric}{between}{_p_of(document, row)}"


def holds_for(document: Mapping[str, Any]) -> str:
    """What the verdict holds for or, where nothing is shown, why not if its interval does not say it."""
    row = leader(document)
    if document["verdict"] != "no difference shown":
        return f"This holds for {population(document, row)}."
    why = f"Too few seeds for trainings that collapse ({_who_fell(document)}). " if too_few_seeds(document) else ""
    low, high = interval_of(row) or (math.nan, math.nan)
    more = "" if low < 0 < high else undecided(document, row)
    said = f"{more[0].upper()}{more[1:]}. " if more else ""
    return f"{why}{said}They may still differ{_as_given(document)}."


def baseline_of(document: Mapping[str, Any]) -> str:
    """What the opponents train with, in words: plain training or, of another question, the baseline's values."""
    return PLAIN_TRAINING if of_curricula(document) else document["plain"].removeprefix("with ")


def opponent(document: Mapping[str, Any], one: Mapping[str, Any], commands: bool = True) -> str:
    """An opponent in words, and how hard it was tuned. `one`: its row; `commands`: with the one that tunes it."""
    name = baseline_of(document)
    if "champion" in one["roles"]:
        fair = document["fair"]
        if not fair["tuned"]:
            tune = f": tune-cl tune-plain {document['search']}" if commands else ""
            return f"{name} as given (not tuned{tune})"
        keys = ", ".join(key.rpartition(".")[2] for key in fair["keys"])
        return f"{name}, tuned over {counted(fair['trials']['plain'], 'trial')} ({keys})"
    if "twin" in one["roles"]:
        return f"its own settings {document['plain']}"
    if "default" in one["roles"]:
        return f"{name} with the defaults"
    return "the same pairs in random order" if "filter" in one["roles"] else f"'{one['label']}'"


def of_tuning(document: Mapping[str, Any]) -> str:
    """What tuning alone was worth to plain training, with its interval; empty where that is not known."""
    default = document.get("default")
    if not default:
        return ""
    low, high = interval_of(default) or (math.nan, math.nan)
    between = "" if math.isnan(low) else f" [{-high:+.4f}, {-low:+.4f}]"
    return f"Tuning alone was worth {-default['difference']:+.4f}{between}."


def population(document: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """What the verdict holds for, and what it takes as given."""
    if not row["seed_matters"]:
        return "new queries; the seed changes nothing"
    anew = ["new queries", "new trainings"]
    anew += ["new teachers"] if document.get("teachers") == "anew" else []
    anew += ["new draws of the label noise"] if document.get("noise") == "anew" else []
    return f"{', '.join(anew[:-1])} and {anew[-1]}{_as_given(document)}"


def _as_given(document: Mapping[str, Any]) -> str:
    once = ["this one teacher"] if document.get("teachers") == "once" else []
    once += ["this draw of the label noise"] if document.get("noise") == "once" else []
    return f", with {' and '.join(once)}" if once else ""


def _who_fell(document: Mapping[str, Any]) -> str:
    fell = document["collapsed"]
    labels = dict.fromkeys(one["label"] for one in fell)
    seeds = {label: [str(one["seed"]) for one in fell if one["label"] == label] for label in labels}
    return "; ".join(f"seed {' and '.join(of_label)} of '{label}'" for label, of_label in seeds.items())


def _p_of(document: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    seeds, queries = counted(len(document["seeds"]), "seed"), counted(document["queries"], "query")
    if (clusters := document.get("clusters", document["queries"])) < document["queries"]:
        queries += f" in {counted(clusters, 'cluster')}"
    name = CORRECTED.get(document["correction"], document["correction"])
    several = len(document["configurations"]) + len(document.get("dropped", ())) > 1
    facts = f"{seeds}, {queries}" + (f"; {name} over {configurations_of(document)}" if several else "")
    p = row["p_new_adjusted"]
    return f" ({facts})" if p is None or np.isnan(p) else f" (p = {p:.2g}, {facts})"


def _can_show(document: Mapping[str, Any]) -> str:
    """The minimum detectable difference of the design, and how many seeds the observed one needs."""
    smallest, needed = document.get("detectable"), document.get("seeds_needed")
    if smallest is None:
        return ""
    seeds = counted(len(document["seeds"]), "seed")
    statement = f"Minimum detectable difference: {smallest:.4f} {in_words(document['metric'])} ({seeds}, 80 % power)"
    if not needed:
        return f"{statement}."
    observed = f"{abs(size_of(leader(document))):.4f}"
    return f"{statement}; {counted(needed, 'seed')} would be needed to detect the observed {observed}."


def of_these_seeds(document: Mapping[str, Any]) -> str:
    """What holds for these N trainings alone, where it differs from the verdict; else empty."""
    these = document["these_seeds"]
    if these == document["verdict"]:
        return ""
    if these == "no difference shown":
        return "Over these seeds alone the difference is not significant."
    side = 1 if these == "better" else -1
    rows = [row for row in document["configurations"] if shown(_p_of_these(row)) and side * row["difference"] > 0]
    if not (row := max(rows, key=lambda row: side * row["difference"], default=None)):
        return ""
    seeds = counted(len(document["seeds"]), "seed")
    return f"Over these {seeds} alone '{row['label']}' is {these} (p = {_p_of_these(row):.2g}); other seeds may differ."


def _p_of_these(row: Mapping[str, Any]) -> float:
    """The largest p over a configuration's opponents for these seeds alone."""
    return max(one["p_adjusted"] for one in row["opponents"])


def configurations_of(document: Mapping[str, Any]) -> str:
    """How many p is corrected for, in words: those tested, and those that got no more seeds."""
    return counted(len(document["configurations"]) + len(document.get("dropped", ())), "configuration")
