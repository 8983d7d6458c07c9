"""`search.audit`: some stopped trials are finished all the same, to show what stopping costs."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainables.randomness import generator


def expected_stops(trials: int, reduction_factor: float) -> float:
    """How many of so many trials, the baseline among them, a scheduler is expected to stop: a share of
    1 - 1/`reduction_factor` of the others."""
    return (trials - 1) * (1 - 1 / reduction_factor)


@dataclass
class Audit:
    """A seeded sample of at most `wanted` of the trials that a scheduler stops, drawn as they are stopped.

    A stopped trial is taken with probability (still wanted) / (stops still expected): selection sampling, Knuth, The
    Art of Computer Programming, vol. 2, algorithm 3.4.2 S. `trials` and `reduction_factor` say how many are expected
    (`expected_stops`). `taken`: iteration of the stop by trial.
    """

    wanted: int
    seed: int
    trials: int
    reduction_factor: float
    taken: dict[str, int] = field(default_factory=dict)
    stopped: int = 0

    def takes(self, trial: str, iteration: int) -> bool:
        """Whether a trial that is stopped at this iteration goes on as part of the audit."""
        missing = self.wanted - len(self.taken)
        to_come = max(1.0, expected_stops(self.trials, self.reduction_factor) - self.stopped)
        self.stopped += 1
        if generator(self.seed, "audit", self.stopped).random() >= missing / to_come:
            return False
        self.taken[trial] = iteration
        return True
