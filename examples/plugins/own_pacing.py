"""A pacing: slow at both ends, fast in the middle.

tune-cl train --data docstrings --ranker knrm --plugin own_pacing.py --set curriculum.pacing=s_curve
"""

import tune_cl
from trainables.curriculum.pacing import Schedule


@tune_cl.pacing("s_curve", source="an example", needs=["delta"])
def s_curve(x: float, schedule: Schedule) -> float:
    """Share grows slowly, then fast, then slowly again."""
    x = min(x, 1.0)
    return schedule.delta + (1 - schedule.delta) * x * x * (3 - 2 * x)
