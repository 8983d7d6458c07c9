"""A toy whose checkpoints, but for a trial's first, are written while it goes on; apart from toys.py, for it imports
PyTorch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.toys import Toy
from trainables.ranker_trainable import ClusterTrainable
from trainables.training import saves


class Behind(Toy, ClusterTrainable):
    def setup(self, config: dict[str, Any], prepared: dict[str, Any]) -> None:
        saves.QUICK, saves.LITTLE, saves.SHARE = 0.0, 0.0, 0.99  # in the trial's process
        super().setup(config, prepared)

    def snapshot(self) -> Callable[[Path], None]:
        done = json.dumps(self.done)
        return lambda folder: (folder / "done.json").write_text(done) and None
