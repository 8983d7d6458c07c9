"""A user's function takes along the modules beside its file."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray import cloudpickle

from trainables.config.function import load_objective
from tune_cl.ray.functions import require_sendable

FILES = {
    "own_main.py": "import own_helper\nfrom own_parts_of import deep\n\n"
    "def train(config, trial):\n    return own_helper.score(config) + deep.BIAS\n",
    "own_helper.py": "import own_other\n\ndef score(config):\n    return own_other.half(config)\n",
    "own_other.py": "def half(value):\n    return value / 2\n",
    "own_parts_of/__init__.py": "",
    "own_parts_of/deep.py": "BIAS = 1\n",
}


def test_modules_beside_a_function_are_sent_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "before")
    objective = load_objective(f"{tmp_path / 'own_main.py'}:train")
    require_sendable(objective)
    sent = cloudpickle.dumps(objective.function)  # pyright: ignore[reportPrivateImportUsage]
    for name in [name for name in sys.modules if name.removeprefix("objective_").startswith("own_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    assert pickle.loads(sent)(4, SimpleNamespace()) == 3
