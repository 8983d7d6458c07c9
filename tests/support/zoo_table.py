"""What each ranker makes of each kind of model in `zoo`: the table of docs/reference/rankers.md, to which
tests/test_zoo.py holds the code."""

from __future__ import annotations

RANKERS = ("bert", "bi_encoder", "decoder")
EQUAL = "equal"  # untrained (where it can score so), trained, and saved for other libraries
OWN = "equal, own form"  # trained and saved in tune_cl's own form, which other libraries do not read
NEW = "equal, new head"  # what the folder adds to the encoder is not used
