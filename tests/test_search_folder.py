"""Where a search lives: its name, its address, and the commands that name it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tracking_cases import journal_of, search_event
from trainables.core.errors import ConfigError
from tune_cl.history.search_folder import (
    DEFAULT_STORAGE,
    SearchFolder,
    existing_search_folder,
    has_event,
    new_search_folder,
    program,
    resolve_recorded,
    search_folder_of,
)


def search(storage: Path, name: str) -> None:
    journal_of(storage / name, [search_event(name, name=name)])


def problem(call: Any, *given: Any) -> tuple[str, str, str]:
    with pytest.raises(ConfigError) as refused:
        call(*given)
    [found] = refused.value.problems
    return found.location, found.wrong, found.right


def test_a_space_s_name_gets_the_first_free_number(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        names.append(new_search_folder(str(tmp_path), None, "toy").name)
        search(tmp_path, names[-1])
    assert names == ["toy", "toy-2", "toy-3"]
    assert new_search_folder(str(tmp_path), "mine", "toy").name == "mine"
    assert new_search_folder(str(tmp_path / "new" / "storage"), None, "toy").folder == tmp_path / "new/storage/toy"
    assert sorted(path.name for path in tmp_path.iterdir()) == names, "a place is tried out and left as it was"


def test_a_given_name_is_free_or_refused(tmp_path: Path) -> None:
    search(tmp_path, "mine")
    location, wrong, right = problem(new_search_folder, str(tmp_path), "mine", "toy")
    assert location == "--name" and "'mine' exists" in wrong and f"mine --storage {tmp_path}" in right


@pytest.mark.parametrize("bad", ["a/b", "..", ". .", "", "a\tb"])
def test_a_bad_name_is_placed_where_it_was_given(bad: str, tmp_path: Path) -> None:
    assert problem(new_search_folder, str(tmp_path), bad, "toy")[0] == "--name"
    assert problem(new_search_folder, str(tmp_path), None, bad)[0] == "name", "the key of the file"
    assert problem(existing_search_folder, str(tmp_path), bad)[0] == "NAME"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_search_names_the_nearest_or_the_command_that_starts_one(tmp_path: Path) -> None:
    location, wrong, right = problem(existing_search_folder, str(tmp_path), "toy")
    assert location == "NAME" and "'toy'" in wrong and str(tmp_path) in wrong and "tune-cl run" in right
    search(tmp_path, "quickstart")
    assert "mean quickstart?" in problem(existing_search_folder, str(tmp_path), "quikstart")[2]
    assert existing_search_folder(str(tmp_path), "quickstart").folder == tmp_path / "quickstart"


@pytest.mark.parametrize(
    ("content", "there"), [("", False), ('{"event": "sea', False), ('{"event": "search"}\n', True)]
)
def test_a_search_has_begun_with_its_first_whole_line(content: str, there: bool, tmp_path: Path) -> None:
    journal = SearchFolder(tmp_path, "toy").journal
    assert not has_event(journal)
    journal.parent.mkdir()
    journal.write_text(content)
    assert has_event(journal) == there
    if not there:
        assert problem(existing_search_folder, str(tmp_path), "toy")[0] == "NAME"
        assert new_search_folder(str(tmp_path), "toy", "space").name == "toy"


def test_an_address_is_no_storage(tmp_path: Path) -> None:
    assert problem(search_folder_of, "s3://bucket/runs", "toy")[0] == "--storage"


# -- commands and files --------------------------------------------------------------------------------------------


def test_commands_leave_out_the_default_storage_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    default = search_folder_of(DEFAULT_STORAGE, "toy")
    assert default.command("report").endswith("tune-cl report toy")
    assert default.command("resume", "head:6379").endswith("tune-cl resume toy --address head:6379")
    assert search_folder_of("runs", "toy").command("report").endswith(f"report toy --storage {tmp_path}/runs")


def test_a_program_is_called_by_its_name_where_the_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program("tool") == os.path.relpath(Path(sys.executable).parent / "tool")
    (tmp_path / "tool").touch(0o755)
    assert program("tool") == "tool"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my env" / "bin" / "python"))
    assert program("other") == "'my env/bin/other'"


def test_a_file_of_a_search_that_was_moved_is_found_below_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "toy"
    (folder / "trials").mkdir(parents=True)
    (folder / "trials" / "a.tsv").touch()
    assert resolve_recorded("/other/machine/runs/toy/trials/a.tsv", folder) == folder / "trials" / "a.tsv"
    assert resolve_recorded("/toy/runs/toy/trials/a.tsv", folder) == folder / "trials" / "a.tsv"
    assert resolve_recorded("/elsewhere/a.tsv", folder) == Path("/elsewhere/a.tsv")
