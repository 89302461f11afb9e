"""Paths that match a pattern, found repeatedly while the tree changes."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.io.sandbox import matches
from treadle.io.sandbox.matches import Matches


def named(name: str, root: Path) -> Matches:
    return Matches([str(root)], lambda path: os.path.basename(path) == name)


def test_what_comes_and_goes_is_seen_by_the_next_look(tmp_path: Path) -> None:
    looked = named(".env", tmp_path)
    assert looked.find() == []
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".env").touch()
    assert looked.find() == [str(tmp_path / "a" / "b" / ".env")]
    (tmp_path / "a").rename(tmp_path / "c")
    assert looked.find() == [str(tmp_path / "c" / "b" / ".env")]
    (tmp_path / "c" / "b" / ".env").unlink()
    assert looked.find() == []


def test_below_a_directory_that_matches_nothing_more_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "deep").mkdir(parents=True)
    looked = Matches([str(tmp_path)], lambda path: "secrets" in path)
    assert looked.find() == [str(tmp_path / "secrets")]


def test_only_the_objects_of_a_repository_are_left_out(tmp_path: Path) -> None:
    for place in ("objects", ".git/objects", ".git/hooks"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / ".env").touch()
    assert sorted(named(".env", tmp_path).find()) == [str(tmp_path / ".git/hooks/.env"), str(tmp_path / "objects/.env")]


def test_links_are_not_followed_into_other_trees(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".env").touch()
    os.symlink(tmp_path / "out", tmp_path / "in" / "link")
    assert named(".env", tmp_path / "in").find() == []


def test_a_root_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert Matches([str(tmp_path / "no")], lambda path: True).find() == []


def test_what_comes_is_seen_although_its_directory_looks_as_old_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matches, "COARSE", 0)
    found, before = named(".env", tmp_path), os.stat(tmp_path)
    assert found.find() == []
    while os.stat(tmp_path).st_ctime_ns == before.st_ctime_ns:  # until the clock of the file system has moved on
        (tmp_path / ".env").unlink(missing_ok=True)
        (tmp_path / ".env").touch()
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as tar does with what it unpacks
    assert found.find() == [str(tmp_path / ".env")]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.booleans()), max_size=12))
def test_the_index_always_says_what_a_fresh_look_would(changes: list[tuple[str, str, bool]]) -> None:
    coarse = "/dev/shm"  # where changes within a few milliseconds bear the same time
    with tempfile.TemporaryDirectory(dir=coarse if os.path.isdir(coarse) else None) as place:
        kept = named("key", Path(place))
        for outer, inner, make in changes:
            file = Path(place) / outer / inner / "key"
            if make:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
            else:
                file.unlink(missing_ok=True)
            assert kept.find() == named("key", Path(place)).find()
