"""Changes as `git status --porcelain` shows them, also for names that could be misread."""

import subprocess
from pathlib import Path

import pytest

from tests.workspace.repositories import git, make
from treadle.workspace.changes import PathChange, TreeEntry, quoted, status_lines


@pytest.mark.parametrize(
    "name", ["a.txt", "with space", " first", "last ", 'a"b', "a\\b", "a\tb", "a\nb", "a\x01b", "a -> b"]
)
def test_a_path_is_quoted_so_that_it_reads_back_as_the_same(name: str) -> None:
    shown = quoted(name)
    plain = shown == name
    assert plain or (shown[0] == shown[-1] == '"' and "\n" not in shown and "\t" not in shown)
    assert plain is (name in ("a.txt", "with space"))
    inside = name if plain else shown[1:-1].encode().decode("unicode_escape")
    assert inside == name


def test_each_kind_of_change_has_its_mark() -> None:
    changes = [
        PathChange(kind="added", path="n"),
        PathChange(kind="modified", path="m"),
        PathChange(kind="deleted", path="d"),
        PathChange(kind="renamed", path="new", old_path="old"),
    ]
    assert status_lines(changes) == "A  n\nM  m\nD  d\nR  old -> new"


def test_git_says_the_same_about_what_is_staged(tmp_path: Path) -> None:
    place = tmp_path / "r"
    make(place)
    (place / 'qu"ote').write_text("x\n")
    git("add", "-A", cwd=place)
    shown = subprocess.run(["git", "status", "--porcelain"], cwd=place, capture_output=True, text=True, check=True)
    assert status_lines([PathChange(kind="added", path='qu"ote')]) in shown.stdout.splitlines()


def test_links_and_programs_are_told_by_their_mode() -> None:
    modes = {mode: TreeEntry(mode=mode, blob="b") for mode in ("100644", "100755", "120000")}
    assert [entry.is_link for entry in modes.values()] == [False, False, True]
    assert [entry.executable for entry in modes.values()] == [False, True, False]
