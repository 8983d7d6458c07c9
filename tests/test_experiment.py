"""From search-space files and command-line options to checked experiments; every problem reported at once."""

from __future__ import annotations

import math
import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from search_spaces import SPACES
from tests.support.builders import tiny_data
from tests.support.data_folders import FORMS, trec_files, write_folder
from tests.support.space_files import OPEN, Write, problems, write
from tests.support.terminal import result
from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError, Problem
from trainables.core.randomness import generator
from trainables.curriculum.negatives import SCHEDULES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.training.prepared import PreparedData, prepare, prepared_for, prepared_key
from tune_cl.check_space import unmeasured
from tune_cl.cli import DONE, main
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.forecast import ArmPlan
from tune_cl.experiment.load import build, from_yaml, load_experiment, load_training_run, parse_overrides
from tune_cl.experiment.paths import in_any_folder
from tune_cl.samplers import SEARCHERS
from tune_cl.space.parameters import LogUniform
from tune_cl.space.space import Flat
from tune_cl.space.space_files import dump_yaml, parse_yaml

pytestmark = pytest.mark.usefixtures("every_draw")

__all__ = ["write"]  # a fixture


@pytest.mark.parametrize("name", SPACES)
def test_shipped_spaces(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.notes == ()
    assert SPACES.entries[name].summary == experiment.description
    assert from_yaml(experiment.to_yaml()) == experiment
    assert len(experiment.distinct_rankers()) >= 1
    baseline = experiment.training_run(experiment.baseline_values())
    assert (baseline.curriculum.pacing, baseline.curriculum.weighting) == ("none", "none")
    check = unmeasured(experiment)
    assert check.trials == experiment.search.trials
    assert 0 < check.iterations_expected <= check.iterations_at_most


def test_forecasts_of_the_papers_grids() -> None:
    check = unmeasured(load_experiment("penha2020_pacing"))
    assert (check.parameters, check.conditional, check.combinations, check.steps, check.priors) == (2, 1, 8, [], [])
    assert (check.trials, check.iterations_at_most, check.iterations_expected, check.points) == (9, 144, 144, 1)
    assert check.arms == {"plain": ArmPlan(1, ()), "curriculum": ArmPlan(8, ("curriculum.pacing", "curriculum.n"))}
    assert unmeasured(load_experiment("macavaney2020_curricula")).combinations == 3 * 7 * 2


def test_nested_dotted_and_short_forms_are_one(write: Write) -> None:
    nested = load_experiment(
        write("""
        data: here
        ranker: conv_knrm
        curriculum: {pacing: {choice: [linear, root]}, n: {int: [1, 9], when: {curriculum: {pacing: root}}}}
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


def test_values_are_normalised(write: Write) -> None:
    experiment = load_experiment(write("curriculum.m: {choice: [5, inf, 1e1]}\ntraining.lr: 1e-4\n"))
    assert experiment.space.leaves["curriculum.m"].values() == (5.0, math.inf, 10.0)
    assert experiment.fixed["training.lr"] == 1e-4


def test_a_list_is_a_choice_unless_the_key_takes_lists(write: Write) -> None:
    """In files, on the command line and from Python."""
    path = write("curriculum.pacing: [linear, root]\nranker: [knrm, conv_knrm]\ntraining.negative_ranks: [2, 5]\n")
    experiment = load_experiment(path, ["training.lr=[1e-3, 1e-4]"])
    choices = {
        "curriculum.pacing": ["linear", "root"],
        "ranker.name": ["knrm", "conv_knrm"],
        "training.lr": [1e-3, 1e-4],
    }
    assert {key: leaf.document() for key, leaf in experiment.space.leaves.items()} == {
        key: {"choice": values} for key, values in choices.items()
    }
    assert from_yaml(experiment.to_yaml()).space == experiment.space
    assert load_experiment({"training.lr": (1e-3, 1e-4)}).space.leaves.keys() == {"training.lr"}
    assert experiment.fixed["training.negative_ranks"] == (2, 5)


def test_nothing_to_search(write: Write) -> None:
    space = write("training.lr: 1e-3\n")
    assert "nothing" in problems(space)[space]
    space = write(OPEN)
    assert "nothing" in problems(space, "training.lr=1e-3")[space]


def test_one_training_of_a_space() -> None:
    opened = "training.lr={loguniform: [5e-4, 5e-3]}"
    run = load_training_run("quickstart", ["curriculum.weighting=reciprocal_rank", opened], data="here")
    assert (run.data.source, run.curriculum.pacing, run.curriculum.weighting) == ("here", "none", "reciprocal_rank")
    assert run.training.lr == pytest.approx(math.sqrt(5e-4 * 5e-3))


def test_a_space_needs_no_name_to_train_wherever_its_file_is(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(write("ranker: embedding\n"))
    monkeypatch.chdir(path.parent)
    for space in (str(path), f"./{path.name}", path.name):
        assert load_training_run(space).ranker["name"] == "embedding"


def test_problems_of_keys_search_settings_and_points_are_told_together(write: Write) -> None:
    search = "search: {searcher: grid, trials: 0, points: [{curriculum.foo: 1}, {training.lrr: 1, seed: 3}]}\n"
    found = problems(write(OPEN + "training.lrr: 1\n" + search))
    points = {"search.points[0].curriculum.foo", "search.points[1].seed"}
    assert found.keys() == {"training.lrr", "search.trials", "training.lr"} | points


def test_one_training_without_a_space() -> None:
    run = load_training_run(None, ["curriculum.pacing=root", "curriculum.n=5"], ranker="conv_knrm")
    assert (run.curriculum.pacing, run.curriculum.n, run.ranker["name"]) == ("root", 5, "conv_knrm")
    with pytest.raises(ConfigError, match="mean root"):
        load_training_run(None, ["curriculum.pacing=rot"])


def test_the_command_line_may_make_a_condition_pointless() -> None:
    given = ["curriculum.pacing={choice: [linear, step]}"]
    experiment = load_experiment("penha2020_pacing", given)
    assert list(experiment.space.leaves) == ["curriculum.pacing"]
    assert [note.split()[0] for note in experiment.notes] == ["curriculum.n", "search.points:"]
    space = {"data": "docstrings", "ranker": "knrm", "search": {"points": [{"curriculum.pacing": "root"}]}}
    space["curriculum.pacing"] = {"choice": ["none", "root", "linear"]}
    assert [note.split()[0] for note in load_experiment(space, given).notes] == ["search.points[0]"]
    kept = load_experiment("penha2020_pacing", ["curriculum.pacing=root"])
    assert [choice["curriculum.n"] for choice in kept.space.grid()] == [2, 5, 10, 20, 50]


def test_another_ranker_drops_the_keys_of_the_file_s(write: Write) -> None:
    experiment = load_experiment("penha2020_pacing", ranker="conv_knrm")
    assert experiment.training_run({}).ranker["name"] == "conv_knrm"
    [note] = experiment.notes
    assert note.startswith("ranker.model ") and "conv_knrm" in note
    assert "unknown" in problems("quickstart", "ranker.model=x")["ranker.model"]


def test_a_cross_encoder_is_the_ranker_bert(write: Write) -> None:
    fixed = load_experiment(write("ranker: {name: cross_encoder, model: tiny}\ntraining.lr: {uniform: [0.1, 0.2]}"))
    opened = load_experiment(write("ranker: {name: {choice: [cross_encoder, knrm]}}"))
    assert (fixed.rankers, opened.rankers) == (["bert"], ["bert", "knrm"])
    assert fixed.base_ranker.ranker["name"] == "bert"
    assert TrainingRun.model_validate({"ranker": "cross_encoder"}).ranker["name"] == "bert"


def test_two_rankers_in_one_space(write: Write) -> None:
    text = "ranker: {name: {choice: [bert, conv_knrm]}, model: tiny, filters: {choice: [8, 16]%s}}\n"
    assert "{ranker.name: [conv_knrm]}" in problems(write(text % ""))["ranker.filters"]
    experiment = load_experiment(write(text % ", when: {ranker.name: conv_knrm}"))
    assert [run.ranker.get("filters") for run in experiment.distinct_rankers()] == [None, None, 8]
    assert [run.ranker.get("model") for run in experiment.distinct_rankers()] == ["tiny", "tiny", None]


def test_options_and_overrides_win(write: Write) -> None:
    space = write(OPEN + "data: there\nmetric: map\nsearch.trials: 5\nbaseline: [curriculum.pacing]\n")
    overrides = ["training.loss={choice: [hinge, pairwise]}", "metric=p@1", "search.hours=0.5"]
    overrides += ["baseline.training.lr=1e-4"]
    overrides += ["search.trials=2", "training.max_iterations=7", "seed=3"]
    experiment = load_experiment(space, overrides, data="here")
    assert (experiment.metric, experiment.seed, experiment.max_iterations) == ("p@1", 3, 7)
    assert (experiment.search.trials, experiment.search.hours) == (2, 0.5)
    assert set(experiment.space.leaves) == {"training.lr", "training.loss"}
    assert experiment.baseline_values()["training.lr"] == 1e-4
    run = experiment.training_run({"training.lr": 1e-5, "training.loss": "hinge"}, seed=9)
    assert (run.data.source, run.seed, run.training.lr, run.training.loss) == ("here", 9, 1e-5, "hinge")
    assert experiment.training_run({}).seed == 3


def test_overrides_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["training.lr", "=3", "training.lr=[1", "seed=1", "seed=2"])
    assert [problem.location for problem in caught.value.problems] == ["--set", "--set", "--set training.lr:1"]
    assert parse_overrides(["seed=1", "seed=2", "a=b=c"]) == {"seed": 2, "a": "b=c"}


def test_baseline_takes_off_values_and_middles(write: Write) -> None:
    text = OPEN + "curriculum: {pacing: {choice: [linear]}, anti: {choice: [true]}, T: {uniform: [0.1, 0.5]}}\n"
    experiment = load_experiment(write(text + "baseline: [curriculum.pacing, curriculum.anti]\n"))
    assert experiment.baseline_values() == {
        "curriculum.pacing": "none",
        "curriculum.weighting": "none",
        "curriculum.anti": False,
        "training.lr": pytest.approx(1e-4),
    }
    assert "off" in problems(write(text + "baseline: [training.lr]\n"))["baseline.training.lr"]


def test_values_that_do_not_go_together_are_found_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    training_run = Experiment.training_run

    def refuse(experiment: Experiment, point: Flat, seed: int | None = None) -> Any:
        if point.get("curriculum.pacing") == "root":
            raise ConfigError(Problem("curriculum", "wrong", "right"))
        return training_run(experiment, point, seed)

    monkeypatch.setattr(Experiment, "training_run", refuse)
    assert problems("quickstart") == {"curriculum": "wrong; right"}


def test_a_grid_tries_all_unless_told_how_many() -> None:
    assert load_experiment("penha2020_pacing").trials == 9
    assert load_experiment("penha2020_pacing", ["search.trials=3"]).trials == 3
    assert load_experiment("penha2020_pacing", ["search.searcher=random", "search.trials=99"]).trials == 9
    opened = "curriculum.delta={uniform: [0.2, 0.6]}"
    assert "continuous" in problems("quickstart", "search.searcher=grid", opened)["curriculum.delta"]


def test_every_searcher_takes_the_quickstart() -> None:
    for name in SEARCHERS:
        experiment = load_experiment("quickstart", [f"search.searcher={name}"])
        assert experiment.trials == 24 and experiment.sampler().ask(1) is not None
    check = unmeasured(load_experiment("quickstart"))
    assert check.combinations == (4 * 6 + 1) * 5 * 2 * 7 * 3 * 3
    [steps] = check.steps
    assert steps.startswith("curriculum.delta: ") and all(number in steps for number in ("0.2", "0.6", "0.1"))


def test_yaml_numbers() -> None:
    text = "[1e-3, 1E5, .5, -2.e-1, 3, inf, .inf, none, 1e, e3, 1.2.3]"
    assert parse_yaml(text, "x") == [1e-3, 1e5, 0.5, -0.2, 3, "inf", math.inf, "none", "1e", "e3", "1.2.3"]
    tree = {"a": "1e-3", "b": 1e-3, "c": math.inf, "d": [True, None, "none", "é"]}
    assert parse_yaml(dump_yaml(tree), "x") == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("2001-12-14", "2001-12-14"),
        ("'010'", "010"),
        ("0", 0),
    ],
)
def test_yaml_scalars_are_those_of_1_2(text: str, value: object) -> None:
    assert parse_yaml(text, "--set KEY") == value and type(parse_yaml(text, "--set KEY")) is type(value)


@pytest.mark.parametrize(
    ("text", "right"),
    [("1:30", "90"), ("010", "10"), ("-007", "-7"), ("01.5", "1.5"), ("key: 1:30:00", "5400"), ("[1, 08]", "8")],
)
def test_what_yaml_1_1_reads_otherwise_is_refused(text: str, right: str) -> None:
    with pytest.raises(ConfigError, match=rf"error: file:1: .* base .*; {right}\b"):
        parse_yaml(text, "file")


def test_trials_share_texts_whatever_the_network_on_top(write: Write) -> None:
    opened = "ranker: conv_knrm\nranker.filters: {int: [8, 64]}\nranker.vector_size: {grid: [10, 20]}\n"
    experiment = load_experiment(write(opened))
    assert len({prepared_key(run) for run in experiment.distinct_rankers()}) == 2
    assert len(experiment.distinct_rankers()) == 3
    narrow, wide = (experiment.training_run({"ranker.filters": n, "ranker.vector_size": 10}) for n in (9, 33))
    assert prepared_key(narrow) == prepared_key(wide)


@pytest.mark.parametrize("name", sorted(SPACES))
def test_the_configuration_of_a_trial_is_sent_as_it_is(name: str) -> None:
    """In few bytes, and to a process that finds in force what the driver does."""
    for sent in (run := load_experiment(name).base_run, TrainingRun(), PlainRun(**run.model_dump())):
        taken = pickle.loads(pickle.dumps(sent))
        assert taken == sent == deepcopy(sent) and taken.in_force() == sent.in_force() and repr(taken) == repr(sent)
        assert taken.model_copy(update={"seed": 9}).seed == 9 and len(pickle.dumps(sent)) < 1200


class PlainRun(TrainingRun):
    """A subclass is pickled as one."""


def test_a_value_that_was_not_foreseen_is_prepared_when_it_comes(write: Write) -> None:
    opened = "ranker: conv_knrm\nranker.vector_size: {int: [10, 900]}\n"
    experiment = load_experiment(write(opened))
    data = tiny_data()
    base, run = experiment.base_run, experiment.training_run({"ranker.vector_size": 20})
    known = {prepared_key(base): PreparedData(data, prepare(base, data).text)}
    assert prepared_key(run) not in known
    assert prepared_for(run, known).data is data


@pytest.mark.parametrize(
    ("opened", "rankers"),
    [
        ("ranker.vector_size: {int: [50, 300]}", 1),
        ("ranker.vector_size: {int: [50, 300], step: 50}", 6),
        ("ranker.vector_size: {int: [50, 300]}\nranker.word2vec: {choice: [cbow, skipgram]}", 2),
        ("ranker.filters: {int: [32, 256]}\ntraining.pretrain_data: docstrings", 1),
    ],
)
def test_no_more_rankers_of_a_range_are_foreseen_than_there_are_trials(opened: str, rankers: int, write: Write) -> None:
    experiment = load_experiment(write(f"ranker: conv_knrm\nsearch.trials: 8\n{opened}\n"))
    assert len({prepared_key(run) for run in experiment.distinct_rankers()[1:]}) == rankers
    assert prepared_key(experiment.base_run) in map(prepared_key, experiment.distinct_rankers()[1:])


def test_a_space_s_file_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(OPEN)
    assert load_experiment(str(tmp_path / "mine")).name == "mine"


@pytest.mark.parametrize("name", ["../evil", "a/b", "..", "", 256 * "x"])
def test_a_space_s_name_is_that_of_a_folder(name: str, write: Write) -> None:
    told = problems(write(f"name: {name!r}\nsearch.trials: 0\n{OPEN}"))
    assert told["name"].startswith(f"{name!r} ") and "search.trials" in told


def test_a_space_is_named_after_its_file_unless_it_says_its_name(write: Write) -> None:
    assert load_experiment(write(OPEN)).name == "mine"
    named = load_experiment(write(f"name: theirs\n{OPEN}"))
    assert named.name == "theirs" and from_yaml(named.to_yaml()).name == "theirs"
    assert "a word" in problems(write(f"name: [a, b]\n{OPEN}"))["name"]
    assert "file" in problems(write(OPEN), "name=mine", "description=x")["description"]


@pytest.mark.parametrize("value", [".inf", ".nan"])
@pytest.mark.parametrize("key", ["training.lr", "training.warmup", "curriculum.n", "data.bm25.k1", "search.hours"])
def test_numbers_are_finite(key: str, value: str, write: Write) -> None:
    assert problems(write(OPEN), f"{key}={value}").keys() == {key}


def test_a_curriculum_s_end_and_the_clipping_may_be_infinite(write: Write) -> None:
    for value in ("inf", ".inf"):
        assert load_experiment(write(OPEN), [f"training.clip={value}"]).value("training.clip") == math.inf
        opened = f"curriculum.weighting: {{choice: [kde, none]}}\ncurriculum.m: {{choice: [5, {value}]}}\n"
        assert load_experiment(write(opened)).space.leaves["curriculum.m"].values() == (5, math.inf)


def test_another_section_is_advised_for_a_like_name_alone(write: Write) -> None:
    assert "mean training.loss?" in problems(write(OPEN), "curriculum.loss=hinge")["curriculum.loss"]
    unknown = problems(write(OPEN), "ranker.name=knrm", "ranker.zzz=x")["ranker.zzz"]
    assert unknown.startswith("unknown key; known: ranker.")


# -- what the command line changes ---------------------------------------------------------------------------------


def test_keys_of_the_baseline_may_be_a_list_and_the_command_line_s_go_first(write: Write) -> None:
    keys = "[curriculum.weighting, curriculum.anti]"
    off = load_experiment(write(f"baseline: {keys}\nbaseline.curriculum.T: 1\n{OPEN}")).baseline
    assert load_experiment(write(OPEN), [f"baseline={keys}", "baseline.curriculum.T=1"]).baseline == off
    assert off == {
        "curriculum.pacing": "none", "curriculum.weighting": "none", "curriculum.anti": False, "curriculum.T": 1,
    }  # fmt: skip
    space = write(OPEN + "baseline: {training.lr: 1e-5, curriculum.T: 0.5}\n")
    baseline = load_experiment(space, ["baseline.training.lr=1e-4", "curriculum.anti=true"]).baseline
    assert (baseline["training.lr"], baseline["curriculum.T"]) == (1e-4, 0.5)


@pytest.mark.parametrize(("pacing", "left"), [("{choice: [none, linear]}", True), ("linear", True), ("none", False)])
def test_a_condition_of_which_the_command_line_leaves_something_stays(pacing: str, left: bool) -> None:
    """delta exists with six pacings; one of them is left, with or without `none`, or `none` alone."""
    experiment = load_experiment("everything", [f"curriculum.pacing={pacing}", "search.points=[]"])
    assert ("curriculum.delta" in experiment.space.leaves) == left
    assert any(note.startswith("curriculum.delta ") for note in experiment.notes) != left


def test_what_depends_on_a_key_that_was_left_out_is_left_out_too(write: Write) -> None:
    text = (
        "curriculum.pacing: {choice: [root, linear]}\n"
        "curriculum.n: {choice: [2, 5], when: {curriculum.pacing: root}}\n"
        "curriculum.T: {choice: [0.2, 0.4], when: {curriculum.n: 5}}\n"
    )
    experiment = load_experiment(write(text + OPEN), ["curriculum.pacing=linear"])
    assert list(experiment.space.leaves) == ["training.lr"] and experiment.notes[-1].startswith("curriculum.T ")
    n = "curriculum.n: {choice: [2, 5], when: {curriculum.pacing: [root, linear]}}\n"
    assert "curriculum.n" in load_experiment(write(f"curriculum.pacing: linear\n{n}")).space.leaves


# -- the shipped space of everything -------------------------------------------------------------------------------


def test_everything_is_in_the_space_of_everything() -> None:
    """The scheduler is the one that docs/dev/decisions.md recommends for a search over curricula."""
    experiment = load_experiment("everything")
    leaves = experiment.space.leaves
    for key, registry in (("scoring", SCORINGS), ("pacing", PACINGS), ("weighting", WEIGHTINGS)):
        assert set(leaves[f"curriculum.{key}"].values() or ()) == set(registry) - {"file"}, "which needs a file"
    assert {key.removeprefix("curriculum.") for key in leaves} >= {
        "m", "delta", "T", "n", "stages", "objective_switch", "switch_at",
    }  # fmt: skip
    assert set(leaves["curriculum.negatives.schedule"].values() or ()) == set(SCHEDULES) - {"groups"}
    assert (experiment.search.scheduler, experiment.search.searcher) == ("model", "tpe")
    assert len(experiment.search.first) == 11 and leaves["training.lr"] == LogUniform(low=5e-6, high=1e-4)
    choice = {"curriculum.pacing": "none", "curriculum.weighting": "none", "curriculum.objective_switch": "mse"}
    assert experiment.config({**choice, "curriculum.switch_at": 0.5}).grace == 30, (
        "the objective's switch is waited for"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ranker": "knrm"}, ["knrm has 0.01"]),
        ({"overrides": ["ranker.name={choice: [knrm, bert, conv_knrm]}"]}, ["knrm has 0.01", "conv_knrm has 0.001"]),
        ({"ranker": "bert"}, []),
        ({"ranker": "knrm", "overrides": ["training.lr=0.005"]}, []),
        ({"ranker": "knrm", "overrides": ["training.lr={loguniform: [5e-6, 1e-4]}"]}, []),
    ],
)
def test_learning_rates_of_another_ranker_than_the_space_is_for_are_told(
    options: dict[str, Any], told: list[str]
) -> None:
    """The baseline has the middle of the range, with which a small network hardly learns."""
    notes = [note for note in load_experiment("everything", **options).notes if note.startswith("training.lr")]
    assert len(notes) == bool(told) and all(word in note for note in notes for word in ("bert", "5e-06", *told))


# -- paths ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a search is called, with data and vectors."""
    write_folder(tmp_path / "here" / "trec", trec_files())
    (tmp_path / "here" / "glove.txt").write_text("cat 1\n")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_a_search_names_its_files_from_any_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    found: list[Experiment] = []
    monkeypatch.setattr(
        "tune_cl.run_search.start_search", lambda experiment, *_: found.append(experiment) or result(0.5, 0.4)
    )
    Path("space.yaml").write_text(f"ranker: {{name: conv_knrm, vectors: glove.txt}}\n{OPEN}")
    teacher = "curriculum.teacher.ranker={name: bert, model: trec}"
    fixed = ["training.pretrain_data=~/trec", "curriculum.vectors=glove.txt", teacher]
    assert main(["run", "space.yaml", "--data", "./trec", *(f"--set={one}" for one in fixed), "--json"]) == DONE
    monkeypatch.chdir("/")
    made = from_yaml(found[0].to_yaml()).base_run
    data, vectors = str(here / "trec"), str(here / "glove.txt")
    assert (made.data.source, made.training.pretrain_data, made.curriculum.vectors) == (data, data, vectors)
    assert made.ranker["vectors"] == vectors and (made.curriculum.teacher.ranker or {})["model"] == data


@pytest.mark.parametrize(
    ("value", "key"),
    [("docstrings", "data.source"), ("ir_datasets:x", "data.source"), ("train", "curriculum.vectors"),
     ("tiny", "ranker.model"), ("nowhere", "training.pretrain_data")],
)  # fmt: skip
def test_what_is_no_path_of_a_search_stays(value: str, key: str, here: Path) -> None:
    if value != "nowhere":
        (here / value).mkdir()
    made = build("space", {"ranker.name": "bert", key: value}, {})
    assert in_any_folder(made) == made


def test_opened_paths_and_conditions_on_paths_are_found_from_any_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trec = str(here / "trec")
    opened = {"training.pretrain_data": {"choice": ["trec", "docstrings"], "prior": [2, 1]},
              "baseline.training.pretrain_data": "trec", "search.points": [{"training.pretrain_data": "trec"}],
              "training.pretrain_iterations": 3}  # fmt: skip
    condition = {"data": "trec", "training.lr": {"choice": [0.1, 0.2], "when": {"data.source": "trec"}}}
    whole, conditional = (in_any_folder(build("space", keys, {})) for keys in (opened, condition))
    monkeypatch.chdir("/")
    leaf = whole.space.leaves["training.pretrain_data"]
    assert leaf.arguments() == [trec, "docstrings"] and leaf.prior_in_yaml() == [2, 1]
    assert whole.baseline["training.pretrain_data"] == whole.search.points[0]["training.pretrain_data"] == trec
    assert "training.lr" in conditional.space.sample(generator(0, "condition", 0))
    assert from_yaml(whole.to_yaml()) == whole and from_yaml(conditional.to_yaml()) == conditional


@pytest.mark.parametrize(("files", "has_turns"), [(trec_files(), False), (FORMS["conversation"], True)])
def test_turns_are_not_searched_on_queries_of_single_texts(
    files: dict[str, str], has_turns: bool, tmp_path: Path
) -> None:
    experiment = load_experiment("quickstart", data=write_folder(tmp_path / "data", files))
    options = experiment.space.leaves["curriculum.scoring"].values()
    assert ("turns" in options) == has_turns and len(options) == 3 + has_turns
    assert any("curriculum.scoring: turns is left out" in note for note in experiment.notes) != has_turns
