"""Every scheduler, in every way it can be set."""

from __future__ import annotations

from tune_cl.schedulers import SCHEDULERS
from tune_cl.schedulers.scheduler import Setup

WAYS = {
    **{name: (name, Setup(12, 2, grace="none", first_rung=3)) for name in SCHEDULERS},
    "promotion": ("asha", Setup(12, 2, grace="none", first_rung=3, promotion=True)),
    "freeze-thaw": ("model", Setup(12, 2, grace="none", promotion=True)),
}
