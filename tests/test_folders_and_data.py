"""Folders that cannot be written to, searches called from elsewhere, and data with parts that are missing or wrong."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import SPACE
from tests.support.data_folders import letor_files, squad_files, trec_files, write_folder
from tests.support.loading import candidates, load, problems
from trainables.core.errors import ConfigError, DataError
from trainables.core.files import require_folder
from trainables.core.randomness import generator
from trainables.curriculum.scoring import SCORINGS
from trainables.data.columns import TextColumn
from tune_cl.cli import BAD_INPUT, DONE, main
from tune_cl.cli.commands import run as run_command
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import build, from_yaml
from tune_cl.experiment.paths import in_any_folder
from tune_cl.history import search_folder as places
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder, existing_search_folder, new_search_folder

FILES = trec_files()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where commands are called, with a space and data."""
    folder = write_folder(tmp_path / "here", {"space.yaml": SPACE})
    write_folder(folder / "trec", FILES)
    monkeypatch.chdir(folder)
    return folder


def rejected(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The error lines of a command that is refused and leaves the file tree alone."""
    before = sorted(Path().rglob("*"))
    assert main(list(arguments)) == BAD_INPUT
    shown = capfd.readouterr()
    assert shown.out == "" and sorted(Path().rglob("*")) == before
    return shown.err.splitlines()


# -- folders that cannot be written to --------------------------------------------------------------------------------


# Nobody can make a folder in /proc, although for root its permissions allow it.
@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["run", "space.yaml", "--data", "trec", "--storage", "/proc/x"], "--storage"),
        (["train", "--data", "trec", "--output", "/proc/x"], "--output"),
        (["score", "trec", "random", "--output", "/proc/x.tsv"], "--output"),
        (["baseline", "trec", "bm25", "--output", "/proc/x/y.txt"], "--output"),
    ],
)
def test_a_folder_that_takes_nothing_is_named(
    arguments: list[str], option: str, capfd: pytest.CaptureFixture[str]
) -> None:
    [line] = rejected(capfd, *arguments)
    assert re.fullmatch(rf"error: {option}: '/proc' cannot be written to \(.+\); a folder of yours", line)


@pytest.mark.parametrize(
    "arguments", [["run", "space.yaml", "--data", "trec"], ["train", "--data", "trec"], ["data", "trec"]]
)
def test_a_cache_that_takes_nothing_is_named(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/cache")
    line = rejected(capfd, *arguments)[-1]
    assert re.fullmatch(r"error: XDG_CACHE_HOME: '/proc\S*' cannot be written to \(.+\); a folder of yours", line)


def test_a_place_is_tried_out_and_left_as_it_was(here: Path) -> None:
    before = sorted(here.rglob("*"))
    assert new_search_folder("new/storage", None, "space").folder == here / "new" / "storage" / "space"
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("left", [b"", b'{"event": "sea'])
def test_a_run_that_was_stopped_before_its_first_event_leaves_no_search(here: Path, left: bytes) -> None:
    """Its name is not taken, and no search of the name is known."""
    search_folder = new_search_folder("runs", None, "space")
    search_folder.open().close()
    search_folder.journal.write_bytes(left)
    with pytest.raises(ConfigError, match=r"NAME: no search 'space' in .*; tune-cl run starts one"):
        existing_search_folder("runs", "space")
    assert new_search_folder("runs", "space", "space") == new_search_folder("runs", None, "space") == search_folder
    with search_folder.open() as journal:
        journal.append({"event": "search"})
    with pytest.raises(ConfigError, match=r"--name: a search 'space' exists in .*tune-cl resume space --storage "):
        new_search_folder("runs", "space", "space")
    assert new_search_folder("runs", None, "space").name == "space-2"
    assert existing_search_folder("runs", "space") == search_folder


@pytest.mark.parametrize("name", ["runs/space", "../here/runs/space", "..", ""])
def test_a_search_in_another_folder_is_not_known_by_its_path(here: Path, name: str) -> None:
    (here / "other").mkdir()
    for folder in (here / "runs" / "space", here, here / "other"):
        with SearchFolder(folder.parent, folder.name).open() as journal:
            journal.append({"event": "search"})
    with pytest.raises(ConfigError, match=r"NAME: .* is no name of a search; the name alone; --storage says where"):
        existing_search_folder("other", name)


def test_a_search_that_may_only_be_read_is_refused_where_it_is_written(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> Journal:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(places, "Journal", refuse)
    with pytest.raises(ConfigError, match=r"--storage: '.*/space' cannot be written to \(Permission denied\); "):
        SearchFolder(here, "space").open()


# -- searches called from elsewhere -----------------------------------------------------------------------------------


def parsed(arguments: list[str]) -> Namespace:
    parser = ArgumentParser()
    run_command.add_arguments(parser)
    return parser.parse_args(arguments)


def test_a_search_names_its_files_from_any_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "glove.txt").write_text("cat 1\n")
    monkeypatch.setenv("HOME", str(here))
    fixed = ["training.pretrain_data=~/trec", "ranker.vectors=glove.txt", "curriculum.vectors=glove.txt",
             "curriculum.teacher.ranker={name: bert, model: trec}"]  # fmt: skip
    found: list[Experiment] = []
    monkeypatch.setattr("tune_cl.run_search.start_search", lambda experiment, *_: found.append(experiment) or {})
    options = [option for one in fixed for option in ("--set", one)]
    run_command.execute(parsed(["space.yaml", "--data", "./trec", *options]))
    [made] = found
    monkeypatch.chdir("/")
    data, vectors = str(here / "trec"), str(here / "glove.txt")
    run = from_yaml(made.to_yaml()).base_run()
    assert (run.data.source, run.training.pretrain_data, run.curriculum.vectors) == (data, data, vectors)
    assert run.ranker["vectors"] == vectors
    assert (run.curriculum.teacher.ranker or {})["model"] == data


def test_what_is_no_path_of_a_search_stays(here: Path) -> None:
    kept = {"docstrings": "data.source", "ir_datasets:x": "data.source", "train": "curriculum.vectors",
            "tiny": "ranker.model", "nowhere": "training.pretrain_data"}  # fmt: skip
    for name in kept:
        if name != "nowhere":
            (here / name).mkdir()
    for value, key in kept.items():
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


# -- data -------------------------------------------------------------------------------------------------------------


def test_every_malformed_question_is_told_at_its_place(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(squad_files()["train-v1.1.json"])
    paragraph = document["data"][0]["paragraphs"][0]
    good = paragraph["qas"][0]
    paragraph["qas"] += [
        good,
        good | {"id": "a b"},
        {"id": "x", "question": "Who ?"},
        good | {"id": "y", "answers": [{"text": "2.5", "answer_start": "3"}]},
        good | {"id": "z", "question": " "},
    ]
    document["data"] += [{"paragraphs": [{"qas": []}]}, {"title": "T"}]
    write_folder(here / "squad", {"train-v1.1.json": json.dumps(document), "dev-v1.1.json": '{"data": 1}'})
    wrongs = {
        "data[0].paragraphs[0].qas[2]": "id 'train-1' a second time",
        "data[0].paragraphs[0].qas[3]": "id 'a b' is empty or holds white space",
        "data[0].paragraphs[0].qas[4]": "no list 'answers'",
        "data[0].paragraphs[0].qas[5]": "answer_start is no whole number",
        "data[0].paragraphs[0].qas[6]": "an empty question",
        "data[1].paragraphs[0]": "no text 'context'",
        "data[2]": "no list 'paragraphs'",
    }
    told = [f"error: squad/train-v1.1.json: {place}: not SQuAD 1.1 ({wrong})" for place, wrong in wrongs.items()]
    told += ["error: squad/dev-v1.1.json: not SQuAD 1.1 (no list 'data')"]
    lines = rejected(capfd, "data", "squad")
    assert [line.partition("; ")[0] for line in lines] == told


def test_candidates_of_splits_without_a_run_are_the_judged_documents(here: Path) -> None:
    (here / "trec" / "run.dev.txt").unlink()
    data = load(here / "trec")
    assert candidates(data, "dev", 0) == [("d1", 1, 1), ("d3", 0, 2), ("d2", 0, 3)]
    for split in ("train", "test"):
        assert candidates(data, split, 0) == [("d4", -1, 1), ("d2", 0, 2), ("d3", 0, 3)]
    assert data.notes[-2].startswith("candidates of train, test: the first 100 of the given run")
    assert data.notes[-1].startswith("candidates of dev: the documents given or judged for the query, ")
    assert not data.retrieved
    wrong = "error: trec/run.dev.txt: missing file; give the file, or set data.candidates auto, qrels or bm25"
    with pytest.raises(DataError, match=wrong):
        load(Path("trec"), candidates="run")


def test_candidates_of_splits_without_a_run_are_retrieved_where_judgments_are_sparse(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(documents: TextColumn, queries: dict[str, list[str]], *_: object) -> dict:
        assert list(queries) == ["train"]
        return {"train": (np.array([0, 1]), np.array([0, 1]), np.array([1.0, 1.0]))}

    monkeypatch.setattr("trainables.data.readers.assembly.retrieve", search)
    (here / "trec" / "run.train.txt").unlink()
    (here / "trec" / "qrels.train.txt").write_text("train-a 0 d1 1\ntrain-b 0 d2 1\n")
    with (here / "trec" / "qrels.dev.txt").open("a") as qrels:
        qrels.write("dev-a 0 gone 1\n")  # allowed if there is a run
    data = load(here / "trec")
    assert candidates(data, "train", 0) == [("d1", 1, 1)]
    assert candidates(data, "test", 1) == [("d4", -1, 1), ("d2", 1, 2), ("d3", 0, 3)]
    assert data.notes[-3].startswith("candidates of train: the first 100 retrieved by BM25")
    assert not data.retrieved
    with (here / "trec" / "qrels.train.txt").open("a") as qrels:
        qrels.write("train-a 0 gone 1\n")
    assert problems(here / "trec", strict=True) == ["qrels.train.txt:3: document 'gone' is not in the collection"]
    assert "train: 1 judged document without text, counted among" in "\n".join(load(here / "trec").notes)


@pytest.mark.parametrize("scoring", sorted(set(SCORINGS) - {"file"}))
def test_scorings_that_read_texts_refuse_features(
    scoring: str, here: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_folder(here / "letor", letor_files())
    arguments = ["score", "letor", scoring, "--output", str(tmp_path / "difficulty.tsv")]
    if scoring in ("random", "self_paced", "reciprocal_rank", "normalized_score", "kde"):
        assert main(arguments) == DONE
        return
    [line] = rejected(capfd, *arguments)
    assert line.startswith("error: data.source: 'letor' holds features, no texts; ")


def test_a_baseline_without_parameters_has_nothing_to_tune(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = []
    for more in ([], ["--tune"]):
        options = ["--set", "ranker.vector_size=8", "--output", "run.txt", "--json", *more]
        assert main(["baseline", "trec", "embedding", *options]) == DONE
        shown = capfd.readouterr()
        assert ("note: nothing to tune: embedding has no parameters to tune\n" in shown.err) == bool(more)
        found.append({key: value for key, value in json.loads(shown.out).items() if key != "seconds"})
    assert found[0] == found[1]


def test_a_collection_is_searched_where_a_judged_document_has_no_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Such a judgment is also accepted beside the run that the data has, which every other command reads."""
    files = trec_files()
    files["qrels.test.txt"] += f"{files['qrels.test.txt'].split()[0]} 0 gone 1\n"
    folder = write_folder(tmp_path / "data", files)
    for more in ([], ["--retrieve"], ["--set", "data.candidates=qrels"]):
        output = ["--output", str(tmp_path / "bm25.txt")]
        assert main(["baseline", str(folder), "bm25", *output, *more]) == 0, capfd.readouterr().err


def test_a_ranker_of_a_search_knows_its_data_by_a_relative_path_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "data", trec_files())
    monkeypatch.chdir(tmp_path)
    keys = {"data.candidates": "qrels", "training.max_iterations": 1, "training.batches_per_iteration": 1}
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    assert main(["train", "--data", str(folder), "--ranker", "knrm", "--output", "out", *settings]) == DONE
    found = []
    for data in (str(folder), "data", "./data"):
        assert main(["rerank", "out/ranker", "--data", data, "--output", "run.txt"]) == DONE
        found.append(Path("run.txt").read_text())
    assert len(set(found)) == 1


