"""A directory becomes one tree, by our own reading: nothing in it is followed or run, and what is odd is stated."""

import errno
import hashlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import need
from tests.workspace.repositories import git, make
from treadle.errors import Cancelled, StorageError, WorkspaceError
from treadle.io import descriptors
from treadle.io.files import write_atomic
from treadle.io.tasks import heeding
from treadle.workspace import directories
from treadle.workspace import directories as looking
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import DEPTH_CAP, Look, hidden_changes, news, take
from treadle.workspace.store import Store


def kinds(look: Look) -> set[tuple[str, str]]:
    return {(one.kind, one.path) for one in look.oddities}


def test_git_finds_the_same_tree(tmp_path: Path, store: Store) -> None:
    repository = make(tmp_path / "repo")
    top = Path(repository.top)
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "sub" / "deep" / "x").write_text("x")
    (top / "sub.txt").write_text("sorts before sub/")
    (top / "noise.log").write_text("ignored")
    (top / "sub" / ".gitignore").write_text("!kept.log\n/only-here\n")
    (top / "sub" / "kept.log").write_text("")
    (top / "sub" / "only-here").write_text("")
    (top / "only-here").write_text("")
    (top / "run").write_text("")
    (top / "run").chmod(0o755)
    (top / "to").symlink_to("sub/deep")
    git("add", "-A", cwd=repository.top)
    assert take(store, repository.top).tree == repository.git("write-tree").strip()


def test_a_file_that_we_are_about_to_put_in_place_is_not_taken(store: Store, root: Path) -> None:
    first = take(store, str(root))
    with write_begun(root / "a.txt", b"new\n"):
        found = take(store, str(root), base=first.files)
        assert sorted(found.files) == ["a.txt", "deep/b.txt"] and found.tree == first.tree
        assert [name.startswith(".treadle-") for name in hidden_changes(first, found)] == [True]


@contextmanager
def write_begun(path: Path, data: bytes) -> Iterator[None]:
    """A writer of ours that is between its two steps. Only the call of the operating system is held up."""
    reached, go_on = threading.Event(), threading.Event()
    rename = os.rename

    def held(*args: Any, **more: Any) -> None:
        reached.set()
        assert go_on.wait(60)
        rename(*args, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "rename", held)
        writing = threading.Thread(target=write_atomic, args=(str(path), data))
        writing.start()
        try:
            assert reached.wait(60)
            patched.undo()
            yield
        finally:
            go_on.set()
            writing.join(60)


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(["*.x", "/a", "b/", "!a.x", "a/*", "!a/b", "**/c", "c.*", "!*/"]), max_size=5),
    st.sets(st.lists(st.sampled_from(["a", "b", "c", "a.x", "c.x"]), min_size=1, max_size=3).map("/".join), max_size=8),
)
def test_ignored_files_are_those_that_git_ignores(
    tmp_path_factory: pytest.TempPathFactory, rules: list[str], paths: set[str]
) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / ".gitignore").write_text("\n".join(rules))
    for path in sorted(paths):
        if not any(other.startswith(f"{path}/") for other in paths):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(path)
    look = take(Store.make(str(tmp_path_factory.mktemp("store"))), str(root))
    for name in ("objects", "refs"):
        (root / ".git" / name).mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    git("add", "-A", cwd=str(root))
    assert look.tree == git("write-tree", cwd=str(root)).stdout.decode().strip()


def test_files_of_the_base_are_taken_although_they_are_ignored(root: Path, store: Store) -> None:
    base = take(store, str(root)).files
    (root / ".gitignore").write_text("*.txt\ndeep/\n")
    (root / "deep" / "new.txt").write_text("")
    found = take(store, str(root), base=base).files
    assert set(found) == {"a.txt", "deep/b.txt", ".gitignore"}


