"""Configurations that are wrong: every problem at once, each with its place and what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.space_files import OPEN
from trainables.config.keys import configuration_fields, validated
from trainables.core.errors import ConfigError
from tune_cl.experiment.load import load_experiment


def told(tmp_path: Path, text: str | bytes, overrides: list[str]) -> list[str]:
    """The problems of the space file mine.yaml, or of the quickstart if the text is its name."""
    space = "quickstart"
    if text != "quickstart":
        (tmp_path / "mine.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        space = str(tmp_path / "mine.yaml")
    with pytest.raises(ConfigError) as caught:
        load_experiment(space, overrides)
    return [str(problem).removeprefix("error: ").replace(f"{tmp_path}/", "") for problem in caught.value.problems]


NEAREST = {
    "trainning.lr": "training.lr", "lr": "training.lr", "max_iterations": "training.max_iterations",
    "training.iterations": "training.max_iterations", "Seed": "seed", "serch.trials": "search.trials",
    "trials": "search.trials", "curriculum.M": "curriculum.m",
    "rankr": "ranker", "model": "ranker.model", "basline": "baseline",
}  # fmt: skip


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    lines = told(tmp_path, "quickstart", ["ranker=bert", *(f"{wrong}=1" for wrong in NEAREST)])
    assert sorted(lines) == sorted(f"{wrong}: unknown key; did you mean {right}?" for wrong, right in NEAREST.items())
    first, second = told(tmp_path, "quickstart", ["curriculum.xyz=1", "foo=1"])
    assert "; known: curriculum.scoring, " in first and "; known: data, " in second


SHARED = {"metric", "seed", "training.max_iterations", "training.pretrain_iterations", "training.pretrain_lr"}
SHARED |= {"training.pretrain_relevance_level", "training.pretrain_seed"}


def test_what_trials_share_is_never_opened(tmp_path: Path) -> None:
    """docs/reference/keys.md: data.*, evaluation.*, metric, seed, training.max_iterations, curriculum.teacher.* and
    training.pretrain_* except training.pretrain_data."""
    keys = configuration_fields(())
    lines = told(tmp_path, "quickstart", [f"{key}={{choice: [one, one]}}" for key in keys])
    never = {line.partition(":")[0] for line in lines if "cannot be searched" in line}
    assert never == {key for key in keys if key in SHARED or key.startswith(("data.", "evaluation.", "curriculum.t"))}


NUMBERS = ("training.batch_size", "training.negatives", "seed", "search.trials", "curriculum.delta")
N = "curriculum.n: {choice: [2, 5], when: {curriculum.pacing: root}}\n"
BAD: dict[str, tuple[str | bytes, list[str], list[str]]] = {  # PLACE: WORDS that stand in what is said of that place
    "a misspelt text of the file": (f"desciption: mine\n{OPEN}", [], ["desciption: description"]),
    "a misspelt ranker": (
        f"ranker: {{name: conv_knmr, vectors: train, filters: 64}}\n{OPEN}", [], ["ranker.name: 'conv_knmr' conv_knrm?"]
    ),
    "a misspelt ranker in a condition": (
        "ranker: {name: {choice: [bert, conv_knrm]}, model: tiny, "
        "filters: {choice: [8, 16], when: {ranker.name: [conv_knrm, conv_knmr]}}}\n", [],
        ["ranker.filters.when.ranker.name: 'conv_knmr' conv_knrm?"]),
    "a misspelt key of the ranker": (OPEN, ["ranker.name=knrm", "ranker.vector=x"], ["ranker.vector: ranker.vectors?"]),
    "no name": ("quickstart", ["curriculum.pacing=~", "search.scheduler=true"],
                ["curriculum.pacing: null", "search.scheduler: true"]),
    "sections that are none": (
        f"{OPEN}baseline: foo\nsearch: 7\n", ["curriculum=3"],
        ["baseline: 'foo' section", "search: 7 section", "curriculum: 3 section"]),
    "a section of the baseline": (OPEN, ["baseline={curriculum: 3}"], ["baseline.curriculum: 3"]),
    "given nested and dotted": (
        f"{OPEN}search: {{trials: 3}}\nsearch.trials: 4\nbaseline: {{curriculum: {{anti: no}}}}\n"
        "baseline.curriculum.anti: true\n", [], ["search.trials: twice", "baseline.curriculum.anti: twice"]),
    "keys, ranges and settings": (
        "training.lr: {uniform: [1e-5, -1e-3]}\nseed: -1\nsearch: {points: [{training.lr: 7}], trials: 0}\n", [],
        ["seed: -1", "search.trials: 0", "training.lr.uniform: low", "search.points: published"]),
    "a grid without an end": (f"{OPEN}search.searcher: grid\n", [], ["training.lr: grid continuous"]),
    "what does not fit the ranker": (
        "curriculum.pacing: {choice: [none, root]}\nranker.name: lambdamart\n", [], ["curriculum.pacing: lambdamart"]),
    "a scheduler that pauses no trial": (
        "quickstart", ["search.promotion=true", "search.scheduler=none"], ["search.promotion: none asha"]),
    "what a twin makes of the baseline": (
        "ranker: bi_encoder\ntraining.loss: [softmax, pairwise]\nbaseline.training.in_batch_negatives: true\n", [],
        ["training.in_batch_negatives: pairwise"]),
    "nothing reserved": ("quickstart", ["search.resources.cpu=0"], ["search.resources.cpu: nothing"]),
    "ranges that their keys do not take": (
        "curriculum.T: {uniform: [0.5, 1.5]}\ntraining.batch_size: {uniform: [1, 8]}\nmetric: {choice: [map]}\n", [],
        ["curriculum.T: 1.5", "training.batch_size: int", "metric: searched"]),
    "a key twice": ("seed: 1\nseed: 2\n", [], ["mine.yaml:2: 'seed' twice"]),
    "an alias": ("data: &x y\nmetric: *x\n", [], ["mine.yaml:2: alias value"]),
    "a file of a list": ("- a\n", [], ["mine.yaml:1: mapping"]),
    "a tab": ("training:\n\tlr: 1\n", [], ["mine.yaml:2: character"]),
    "a key that is a mapping": ("seed: 1\ncurriculum: {{pacing: root}}\n", [], ["mine.yaml:2: key YAML"]),
    "a control character": ("name: a\x0bb", [], ["mine.yaml:1: YAML"]),
    "a byte that is not a text": (b"metric: map\ndescription: caf\xe9\n", [], ["mine.yaml: 0xe9"]),
    "a circle": (
        "curriculum: {n: {choice: [2], when: {curriculum.m: 1}}, m: {uniform: [1, 2], when: {curriculum.n: 2}}}\n", [],
        ["curriculum.n.when: circle"]),
    "a condition that never holds": (
        f"curriculum.pacing: {{choice: [linear, step]}}\n{N}", [],
        ["curriculum.n.when.curriculum.pacing: 'root' 'linear', 'step'"]),
    "a condition on a key that is not opened": (N, [], ["curriculum.n.when.curriculum.pacing: 'root' 'none'"]),
    "true is not a number": ("quickstart", [f"{key}=true" for key in NUMBERS], [f"{key}: true" for key in NUMBERS]),
    "numbers that are not finite": (
        "quickstart", ["training.lr=.inf", "curriculum.n=.nan", "search.hours=.inf"],
        ["training.lr: inf", "curriculum.n: nan", "search.hours: inf"]),
    "nothing to search": ("training.lr: 1e-3\n", [], ["mine.yaml: nothing tune-cl"]),
    "nothing to compare": (f"{OPEN}baseline: {{curriculum.T: 0.9}}\n", [], ["baseline: nothing compare"]),
    "nothing to train": (OPEN, ["training.max_iterations=0"], ["training.max_iterations: 0"]),
    "no name of a folder": (f"name: ../evil\n{OPEN}", [], ["name: '../evil'"]),
    "parameters without a function": (OPEN, ["parameters.x=1"], ["parameters.x: unknown"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_configurations(case: str, tmp_path: Path) -> None:
    text, overrides, expected = BAD[case]
    lines = told(tmp_path, text, overrides)
    assert len(lines) == len(expected), lines
    for one in expected:
        place, _, words = one.partition(": ")
        said = [line for line in lines if line.startswith(f"{place}: ") and ("; " in line)]
        assert any(all(word in line for word in words.split()) for line in said), (one, lines)


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"curriculum": {"pacing": "root", "scoring": "file"}}, ["curriculum.file"]),
    ({"evaluation.retrieve": 3, "training.in_batch_negatives": True, "curriculum.subset": "relevant_count"},
     ["evaluation.retrieve", "training.in_batch_negatives", "curriculum.subset"]),
    ({"ranker": "bi_encoder", "training.in_batch_negatives": True}, ["training.in_batch_negatives"]),
    ({"training": {"loss": "softmax", "negatives": "all"}}, ["training.negatives"]),
    ({"training": {"label_smoothing": 0.1}}, ["training.label_smoothing"]),
    ({"training": {"negative_ranks": [5, 2]}, "curriculum.negatives": {"start": [5, 2]}},
     ["training.negative_ranks", "curriculum.negatives.start"]),
    ({"training": {"loss": "margin_mse", "pretrain_data": "docstrings"}}, ["training.pretrain_data"]),
    ({"curriculum.negatives.schedule": "ranks"}, ["curriculum.negatives.schedule"]),
    ({"curriculum.negatives.schedule": "groups"}, ["curriculum.negatives.schedule"]),
    ({"ranker": "lambdamart", "training": {"pretrain_data": "x", "max_iterations": 0},
      "curriculum": {"objective_switch": "pointwise", "weighting": "kde"}},
     ["training.pretrain_data", "training.max_iterations", "curriculum.objective_switch", "curriculum.weighting"]),
    ({"ranker": {"name": "bert", "dropout": 2, "x": 1}, "seed": -1}, ["ranker.dropout", "ranker.x", "seed"]),
    ({"curriculum.teacher.ranker": {"name": "knrm", "filters": 3}}, ["curriculum.teacher.ranker.filters"]),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "places"), REFUSED)
def test_values_that_do_not_go_together(keys: dict[str, Any], places: list[str]) -> None:
    tree: dict[str, Any] = {}
    for key, value in keys.items():
        section, _, name = key.partition(".")
        inner, _, last = name.partition(".")
        nested = {inner: {last: value}} if last else {inner: value}
        tree[section] = {**tree.get(section, {}), **nested} if name else value
    with pytest.raises(ConfigError) as caught:
        validated(tree)
    assert sorted(problem.location for problem in caught.value.problems) == sorted(places)
    assert all(problem.wrong and problem.right for problem in caught.value.problems)
