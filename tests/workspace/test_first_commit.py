"""A new repository has its files, one commit, and nothing to commit."""

from pathlib import Path

from tests.workspace.repositories import git
from treadle.workspace.first_commit import first_commit


def test_it_has_one_commit_and_a_clean_checkout(tmp_path: Path) -> None:
    place = str(tmp_path / "deep" / "shop")
    commit = first_commit(place, {"a.py": b"a = 1\n", ".gitignore": b"x/\n", "empty": b""}, "A shop: ü")
    assert git("status", "--porcelain", cwd=place).stdout == b""
    assert git("log", "--format=%H %s", cwd=place).stdout.decode() == f"{commit} A shop: ü\n"
    assert git("show", "HEAD:a.py", cwd=place).stdout == b"a = 1\n"
    git("fsck", "--strict", cwd=place)
