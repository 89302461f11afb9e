"""A path still leads where it led when it was judged, or opening it is an error."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.descriptors import opened
from tests.machines import OPENAT2, refusing
from treadle.io import descriptors


def test_a_file_is_opened_and_a_link_on_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    os.symlink("a", tmp_path / "b")
    os.symlink("file", tmp_path / "a" / "link")
    with open(descriptors.open_file(f"{tmp_path}/a/file")) as file:
        assert file.read() == "x"
    for path in ("b/file", "a/link"):
        with pytest.raises(OSError):
            descriptors.open_file(f"{tmp_path}/{path}")
    assert descriptors.there([f"{tmp_path}/{path}" for path in ("a/file", "a/link", "b/file", "no")]) == {
        f"{tmp_path}/a/file",
        f"{tmp_path}/a/link",
    }


def test_only_ordinary_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero"), Path("/")):
        with pytest.raises(OSError) as error:
            descriptors.open_file(str(path))
        assert (error.value.errno, error.value.filename) == (errno.EINVAL, str(path))


def test_missing_directories_are_made_where_that_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), descriptors.directory(f"{tmp_path}/x/y"):
        pass
    with descriptors.directory(f"{tmp_path}/x/y", make=True) as fd:
        os.close(os.open("made", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    assert (tmp_path / "x" / "y" / "made").exists()
    os.close(descriptors.open_directory("/"))


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = opened()
    for path in (f"{tmp_path}/no/file", "/etc", "/dev/null", f"{tmp_path}/no"):
        with pytest.raises(OSError):
            descriptors.open_file(path)
    assert opened() - before == set()


WAYS = """
import errno, os, sys
from treadle.io import descriptors

os.chdir(sys.argv[1])
os.makedirs("a/b")
os.symlink("a", "link")
open("a/b/file", "w").close()
os.symlink("file", "a/b/last")
root = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
said = ["by the kernel" if descriptors._openat2() else "step by step"]
for path in ("a/b/file", "a/b/", "link/", "link/b/file", "a/b/last", "a/b/none", "a/b/file/x", "none/x"):
    try:
        os.close(descriptors.open_from(root, path, os.O_RDONLY))
        said.append("open")
    except OSError as error:
        said.append(errno.errorcode[error.errno])
print(*said, "made" if os.path.exists("none") else "not-made")
"""


def test_the_kernels_way_and_the_walk_come_to_the_same(tmp_path: Path) -> None:
    """The walk is the fallback for a kernel without openat2; one that refuses the call is treated the same."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    ways = [[sys.executable, "-c", WAYS, str(tmp_path / "one")]]
    ways.append([sys.executable, "-c", refusing(OPENAT2) + WAYS, str(tmp_path / "two")])
    fast, slow = (subprocess.run(way, capture_output=True, text=True, check=True).stdout.split() for way in ways)
    same = "open open ELOOP ELOOP ELOOP ENOENT ENOTDIR ENOENT not-made".split()
    assert slow == ["step", "by", "step", *same] and fast[-len(same) :] == same


def test_directories_are_opened_from_one_that_is_open_and_made_only_if_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    before = opened()
    with descriptors.directory(str(tmp_path)) as root:
        for path, expected in (("", tmp_path), ("a", tmp_path / "a"), ("a/b", tmp_path / "a" / "b")):
            for make in (False, True):
                fd = descriptors.open_below(root, path, make=make)
                assert os.path.samestat(os.fstat(fd), expected.stat())
                os.close(fd)
        with pytest.raises(FileNotFoundError):
            descriptors.open_below(root, "a/new")
        assert not (tmp_path / "a" / "new").exists()
        os.close(descriptors.open_below(root, "a//new/er", make=True))
        assert (tmp_path / "a" / "new" / "er").is_dir()
        for make in (False, True):
            with pytest.raises(OSError):
                descriptors.open_below(root, "link/b", make=make)
        made = descriptors.open_from(root, "a/file", os.O_CREAT | os.O_WRONLY, 0o640)
        assert (tmp_path / "a" / "file").stat().st_mode & 0o777 == 0o640 and not os.get_inheritable(made)
        os.close(made)
        made = descriptors.open_in(root, "file", os.O_CREAT | os.O_WRONLY, 0o600)
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
        os.close(made)
        with pytest.raises(OSError):
            descriptors.open_in(root, "link", os.O_RDONLY)
        with pytest.raises(FileNotFoundError, match="none") as error:
            descriptors.open_from(root, "none", os.O_RDONLY)
        assert error.value.filename == "none"
    assert opened() == before


def test_what_a_path_is_and_which_are_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    assert stat.S_ISREG(descriptors.lstat(f"{tmp_path}/file").st_mode)
    assert stat.S_ISLNK(descriptors.lstat(f"{tmp_path}/link").st_mode) and stat.S_ISDIR(descriptors.lstat("/").st_mode)
    wanted = [f"{tmp_path}/none/x", f"{tmp_path}/file", f"{tmp_path}/absent", f"{tmp_path}/link"]
    assert descriptors.there(wanted) == {f"{tmp_path}/file", f"{tmp_path}/link"}


def test_without_the_kernels_call_the_walk_does_the_same_here(tmp_path: Path, old_kernel: None) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    before = opened()
    with descriptors.directory(f"{tmp_path}/a") as fd:
        os.close(descriptors.open_from(fd, "file", os.O_CREAT | os.O_WRONLY, 0o640))
    assert (tmp_path / "a" / "file").stat().st_mode & 0o777 == 0o640
    with descriptors.directory(str(tmp_path)) as root:
        for name in ("a/", "a", "a//file", "."):
            os.close(descriptors.open_from(root, name, os.O_RDONLY))
        for name in ("", "link/", "none/"):
            with pytest.raises(OSError):
                descriptors.open_from(root, name, os.O_RDONLY)
    for path in ("link", "a/none", "none/x"):
        with pytest.raises(OSError):
            descriptors.open_directory(f"{tmp_path}/{path}")
    assert opened() == before and not (tmp_path / "none").exists()
