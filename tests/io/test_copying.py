"""A copy is the same file, including holes, unless copying was stopped."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.descriptors import opened
from treadle.errors import Cancelled
from treadle.io import descriptors, tasks
from treadle.io.descriptors import copy_file


def test_content_times_and_permissions_are_the_same(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(os.urandom(20 << 20))
    source.chmod(0o755)
    os.utime(source, ns=(1, 2_000_000_001))
    copy_file(str(source), str(target))
    assert target.read_bytes() == source.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o755 and target.stat().st_mtime_ns == 2_000_000_001


@given(st.lists(st.tuples(st.integers(0, 3 << 20), st.binary(min_size=1, max_size=50)), max_size=4), st.integers(0, 99))
def test_holes_stay_holes(tmp_path_factory: pytest.TempPathFactory, written: list[tuple[int, bytes]], end: int) -> None:
    place = tmp_path_factory.mktemp("holes")
    source, target = place / "a", place / "b"
    with open(source, "wb") as file:
        for at, data in written:
            file.seek(at)
            file.write(data)
        file.truncate((3 << 20) + 50 + end)
    copy_file(str(source), str(target))
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks <= source.stat().st_blocks


def test_what_is_told_to_stop_does_not_go_on(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"x")
    word = threading.Event()
    word.set()
    with tasks.heeding(word), pytest.raises(Cancelled):
        copy_file(str(source), str(tmp_path / "b"))


def test_a_link_is_not_followed_and_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "link").symlink_to("a")
    for source, target in (("link", "c"), ("a", "b")):
        with pytest.raises(OSError):
            copy_file(str(tmp_path / source), str(tmp_path / target))
    assert (tmp_path / "b").read_text() == "b" and not (tmp_path / "c").exists()


def test_a_copy_is_private_while_it_is_made_and_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    modes: list[int] = []
    usual = os.fchmod

    def noted(fd: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        usual(fd, mode)

    monkeypatch.setattr(os, "fchmod", noted)
    monkeypatch.setattr(descriptors, "PIECE", 3)
    before = opened()
    copy_file(str(tmp_path / "a"), str(tmp_path / "b"))
    assert modes == [0o600] and (tmp_path / "b").read_bytes() == b"x" * 10
    with pytest.raises(FileNotFoundError):
        copy_file(str(tmp_path / "none"), str(tmp_path / "c"))
    with pytest.raises(FileExistsError):
        copy_file(str(tmp_path / "a"), str(tmp_path / "b"))
    assert opened() == before and not (tmp_path / "c").exists()


def test_open_files_are_copied_whole_with_their_times_where_holes_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"some words")
    (tmp_path / "a").chmod(0o640)
    os.utime(tmp_path / "a", ns=(5_000_000_001, 7_000_000_001))
    usual = os.lseek

    def refused(fd: int, at: int, how: int) -> int:
        if how in (os.SEEK_DATA, os.SEEK_HOLE):
            raise OSError(errno.EINVAL, "not here")
        return usual(fd, at, how)

    monkeypatch.setattr(os, "lseek", refused)
    with open(tmp_path / "a", "rb") as source, open(tmp_path / "b", "wb") as target:
        target.write(b"longer than the other was")
        target.flush()
        descriptors.copy_between(source.fileno(), target.fileno())
    found = (tmp_path / "b").stat()
    assert (tmp_path / "b").read_bytes() == b"some words" and stat.S_IMODE(found.st_mode) == 0o640
    assert (found.st_atime_ns, found.st_mtime_ns) == (5_000_000_001, 7_000_000_001)
    monkeypatch.delattr(os, "SEEK_DATA")
    copy_file(str(tmp_path / "a"), str(tmp_path / "c"))
    assert (tmp_path / "c").read_bytes() == b"some words"


def test_a_file_that_became_shorter_is_copied_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"words")
    with open(tmp_path / "a", "rb") as source, open(tmp_path / "b", "wb") as target:
        descriptors._copy(source.fileno(), target.fileno(), 2, 100)
    assert (tmp_path / "b").read_bytes() == b"\0\0rds"
