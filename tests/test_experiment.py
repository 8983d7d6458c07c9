"""From search-space files and command-line options to checked experiments."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from search_spaces import SPACES
from tests.support.data_folders import FORMS, trec_files, write_folder
from tests.support.space_files import OPEN, Write, problems, write
from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError
from trainables.core.randomness import generator
from trainables.curriculum.negatives import SCHEDULES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.training.prepared import prepared_key
from tune_cl.experiment.experiment import base_ranker
from tune_cl.experiment.known_points import published
from tune_cl.experiment.load import build, from_yaml, load_experiment, load_training_run, parse_overrides, to_yaml
from tune_cl.experiment.paths import in_any_folder
from tune_cl.experiment.readers import distinct_rankers
from tune_cl.experiment.search_parts import new_sampler
from tune_cl.space.space_files import dump_yaml, parse_yaml
from tune_cl.verdict.opponents import filter_config

__all__ = ["write"]  # a fixture


@pytest.mark.parametrize("name", SPACES)
def test_shipped_spaces(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.notes == () and SPACES.entries[name].summary == experiment.description
    assert from_yaml(to_yaml(experiment)) == experiment
    baseline = experiment.base.run
    assert (baseline.curriculum.pacing, baseline.curriculum.weighting) == ("none", "none")
    assert TrainingRun.model_validate(baseline.model_dump()) == baseline
    plain, shared = "plain training as given" in experiment.description, experiment.arms.shared_space
    assert plain == (not shared.parameters), "a space that tunes nothing for plain training says so"


def test_nested_dotted_and_short_forms_are_one(write: Write) -> None:
    nested = load_experiment(
        write("""
        data: here
        ranker: conv_knrm
        curriculum: {pacing: [linear, root], n: {int: [1, 9], when: {curriculum: {pacing: root}}}}
        evaluation:
        search: {trials: 3, resources: {cpu: 0.5}}
        """)
    )
    dotted = load_experiment(
        write("""
        data.source: here
        ranker.name: conv_knrm
        curriculum.pacing: {choice: [linear, root]}
        curriculum.n: {int: [1, 9], when: {curriculum.pacing: [root]}}
        search.trials: 3
        search.resources.cpu: 0.5
        """)
    )
    assert nested == dotted


def test_values_are_those_of_the_configuration(write: Write) -> None:
    space = "curriculum.m: {choice: [5, inf, 1e1]}\ntraining.lr: 1e-4\ntraining.negative_ranks: [2, 5]\ndescription:\n"
    experiment = load_experiment(write(space))
    assert experiment.space.parameters["curriculum.m"].values() == (5.0, math.inf, 10.0)
    assert experiment.fixed["training.lr"] == 1e-4 and experiment.fixed["training.negative_ranks"] == (2, 5)
    assert experiment.description == ""


def test_nothing_to_search_or_to_compare(write: Write) -> None:
    space = write("training.lr: 1e-3\n")
    assert "nothing" in problems(space)[space]
    assert "nothing to compare" in problems(write(OPEN + "baseline: {curriculum.T: 0.9}\n"))["baseline"]
    assert "0 trains nothing" in problems(write(OPEN), "training.max_iterations=0")["training.max_iterations"]


def test_one_training(write: Write) -> None:
    opened = "training.lr={loguniform: [5e-4, 5e-3]}"
    run = load_training_run("quickstart", ["curriculum.weighting=reciprocal_rank", opened], data="here")
    assert (run.data.source, run.curriculum.pacing, run.curriculum.weighting) == ("here", "none", "reciprocal_rank")
    assert run.training.lr == pytest.approx(math.sqrt(5e-4 * 5e-3))
    run = load_training_run(None, {"curriculum": {"pacing": "root", "n": 5}}, ranker="conv_knrm")
    assert (run.curriculum.pacing, run.curriculum.n, run.ranker.name) == ("root", 5, "conv_knrm")
    assert load_training_run(write("ranker: embedding\n")).ranker.name == "embedding"
    with pytest.raises(ConfigError, match="mean root"):
        load_training_run(None, ["curriculum.pacing=rot"])


def test_overrides_win_and_those_that_cannot_be_read_are_told(write: Write) -> None:
    space = write(OPEN + "data: there\nmetric: map\nsearch.trials: 5\nbaseline: {curriculum.pacing: none}\n")
    overrides = ["training.loss={choice: [hinge, pairwise]}", "metric=p@1", "search.hours=0.5", "search.trials=2"]
    overrides += ["baseline.training.lr=1e-4", "training.max_iterations=7", "seed=3"]
    experiment = load_experiment(space, overrides, data="here")
    base = experiment.base.run
    assert (base.metric, base.seed, base.training.max_iterations) == ("p@1", 3, 7)
    assert (experiment.search.trials, experiment.search.hours) == (2, 0.5)
    assert set(experiment.space.parameters) == {"training.lr", "training.loss"}
    assert experiment.base.point["training.lr"] == 1e-4
    run = experiment.config({"training.lr": 1e-5, "training.loss": "hinge"}).with_seed(9)
    assert (run.data.source, run.seed, run.training.lr) == ("here", 9, 1e-5)
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["training.lr", "=3", "training.lr=[1", "seed=1", "seed=2"])
    assert [problem.location for problem in caught.value.problems] == ["--set", "--set", "--set training.lr:1"]
    assert parse_overrides(["seed=1", "seed=2", "a=b=c"]) == {"seed": 2, "a": "b=c"}
    with pytest.raises(ConfigError, match="is a single text"):
        parse_overrides("training.lr=1")


def test_the_command_line_may_make_a_condition_pointless(write: Write) -> None:
    experiment = load_experiment("penha2020_pacing", ["curriculum.pacing={choice: [linear, step]}"])
    assert list(experiment.space.parameters) == ["curriculum.pacing"]
    assert [note.split()[0] for note in experiment.notes] == ["curriculum.n", "search.points:"]
    chain = (
        "curriculum.pacing: {choice: [root, linear]}\n"
        "curriculum.n: {choice: [2, 5], when: {curriculum.pacing: root}}\n"
        "curriculum.T: {choice: [0.2, 0.4], when: {curriculum.n: 5}}\n"
    )
    experiment = load_experiment(write(chain + OPEN), ["curriculum.pacing=linear"])
    assert list(experiment.space.parameters) == ["training.lr"] and experiment.notes[-1].startswith("curriculum.T ")
    kept = load_experiment("penha2020_pacing", ["curriculum.pacing=root"])
    assert [point["curriculum.n"] for point in kept.space.grid()] == [2, 5, 10, 20, 50]


def test_another_ranker_drops_the_keys_of_the_file_s() -> None:
    experiment = load_experiment("penha2020_pacing", ranker="conv_knrm")
    assert base_ranker(experiment).ranker.name == "conv_knrm"
    [note] = experiment.notes
    assert note.startswith("ranker.model ") and "conv_knrm" in note
    assert "unknown" in problems("quickstart", "ranker.model=x")["ranker.model"]


def test_two_rankers_in_one_space(write: Write) -> None:
    text = "ranker: {name: {choice: [cross_encoder, conv_knrm]}, model: tiny, filters: {choice: [8, 16]%s}}\n"
    assert "{ranker.name: [conv_knrm]}" in problems(write(text % ""))["ranker.filters"]
    experiment = load_experiment(write(text % ", when: {ranker.name: conv_knrm}"))
    assert experiment.values("ranker.name") == ["bert", "conv_knrm"]
    rankers = [run.ranker for run in distinct_rankers(experiment)]
    assert [getattr(ranker, "filters", None) for ranker in rankers] == [None, None, 8]
    assert [getattr(ranker, "model", None) for ranker in rankers] == ["tiny", "tiny", None]


def test_the_baseline_has_its_values_and_middles(write: Write) -> None:
    text = OPEN + "curriculum: {pacing: {choice: [linear]}, anti: {choice: [true]}, T: {uniform: [0.1, 0.5]}}\n"
    experiment = load_experiment(write(text + "baseline: {curriculum.anti: false, curriculum: {pacing: none}}\n"))
    off = {"curriculum.pacing": "none", "curriculum.weighting": "none", "curriculum.anti": False}
    assert experiment.baseline == off and experiment.base.point == off | {"training.lr": pytest.approx(1e-4)}
    assert problems(write(text + "baseline: [training.lr]\n"))["baseline"].startswith("['training.lr'] is not a")


def test_a_twin_shares_what_the_baseline_leaves_open_and_a_filter_the_pairs_as_well(write: Write) -> None:
    text = "curriculum: {pacing: {choice: [linear]}, final_share: {choice: [0.5, 1]}, scoring: turns, anti: true}\n"
    experiment = load_experiment(write(OPEN + text))
    point = {"curriculum.pacing": "linear", "curriculum.final_share": 0.5, "training.lr": 2e-5}
    config = experiment.config(point)
    assert experiment.config(dict(reversed(point.items()))) is config, "made once"
    assert config.twin.point == {**experiment.baseline, "training.lr": 2e-5}
    assert config.twin.is_plain and not config.is_plain
    curriculum = filter_config(config, 0.5).run.curriculum
    assert (curriculum.pacing, curriculum.delta, curriculum.scoring, curriculum.anti) == ("linear", 0.5, "turns", True)


def test_a_grid_tries_all_unless_told_how_many() -> None:
    assert load_experiment("penha2020_pacing").arms.total == 9
    assert load_experiment("penha2020_pacing", ["search.trials=3"]).arms.total == 3
    assert load_experiment("penha2020_pacing", ["search.searcher=random", "search.trials=99"]).arms.total == 9
    opened = "curriculum.delta={uniform: [0.2, 0.6]}"
    assert "continuous" in problems("quickstart", "search.searcher=grid", opened)["curriculum.delta"]


def test_a_space_is_named_after_its_file_unless_it_says_its_name(write: Write, tmp_path: Path) -> None:
    (tmp_path / "of_any_ending").write_text(OPEN)
    assert load_experiment(str(tmp_path / "of_any_ending")).name == "of_any_ending"
    assert from_yaml(to_yaml(load_experiment(write(f"name: theirs\n{OPEN}")))).name == "theirs"
    for name in ("../evil", "a/b", "..", 256 * "x"):
        assert problems(write(f"name: {name!r}\n{OPEN}"))["name"].startswith(f"{name!r} ")
    assert "file" in problems(write(OPEN), "name=mine", "description=x")["description"]


# -- YAML ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1e-3, 1E5, .5, -2.e-1, 3, inf, .inf, none, 1e]", [1e-3, 1e5, 0.5, -0.2, 3, "inf", math.inf, "none", "1e"]),
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("2001-12-14", "2001-12-14"),
        ("'010'", "010"),
    ],
)
def test_yaml_scalars_are_those_of_1_2(text: str, value: object) -> None:
    assert parse_yaml(text, "--set KEY") == value and type(parse_yaml(text, "--set KEY")) is type(value)
    assert parse_yaml(dump_yaml({"key": value}), "x") == {"key": value}


@pytest.mark.parametrize(
    ("text", "right"),
    [("1:30", "90"), ("010", "10"), ("-007", "-7"), ("01.5", "1.5"), ("key: 1:30:00", "5400"), ("[1, 08]", "8")],
)
def test_what_yaml_1_1_reads_otherwise_is_refused(text: str, right: str) -> None:
    with pytest.raises(ConfigError, match=rf"error: file:1: .* base .*; {right}\b"):
        parse_yaml(text, "file")


def test_field_files_of_yaml(shared: Path) -> None:
    """What other tools write, and what editors leave in a file."""
    folder = shared.parent / "round3" / "yaml"
    told = {
        "nbsp.yaml": "U+00A0 (no-break space)",
        "zero_width.yaml": "U+200B (zero width space)",
        "merge_key.yaml": "the value written out",
        "wandb_minmax.yaml": "{uniform: [0.0001, 0.01]}",
        "wandb_values.yaml": "{choice: [0.0001, 0.01]}",
    }
    for name, words in told.items():
        assert words in " ".join(problems(str(folder / name)).values()), name
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
    losses = [point.pop("training.loss") for point in (kde, order, turns)]
    assert kde == {"curriculum.pacing": "none", "curriculum.weighting": "kde", "curriculum.m": 15}
    assert order == {
        "curriculum.pacing": "root", "curriculum.n": 5, "curriculum.delta": 0.3, "curriculum.scoring": "bm25_std",
        "curriculum.weighting": "none",
    }  # fmt: skip
    assert turns == {**order, "curriculum.scoring": "turns"}
    assert set(losses) == {"pairwise", "hinge", "cross_entropy"}, "losses are those of the pairs, each once"
    assert new_sampler(experiment).ask(1) == experiment.points[0]
    assert from_yaml(to_yaml(experiment)).points == experiment.points
    assert [len(load_experiment(write(HELD), [f"search.trials={n}"]).points) for n in (4, 6, 24)] == [1, 2, 3]
    without = load_experiment(write(HELD), ["curriculum.anti=true"])
    assert not without.points and "search.points: the space holds none of the published curricula" in without.notes


def test_every_published_curriculum_lies_in_a_space_that_opens_its_keys() -> None:
    for curriculum in published():
        grows = "curriculum.subset" in curriculum
        opened = {key: value for key, value in curriculum.items() if grows or key != "curriculum.switch"}
        space = {"ranker": "lambdamart" if grows else "knrm", "search": {"searcher": "grid", "points": "published"}}
        [point] = load_experiment({**space, **{key: {"choice": [value]} for key, value in opened.items()}}).points
        assert point == opened


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


# -- notes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ranker": "knrm"}, ["knrm has 0.01"]),
        ({"overrides": ["ranker.name={choice: [knrm, bert, conv_knrm]}"]}, ["knrm has 0.01", "conv_knrm has 0.001"]),
        ({"ranker": "knrm", "overrides": ["training.lr=0.005"]}, []),
    ],
)
def test_learning_rates_of_another_ranker_than_the_space_is_for_are_told(
    options: dict[str, Any], told: list[str]
) -> None:
    """The baseline has the middle of the range, with which a small network hardly learns."""
    notes = [note for note in load_experiment("everything", **options).notes if note.startswith("training.lr")]
    assert len(notes) == bool(told) and all(word in note for note in notes for word in ("bert", "5e-06", *told))


@pytest.mark.parametrize(
    ("key", "beside"),
    [
        ("search.reduction_factor=4", "search.scheduler=asha"),
        ("search.first_rung=2", "search.scheduler=asha"),
        ("search.startup_trials=3", "search.searcher=tpe"),
        ("curriculum.m=5", "curriculum.weighting=reciprocal_rank"),
        ("training.margin=3", "training.loss=hinge"),
    ],
)
def test_a_key_is_named_where_nothing_reads_it(key: str, beside: str, write: Write) -> None:
    space = write("ranker: conv_knrm\ncurriculum: {scoring: turns, pacing: {choice: [none, root]}}\n" + OPEN)
    unread = "without effect on this search: " + key.partition("=")[0]
    assert not any(note.startswith(unread) for note in load_experiment(space, [key, beside]).notes)
    assert any(note.startswith(unread) for note in load_experiment(space, [key]).notes)


def test_a_searcher_that_never_models_the_space_says_so() -> None:
    keys = [[f"search.trials={n}", "search.startup_trials=8"] for n in (10, 24)]
    few, many = (load_experiment("quickstart", one).notes for one in keys)
    assert any("tpe models the space after" in note for note in few) and not many


# -- data and paths --------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a search is called, with data and vectors."""
    write_folder(tmp_path / "here" / "trec", trec_files())
    (tmp_path / "here" / "glove.txt").write_text("cat 1\n")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "here"))
    return tmp_path / "here"


def test_a_search_names_its_files_from_any_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, Any] = {
        "data": "./trec",
        "ranker": {"name": "conv_knrm", "vectors": "glove.txt"},
        "training.pretrain_data": {"choice": ["~/trec", "docstrings", "nowhere"]},
        "training.lr": {"choice": [0.1, 0.2], "when": {"data.source": "./trec"}},
        "curriculum.teacher.ranker": {"name": "bert", "model": "trec"},
        "baseline.training.pretrain_data": "trec",
    }
    whole = in_any_folder(build("space", keys, {}))
    monkeypatch.chdir("/")
    run: Any = whole.base.run
    data = str(here / "trec")
    assert (run.data.source, run.ranker.vectors, run.curriculum.teacher.ranker.model) == (
        data, str(here / "glove.txt"), data,
    )  # fmt: skip
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
