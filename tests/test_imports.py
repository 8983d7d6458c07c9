"""What needs no training loads none of its libraries: refused input is answered at once, in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from search_spaces import SPACES
from tests.support.builders import tiny_data
from tests.support.report_cases import Case
from tests.support.trec_folder import write_trec_folder
from tune_cl.api.listing import PLACES
from tune_cl.cli import BAD_INPUT, DONE
from tune_cl.cli.commands import FUNCTIONS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
LEARNING = ["torch", "transformers", "tokenizers", "lightgbm", "gensim", "scipy.signal", "matplotlib", "ray"]
HEAVY = [*LEARNING, "scipy.stats", "mlflow", "pandas"]
RUN_COMMANDS = """
import contextlib, io, json, sys
from tune_cl.cli import main
seen, (heavy, commands) = [], json.loads(sys.argv[1])
for command in commands:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            status = main(command.split())
        except SystemExit as end:
            status = end.code
    seen.append([command, status, [name for name in heavy if name in sys.modules]])
print(json.dumps(seen))
"""
REPORT = """
import json, sys
from pathlib import Path
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.contents import contents_of
from tune_cl.report.page import page
heavy, storage, name = json.loads(sys.argv[1])
assert page(contents_of(SearchFolder(Path(storage), name)))
print(json.dumps([name for name in heavy if name in sys.modules]))
"""
NAME_PARTS = """
import json, sys
import tune_cl.cli.texts, tune_cl.api.start, tune_cl.api.check
from trainables.config.keys import validated
from trainables.data.forms import READERS
from trainables.rankers import RANKERS
prefixes, named = json.loads(sys.argv[1])
assert all(name in RANKERS or name in READERS for name in named)
validated({"ranker": "knrm"})
print(json.dumps([name for name in sys.modules if name.startswith(tuple(prefixes))]))
"""
TRAIN_KNRM = """
import json, sys
import tune_cl
models, data = json.loads(sys.argv[1])
keys = {"training.max_iterations": 1, "training.batches_per_iteration": 1, "ranker.vector_size": 4}
tune_cl.train(data=data, ranker="knrm", overrides=keys, progress=False)
print(json.dumps([name for name in models if name in sys.modules]))
"""
READ_SPACES = """
import json, sys
from tune_cl.experiment.load import load_experiment
heavy, spaces = json.loads(sys.argv[1])
assert all(load_experiment(space).arms.plain_words for space in spaces)
print(json.dumps([name for name in heavy if name in sys.modules]))
"""


def told_by(program: str, *values: object) -> list:
    """What a program in a process of its own prints as JSON, for values that it reads as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(values)],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


REFUSED = [
    "check penha2020_pacing --set training.lr=abc",
    "check everything --set ranker.modl=tiny --set curriculum.n=-1",
    "run penha2020_pacing --set trainin.lr=1",
    "train --ranker bert --set ranker.dropout=7",
    "train --ranker bret",
    "train --data /nowhere",
    "check quickstart --data /nowhere",
    "run quickstart --data /nowhere",
    "data /nowhere",
    "baseline /nowhere bm25",
    "score /nowhere turns",
    "score docstrings turn",
    "evaluate /nowhere /nowhere",
    "rerank /nowhere --query words",
    "rerank /nowhere --data docstrings",
    "resume nothing --storage /nowhere",
    "confirm nothing --storage /nowhere",
    "report nothing --storage /nowhere",
]


def test_no_command_loads_what_it_has_no_use_for(tmp_path: Path) -> None:
    """One after the other in one process; what one of them loads is there for all after it."""
    done = [f"list {kind}" for kind in PLACES] + [f"{command} --help" for command in FUNCTIONS]
    done += [f"data {write_trec_folder(tiny_data(), tmp_path)}"]
    expected = [[command, BAD_INPUT, []] for command in REFUSED] + [[command, DONE, []] for command in done]
    expected[-1][-1] = ["pandas"]  # data is read
    assert told_by(RUN_COMMANDS, HEAVY, [*REFUSED, *done]) == expected


def test_what_the_core_does_not_need_is_loaded_when_it_is_used() -> None:
    assert told_by(NAME_PARTS, ["trainables.extras"], ["lambdamart", "bidaf_t", "letor", "squad"]) == []


def test_reading_a_space_loads_none_of_its_rankers() -> None:
    assert told_by(READ_SPACES, HEAVY, list(SPACES)) == []


def test_a_report_loads_no_library_of_learning(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.5, 0.6])
    case.add([0.5, 0.7])
    case.write()
    learning = [name for name in LEARNING if name != "matplotlib"]
    assert told_by(REPORT, learning, str(case.search_folder.storage), case.search_folder.name) == []


def test_a_ranker_over_words_loads_no_library_of_models(tmp_path: Path) -> None:
    data = write_trec_folder(tiny_data(), tmp_path)
    assert told_by(TRAIN_KNRM, ["sentence_transformers", "transformers", "peft"], str(data)) == []
