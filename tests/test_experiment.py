"""From search-space files and command-line options to checked experiments. What is wrong: test_wrong_configuration."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from search_spaces import SPACES
from tests.support.data_folders import FORMS, trec_files, write_folder
from tests.support.space_files import OPEN, Write, write
from trainables.config.keys import TrainingConfig
from trainables.core.errors import ConfigError
from trainables.core.randomness import generator
from trainables.curriculum.negatives import SCHEDULES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.training.prepared import prepared_key
from tune_cl.experiment.load import build, from_yaml, load_experiment, load_training_run, parse_overrides, to_yaml
from tune_cl.experiment.readers import distinct_rankers
from tune_cl.search.phases import phases_of
from tune_cl.space.space_files import dump_yaml, find_space, parse_yaml
from tune_cl.verdict.opponents import filter_config

__all__ = ["write"]  # a fixture


@pytest.mark.parametrize("name", SPACES)
def test_shipped_spaces(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.notes == () and SPACES.entries[name].summary == experiment.description
    assert from_yaml(to_yaml(experiment)) == experiment
    baseline = experiment.base.run
    assert (baseline.curriculum.pacing, baseline.curriculum.weighting) == ("none", "none")
    assert TrainingConfig.model_validate(baseline.model_dump()) == baseline
    plain, shared = "plain training as given" in experiment.description, experiment.arms.shared_space
    assert plain == (not shared.parameters), "a space that tunes nothing for plain training says so"
    assert find_space(name).read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=schema.json\n")


def test_nested_dotted_and_short_forms_are_one() -> None:
    nested: dict[str, Any] = {
        "data": "here",
        "ranker": "conv_knrm",
        "curriculum": {"pacing": ["linear", "root"], "n": {"int": [1, 9], "when": {"curriculum": {"pacing": "root"}}}},
        "training": {"lr": "1e-4", "negative_ranks": [2, 5]},
        "curriculum.m": ["inf", 5],
        "evaluation": None,
        "search": {"trials": 3, "resources": {"cpu": 0.5}},
    }
    dotted = {
        "data.source": "here",
        "ranker.name": "conv_knrm",
        "curriculum.pacing": {"choice": ["linear", "root"]},
        "curriculum.n": {"int": [1, 9], "when": {"curriculum.pacing": ["root"]}},
        "training.lr": 1e-4,
        "training.negative_ranks": (2, 5),
        "curriculum.m": {"choice": [math.inf, 5]},
        "search.trials": 3,
        "search.resources.cpu": 0.5,
    }
    assert load_experiment(nested) == load_experiment(dotted)


def test_one_training() -> None:
    opened = "training.lr={loguniform: [5e-4, 5e-3]}"
    run = load_training_run("quickstart", ["curriculum.weighting=reciprocal_rank", opened], data="here")
    assert (run.data.source, run.curriculum.pacing, run.curriculum.weighting) == ("here", "none", "reciprocal_rank")
    assert run.training.lr == pytest.approx(math.sqrt(5e-4 * 5e-3)), "the middle of a range"
    run = load_training_run(None, {"curriculum": {"pacing": "root", "n": 5}}, ranker="conv_knrm")
    assert (run.curriculum.pacing, run.curriculum.n, run.ranker.name) == ("root", 5, "conv_knrm")


def test_the_command_line_overrides_the_file(write: Write) -> None:
    space = write(OPEN + "data: there\nmetric: map\nsearch.trials: 5\nbaseline: {curriculum.pacing: none}\n")
    overrides = ["training.loss={choice: [hinge, pairwise]}", "metric=p@1", "search.trials=9", "search.trials=2"]
    experiment = load_experiment(space, [*overrides, "baseline.training.lr=1e-4", "seed=3"], data="here")
    base: Any = experiment.base.run
    assert (base.data.source, base.metric, base.seed, base.training.lr) == ("here", "p@1", 3, 1e-4)
    assert experiment.search.trials == 2 and set(experiment.space.parameters) == {"training.lr", "training.loss"}
    assert experiment.config({"training.lr": 1e-5, "training.loss": "hinge"}).with_seed(9).seed == 9
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["training.lr", "=3", "training.lr=[1", "seed=1"])
    assert [problem.location for problem in caught.value.problems] == ["--set", "--set", "--set training.lr:1"]


NOTES: list[tuple[str, list[str], dict[str, Any], list[str]]] = [
    ("penha2020_pacing", ["curriculum.pacing=[linear, step]"], {},
     ["curriculum.n is left out", "search.points: the space holds none"]),
    (f"{OPEN}curriculum: {{pacing: [root, linear], n: {{choice: [2, 5], when: {{curriculum.pacing: root}}}}, "
     "T: {choice: [.2, .4], when: {curriculum.n: 5}}}\n", ["curriculum.pacing=linear"], {},
     ["curriculum.n is left out", "curriculum.T is left out: it exists only with curriculum.n"]),
    ("penha2020_pacing", [], {"ranker": "conv_knrm"}, ["ranker.model is left out: it belongs to another ranker"]),
    ("everything", ["training.lr=0.005"], {"ranker": "knrm"}, ["ranker.model is left out"]),
    ("everything", [], {"ranker": "knrm"}, ["ranker.model is left out", "training.lr keeps the space's range"]),
    (OPEN, ["search.reduction_factor=4"], {}, ["without effect on this search: search.reduction_factor (needs"]),
    (OPEN, ["training.margin=3"], {}, ["without effect on this search: training.margin (needs loss hinge"]),
    (OPEN, ["training.margin=3", "training.loss=hinge"], {}, []),
]  # fmt: skip


@pytest.mark.parametrize(("space", "overrides", "options", "notes"), NOTES)
def test_notes(space: str, overrides: list[str], options: dict[str, Any], notes: list[str], write: Write) -> None:
    made = load_experiment(space if space in SPACES else write(space), overrides, **options).notes
    assert len(made) == len(notes) and all(map(str.startswith, made, notes)), made


def test_two_rankers_in_one_space(write: Write) -> None:
    text = "ranker: {name: {choice: [cross_encoder, conv_knrm]}, model: tiny, filters: {choice: [8, 16], when: %s}}\n"
    experiment = load_experiment(write(text % "{ranker.name: conv_knrm}"))
    assert experiment.values("ranker.name") == ["bert", "conv_knrm"]
    rankers = [run.ranker for run in distinct_rankers(experiment)]
    assert [getattr(ranker, "filters", None) for ranker in rankers] == [None, None, 8]
    assert [getattr(ranker, "model", None) for ranker in rankers] == ["tiny", "tiny", None]


def test_a_twin_shares_what_the_baseline_leaves_open_and_a_filter_the_pairs_as_well(write: Write) -> None:
    text = "curriculum: {pacing: {choice: [linear]}, final_share: {choice: [0.5, 1]}, scoring: turns, anti: true}\n"
    experiment = load_experiment(write(f"{OPEN}{text}baseline: {{curriculum: {{pacing: none}}}}\n"))
    assert experiment.base.point == {**experiment.baseline, "training.lr": pytest.approx(1e-4)}
    point = {"curriculum.pacing": "linear", "curriculum.final_share": 0.5, "training.lr": 2e-5}
    config = experiment.config(point)
    assert experiment.config(dict(reversed(point.items()))) is config, "made once"
    assert config.twin.point == {**experiment.baseline, "training.lr": 2e-5}
    assert config.twin.is_plain and not config.is_plain
    curriculum = filter_config(config, 0.5).run.curriculum
    assert (curriculum.pacing, curriculum.delta, curriculum.scoring, curriculum.anti) == ("linear", 0.5, "turns", True)


def test_a_grid_tries_all_unless_told_how_many() -> None:
    assert phases_of(load_experiment("penha2020_pacing")).trials == 9
    assert phases_of(load_experiment("penha2020_pacing", ["search.trials=3"])).trials == 3


# -- YAML ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1e-3, 1E5, .5, -2.e-1, 3, inf, .inf, none, 1e]", [1e-3, 1e5, 0.5, -0.2, 3, "inf", math.inf, "none", "1e"]),
        *((text, text) for text in ("yes", "off", "1_000", "2001-12-14")),
        ("true", True),
        ("'010'", "010"),
    ],
)
def test_yaml_scalars_are_those_of_1_2(text: str, value: object) -> None:
    assert parse_yaml(text, "--set KEY") == value and type(parse_yaml(text, "--set KEY")) is type(value)
    assert parse_yaml(dump_yaml({"key": value}), "x") == {"key": value}


def test_field_files_of_yaml(shared: Path) -> None:
    """What other tools write, and what editors leave in a file."""
    folder = shared.parent / "round3" / "yaml"
    told = {
        "nbsp.yaml": "U+00A0 (no-break space)",
        "zero_width.yaml": "U+200B (zero width space)",
        "merge_key.yaml": "write the value out",
        "wandb_minmax.yaml": "{uniform: [a, b]}",
        "wandb_values.yaml": "{choice: [...]}",
    }
    for name, words in told.items():
        with pytest.raises(ConfigError, match=re.escape(words)):
            load_experiment(str(folder / name))
    for name in ("desc_null", "empty_section", "range_strings", "small", "tilde"):
        experiment = load_experiment(str(folder / f"{name}.yaml"))
        assert experiment.description == "" and "curriculum.pacing" in experiment.space.parameters


# -- what is tried first, and what trainings read ----------------------------------------------------------------------

HELD = """
data: docstrings
ranker: knrm
curriculum:
  pacing: {choice: [none, linear, root]}
  n: {choice: [5, 10], when: {curriculum.pacing: root}}
  delta: {uniform: [0.1, 0.3], when: {curriculum.pacing: [linear, root]}}
  T: 0.5
  scoring: {choice: [turns, bm25_std], when: {curriculum.pacing: [linear, root]}}
  weighting: {choice: [none, kde]}
  m: {choice: [5, 15, inf], when: {curriculum.weighting: kde}}
