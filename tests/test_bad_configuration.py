"""Configurations, options and arguments that are wrong: each problem is one line that names its key, option or line of
a file, and says what would be right; nothing is written."""

from __future__ import annotations

import re
import shlex
import socket
from pathlib import Path

import pytest

from tests.support.commands import SPACE
from tests.support.console import Console
from tests.support.data_folders import FORMS, trec_files, write_folder
from tests.support.space_files import OPEN
from trainables.config.keys import configuration_fields
from trainables.core.errors import DataError, Problem
from trainables.core.foreign import FOREIGN
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.evaluation.metrics import METRICS
from trainables.rankers import RANKERS
from trainables.training.losses import LOSSES
from tune_cl.experiment.search_keys import SEARCH_KEYS
from tune_cl.schedulers import SCHEDULERS


def assert_told(console: Console, text: str | bytes, overrides: list[str], told: list[str]) -> None:
    """`told` of the space file mine.yaml, or of the quickstart if the text is its name."""
    space = "quickstart" if text == "quickstart" else "mine.yaml"
    if space == "mine.yaml":
        Path(space).write_bytes(text if isinstance(text, bytes) else text.encode())
    console.refused(told, f"check {space}", *(f"--set={one}" for one in overrides))


# -- keys ----------------------------------------------------------------------------------------------------------

NEAREST = {
    "trainning.lr": "training.lr", "lr": "training.lr", "max_iterations": "training.max_iterations",
    "training.iterations": "training.max_iterations", "Seed": "seed", "serch.trials": "search.trials",
    "trials": "search.trials", "searcher": "search.searcher", "search.lr": "training.lr",
    "curriculum.t": "curriculum.T",
    "curriculum.M": "curriculum.m", "data.bm25.k2": "data.bm25.k1", "bm25.k1": "data.bm25.k1", "rankr": "ranker",
    "model": "ranker.model", "learning_rate": "training.lr", "training.epochs": "training.max_iterations",
    "n_trials": "search.trials", "basline": "baseline", "basline.curriculum.pacing": "baseline.curriculum.pacing",
}  # fmt: skip


def test_an_unknown_key_names_the_nearest(console: Console) -> None:
    nearest = [f"{wrong}: mean {right}?" for wrong, right in NEAREST.items()]
    assert_told(console, "quickstart", ["ranker=bert", *(f"{wrong}=1" for wrong in NEAREST)], nearest)
    assert_told(console, "quickstart", ["curriculum.xyz=1", "foo=1"], ["curriculum.xyz: known", "foo: known"])


OTHERS = {  # what people write as in other trainers: the key, and words of what it is here
    "training.gradient_accumulation_steps=2": ("training.gradient_accumulation_steps", "training.micro_batch:"),
    "num_train_epochs=3": ("num_train_epochs", "mean training.max_iterations?"),
    "training.eval_steps=100": ("training.eval_steps", "training.batches_per_iteration:"),
    "training.fp16=true": ("training.fp16", "training.precision: bf16"),
    "training.warmup_ratio=.1": ("training.warmup_ratio", "training.warmup:"),
    "training.lora_r=8": ("training.lora_r", "mean ranker.lora.rank?"),
    "training.lr_scheduler_type=cosine": ("training.lr_scheduler_type", "mean training.schedule?"),
    "training.loss=MultipleNegativesRankingLoss": ("training.loss", "mean softmax, training.in_batch_negatives:"),
    "training.loss=bce": ("training.loss", "mean pointwise?"),
    "training.precision=fp16": ("training.precision", "bf16 or fp32"),
}


@pytest.mark.parametrize("given", OTHERS)
def test_names_of_other_trainers_are_told_ours(given: str, console: Console) -> None:
    key, words = OTHERS[given]
    (line,) = console.errors("check quickstart --set ranker=bert", f"--set={given}")
    assert line.startswith(f"error: {key}: ") and all(word in line for word in words.split()), line


def test_options_of_other_trainers_are_told_ours(console: Console) -> None:
    console.refused(["--gradient-accumulation-steps: training.micro_batch"], "train --gradient-accumulation-steps 2")
    console.refused(["--num-train-epochs: --max-iterations VALUE"], "run quickstart --num-train-epochs 2")


def test_names_of_other_trainers_lead_to_keys_and_losses_that_there_are() -> None:
    keys = {*configuration_fields(RANKERS), *SEARCH_KEYS}
    ends = {key.rpartition(".")[2] for key in keys} | {*LOSSES}
    for theirs, ours in FOREIGN.items():
        named = set(re.findall(r"(?:training|ranker|search)\.[a-z_.]*[a-z]", ours))
        assert theirs == theirs.lower() and named <= keys, theirs
        assert named or " " in ours or ours in ends, theirs


