"""Git's index, read as data, says the same as git."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.repositories import git
from treadle.errors import WorkspaceError
from treadle.workspace import index_file


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for number in range(30):
        place = tmp_path / f"directory{number % 3}" / f"file number {number}"
        place.parent.mkdir(exist_ok=True)
        place.write_text(str(number))
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("run")
    (tmp_path / os.fsdecode(b"\xff\xfe.txt")).write_text("x")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    return tmp_path


def listed(repository: Path) -> list[str]:
    done = subprocess.run(["git", "ls-files", "-s", "-z"], cwd=repository, check=True, capture_output=True)
    return os.fsdecode(done.stdout).split("\0")[:-1]


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_an_index_of_every_version_is_read_as_git_reads_it(repository: Path, version: str) -> None:
    git(repository, "update-index", "--index-version", version)
    git(repository, "update-index", "--skip-worktree", "run")
    entries = index_file.parse((repository / ".git/index").read_bytes(), 20)
    assert [f"{each.mode} {each.blob} {each.stage}\t{each.path}" for each in entries] == listed(repository)
    assert [each.path for each in entries if each.skipped] == ["run"]
    found = os.lstat(repository / "link")
    known = next(each.metadata for each in entries if each.path == "link")
    assert known == (found.st_mtime_ns, found.st_ctime_ns, found.st_ino & 0xFFFFFFFF, found.st_size)


@given(st.binary(max_size=200))
def test_a_damaged_index_is_an_error_and_nothing_else(data: bytes) -> None:
    for start in (b"", b"DIRC\0\0\0\2\0\0\0\2", b"DIRC\0\0\0\4\0\0\0\3"):
        try:
            index_file.parse(start + data, 20)
        except WorkspaceError:
            pass


def test_a_path_that_differs_from_the_one_before_in_many_letters_is_read(tmp_path: Path) -> None:
    """The fourth version says how many letters are dropped, in one byte or in several."""
    git(tmp_path, "init", "-q")
    names = sorted(["a" * 200, "a" * 200 + "/b", "b", "c" * 127, "d"])
    blob = git(tmp_path, "hash-object", "-w", "--stdin")
    names.remove("a" * 200)
    listing = "".join(f"100644 {blob} 0\t{name}\n" for name in names)
    words = ["git", "update-index", "--index-version", "4", "--index-info"]
    subprocess.run(words, cwd=tmp_path, input=listing, text=True, check=True)
    assert [each.path for each in index_file.parse((tmp_path / ".git/index").read_bytes(), 20)] == names