training.loss: {choice: [pairwise, hinge, cross_entropy]}
search: {searcher: tpe, trials: 24, points: published}
"""


def test_published_curricula_come_first_with_the_nearest_numbers(write: Write) -> None:
    experiment = load_experiment(write(HELD))
    kde, order, turns = [dict(point) for point in experiment.points]
    assert kde == {"curriculum.pacing": "none", "curriculum.weighting": "kde", "curriculum.m": 15}
    assert order == {
        "curriculum.pacing": "root", "curriculum.n": 5, "curriculum.delta": 0.3, "curriculum.scoring": "bm25_std",
        "curriculum.weighting": "none",
    }  # fmt: skip
    assert turns == {**order, "curriculum.scoring": "turns"}
    assert [phases_of(load_experiment(write(HELD), [f"search.trials={n}"])).published for n in (4, 6, 24)] == [2, 2, 8]


@pytest.mark.parametrize(
    ("opened", "rankers"),
    [
        ("ranker.vector_size: {int: [50, 300]}", 1),
        ("ranker.vector_size: {choice: [10, 20]}\nranker.filters: {int: [8, 64]}", 2),
        ("ranker.vector_size: {int: [50, 300]}\nranker.word2vec: {choice: [cbow, skipgram]}", 2),
        ("ranker.filters: {int: [32, 256]}\ntraining.pretrain_data: docstrings", 1),
    ],
)
def test_no_more_rankers_of_a_range_are_foreseen_than_there_are_trials(opened: str, rankers: int, write: Write) -> None:
    experiment = load_experiment(write(f"ranker: conv_knrm\nsearch.trials: 8\n{opened}\n"))
    assert len({prepared_key(run) for run in distinct_rankers(experiment)[1:]}) == rankers


def test_everything_is_in_the_space_of_everything() -> None:
    experiment = load_experiment("everything")
    parameters = experiment.space.parameters
    for key, registry in (("scoring", SCORINGS), ("pacing", PACINGS), ("weighting", WEIGHTINGS)):
        assert set(parameters[f"curriculum.{key}"].ends) == set(registry) - {"file"}, "which needs a file"
    assert set(parameters["curriculum.negatives.schedule"].ends) == set(SCHEDULES) - {"groups"}
    assert len(experiment.points) == 11
    switch = {"curriculum.pacing": "none", "curriculum.weighting": "none", "curriculum.objective_switch": "mse"}
    assert experiment.config({**switch, "curriculum.switch_at": 0.5}).grace == 30, "the objective's switch counts"


# -- data and paths --------------------------------------------------------------------------------------------------


def test_a_search_names_its_files_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(write_folder(tmp_path / "trec", trec_files()))
    (tmp_path / "glove.txt").write_text("cat 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    keys: dict[str, Any] = {
        "data": "./trec",
        "ranker": {"name": "conv_knrm", "vectors": "glove.txt"},
        "training.pretrain_data": {"choice": ["~/trec", "docstrings", "nowhere"]},
        "training.lr": {"choice": [0.1, 0.2], "when": {"data.source": "./trec"}},
        "curriculum.teacher.ranker": {"name": "bert", "model": "trec"},
        "baseline.training.pretrain_data": "trec",
    }
    whole = build("space", keys, {})
    monkeypatch.chdir("/")
    run: Any = whole.base.run
    assert (run.data.source, run.curriculum.teacher.ranker.model) == (data, data)
    assert run.ranker.vectors == str(tmp_path / "glove.txt")
    assert whole.space.parameters["training.pretrain_data"].ends == (data, "docstrings", "nowhere")
    assert whole.baseline["training.pretrain_data"] == data
    assert "training.lr" in whole.space.sample(generator(0, "condition", 0))
    assert from_yaml(to_yaml(whole)) == whole


@pytest.mark.parametrize(("files", "has_turns"), [(trec_files(), False), (FORMS["conversation"], True)])
def test_turns_are_not_searched_on_queries_of_single_texts(
    files: dict[str, str], has_turns: bool, tmp_path: Path
) -> None:
    experiment = load_experiment("quickstart", data=write_folder(tmp_path / "data", files))
    options = experiment.space.parameters["curriculum.scoring"].ends
    assert ("turns" in options) == has_turns and len(options) == 3 + has_turns
    assert any("curriculum.scoring: turns is left out" in note for note in experiment.notes) != has_turns
