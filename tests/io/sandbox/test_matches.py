"""Paths that match a pattern, found repeatedly while the tree changes."""

import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.io.sandbox import places
from treadle.io.sandbox.places import Matches, SpecialFiles


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
    monkeypatch.setattr(places, "COARSE", 0)
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


def test_what_has_not_changed_is_not_read_again_and_what_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".env").touch()
    (tmp_path / "file").touch()
    read: list[str] = []
    usual = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (read.append(path), usual(path))[1])
    looked = Matches([str(tmp_path), str(tmp_path / "file")], lambda path: path.endswith(".env"))
    for coarse, reads in ((0, 2), (0, 0), (1 << 62, 2), (1 << 62, 2)):
        monkeypatch.setattr(places, "COARSE", coarse)
        read.clear()
        assert looked.find() == [str(tmp_path / "a" / ".env")] and looked.unread == [str(tmp_path / "file")]
        assert len([path for path in read if path != str(tmp_path / "file")]) == reads


def test_a_root_that_matches_is_found_itself_and_named_directories_are_not_searched(tmp_path: Path) -> None:
    for name in ("skip", "keep"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".env").touch()
    looked = Matches([str(tmp_path)], lambda path: path.endswith(".env"), skipped=["skip"])
    assert looked.find() == [str(tmp_path / "keep" / ".env")] and looked.unread == []
    roots = [str(tmp_path), str(tmp_path / "keep" / ".env"), str(tmp_path / "keep")]
    assert Matches(roots, lambda path: path.endswith(".env")).find() == [
        str(tmp_path / "keep" / ".env"),
        str(tmp_path / "skip" / ".env"),
    ]


def test_special_files_are_sockets_and_pipes_and_nothing_else(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "dir" / "s"))
        assert SpecialFiles([str(tmp_path)]).find() == [str(tmp_path / "dir" / "s"), str(tmp_path / "pipe")]
    assert SpecialFiles([str(tmp_path / "pipe")]).find() == [str(tmp_path / "pipe")]
    assert SpecialFiles([str(tmp_path / "link"), str(tmp_path / "none")]).find() == []