SHARED = {"metric", "seed", "training.max_iterations", "training.pretrain_iterations", "training.pretrain_lr"}
SHARED |= {"training.pretrain_relevance_level", "training.pretrain_seed"}


@pytest.mark.parametrize("key", configuration_fields(()))
def test_what_trials_share_is_never_opened(key: str, console: Console) -> None:
    """docs/reference/keys.md: data.*, evaluation.*, metric, seed, training.max_iterations, curriculum.teacher.* and
    training.pretrain_* except training.pretrain_data."""
    never = key in SHARED or key.startswith(("data.", "evaluation.", "curriculum.teacher."))
    lines = console.errors("check quickstart --set search.trials=0", f"--set={key}={{choice: [one, one]}}")
    assert [line for line in lines if line.startswith(f"error: {key}: cannot be searched")] == lines[:never]


NAMES = {"curriculum.pacing": PACINGS, "curriculum.weighting": WEIGHTINGS, "search.scheduler": SCHEDULERS,
         "metric": METRICS, "ranker.name": RANKERS}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "shown"),
    [("curriculum.pacing=~", "null"), ("curriculum.weighting=false", "false"), ("search.scheduler=true", "true"),
     ("metric=7", "7"), ("ranker.name=7", "7")],
)  # fmt: skip
def test_a_value_that_is_no_name_is_told_the_names(given: str, shown: str, console: Console) -> None:
    """YAML reads as null or false what may be meant as the name `none`."""
    key = given.partition("=")[0]
    assert_told(console, "quickstart", [given], [f"{key}: {shown} {', '.join(NAMES[key])}"])


# -- space files and overrides -------------------------------------------------------------------------------------