def test_no_git_directory_is_part_of_the_tree_at_any_depth(root: Path, store: Store) -> None:
    subprocess.run([need("git"), "init", "--quiet", str(root)], check=True)
    subprocess.run([need("git"), "init", "--quiet", str(root / "deep")], check=True)
    (root / "linked").mkdir()
    (root / "linked" / ".git").write_text("gitdir: /somewhere\n")
    (root / "linked" / "x").write_text("")
    look = take(store, str(root))
    assert set(look.files) == {"a.txt", "deep/b.txt", "linked/x"}
    assert kinds(look) == {("git_directory", "deep/.git"), ("git_directory", "linked/.git")}


def test_special_files_modes_attributes_links_and_names_are_stated(root: Path, store: Store) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(root / "s"))
    (root / "setuid").write_text("")
    (root / "setuid").chmod(0o4755)
    (root / "out").symlink_to("../../etc")
    (root / "abs").symlink_to("/etc/passwd")
    (root / "in").symlink_to("deep/../a.txt")
    odd = os.fsdecode(b"\xff\xfe.txt")
    (root / odd).write_text("")
    expected = {("special", "pipe"), ("special", "s"), ("mode", "setuid"), ("link_out", "out"), ("link_out", "abs")}
    try:
        os.setxattr(root / "a.txt", "user.note", b"x")
        expected.add(("attributes", "a.txt"))
    except OSError:
        pass  # this file system has none
    look = take(store, str(root))
    assert kinds(look) == {*expected, ("name", odd)}
    assert {"pipe", "s"}.isdisjoint(look.files) and {"setuid", "out", "abs", odd} <= set(look.files)
    assert news(look, take(store, str(root), earlier=look)) == []


