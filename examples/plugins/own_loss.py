"""A loss: the square of the hinge, which punishes large errors more.

tune-cl train --plugin own_loss.py --data docstrings --ranker knrm --set training.loss=squared_hinge
"""

from torch import Tensor

import tune_cl
from trainables.training.losses import LossSettings


@tune_cl.loss("squared_hinge", source="an example", kind="pairwise", keys=["margin"])
def squared_hinge(positive: Tensor, negative: Tensor, settings: LossSettings) -> Tensor:
    """max(0, training.margin - difference of the scores) squared."""
    return (settings.margin + negative - positive).relu() ** 2