def test_a_folder_that_leads_out_of_one_that_is_not_there_is_tried_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    require_folder("--output", Path("new/../../left/x"))
    assert list((tmp_path / "outer").rglob("*")) == [inner]


# -- what a search would find wrong, said before it begins -------------------------------------------------------------


def test_data_without_a_dev_split_is_refused(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = "1\twho sat\tcat sat\n0\twho sat\tdog ran\n"
    write_folder(here / "talk", {"train.tsv": rows, "test.tsv": rows})
    for command in ("run", "check"):
        assert rejected(capfd, command, "space.yaml", "--data", "talk")[-1].startswith("error: data.source: 'talk' ")


def test_word_vectors_that_are_not_there_are_missed_before_a_trial(capfd: pytest.CaptureFixture[str]) -> None:
    opened = ["curriculum.scoring={choice: [random, semantic_std]}", "curriculum.vectors=none.txt"]
    options = [part for one in opened for part in ("--set", one)]
    for command in ("run", "check"):
        line = rejected(capfd, command, "space.yaml", "--data", "trec", *options)[-1]
        assert line.startswith("error: curriculum.vectors: no file 'none.txt'; train, or a file of ")


def test_check_refuses_what_only_some_trials_would_read(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_folder(here / "letor", letor_files())
    line = rejected(capfd, "check", "ferro2018", "--data", "letor")[-1]
    assert line.startswith("error: curriculum.feature: feature ") and "'letor' has 4" in line
    opened = ["ranker.name={choice: [conv_knrm, bert]}", "ranker.model=/no/model"]
    options = [part for one in opened for part in ("--set", one)]
    assert "/no/model" in rejected(capfd, "check", "space.yaml", "--data", "trec", *options)[-1]


def test_check_tells_what_this_machine_lacks(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "space.yaml", "--data", "trec", "--set", "search.resources.cpu=4096"]) == DONE
    assert "note: search.resources.cpu: a trial takes 4096, this machine has " in capfd.readouterr().err


def test_a_trial_that_reserves_nothing_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    line = rejected(capfd, "run", "space.yaml", "--data", "trec", "--set", "search.resources.cpu=0")[-1]
    assert line.startswith("error: search.resources.cpu: ")


def test_a_ranker_knows_its_data_from_any_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And under another name: it ranks the candidates that it was trained with."""
    few = ["data.top_k=2", "training.max_iterations=1", "training.batches_per_iteration=1", "ranker.filters=2"]
    options = [part for one in few for part in ("--set", one)]
    assert main(["train", "--data", "trec", "--ranker", "conv_knrm", "--output", "trained", *options]) == DONE
    (here / "link").symlink_to(here / "trec")
    monkeypatch.chdir(write_folder(here / "elsewhere", {}))
    for number, data in enumerate(("../trec", "../link", str(here / "trec"))):
        assert main(["rerank", "../trained/ranker", "--data", data, "--output", f"{number}.txt"]) == DONE
        ranked = (here / "elsewhere" / f"{number}.txt").read_text()
        assert ranked == (here / "trained" / "test.run.txt").read_text()
    capfd.readouterr()
    write_folder(here, {"texts.txt": "cat sat\n"})
    asked = ["--query", "who", "--documents", "../texts.txt", "--output", "answer.txt"]
    assert rejected(capfd, "rerank", "../trained/ranker", *asked)[-1].startswith("error: --output: ")


def test_comments_between_the_rows_of_letor_files_are_passed_over(tmp_path: Path) -> None:
    plain = load(write_folder(tmp_path / "plain", letor_files()))
    told = {
        name: f"# a file\n{text.replace(chr(10), chr(10) + '# a row' + chr(10))}"
        for name, text in letor_files().items()
    }
    data = load(write_folder(tmp_path / "told", told))
    assert data.features is not None and np.array_equal(data.features, plain.features)
    assert problems(write_folder(tmp_path / "bare", letor_files() | {"train.txt": "# nothing\n"})) != []