def test_a_file_that_is_too_large_is_stated_and_keeps_what_the_base_has(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = take(store, str(root)).files
    os.truncate(root / "a.txt", 20 << 30)
    with open(root / "new.bin", "wb") as file:
        file.truncate(20 << 30)
    look = take(store, str(root), base=base)
    assert kinds(look) == {("too_large", "a.txt"), ("too_large", "new.bin")}
    assert look.files == base
    monkeypatch.setattr(directories, "TOTAL_CAP", 5)
    (root / "a.txt").write_text("one\n")
    (root / "new.bin").write_text("three\n")
    assert {kind for kind, _ in kinds(take(store, str(root)))} == {"too_large"}


def test_a_path_longer_than_the_kernel_opens_is_stated(root: Path, store: Store) -> None:
    here = os.getcwd()
    try:
        os.chdir(root)
        for _ in range(25):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        Path("x").write_text("")
    finally:
        os.chdir(here)
    look = take(store, str(root))
    assert {kind for kind, _ in kinds(look)} == {"too_long"}
    assert set(look.files) == {"a.txt", "deep/b.txt"}


def test_a_very_deep_directory_is_stated_and_keeps_what_the_base_has(root: Path, store: Store) -> None:
    deep = "d/" * (DEPTH_CAP + 5)
    base = {
        f"{deep}f": TreeEntry(mode="100644", blob=store.put("blob", b"f")),
        f"{deep[: 2 * DEPTH_CAP]}g": TreeEntry(mode="100644", blob=store.put("blob", b"g")),
    }
    with descriptors.directory(os.path.realpath(root)) as fd:
        os.close(descriptors.open_below(fd, "d/" * (DEPTH_CAP + 20), make=True))
    look = take(store, str(root), base=base)
    assert [kind for kind, _ in kinds(look)] == ["too_long"]
    assert {"a.txt", "deep/b.txt", f"{deep}f"} == set(look.files)  # the other is gone, and that can be seen
    assert store.files(look.tree) == look.files


def test_our_own_reading_can_be_stopped(root: Path, store: Store) -> None:
    with open(root / "big", "wb") as file:
        file.truncate(1 << 30)
    halt = threading.Event()
    halt.set()
    with heeding(halt), pytest.raises(Cancelled):
        take(store, str(root))


def test_a_link_in_place_of_a_directory_is_not_followed(root: Path, store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("key")
    base = take(store, str(root)).files
    (root / "deep" / "b.txt").unlink()
    (root / "deep").rmdir()
    (root / "deep").symlink_to(secret)
    look = take(store, str(root), base=base)
    assert set(look.files) == {"a.txt", "deep"} and look.files["deep"].is_link


def test_what_has_not_changed_since_the_earlier_look_is_not_read_again(
    root: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (directories, looking):  # so that what was looked at is believed at once, not only after a tick
        monkeypatch.setattr(module, "TICK", -(10**12))

    def again(earlier: Look) -> tuple[Look, set[str]]:
        """With a new store, in which is only what was read now."""
        new = Path(tmp_path, f"store-{len(os.listdir(tmp_path))}")
        look = take(Store.make(str(new)), str(root), earlier=earlier)
        objects = {path: new / "objects" / one.blob[:2] / one.blob[2:] for path, one in look.files.items()}
        return look, {path for path, place in objects.items() if place.exists()}

    (root / "other.txt").write_text("three\n")
    first, read = again(Look())
    assert read == {"a.txt", "deep/b.txt", "other.txt"}
    same, read = again(first)
    assert (same.tree, same.files, same.seen) == (first.tree, first.files, first.seen) and read == set()
    (root / "a.txt").write_text("changed\n")
    found, read = again(same)
    assert read == {"a.txt"} and found.tree == take(store, str(root)).tree != first.tree
    (root / "deep" / "c.txt").write_text("new\n")
    found, read = again(found)
    assert read == {"deep/c.txt"} and set(found.files) == {"a.txt", "other.txt", "deep/b.txt", "deep/c.txt"}
    (root / ".gitignore").write_text("*.txt\n")
    found = take(store, str(root), earlier=found)
    assert set(found.files) == {".gitignore"} and found.tree == take(store, str(root)).tree
    (root / ".gitignore").write_text("a.txt\n")
    found = take(store, str(root), earlier=found)
    assert set(found.files) == {".gitignore", "other.txt", "deep/b.txt", "deep/c.txt"}
    (root / ".gitignore").unlink()
    found = take(store, str(root), earlier=found)
    assert set(found.files) == {"a.txt", "other.txt", "deep/b.txt", "deep/c.txt"}
    assert set(take(store, str(root), earlier=found, excludes="deep/\n").files) == {"a.txt", "other.txt"}
    assert set(take(store, str(root), earlier=take(store, str(root), excludes="a.txt\n")).files) == set(found.files)


def test_hidden_files_that_are_watched_are_hashed_and_no_others(root: Path, store: Store) -> None:
    (root / ".gitignore").write_text("*.log\nout/\n")
    (root / "one.log").write_text("x")
    (root / "two.log").write_text("x")
    (root / "out").mkdir()
    (root / "out" / "watched").write_text("x" * 10)
    (root / "to.log").symlink_to("a.txt")
    os.mkfifo(root / "pipe.log")

    def watched(path: str) -> bool:
        return path in ("one.log", "out/watched", "to.log", "pipe.log", "a.txt")

    look = take(store, str(root), watched=watched)
    assert look.hashes == {
        "one.log": hashlib.sha256(b"x").hexdigest(),
        "out/watched": hashlib.sha256(b"x" * 10).hexdigest(),
        "to.log": "a.txt",
        "pipe.log": "",
    }
    assert set(look.files) == {"a.txt", "deep/b.txt", ".gitignore"} and take(store, str(root)).hashes == {}


def test_its_own_git_directory_is_looked_at_only_if_that_is_wanted(root: Path, store: Store) -> None:
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "hooks" / "x").touch()
    (root / "deep" / ".Git").mkdir()
    with_git, without = take(store, str(root)), take(store, str(root), git_files=False)
    assert ".git/hooks/x" in with_git.seen and ".git/hooks/x" not in without.seen
    assert with_git.tree == without.tree
    (stated,) = without.oddities
    assert (stated.kind, stated.path) == ("git_directory", "deep/.Git")
    assert stated.note == "some systems take it for .git; it is not in the tree"


def test_what_a_lender_has_is_not_put_into_the_store(root: Path, store: Store, tmp_path: Path) -> None:
    blob = store.id_of("blob", b"one\n")
    look = take(store, str(root), lent={blob})
    assert look.files["a.txt"].blob == blob and look.tree == take(Store.make(str(tmp_path / "s")), str(root)).tree
    with pytest.raises(WorkspaceError):
        store.blobs([blob])
    assert store.blobs([look.files["deep/b.txt"].blob])


def test_without_the_kernels_call_directories_are_taken_all_the_same(
    root: Path, store: Store, old_kernel: None
) -> None:
    (root / "deep" / "er").mkdir()
    (root / "deep" / "er" / "c.txt").touch()
    assert set(take(store, str(root)).files) == {"a.txt", "deep/b.txt", "deep/er/c.txt"}


def test_what_cannot_be_read_keeps_what_the_base_has_and_is_stated(
    root: Path, store: Store, old_kernel: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match=f"cannot read {root}/none"):
        take(store, str(root / "none"))
    base = take(store, str(root)).files
    (root / "deep" / "b.txt").write_text("changed\n")
    (root / ".gitignore").write_text("hidden/\n")
    for name in ("hidden", "gone"):
        (root / name).mkdir()
        (root / name / "x").touch()
    usual = os.open

    def opening(path: str, *how: Any, **more: Any) -> int:
        if path in ("deep", "hidden", "a.txt"):
            raise PermissionError(errno.EACCES, "not for you")
        if path == "gone":
            raise FileNotFoundError
        return usual(path, *how, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opening)
        look = take(store, str(root), base=base)
    assert {(one.kind, one.path, one.note) for one in look.oddities} == {
        ("unreadable", "deep/", "not for you"),
        ("unreadable", "a.txt", "not for you"),
    }
    assert {name: look.files[name] for name in base} == base and set(look.files) == {*base, ".gitignore"}
    assert look.seen["deep/."] == look.seen["hidden/."] == (0, 0, 0, 0, 0)
    assert store.files(look.tree) == look.files


def test_a_large_file_is_put_in_pieces_and_limits_hold_exactly(
    root: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = take(store, str(root))
    monkeypatch.setattr(directories, "PIECE", 3)
    other = Store.make(str(tmp_path / "other"))
    found = take(other, str(root))
    assert found.tree == whole.tree and other.blobs([found.files["a.txt"].blob]) == {
        found.files["a.txt"].blob: b"one\n"
    }
    for cap, total, kept in ((4, 8, 2), (3, 8, 0), (4, 7, 1), (4, 3, 0)):
        monkeypatch.setattr(directories, "FILE_CAP", cap)
        monkeypatch.setattr(directories, "TOTAL_CAP", total)
        found = take(other, str(root))
        assert len(found.files) == kept and len(kinds(found)) == 2 - kept
    note = "it has 4 bytes; at most 4 of one file and 3 of all are taken"
    assert {one.note for one in found.oddities} == {note}


def test_an_empty_directory_stands_for_the_submodule_that_the_base_has_there(root: Path, store: Store) -> None:
    for name in ("lib", "deep/er", "plain"):
        (root / name).mkdir()
    module = TreeEntry(mode="160000", blob="1" * 40)
    base = {"lib": module, "deep/er": module, "gone": module}
    look = take(store, str(root), base=base)
    assert look.files == {**take(store, str(root)).files, "lib": module, "deep/er": module}
    assert store.files(look.tree) == look.files
    (root / "lib" / "x").touch()
    assert "lib/x" in take(store, str(root), base=base).files


def test_a_program_is_one_that_its_owner_may_run_and_the_bits_of_others_are_stated(root: Path, store: Store) -> None:
    (root / "a.txt").chmod(0o655)
    (root / "run").touch()
    (root / "run").chmod(0o7700)
    look = take(store, str(root))
    assert look.files["a.txt"].mode == "100644" and look.files["run"].mode == "100755"
    assert [one.note for one in look.oddities] == [
        "has setuid and setgid and the sticky bit; a tree does not hold that"
    ]
