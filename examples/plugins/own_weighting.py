"""A weighting: the ease of a candidate falls with the logarithm of its first-stage rank, as a gain does in nDCG.

tune-cl train --plugin own_weighting.py --data docstrings --ranker knrm --set curriculum.weighting=log_rank
"""

import numpy as np

import tune_cl
from trainables.data.columns import NO_RANK, Split


@tune_cl.weighting("log_rank", source="an example")
def log_rank(split: Split) -> np.ndarray:
    """Ease from 1 / log2(1 + first-stage rank), 0 outside the run."""
    ranked = split.rank != NO_RANK
    return np.where(ranked, 1 / np.log2(1 + np.where(ranked, split.rank, 1)), 0.0)
