"""The files that are offered when a name is begun."""

import subprocess
from pathlib import Path

import pytest

from treadle.workspace import uncommitted
from treadle.workspace.uncommitted import listed, matching


def test_what_begins_with_it_comes_first_and_the_shortest_of_those() -> None:
    files = ["deep/parser.py", "parser/long.py", "parser.py", "other"]
    assert matching(files, "Parser") == ["parser.py", "parser/long.py", "deep/parser.py"]


def test_without_git_hidden_files_are_left_out(tmp_path: Path) -> None:
    for name in ("a.txt", ".hidden/b.txt", "c/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert sorted(listed(str(tmp_path))) == ["a.txt", "c/d.txt"]


def test_a_repository_cannot_have_a_program_run_by_being_listed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "a").touch()
    subprocess.run(["git", "-C", str(tmp_path), "add", "a"], check=True)
    for name, value in (("core.fsmonitor", f"touch {tmp_path}/ran; false"), ("core.untrackedCache", "true")):
        subprocess.run(["git", "-C", str(tmp_path), "config", name, value], check=True)
    assert listed(str(tmp_path)) == ["a"] and not (tmp_path / "ran").exists()


def test_ignored_files_are_left_out_in_a_repository_and_there_is_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("*.log\n")
    for name in ("a.log", "b.txt", ".hidden/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(listed(str(tmp_path))) == [".gitignore", ".hidden/c.txt", "b.txt"]
    monkeypatch.setattr(uncommitted, "FILES", 2)
    assert len(listed(str(tmp_path))) == 2
    many = [f"x{number:03}" for number in range(60)]
    assert matching(many, "X") == many[:50] and matching(many, "y") == [] and matching(["b", "a"], "") == ["a", "b"]
