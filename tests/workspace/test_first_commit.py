"""A new repository has its files, one commit, and nothing to commit."""

from pathlib import Path

import pytest

from tests.workspace.repositories import git
from treadle.workspace.user_repository import WHO, first_commit


def test_it_has_one_commit_and_a_clean_checkout(tmp_path: Path) -> None:
    place = str(tmp_path / "deep" / "shop")
    commit = first_commit(place, {"a.py": b"a = 1\n", ".gitignore": b"x/\n", "empty": b""}, "A shop: ü")
    assert git("status", "--porcelain", cwd=place).stdout == b""
    assert git("log", "--format=%H %s", cwd=place).stdout.decode() == f"{commit} A shop: ü\n"
    assert git("show", "HEAD:a.py", cwd=place).stdout == b"a = 1\n"
    git("fsck", "--strict", cwd=place)


def test_its_files_are_written_and_the_commit_is_by_the_demo_and_a_taken_place_is_left(tmp_path: Path) -> None:
    place = tmp_path / "shop"
    commit = first_commit(str(place), {"b.txt": b"\xff\0data", "a.txt": b"x"}, "one\n\ntwo")
    assert (place / "b.txt").read_bytes() == b"\xff\0data" and (place / "a.txt").read_bytes() == b"x"
    shown = git("log", "--format=%H%n%an <%ae>%n%P%n%B", cwd=str(place)).stdout.decode().strip().split("\n")
    assert shown == [commit, WHO, "", "one", "", "two"] and len(commit) == 40
    with pytest.raises(FileExistsError):
        first_commit(str(place), {}, "again")