PACED = "curriculum.pacing: {choice: [linear, root]}\n"
WHOLE = ("training.batch_size", "training.negatives", "evaluation.relevance_level", "seed", "search.trials")
NUMBERS = (*WHOLE, "curriculum.delta", "curriculum.n", "search.resources.gpu")
NO_VALUES = ["curriculum.n.when.curriculum.pacing: values"]
BAD: dict[str, tuple[str | bytes, list[str], list[str]]] = {
    "a misspelt text of the file": (f"desciption: mine\n{OPEN}", [], ["desciption: description"]),
    "keys of a misspelt ranker": (
        f"ranker: {{name: conv_knmr, vectors: train, filters: 64, filtres: 3}}\n{OPEN}", [],
        ["ranker.name: 'conv_knmr' conv_knrm?", "ranker.filtres: ranker.filters?"]),
    "a misspelt ranker among others": (
        "ranker: {name: {choice: [knrm, brt]}, model: {choice: [tiny, x], when: {ranker.name: brt}}}\n" + OPEN, [],
        ["ranker.name: 'brt' bert?"]),
    "a misspelt ranker in a condition": (
        "ranker: {name: {choice: [bert, conv_knrm]}, model: tiny, "
        "filters: {choice: [8, 16], when: {ranker.name: [conv_knrm, conv_knmr]}}}\n", [],
        ["ranker.filters.when.ranker.name: 'conv_knmr' conv_knrm?"]),
    "a key of other rankers": (OPEN, ["ranker.name=knrm", "ranker.model=x"],
                               ["ranker.model: knrm; bert bi_encoder decoder"]),
    "a misspelt key of other rankers": (OPEN, ["ranker.name=knrm", "ranker.modle=x"], ["ranker.modle: ranker.model,"]),
    "a misspelt key of the ranker": (OPEN, ["ranker.name=knrm", "ranker.vector=x"], ["ranker.vector: ranker.vectors?"]),
    "a baseline that is a number": (OPEN, ["baseline=3"], ["baseline: 3"]),
    "a section of the baseline": (OPEN, ["baseline={curriculum: 3}"], ["baseline.curriculum: 3"]),
    "a section in the baseline's list": (OPEN, ["baseline=[curriculum]"], ["baseline.curriculum: key"]),
    "search as a word": (OPEN, ["search.trials=3", "search=foo"], ["search: foo"]),
    "search as a number": (OPEN, ["search=0", "search.trials=0"], ["search: 0", "search.trials: 0"]),
    "search as a word of the file": (f"{OPEN}search: foo\nsearch.trials: 3\n", [], ["search: foo"]),
    "search as a word and a key": (f"{OPEN}search: foo\n", ["search.trials=3"], ["search: foo"]),
    "search given twice": (f"{OPEN}search: {{trials: 3}}\nsearch.trials: 4\n", [], ["search.trials: twice"]),
    "baseline as a word": (f"{OPEN}baseline: foo\nbaseline.curriculum.pacing: none\n", [], ["baseline: foo"]),
    "baseline given twice": (
        f"{OPEN}baseline: {{curriculum: {{anti: no}}}}\nbaseline.curriculum.anti: 1\n", [],
        ["baseline.curriculum.anti: twice"]),
    "keys given twice hide nothing": (
        "curriculum: {pacng: 3}\nseed: 1\nseed: 2\ntraining.lr: 0.1\ntraining: {foo: 1, lr: -3}\n", [],
        ["mine.yaml:3: 'seed' line 2", "training.lr: twice", "curriculum.pacng: curriculum.pacing?", "training.lr: -3",
         "training.foo: known training.loss,"]),
    "what does not fit together": (
        "training.lr: {uniform: [1e-5, 1e-3]}\nseed: -1\n"
        "search: {searcher: grid, points: [{training.lr: 7}], trials: 0}\n", [],
        ["seed: -1", "search.trials: 0", "training.lr: grid",
         "search.points[0].training.lr: 7"]),
    "what does not fit the ranker": (
        "curriculum.pacing: {choice: [none, root]}\nranker.name: lambdamart\n", [],
        ["curriculum.pacing: lambdamart"]),
    "a scheduler that pauses no trial": (
        "quickstart", ["search.promotion=true", "search.scheduler=none"], ["search.promotion: none asha"]),
    "ranges that their keys do not take": (
        "curriculum.T: {uniform: [0.5, 1.5]}\ntraining.batch_size: {uniform: [1, 8]}\nmetric: {choice: [map]}\n", [],
        ["curriculum.T: 1.5", "training.batch_size: int", "metric: searched"]),
    "an alias": ("data: &x y\nmetric: *x\n", [], ["mine.yaml:2: alias"]),
    "a file of a list": ("- a\n", [], ["mine.yaml:1: mapping"]),
    "an empty file": ("", [], ["mine.yaml:1: mapping"]),
    "a section twice": ("training: {lr: 1}\ndata: x\ntraining: {}\n", [], ["mine.yaml:3: 'training' line 1"]),
    "a circle": (
        "curriculum: {n: {choice: [2], when: {curriculum.m: 1}}, m: {uniform: [1, 2], when: {curriculum.n: 2}}}\n"
        "search.searcher: grid\n", [], ["curriculum.n.when: circle"]),
    "a condition on a wrong value": (
        f"{OPEN}curriculum: {{pacing: roof, n: {{choice: [2, 5], when: {{curriculum.pacing: root}}}}}}\n", [],
        ["curriculum.pacing: root?"]),
    "a condition that is possible in some values": (
        "curriculum.pacing: {choice: [linear, step]}\n"
        "curriculum.n: {choice: [2, 5], when: {curriculum.pacing: [root, linear]}}\n", [],
        ["curriculum.n.when.curriculum.pacing: 'root'; 'linear', 'step'"]),
    "a condition on a key that is not opened": (
        "curriculum.n: {choice: [2, 5], when: {curriculum.pacing: root}}\n", [],
        ["curriculum.n.when.curriculum.pacing: 'root'; 'none'"]),
    "a choice holds each value once, as the configuration holds it": (
        "quickstart", ["curriculum.m={choice: [5, 10, 5.0]}"], ["curriculum.m.choice: 5.0 twice"]),
    **{f"a condition without values, {when}": (
        f"{PACED}curriculum.n: {{choice: [2, 5], when: {when}}}", [], NO_VALUES)
       for when in ("{curriculum.pacing: []}", "{curriculum.pacing: {}}", "{curriculum: {pacing: []}}",
                    "{curriculum: {pacing: {}}}")},
    **{f"the key {key!r}": (f"seed: 1\n\ncurriculum: {key}\n", [], [f"mine.yaml:{line}: key YAML"])
       for key, line in (("{{pacing: root}}", 3), ("{[a, b]: c}", 3), ("\n  ? [a, b]\n  : c", 4))},
    "keys given twice beside bad YAML": ("a: 1\na: 2\n[b]: 3\n", [], ["mine.yaml:2: 'a'", "mine.yaml:3: list"]),
    "a control character": ("name: a\x0bb", [], ["mine.yaml:1: YAML"]),
    "a byte that is not a text": (b"metric: map\ndescription: caf\xe9\n", [], ["mine.yaml:2: 0xe9"]),
    "true is not a number": (
        "quickstart", [f"{key}=true" for key in NUMBERS], [f"{key}: true number" for key in NUMBERS]),
    "numbers that no library reads": (
        "quickstart", [f"{key}={10**20}" for key in WHOLE], [f"{key}: 2147483647" for key in WHOLE]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_configurations_are_told_in_a_line_each(case: str, console: Console) -> None:
    assert_told(console, *BAD[case])


def test_texts_of_a_file_are_no_advice_for_the_command_line(console: Console) -> None:
    assert "description" not in console.errors("check quickstart --set desciption=x")[0]


# -- options and arguments -----------------------------------------------------------------------------------------

DEEP, LONG = f"{3000 * '['}{3000 * ']'}", 256 * "x"
SMALL = "--set ranker.vector_size=8"
USAGE = {
    "frobnicate": "tune-cl: 'frobnicate' known",
    "evalute": "tune-cl: evaluate?",
    "train --set curriculum.pacing=rooot": "curriculum.pacing: root?",
    "list things": "kind: 'things'",
    "score trec random --split vali": "--split: 'vali' train dev test",
    "train --datta docstrings": "--datta: --data",
    "run quickstart --epochs 3": "--epochs: --max-iterations",
    "run quickstart --metric map": "--metric: --set metric=VALUE",
    "check quickstart --n-trials=4": "--n-trials: --trials",
    "train --learning-rate 1": "--learning-rate: --set training.lr=VALUE",
    "check quickstart --frobnicate": "--frobnicate: --help",
    "train quickstart --set training.lr=[.1,.2]": "training.lr: several run",
    "run nowhere": "SPACE: 'nowhere'",
    "run quickstrat": "SPACE: quickstart?",
    "run none.yaml": "none.yaml: file",
    "resume nothing": "NAME: 'nothing'",
    "resume a/b": "NAME: --storage",
    "report a --storage ''": "--storage: empty",
    "train quickstart --output=": "--output: empty",
    "train --set curriculum.dleta=.5": "curriculum.dleta: curriculum.delta?",
    "train --data /no/such/folder": "data.source: '/no/such/folder'",
    "train --data msmarco": "data.source: ir_datasets:msmarco-passage?",
    "train --data docstrings --set curriculum.pacing=sqrt": "curriculum.pacing: competence n",
    "train --data docstrings --set curriculum.pace=sqrt": "curriculum.pace: curriculum.pacing?",
    "train --set curriculum.delta=0": "curriculum.delta: 0",
    "train --set curriculum.m=.5": "curriculum.m: 0.5",
    f"check quickstart --set seed={DEEP}": "--set seed:1: deeply",
    "check quickstart --set search.trials={}": "search.trials: {}",
    "run quickstart --trials 0": "search.trials: 0",
    "run quickstart --storage ftp://x": "--storage: 'ftp://x'",
    "run quickstart --storage space.yaml": "--storage: space.yaml folder",
    "report a --storage space.yaml/runs": "--storage: space.yaml folder",
    "run quickstart --name mlflow.db": "--name: 'mlflow.db' MLflow",
    "run quickstart --name mlartifacts": "--name: 'mlartifacts' MLflow",
    f"run quickstart --name {LONG}": f"--name: '{LONG}'",
    **{f"run quickstart --name {shlex.quote(name)}": "--name: name"
       for name in ("../outside", "a/b", ".", "..", " ", "a\nb")},
    f"report {5000 * 'x'}": f"NAME: '{5000 * 'x'}'",
    # Places that cannot be written to: nobody can make a folder in /proc, although for root its permissions allow it.
    "run space.yaml --data trec --storage /proc/x": "--storage: '/proc' written",
    "train --data trec --output /proc/x": "--output: '/proc' written",
    "score trec random --output /proc/x.tsv": "--output: '/proc' written",
    "baseline trec bm25 --output /proc/x/y.txt": "--output: '/proc' written",
    **{f"{command} --output {taken}": "--output: path"
       for command in ("score trec turns", "baseline trec bm25") for taken in ("trec", "space.yaml/below")},
    "train --data trec --output space.yaml": "--output: folder",
    "train --data trec --output space.yaml/below": "--output: folder",
    # Rankers and texts.
    "rerank /no/such/ranker --data x": "/no/such/ranker: ranker",
    **{f"rerank x {given}": "rerank: one --query" for given in (
        "", "--query q", "--data x --documents f", "--data x --query q --documents f")},
    "rerank x --query w1 --documents none.txt --split test": "--split: splits",
    # Baselines.
    "baseline trec nothing": "BASELINE: bm25 embedding sdm",
    "baseline trec embedding --optimize-on-test": "--optimize-on-test: embedding",
    "baseline trec embedding --retrieve": "--retrieve: embedding",
    "baseline trec sdm --optimize-on-test --split dev": "--optimize-on-test: dev",
    "baseline trec bm25 --tune --optimize-on-test": "--optimize-on-test: --tune",
    "baseline trec bm25 --set data.bm25.b=2": "data.bm25.b: 2",
    "baseline talk bm25 --tune": "data.source: 'talk' dev",
    # What a search would find wrong is told before it begins.
    "run space.yaml --data trec --set search.resources.cpu=0": "search.resources.cpu: 0",
    "run space.yaml --data talk": "data.source: 'talk' dev",
    "check space.yaml --data talk --set search.resources.gpu=2": "data.source: 'talk' dev",
    f"train --data talk {SMALL} --output new": "data.source: 'talk' dev",
    **{f"{command} space.yaml --data trec --set curriculum.vectors=none.txt --set curriculum.scoring='"
       "{choice: [random, semantic_std]}'": "curriculum.vectors: 'none.txt'" for command in ("run", "check")},
    "check ferro2018 --data letor": "curriculum.feature: 'letor' 4",
    "check space.yaml --data trec --set ranker.model=/no/model --set ranker.name='{choice: [conv_knrm, bert]}'":
        "ranker.model: /no/model",
    **{f"score letor {scoring} --output d.tsv": "data.source: 'letor' texts" for scoring in sorted(
        set(SCORINGS) - {"file", "random", "self_paced", "reciprocal_rank", "normalized_score", "kde"})},
    **{f"run quickstart --data trec --address '{address}'": "--address: host:port"
       for address in ("h", ":6379", "h:", "h:head", "h:²", "h:0", "h:65536", f"h:{LONG}", "host:port", "127.0.0.1")},
    f"run quickstart --data trec --address {64 * 'x'}:1": "--address: answer",
    "run quickstart --data trec --address 'no host:1'": "--address: answer",
}  # fmt: skip


@pytest.fixture
def folders(console: Console) -> None:
    """A space, data to rank, data of features and data without a dev split."""
    rows = "1\twho sat\tcat sat\n0\twho sat\tdog ran\n"
    forms = {"trec": trec_files(), "letor": FORMS["letor"], "talk": {"train.tsv": rows, "test.tsv": rows}}
    for name, files in forms.items():
        write_folder(console.folder / name, files)
    (console.folder / "space.yaml").write_text(SPACE)


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("command", USAGE, ids=lambda command: command[:80])
def test_bad_usage_is_told_in_a_line(command: str, console: Console) -> None:
    console.refused([USAGE[command]], command)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("train", "--set curriculum.delta=2 --set training.lr=-1 --set sed=1"),
    ],
)
def test_all_problems_of_options_are_told_at_once(command: str, options: str, console: Console) -> None:
    words = options.replace("--set ", "").replace("=", " ").split()
    told = [f"{option}: {value}" for option, value in zip(words[::2], words[1::2], strict=True)]
    console.refused([*told[:-1], "sed: seed?"] if command == "train" else told, f"{command} {options}")


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("command", ["run space.yaml --data trec", "train --data trec", "data trec"])
def test_a_cache_that_takes_nothing_is_named(command: str, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/cache")
    assert console.errors(command)[-1].startswith("error: XDG_CACHE_HOME: '/proc")


@pytest.mark.smoke
@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("auto", [True, False])
def test_no_search_begins_where_no_cluster_answers(
    auto: bool, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray reads the address of `auto` from the environment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    address = "auto" if auto else f"127.0.0.1:{port}"
    console.refused([f"--address: :{port}' answer"], f"run quickstart --data trec --address {address}")


def test_a_problem_is_one_line_and_twenty_are_told(console: Console) -> None:
    assert len(str(Problem("a\nb", "c\r\nd", "e\u2028f")).splitlines()) == 1
    (line,) = console.errors("train --data", f"{console.folder}/a\nb")
    assert line.startswith("error: data.source: ")
    told = [DataError([Problem(f"line {n}", "wrong", "right") for n in range(count)]).lines() for count in (20, 21, 25)]
    assert [len(lines) for lines in told] == [20, 21, 21]
    assert told[0][-1] == "error: line 19: wrong; right"
    assert ["1 more" in told[1][-1], "5 more" in told[2][-1]] == [True, True]
