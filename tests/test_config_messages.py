"""What is said about wrong configurations: the nearest key, every problem at once, each on one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shlex import split

import pytest

from tests.support.builders import tiny_data
from tests.support.cli_calls import SMALL_OPTIONS
from tests.support.space_files import OPEN, Write, problems, write
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import configuration_fields
from trainables.core.errors import ConfigError, Problem
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.evaluation.metrics import METRICS
from trainables.rankers import RANKERS
from tune_cl.cli import BAD_INPUT, DONE, INTERRUPTED, main
from tune_cl.experiment.load import load_experiment
from tune_cl.schedulers import SCHEDULERS
from tune_cl.space.space_files import parse_yaml

__all__ = ["write"]  # a fixture
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("trainning.lr", "training.lr"),
        ("lr", "training.lr"),
        ("max_iterations", "training.max_iterations"),
        ("training.iterations", "training.max_iterations"),
        ("Seed", "seed"),
        ("serch.trials", "search.trials"),
        ("trials", "search.trials"),
        ("searcher", "search.searcher"),
        ("search.lr", "training.lr"),
        ("curriculum.t", "curriculum.T"),
        ("curriculum.M", "curriculum.m"),
        ("data.bm25.k2", "data.bm25.k1"),
        ("bm25.k1", "data.bm25.k1"),
        ("rankr", "ranker"),
        ("model", "ranker.model"),
        ("learning_rate", "training.lr"),
        ("training.epochs", "training.max_iterations"),
        ("n_trials", "search.trials"),
        ("basline", "baseline"),
        ("basline.curriculum.pacing", "baseline.curriculum.pacing"),
    ],
)
def test_an_unknown_key_names_the_nearest(wrong: str, right: str) -> None:
    found = problems("quickstart", "ranker=bert", f"{wrong}=1")
    assert found == {wrong: f"unknown key; did you mean {right}?"}


@pytest.mark.parametrize("unlike", ["curriculum.xyz", "foo"])
def test_a_key_like_no_other_names_what_there_is(unlike: str) -> None:
    assert problems("quickstart", f"{unlike}=1")[unlike].startswith("unknown key; known: ")


def test_keys_of_a_misspelt_ranker_are_not_wrong_for_that(write: Write) -> None:
    keys = "ranker: {name: conv_knmr, vectors: train, filters: 64, filtres: 3}"
    assert problems(write(f"{keys}\n{OPEN}")) == {
        "ranker.name": "unknown value 'conv_knmr'; did you mean conv_knrm?",
        "ranker.filtres": "unknown key; did you mean ranker.filters?",
    }
    some = "ranker: {name: {choice: [knrm, brt]}, model: {choice: [tiny, x], when: {ranker.name: brt}}}"
    assert problems(write(f"{some}\n{OPEN}")).keys() == {"ranker.name"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("curriculum.pacing=~", "null"),
        ("curriculum.weighting=off", "false"),
        ("search.scheduler=no", "false"),
        ("metric=7", "7"),
        ("ranker.name=7", "7"),
    ],
)
def test_a_value_that_is_no_name_is_told_the_names(given: str, shown: str) -> None:
    """YAML reads as null or false what may be meant as the name `none`."""
    [(key, told)] = problems("quickstart", given).items()
    names = {"curriculum.pacing": PACINGS, "curriculum.weighting": WEIGHTINGS, "search.scheduler": SCHEDULERS,
             "metric": METRICS, "ranker.name": RANKERS}[key]  # fmt: skip
    assert told.startswith(f"{shown} is not possible; one of {', '.join(names)}")


def test_a_key_of_other_rankers_names_them(write: Write) -> None:
    told = problems(write(OPEN), "ranker.name=knrm", "ranker.model=x")["ranker.model"]
    having = "ranker.name=bert or bi_encoder or decoder"
    assert told == f"unknown key of knrm; {having}, which has it, or a key of knrm"
    told = problems(write(OPEN), "ranker.name=knrm", "ranker.modle=x")["ranker.modle"]
    assert told == f"unknown key of knrm; {having}, which has ranker.model, or a key of knrm"
    told = problems(write(OPEN), "ranker.name=knrm", "ranker.vector=x")["ranker.vector"]
    assert told == "unknown key; did you mean ranker.vectors?", "its own keys come first"


def test_a_misspelt_text_of_a_file(write: Write) -> None:
    assert problems(write(f"desciption: mine\n{OPEN}")) == {"desciption": "unknown key; did you mean description?"}


# -- `baseline` and `search` in the wrong form -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "overrides", "places"),
    [
        ("", ["baseline=3"], {"baseline"}),
        ("", ["baseline={curriculum: 3}"], {"baseline.curriculum"}),
        ("", ["baseline=[curriculum]"], {"baseline.curriculum"}),
        ("", ["search.trials=3", "search=foo"], {"search"}),
        ("", ["search=0", "search.trials=0"], {"search", "search.trials"}),
        ("search: foo\nsearch.trials: 3\n", [], {"search"}),
        ("search: foo\n", ["search.trials=3"], {"search"}),
        ("search: {trials: 3}\nsearch.trials: 4\n", [], {"search.trials"}),
        ("baseline: foo\nbaseline.curriculum.pacing: none\n", [], {"baseline"}),
        ("baseline: {curriculum: {anti: no}}\nbaseline.curriculum.anti: 1\n", [], {"baseline.curriculum.anti"}),
    ],
)  # fmt: skip
def test_sections_beside_the_configuration(text: str, overrides: list[str], places: set[str], write: Write) -> None:
    assert problems(write(OPEN + text), *overrides).keys() == places


def test_keys_of_the_baseline_may_be_a_list(write: Write) -> None:
    keys = "[curriculum.weighting, curriculum.anti]"
    off = load_experiment(write(f"baseline: {keys}\nbaseline.curriculum.T: 1\n{OPEN}"))
    line = load_experiment(write(OPEN), [f"baseline={keys}", "baseline.curriculum.T=1"])
    assert line.baseline == off.baseline
    assert off.baseline == {
        "curriculum.pacing": "none", "curriculum.weighting": "none", "curriculum.anti": False, "curriculum.T": 1,
    }  # fmt: skip


# -- all problems at once ----------------------------------------------------------------------------------------


def test_keys_given_twice_hide_nothing(write: Write) -> None:
    space = write("curriculum: {pacng: 3}\nseed: 1\nseed: 2\ntraining.lr: 0.1\ntraining: {foo: 1, lr: -3}\n")
    with pytest.raises(ConfigError) as caught:
        load_experiment(space)
    lines = caught.value.lines()
    assert lines[0] == f"error: {space}:3: key 'seed' stands on line 2 already; each key once"
    assert lines[1] == "error: training.lr: given twice; one value, nested or dotted"
    assert lines[2] == "error: curriculum.pacng: unknown key; did you mean curriculum.pacing?"
    assert lines[3].startswith("error: training.lr: -3 is not greater than 0; ")
    assert lines[4].startswith("error: training.foo: unknown key; known: training.loss, ") and len(lines) == 5


def test_what_does_not_fit_together_is_told_at_once(write: Write) -> None:
    clash = (
        "training.lr: {uniform: [1e-5, 1e-3]}\n"
        "search: {searcher: grid, warm_start: [old], promotion: true, points: [{training.lr: 7}]}\n"
    )
    places = {"training.lr", "search.warm_start", "search.promotion"}
    places |= {"search.points[0].training.lr"}
    assert problems(write(clash)).keys() == places
    assert problems(write(f"{clash}seed: -1\n")).keys() == places | {"seed"}
    untrainable = "curriculum.pacing: {choice: [none, root]}\nranker.name: lambdamart\n"
    assert problems(write(f"{untrainable}search: {{warm_start: [old], searcher: cmaes}}\n")).keys() == {
        "curriculum.pacing",
        "search.searcher",
    }
    twice = "seed: 1\nseed: 2\n"
    assert len(problems(write(f"{twice}{untrainable}{OPEN}"))) == 2
    circle = "curriculum: {n: {choice: [2], when: {curriculum.m: 1}}, m: {uniform: [1, 2], when: {curriculum.n: 2}}}\n"
    assert problems(write(circle + "search.searcher: grid\n")).keys() == {"curriculum.n.when"}


def test_a_broken_part_is_not_missed_by_the_others(write: Write) -> None:
    """Whether cmaes lacks a number is only known if the whole space is."""
    pacing = "curriculum.pacing: {choice: [linear, none]}\nsearch.searcher: cmaes\n"
    assert problems(write(pacing)).keys() == {"search.searcher"}
    assert problems(write(pacing + "training.lr: {uniform: [1e-5, -1e-3]}\n")).keys() == {"training.lr.uniform"}


# -- what is opened and under which condition --------------------------------------------------------------------

SHARED = {"metric", "seed", "training.max_iterations", "training.pretrain_iterations", "training.pretrain_lr"}
SHARED |= {"training.pretrain_relevance_level", "training.pretrain_seed"}


@pytest.mark.parametrize("key", configuration_fields(()))
def test_what_trials_share_is_never_opened(key: str) -> None:
    """docs/reference/keys.md: data.*, evaluation.*, metric, seed, training.max_iterations, curriculum.teacher.* and
    training.pretrain_* except training.pretrain_data."""
    never = key in SHARED or key.startswith(("data.", "evaluation.", "curriculum.teacher."))
    with pytest.raises(ConfigError) as caught:
        load_experiment("quickstart", [f"{key}={{choice: [one, one]}}", "search.trials=0"])
    said = [problem.wrong for problem in caught.value.problems if problem.location == key]
    assert (said == ["cannot be searched: its trials would not compare"]) == never


def test_a_condition_on_a_wrong_value_is_not_told_too(write: Write) -> None:
    text = "curriculum: {pacing: roof, n: {choice: [2, 5], when: {curriculum.pacing: root}}}\n"
    assert problems(write(OPEN + text)).keys() == {"curriculum.pacing"}


def test_a_misspelt_ranker_of_a_condition_is_told_as_that(write: Write) -> None:
    filters = "{choice: [8, 16], when: {ranker.name: [conv_knrm, conv_knmr]}}"
    space = write(f"ranker: {{name: {{choice: [bert, conv_knrm]}}, model: tiny, filters: {filters}}}\n")
    assert problems(space) == {"ranker.filters.when.ranker.name": "unknown value 'conv_knmr'; did you mean conv_knrm?"}


def test_a_choice_holds_each_value_once() -> None:
    """Values are compared as the configuration holds them: 5 and 5.0 are the same m."""
    assert problems("quickstart", "curriculum.m={choice: [5, 10, 5.0]}") == {
        "curriculum.m.choice": "5.0 stands there twice; each value once"
    }


def test_a_condition_of_which_the_command_line_leaves_something_stays() -> None:
    """delta exists with six pacings; one of them is left, with or without `none`, or `none` alone."""
    for pacing, left in (("{choice: [none, linear]}", True), ("linear", True), ("none", False)):
        experiment = load_experiment("everything", [f"curriculum.pacing={pacing}", "search.points=[]"])
        assert ("curriculum.delta" in experiment.space.leaves) == left
        assert any("curriculum.delta is left out" in note for note in experiment.notes) != left


def test_a_condition_of_the_file_is_possible_in_every_value_of_an_opened_key(write: Write) -> None:
    n = "curriculum.n: {choice: [2, 5], when: {curriculum.pacing: [root, linear]}}\n"
    opened = problems(write(f"curriculum.pacing: {{choice: [linear, step]}}\n{n}"))
    assert opened == {"curriculum.n.when.curriculum.pacing": "never 'root'; one of 'linear', 'step'"}
    assert "curriculum.n" in load_experiment(write(f"curriculum.pacing: linear\n{n}")).space.leaves


def test_what_depends_on_a_key_that_was_left_out_is_left_out_too(write: Write) -> None:
    text = (
        "curriculum.pacing: {choice: [root, linear]}\n"
        "curriculum.n: {choice: [2, 5], when: {curriculum.pacing: root}}\n"
        "curriculum.T: {choice: [0.2, 0.4], when: {curriculum.n: 5}}\n"
    )
    experiment = load_experiment(write(text + OPEN), ["curriculum.pacing=linear"])
    assert list(experiment.space.leaves) == ["training.lr"]
    assert experiment.notes[-1] == "curriculum.T is left out: it exists only with curriculum.n"


def test_the_command_line_s_baseline_goes_before_the_file_s(write: Write) -> None:
    space = write(OPEN + "baseline: {training.lr: 1e-5, curriculum.T: 0.5}\n")
    baseline = load_experiment(space, ["baseline.training.lr=1e-4"]).baseline
    assert (baseline["training.lr"], baseline["curriculum.T"]) == (1e-4, 0.5)


def test_texts_of_a_file_are_no_advice_for_the_command_line() -> None:
    assert "description" not in problems("quickstart", "desciption=x")["desciption"]


# -- conditions and YAML -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", ["[]", "{}"])
@pytest.mark.parametrize("when", ["{{curriculum.pacing: {}}}", "{{curriculum: {{pacing: {}}}}}"])
def test_a_condition_has_values(when: str, values: str, write: Write) -> None:
    text = (
        f"curriculum.pacing: {{choice: [root, linear]}}\ncurriculum.n: {{choice: [2, 5], when: {when.format(values)}}}"
    )
    ((place, said),) = problems(write(text)).items()
    assert place == "curriculum.n.when.curriculum.pacing" and said == (
        "no values, so the parameter never exists; a value, or [values]"
    )


@pytest.mark.parametrize("key", ["{{pacing: root}}", "{[a, b]: c}", "\n  ? [a, b]\n  : c"])
def test_a_key_that_is_no_word_is_placed_at_its_line(key: str, write: Write) -> None:
    space = write(f"seed: 1\n\ncurriculum: {key}\n")
    line = 4 if key.startswith("\n") else 3
    assert problems(space) == {f"{space}:{line}": "a list or a mapping stands as a key; valid YAML"}


def test_keys_given_twice_beside_bad_yaml() -> None:
    with pytest.raises(Exception, match=r"(?s)error: x:2: key 'a' stands on .*error: x:3: a list or a mapping"):
        parse_yaml("a: 1\na: 2\n[b]: 3\n", "x")


# -- lines and the console ---------------------------------------------------------------------------------------


def test_a_problem_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert len(str(Problem("a\nb", "c\r\nd", "e\u2028f")).splitlines()) == 1
    assert main(["train", "--data", f"{tmp_path}/a\nb"]) == BAD_INPUT
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: data.source: ")


@pytest.mark.parametrize("option", ["--js", "--difficul"])
def test_options_are_written_out(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["weigh", "--difficulty", ".5", option, "0.5"]) == BAD_INPUT
    assert option in capfd.readouterr().err


@pytest.mark.smoke
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_result_is_shown_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tune_cl", "list", "scorings"],
        cwd=tmp_path, capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert done.returncode == DONE and b"context_words" in done.stdout and done.stderr == b""


@pytest.fixture(scope="module")
def without_dev(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tiny_data(queries={"train": 10, "test": 5}, candidates=5, turns=1)
    return write_trec_folder(data, tmp_path_factory.mktemp("trec"))


@pytest.mark.parametrize(
    "command",
    [["check", "quickstart", "--set", "search.resources.gpu=2", "--set", "curriculum.pacing=linear"], ["train"]],
)
def test_nothing_is_told_before_data_is_refused(
    command: list[str], without_dev: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = ["--output", str(tmp_path / "new")] if command == ["train"] else []
    assert main([*command, "--data", str(without_dev), *SMALL_OPTIONS, *output]) == BAD_INPUT
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: data.source: ") and line.endswith("has no dev split; data with dev queries")
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_training_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tiny_data(queries={"train": 10, "dev": 5, "test": 5}, candidates=5, turns=1)
    folder = write_trec_folder(data, tmp_path / "my data")
    given = ["train", "--data", str(folder), *SMALL_OPTIONS, "--output", str(tmp_path / "o")]

    def stop(*_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tune_cl.run_training._progress", stop)
        assert main(given) == INTERRUPTED
    told = capfd.readouterr().err.splitlines()[-1]
    assert told.startswith("stopped; saved iterations are kept. Go on with: ")
    words = split(told.partition("with: ")[2])
    assert words[0].endswith("tune-cl") and sorted(words[1:]) == sorted(given)
    assert main([*words[1:], "--json"]) == DONE
    shown = capfd.readouterr()
    assert "going on after iteration 1" in shown.err and len(json.loads(shown.out)["dev"]) == 3


def test_a_control_character_in_yaml_is_told_at_its_place() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_yaml("name: a\x0bb", "space.yaml")
    (line,) = str(refused.value).splitlines()
    assert line.startswith("error: space.yaml:1: ") and line.endswith("; valid YAML")


@pytest.mark.parametrize(
    "key", ["training.batch_size", "curriculum.delta", "curriculum.n", "seed", "search.trials", "search.resources.gpu"]
)
def test_true_is_no_number(key: str) -> None:
    found = problems("quickstart", f"{key}=true")
    assert list(found) == [key] and found[key].startswith("true is not possible; a ")
    load_experiment("quickstart", ["curriculum.anti=true", "search.promotion=false"])


@pytest.mark.parametrize("key", ["training.batch_size", "training.negatives", "evaluation.relevance_level", "seed"])
def test_a_whole_number_that_no_library_reads_is_refused(key: str) -> None:
    found = problems("quickstart", f"{key}={10**20}")
    assert list(found) == [key] and found[key].endswith(" is too large; a whole number up to 2147483647")


def test_a_byte_that_is_no_text_is_named_at_its_line(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_bytes(b"metric: map\ndescription: caf\xe9\n")
    assert problems(str(space)) == {f"{space}:2": "byte 0xe9 is not UTF-8; a YAML file in UTF-8"}
