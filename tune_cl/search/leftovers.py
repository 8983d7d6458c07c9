"""Which trials that have ended no longer need their checkpoints: nearly all, and a checkpoint of BERT has 1.8 GB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from trainables.storage import CHECKPOINTS
from tune_cl.place import Place, own_checkpoint
from tune_cl.search.search import Search
from tune_cl.state import NO_STANDING, SearchState, TrialState

KEPT = 2  # checkpoints of a trial: where the last is damaged, the one before it serves


class Leftovers:
    """`held`: trials that have ended and whose checkpoints may still be read. The search's best ranker is copied from
    one of them at its end; under pbt open trials go on from those of others, ended ones among them."""

    def __init__(self, search: Search):
        self.search = search
        self.held: list[str] = []

    def freed(self, ended: Iterable[str]) -> list[str]:
        """Trials whose checkpoints nothing reads any more, now that these have ended as well."""
        before = [*self.held, *ended]
        self.held = self._needed(before)
        return [name for name in before if name not in self.held]

    def _needed(self, names: list[str]) -> list[str]:
        search = self.search
        if search.scheduler.copies and search.state.open_trials():
            return names
        best: dict[str, str] = {}
        for trial, _ in search.state.ranked(names):
            best.setdefault(trial.configuration, trial.trial)
        if search.experiment.search.repeats == 1:
            return list(best.values())[:1]
        known = search.state.standing() if search.state.repeats else {}
        return [name for configuration, name in best.items() if not self._behind(configuration, known)]

    def _behind(self, own: str, known: Mapping[str, tuple[int, float]]) -> bool:
        """Whether a configuration will train under no further seed and has been overtaken. Who has overtaken it stays
        ahead: the more seeds come first, and no seed is taken back."""
        if self.search.race.goes_on(own):
            return False
        return any(standing < known.get(own, NO_STANDING) for standing in known.values())


def without_foreign(state: SearchState, place: Place) -> list[str]:
    """Takes checkpoints that are not below the search's folder out of its state; returns the addresses of these. A
    journal that a stranger has handed over may name any folder or server: none is read, asked or deleted."""
    foreign: list[str] = []
    for trial in state.by_number():
        named = dict(trial.checkpoints)
        known = {iteration: own_checkpoint(address, place) for iteration, address in named.items()}
        trial.checkpoints = {iteration: own for iteration, own in known.items() if own}
        foreign += [named[iteration] for iteration, own in known.items() if not own]
        trial.replaced = [own for address in trial.replaced if (own := own_checkpoint(address, place))]
        if trial.adopted and (address := trial.adopted["checkpoint"]):
            own = own_checkpoint(address, place)
            trial.adopted = {**trial.adopted, "checkpoint": own}
            foreign += [] if own else [address]
    return foreign


def recorded(trial: TrialState, storage: str) -> list[str]:
    """Addresses of a trial's checkpoints that earlier sessions may have left: the last ones of each of its sittings.
    Only what is a checkpoint below `storage`: the journal of a copied search names those of the original."""
    root = storage.partition("?")[0]
    sittings: dict[PurePosixPath, list[str]] = {}
    for address in [*dict(sorted(trial.checkpoints.items())).values(), *trial.replaced]:
        path = PurePosixPath(address.partition("?")[0])
        if path.is_relative_to(root) and path.match(CHECKPOINTS) and ".." not in path.parts:
            sittings.setdefault(path.parent, []).append(address)
    return [address for sitting in sittings.values() for address in sitting[-KEPT:]]
