"""`tune-cl effects`: the pairs of a search on dev, and trained again with new seeds; kills, reuse, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support import confirm_cases
from tests.support.confirm_cases import LINEAR, LocalTrainer, confirm, data, read_values, tracked, trainer
from trainables.core.errors import Interrupted, WorkFailed
from tune_cl.cli import main
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import replay
from tune_cl.report.page import effects_sections
from tune_cl.results import Effects
from tune_cl.search_result import recorded_result
from tune_cl.verdict.effects import measure_effects
from tune_cl.verdict.files import last_effects
from tune_cl.verdict.pairs import recorded_effects
from tune_cl.verdict.retraining import Request

ROOT = {"curriculum.pacing": "root", "curriculum.n": 2, "training.lr": 0.02}
ROOT_10 = {"curriculum.pacing": "root", "curriculum.n": 10, "training.lr": 0.01}
TWIN = {"curriculum.pacing": "none", "training.lr": 0.02}
DEV = {"t0000": [0.5, 0.6], "t0001": [0.55, 0.65], "t0002": [0.5, 0.62], "t0003": [0.58], "t0004": [0.4, 0.58]}
TWINS = {"t0001": "t0000", "t0002": "t0003", "t0004": "t0000"}
SPACE = confirm_cases.SPACE.replace(
    "baseline: {curriculum.pacing: none, training.lr: 0.01}", "baseline: {curriculum.pacing: none}"
)
__all__ = ["data", "trainer"]  # fixtures


def searched(folder: Path, data: Path, trials: int = 5) -> SearchFolder:
    """A search of three pairs, two of which share a twin; one twin was stopped early."""
    (folder / "toy.yaml").write_text(SPACE)
    experiment = load_experiment(str(folder / "toy.yaml"), data=str(data))
    search_folder = SearchFolder(folder / "runs", "toy")
    choices = [LINEAR, ROOT, TWIN, ROOT_10][: trials - 1]
    with Journal(search_folder.folder) as journal:
        for event in confirm_cases.searched(experiment, search_folder, choices):
            if event["event"] == "trial":
                name = event["trial"]
                twin = TWINS.get(name)
                event |= {"twin": "t0000"} if twin == "t0000" else {"twin": "t0002"} if name == "t0003" else {}
            if event["event"] == "result":
                for at, dev in enumerate(DEV[event["trial"]], 1):
                    journal.append(event | {"iteration": at, "metrics": {"dev_map": dev, "seconds": 1.0}})
                continue
            if event["event"] == "end":
                event |= {"outcome": "baseline" if event["trial"] == "t0000" else "completed"}
                event |= {"outcome": "stopped_early", "reason": "rung"} if event["trial"] == "t0003" else {}
            journal.append(event)
    return search_folder


@pytest.fixture
def search(tmp_path: Path, data: Path) -> SearchFolder:
    return searched(tmp_path, data)


def measured(search_folder: SearchFolder, seeds: int = 2, split: str = "test") -> Effects:
    return measure_effects(tracked(search_folder), Request(seeds=seeds, split=split), None)


def test_the_search_s_own_pairs_are_compared_on_dev(search: SearchFolder) -> None:
    """Those that both ran to the end: what was stopped early says nothing of whole trainings."""
    found = recorded_effects(search)
    assert {one.trial_id: one.differences[0] for one in found.by_pair} == pytest.approx({"t0001": 0.05, "t0004": -0.02})
    assert (found.split, found.seeds, found.pairs, found.sd_true, found.best) == ("dev", 1, 2, None, None)
    assert found.notes[0].startswith("1 of 3 pairs are left out") and str(found).startswith("On dev, over 2 pairs")
    assert set(found.table["key"]) == {"curriculum.pacing", "curriculum.n"}
    assert Effects.model_validate_json(found.model_dump_json()) == found
    assert recorded_result(search).effects == found, "as at the search's end"
    drawn = effects_sections(found)
    assert len(drawn) == 1 and len(drawn[0].charts) == 2


def test_a_search_says_nothing_of_effects_by_pairs_that_were_stopped_early(tmp_path: Path, data: Path) -> None:
    assert recorded_result(searched(tmp_path, data, trials=4)).effects is None, "one of two pairs is whole"


def test_every_pair_is_trained_once_with_each_new_seed(search: SearchFolder, trainer: type[LocalTrainer]) -> None:
    found = measured(search)
    assert found.seeds == 2 and found.queries == 12, "2 is the search's"
    assert len(trainer.trained) == len(set(trainer.trained)) == 2 * 5, "a shared twin is trained once"
    folders = {path.name.split("-")[0]: path for path in (search.folder / "confirmation").iterdir()}
    values = {
        trial: np.array([read_values(folder / f"seed-{seed}", "test", "map") for seed in (1, 3)])
        for trial, folder in folders.items()
    }
    for row in found.by_pair:
        assert row.differences == pytest.approx((values[row.trial_id] - values[row.twin]).mean(axis=1))
    assert found.mean == pytest.approx(np.mean([row.differences for row in found.by_pair]))
    assert found.sd_seeds is not None
    assert last_effects(search.folder) == found and (search.folder / "report.html").is_file()


def test_kills_change_nothing_and_what_is_done_is_not_done_again(
    search: SearchFolder, tmp_path: Path, data: Path, trainer: type[LocalTrainer]
) -> None:
    whole = measured(search)
    (tmp_path / "killed").mkdir()
    other = searched(tmp_path / "killed", data)
    trainer.trained.clear()
    for left in (3, 0, 4):
        trainer.left = left
        with pytest.raises(Interrupted, match=r"effects toy .*--seeds 2"):
            measured(other)
    trainer.left = 1000
    assert measured(other) == whole and len(trainer.trained) == 10
    events = [event for event in read_events(other.journal) if event["event"] == "confirmation"]
    assert len(events) == len({(event["label"], event["seed"]) for event in events}) == 10


def test_a_confirmation_reuses_the_trainings(search: SearchFolder, trainer: type[LocalTrainer]) -> None:
    measured(search)
    trainer.trained.clear()
    confirm(search, seeds=2, top=1)
    assert trainer.trained == []


def test_a_pair_with_a_failed_training_is_left_out(search: SearchFolder, trainer: type[LocalTrainer]) -> None:
    label = replay(read_events(search.journal)).trials["t0004"].words
    trainer.fails = {f"{label}, seed 3": "out of memory"}
    found = measured(search)
    assert [row.trial_id for row in found.by_pair] == ["t0001", "t0002"] and "memory" in found.notes[0]
    trainer.fails = {f"{label}, seed 3": "broken", "plain, default, seed 4": "broken"}
    with pytest.raises(WorkFailed, match="broken"):
        measured(search, seeds=3)


@pytest.mark.parametrize(
    ("trials", "arguments", "said"),
    [
        (1, [], "no matched pairs"),
        (2, [], "one matched pair"),
        (2, ["--seeds", "2"], "one matched pair"),
        (4, [], "fewer than 2 pairs of search 'toy' ran to the end"),
        (5, ["--seeds", "0"], "--seeds: 0 is not between"),
        (5, ["--split", "dev"], "--split: without --seeds"),
    ],
)
def test_bad_input_is_one_line(
    trials: int, arguments: list[str], said: str, tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search_folder = searched(tmp_path, data, trials)
    before = search_folder.journal.read_bytes()
    assert main(["effects", "toy", "--storage", str(search_folder.storage), *arguments]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert said in line and search_folder.journal.read_bytes() == before


def test_the_command_prints_what_json_holds(search: SearchFolder, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["effects", "toy", "--storage", str(search.storage)]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["pairs"] == 2 and main(asked) == 0
    text = capfd.readouterr().out
    assert all(part in text for part in (f"{told['mean']:+.4f}", *told["notes"]))


def test_further_seeds_tell_how_much_seeds_matter(search: SearchFolder) -> None:
    """Trials of the search that repeat others: the differences under them, and what changed from the first seed."""
    state = replay(read_events(search.journal))
    assert recorded_effects(search).worth_finding is None
    again = {("t0000", 501): 0.58, ("t0001", 501): 0.66, ("t0000", 502): 0.62, ("t0001", 502): 0.64}
    with search.open() as journal:
        for number, ((first, seed), dev) in enumerate(again.items(), 5):
            trial = f"t{number:04d}"
            event = {"event": "trial", "trial": trial, "number": number, "seed": seed, "repeats": first, "time": 2000.0}
            event |= {"params": {**state.trials[first].params, "seed": seed}, "chosen": state.trials[first].point}
            journal.append(event | {"arm": state.trials[first].arm, "baseline": False})
            metrics = {"dev_map": dev, "seconds": 1.0}
            journal.append({"event": "result", "trial": trial, "iteration": 1, "metrics": metrics, "time": 2000.0})
            journal.append({"event": "end", "trial": trial, "outcome": "completed", "time": 2000.0})
    found = recorded_effects(search)
    between, changes = np.var([0.08, 0.02], ddof=1), np.var([-0.02, 0.01], ddof=1)
    assert found.sd_seeds == pytest.approx(np.sqrt((between + changes) / 2)) and found.pairs == 2
    assert found.worth_finding is not None and 0 <= found.worth_finding <= 1
