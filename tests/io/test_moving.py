"""Files move between open directories, and no link of either name is followed."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from treadle.io import descriptors


@contextmanager
def two(one: Path, other: Path) -> Iterator[tuple[int, int]]:
    with descriptors.directory(os.path.realpath(one)) as old, descriptors.directory(os.path.realpath(other)) as new:
        yield old, new


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory of another file system."""
    if not os.path.ismount("/dev/shm"):
        pytest.skip("there is no other file system")
    place = Path("/dev/shm") / f"treadle-test-{os.getpid()}"
    place.mkdir()
    yield place
    for path in place.iterdir():
        path.unlink()
    place.rmdir()


def test_a_second_name_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"words")
    with two(tmp_path, tmp_path) as (old, new):
        descriptors.link_or_copy(old, "one", new, "two")
        with pytest.raises(FileExistsError):
            descriptors.link_or_copy(old, "one", new, "two")
    assert (tmp_path / "two").samefile(tmp_path / "one")


def test_between_file_systems_a_second_name_is_a_copy_and_a_moved_file_is_complete(
    tmp_path: Path, elsewhere: Path
) -> None:
    (tmp_path / "one").write_bytes(b"words")
    (tmp_path / "one").chmod(0o750)
    (tmp_path / "link").symlink_to("nowhere")
    (elsewhere / "moved").write_bytes(b"replaced")
    with two(tmp_path, elsewhere) as (old, new):
        descriptors.link_or_copy(old, "one", new, "copied")
        descriptors.move(old, "one", new, "moved")
        descriptors.move(old, "link", new, "link")
    assert (elsewhere / "copied").read_bytes() == (elsewhere / "moved").read_bytes() == b"words"
    assert (elsewhere / "moved").stat().st_mode & 0o777 == 0o750 and os.readlink(elsewhere / "link") == "nowhere"
    assert os.listdir(tmp_path) == [] and sorted(os.listdir(elsewhere)) == ["copied", "link", "moved"]


def test_a_link_is_replaced_and_what_it_leads_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("mine")
    (tmp_path / "to").symlink_to("canary")
    (tmp_path / "new").write_text("theirs")
    with two(tmp_path, tmp_path) as (old, new):
        descriptors.move(old, "new", new, "to")
        with pytest.raises(FileExistsError):
            os.symlink("canary", "again", dir_fd=new)
            descriptors.copy(old, "to", new, "again")
    assert (tmp_path / "canary").read_text() == "mine" and (tmp_path / "to").read_text() == "theirs"


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with two(tmp_path, tmp_path) as (old, new), pytest.raises(OSError, match="ordinary") as error:
        descriptors.copy(old, "pipe", new, "copy")
    assert (error.value.errno, error.value.filename) == (errno.EINVAL, "pipe")


def test_what_is_moved_to_another_file_system_is_on_its_disk_first_and_a_plain_copy_need_not_be(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    (tmp_path / "one").write_bytes(b"words")
    with two(tmp_path, elsewhere) as (old, new):
        descriptors.copy(old, "one", new, "plain")
        assert synced == []
        descriptors.link_or_copy(old, "one", new, "second")
        assert synced == [5]
        descriptors.move(old, "one", new, "moved")
        assert synced == [5, 5]


def test_a_move_that_fails_leaves_nothing_beside(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "one").write_bytes(b"words")
    os.mkfifo(tmp_path / "pipe")
    (elsewhere / "taken").mkdir()
    try:
        with two(tmp_path, elsewhere) as (old, new):
            for name, error in (("one", IsADirectoryError), ("pipe", OSError), ("none", FileNotFoundError)):
                with pytest.raises(error):
                    descriptors.move(old, name, new, "taken")
            with pytest.raises(FileNotFoundError):
                descriptors.link_or_copy(old, "none", new, "second")
        assert os.listdir(elsewhere) == ["taken"] and (tmp_path / "one").read_bytes() == b"words"
    finally:
        (elsewhere / "taken").rmdir()


def test_a_link_gets_a_second_name_itself_and_a_copy_is_private_until_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"words")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    with two(tmp_path, tmp_path) as (old, new):
        descriptors.link_or_copy(old, "link", new, "linked")
        descriptors.copy(old, "link", new, "copied")
        descriptors.copy(old, "file", new, "other")
    assert os.readlink(tmp_path / "linked") == os.readlink(tmp_path / "copied") == "file"
    assert (tmp_path / "linked").lstat().st_nlink == 2 and (tmp_path / "copied").lstat().st_nlink == 1
    assert (tmp_path / "other").read_bytes() == b"words" and not (tmp_path / "other").samefile(tmp_path / "file")
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o640
