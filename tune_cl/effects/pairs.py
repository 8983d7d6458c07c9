"""What curricula changed in a search: its matched pairs, compared on dev at the search's own seed."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.files import read_text
from trainables.evaluation.effects import Effects, SeedNoise, effects_of
from trainables.evaluation.metrics import dev_key
from tune_cl import results
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import RAN_TO_THE_END, Pair, SearchState, TrialState, over_curricula, training_key
from tune_cl.space.space import Flat

FEWEST = 2  # pairs
SPLITS = ("test", "dev")


@dataclass(frozen=True)
class PairEffect:
    """One pair: its trials, and the curriculum's mean value less the twin's at each seed."""

    trial_id: str
    twin: str
    differences: tuple[float, ...]


@dataclass(frozen=True)
class FamilyEffects:
    """What curricula change over all pairs of a search: on dev at the search's seed, or on a split with new seeds.

    queries      of the split that were taken as a sample; None where only means were compared
    of_curricula whether the pairs differ in their curricula
    """

    search: str
    metric: str
    split: str
    seeds: tuple[int, ...]
    queries: int | None
    effects: Effects
    rows: tuple[PairEffect, ...]
    notes: tuple[str, ...] = ()
    of_curricula: bool = True

    def document(self) -> dict[str, Any]:
        """That of `tune-cl effects --json`."""
        return asdict(self)

    @property
    def result(self) -> results.Effects:
        """What it says of all pairs."""
        found = asdict(self.effects)
        own = {name: getattr(self, name) for name in ("search", "metric", "split", "queries", "notes")}
        return results.Effects(**own, ci95=found.pop("mean_ci95"), **found)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> FamilyEffects:
        """The same from its JSON. Raises ValueError for what is not such a document."""
        try:
            rows = tuple(PairEffect(**{**row, "differences": tuple(row["differences"])}) for row in document["rows"])
            effects = Effects.of_document(document["effects"])
            lists = {key: tuple(document[key]) for key in ("seeds", "notes")}
            return cls(**{**document, **lists, "effects": effects, "rows": rows})
        except (AttributeError, KeyError, TypeError) as wrong:
            raise ValueError(f"not the document of tune-cl effects: {wrong}") from wrong


def search_effects(state: SearchState, experiment: Experiment) -> FamilyEffects | None:
    """From the dev values of a search; None for fewer than two pairs that ran to the end.

    A pair of which a trial was stopped early says nothing of whole trainings: its curriculum may not even be over."""
    ended = [pair for pair in distinct_pairs(state) if _ended(pair)]
    whole = [(pair, difference(pair, state.metric)) for pair in ended if _whole(pair)]
    compared = [(pair, value) for pair, value in whole if value is not None]
    if len(compared) < FEWEST:
        return None
    pairs, values = [pair for pair, _ in compared], np.array([[value] for _, value in compared])
    notes = _left_out(len(ended) - len(whole), len(ended))
    effects = effects_of(*described(pairs, values, experiment), seed_noise(state))
    rows = tuple(
        PairEffect(pair.curriculum.trial, pair.twin.trial, tuple(row))
        for pair, row in zip(pairs, values.tolist(), strict=True)
    )
    return FamilyEffects(
        state.name, state.metric, "dev", (state.seed,), None, effects, rows, notes, over_curricula(state)
    )


def _left_out(stopped: int, pairs: int) -> tuple[str, ...]:
    if not stopped:
        return ()
    why = "because a trial of each was stopped early; the others may be the better ones"
    return (f"{stopped} of {pairs} pairs are left out, {why}",)


def seed_noise(state: SearchState) -> SeedNoise | None:
    """How much the difference of a pair varies on dev between seeds, from the pairs that were trained with further
    seeds, one for each twin; None where there is none.

    What was trained again may have been chosen for a lucky search, so only further seeds count; that of the search too
    for the replicated pair, which nobody chose.
    """
    key, of_seeds = dev_key(state.metric), {}
    for event in state.confirmations:
        if key in event["metrics"]:
            of_seeds.setdefault(training_key(event["params"]), {})[event["seed"]] = event["metrics"][key]
    spread, freedom, twins, pairs = 0.0, 0, set(), distinct_pairs(state)
    chosen_by_nobody = replicated(pairs)
    for pair in pairs:
        curriculum, plain = (of_seeds.get(training_key(trial.params), {}) for trial in (pair.curriculum, pair.twin))
        values = [curriculum[seed] - plain[seed] for seed in sorted(curriculum.keys() & plain.keys())]
        if pair is chosen_by_nobody and _whole(pair):
            values += [found] if (found := difference(pair, state.metric)) is not None else []
        if len(values) < 2 or pair.twin.trial in twins:
            continue
        twins.add(pair.twin.trial)
        spread += float(np.var(values, ddof=1)) * (len(values) - 1)
        freedom += len(values) - 1
    return SeedNoise(spread / freedom, freedom) if freedom else None


def distinct_pairs(state: SearchState) -> list[Pair]:
    """Pairs of sound trials, each combination of trainings once."""
    found: dict[Hashable, Pair] = {}
    for pair in state.pairs():
        if "failed" not in (pair.curriculum.outcome, pair.twin.outcome):
            found.setdefault((training_key(pair.curriculum.params), training_key(pair.twin.params)), pair)
    return list(found.values())


def replicated(pairs: Sequence[Pair]) -> Pair | None:
    """The pair that `search.replicates` trains again: the default's first, else the search's first."""
    return next((pair for pair in pairs if pair.twin.baseline), pairs[0] if pairs else None)


def require_pairs(pairs: Sequence[Pair], search_folder: SearchFolder) -> None:
    """Raises ConfigError if there are too few for effects."""
    if len(pairs) < FEWEST:
        has = "one matched pair" if pairs else "no matched pairs"
        wrong = f"search '{search_folder.name}' has {has} of a curriculum and its twin; effects need {FEWEST} or more"
        raise ConfigError(Problem("NAME", wrong, "a longer search"))


def described(
    pairs: Sequence[Pair], differences: np.ndarray, experiment: Experiment
) -> tuple[list[str], np.ndarray, list[str], list[Flat]]:
    """What `effects_of` is told of pairs: trials, differences, twins, and what their curricula set."""
    settings = [_settings(pair, experiment) for pair in pairs]
    twins = [pair.twin.trial for pair in pairs]
    return [pair.curriculum.trial for pair in pairs], differences, twins, settings


def _settings(pair: Pair, experiment: Experiment) -> Flat:
    """The searched keys that set a curriculum apart from its twin, with their values."""
    curriculum, plain = pair.curriculum, pair.twin.params
    return {
        key: curriculum.params[key]
        for key in curriculum.point
        if key in curriculum.params and (key in experiment.baseline or key not in plain)
    }


def _ended(pair: Pair) -> bool:
    return bool(pair.curriculum.outcome and pair.twin.outcome)


def _whole(pair: Pair) -> bool:
    return all(trial.outcome in RAN_TO_THE_END for trial in (pair.curriculum, pair.twin))


def difference(pair: Pair, metric: str) -> float | None:
    """The best dev value of the curriculum less that of its twin. None where one has no value."""
    curriculum, plain = (_best(trial, metric) for trial in (pair.curriculum, pair.twin))
    return None if curriculum is None or plain is None else curriculum - plain


def _best(trial: TrialState, metric: str) -> float | None:
    return max((value for value in trial.dev(metric).values() if np.isfinite(value)), default=None)


def effects_file(search: Path, split: str) -> Path:
    """Where a search keeps what the last `tune-cl effects` found on a split."""
    return search / "effects" / f"{split}.json"


def last_effects(search: Path) -> FamilyEffects | None:
    """What the last `tune-cl effects` found, on test or else on dev; None if there was none. Raises DataError if its
    file is damaged."""
    for split in SPLITS:
        path = effects_file(search, split)
        if path.exists():
            try:
                return FamilyEffects.of_document(json.loads(read_text(path)))
            except (ValueError, RecursionError) as wrong:
                raise DataError(Problem(str(path), f"{wrong}", "the file as tune-cl effects wrote it")) from wrong
    return None
