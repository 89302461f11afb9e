"""A path is what it was when it was judged, or an error."""

import os
from pathlib import Path

import pytest

from treadle.io import pinned


def test_a_file_is_opened_and_a_link_on_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    os.symlink("a", tmp_path / "b")
    os.symlink("file", tmp_path / "a" / "link")
    with open(pinned.open_file(f"{tmp_path}/a/file")) as file:
        assert file.read() == "x"
    for path in ("b/file", "a/link"):
        with pytest.raises(OSError):
            pinned.open_file(f"{tmp_path}/{path}")
    assert pinned.there([f"{tmp_path}/{path}" for path in ("a/file", "a/link", "b/file", "no")]) == {
        f"{tmp_path}/a/file",
        f"{tmp_path}/a/link",
    }


def test_only_ordinary_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero"), Path("/")):
        with pytest.raises(OSError):
            pinned.open_file(str(path))


def test_missing_directories_are_made_where_that_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), pinned.directory(f"{tmp_path}/x/y"):
        pass
    with pinned.directory(f"{tmp_path}/x/y", make=True) as fd:
        os.close(os.open("made", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    assert (tmp_path / "x" / "y" / "made").exists()
    os.close(pinned.open_directory("/"))


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in (f"{tmp_path}/no/file", "/etc", "/dev/null", f"{tmp_path}/no"):
        with pytest.raises(OSError):
            pinned.open_file(path)
    assert len(os.listdir("/proc/self/fd")) == before
