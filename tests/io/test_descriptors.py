"""Files and trees by open directories: copied, moved, pinned, removed and walked, whoever changes them meanwhile."""

import errno
import os
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import need
from tests.descriptors import opened
from tests.machines import OPENAT2, refusing
from treadle.errors import Cancelled, StorageError
from treadle.io import descriptors, tasks
from treadle.io.descriptors import Walk, copy_file, parents, read_rules, remove_tree


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


def test_a_directory_goes_with_all_kinds_of_files_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").touch()
    place = tmp_path / "place"
    (place / "a" / "b" / "c").mkdir(parents=True)
    (place / "a" / "b" / "c" / "x").touch()
    (place / "a" / "1.removed").mkdir()
    (place / "1.removed").touch()
    (place / "a" / "link").symlink_to(outside)
    os.mkfifo(place / "pipe")
    (place / "a" / "b").chmod(0o500)
    (place / "a").chmod(0)
    remove_tree(str(place))
    assert not place.exists() and (outside / "mine").exists()


def test_a_directory_deeper_than_any_path_goes(tmp_path: Path) -> None:
    place, here = tmp_path / "place", os.getcwd()
    place.mkdir()
    try:
        os.chdir(place)
        for _ in range(1100):
            os.mkdir("deep")
            os.chdir("deep")
        Path("x").touch()
    finally:
        os.chdir(here)
    remove_tree(str(place))
    assert not place.exists()


def test_a_link_or_a_file_goes_itself_and_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("link", "nothing"):
        remove_tree(str(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


def test_what_cannot_be_removed_is_named() -> None:
    with pytest.raises(StorageError, match="cannot remove /proc/self/fd"):
        remove_tree("/proc/self/fd")


def walked(root: Path, **more: bool) -> list[str]:
    return [relative for relative, _ in Walk(str(root), **more)]


def tree(root: Path, *names: str, **contents: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_the_walk_is_in_the_order_of_names_and_enters_no_git(tmp_path: Path) -> None:
    tree(tmp_path, "b.txt", "a/z", "a/b/c", "a.txt", ".git/config", "a/.git", ".hidden/x")
    assert walked(tmp_path) == [".hidden/x", "a/b/c", "a/z", "a.txt", "b.txt"]


def test_inner_rules_beat_outer_ones_and_an_ignored_directory_is_not_entered(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "d/a.log", "d/b.log", "out/x", "out/keep")
    (tmp_path / ".gitignore").write_text("*.log\nout/\n!out/keep\n")
    (tmp_path / "d" / ".gitignore").write_text("!a.log\n")
    assert walked(tmp_path) == [".gitignore", "d/.gitignore", "d/a.log"]
    assert walked(tmp_path, ignore=False) == [
        ".gitignore", "a.log", "d/.gitignore", "d/a.log", "d/b.log", "out/keep", "out/x",
    ]  # fmt: skip


def test_rules_above_hold_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    tree(tmp_path, "repo/src/a.log", "repo/src/a.txt", "repo/src/a.bak", "repo/.git/HEAD")
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "repo" / ".gitignore").write_text("*.log\n/src/*.bak\n")
    assert walked(tmp_path / "repo" / "src") == ["a.txt"]


def test_links_are_not_followed_and_odd_things_are_not_files(tmp_path: Path) -> None:
    tree(tmp_path, "real/a")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "file-link").symlink_to("real/a")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "real" / ".gitignore")
    assert walked(tmp_path) == ["real/a"]


def test_a_directory_that_vanishes_or_is_too_deep_is_counted(tmp_path: Path) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(30):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
    finally:
        os.chdir(here)
    walk = Walk(str(tmp_path))
    assert list(walk) == [] and walk.unreadable == 1
    missing = Walk(str(tmp_path / "none"))
    assert list(missing) == [] and missing.unreadable == 1


# git counts bytes, so that `?` is half of an é; here it is a character. Hence only ASCII:
NAMES = ["a", "b", "ab", "a.log", "b.log", "build", "x y", "a[b]", "-"]

PARTS = ["*", "?", "a", "b", "*.log", "build", "**", "[ab]", "[!a]*", "a*", "*b*", "\\a", "x y", "a[[]b]"]


@settings(max_examples=40)
@given(data=st.data())
def test_random_rules_leave_out_what_git_leaves_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    git = need("git")
    root = tmp_path_factory.mktemp("repo")
    for name in ("objects", "refs"):
        (root / ".git" / name).mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    chooser = random.Random(data.draw(st.integers(0, 10_000)))
    for _ in range(25):
        path = root.joinpath(*(chooser.choice(NAMES) for _ in range(chooser.randint(1, 4))))
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    rule = st.builds(
        lambda negated, start, parts, end: "!" * negated + start + "/".join(parts) + end,
        st.booleans(), st.sampled_from(["", "", "/"]),
        st.lists(st.sampled_from(PARTS), min_size=1, max_size=3), st.sampled_from(["", "", "/"]),
    )  # fmt: skip
    (root / ".gitignore").write_text("\n".join(data.draw(st.lists(rule, min_size=1, max_size=5))) + "\n")
    said = subprocess.run(
        [git, "-C", str(root), "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True
    ).stdout
    assert sorted(walked(root)) == sorted(os.fsdecode(name) for name in said.split(b"\0") if name)


def test_links_and_further_rules_count_if_they_are_asked_for_and_a_walk_can_be_ended(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "b.txt", "d/c.log", "d/d.txt", ".git/HEAD")
    (tmp_path / "link").symlink_to("b.txt")
    (tmp_path / "way").symlink_to("d")
    assert walked(tmp_path, links=True) == ["a.log", "b.txt", "d/c.log", "d/d.txt", "link", "way"]
    (tmp_path / "d" / ".gitignore").write_text("!c.log\n")
    rules = Walk(str(tmp_path), excludes="*.log\n/d/d.txt\n")
    assert [name for name, _ in rules] == ["b.txt", "d/.gitignore", "d/c.log"]
    assert [name for name, _ in Walk(f"{tmp_path}/", ignore=False, excludes="*.log\n")] == [
        "b.txt",
        "d/.gitignore",
        "d/d.txt",
    ]
    walk, found = Walk(str(tmp_path), ignore=False), []
    for name, entry in walk:
        found.append(name)
        assert entry.path == str(tmp_path / name)
        walk.stopped = name == "d/.gitignore"
    assert found[:3] == ["a.log", "b.txt", "d/.gitignore"] and "link" not in found and walk.unreadable == 0


def test_rules_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    tree(tmp_path, "a/x")
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / "a" / ".gitignore").symlink_to("nowhere")
    assert walked(tmp_path) == ["a/x"] and walked(tmp_path / "a") == ["x"]
    assert read_rules(str(tmp_path)).ignored("x", "x") is None and parents("/") == ()
