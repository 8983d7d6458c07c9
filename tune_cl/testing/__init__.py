"""The contract of each kind of part, for the tests of parts of one's own; our tests run the same over built-in parts.

    from tune_cl.testing import check_scoring, load_plugins
    load_plugins(["mine.py"])
    check_scoring("mine")

A check returns if the part keeps to the contract, and raises AssertionError saying what does not hold.
"""

from __future__ import annotations

from trainables.core.plugins import load_plugins as load_plugins
from tune_cl.testing.curricula import check_pacing as check_pacing
from tune_cl.testing.curricula import check_scoring as check_scoring
from tune_cl.testing.curricula import check_weighting as check_weighting
from tune_cl.testing.losses import check_loss as check_loss
from tune_cl.testing.rankers import check_ranker as check_ranker
from tune_cl.testing.readers import check_reader as check_reader
