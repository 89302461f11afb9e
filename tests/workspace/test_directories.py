"""A directory becomes one tree, and a tree a directory; nothing is followed, oddities are stated."""

import errno
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
from tests.workspace.test_store import forge
from treadle.errors import Cancelled, StorageError, WorkspaceError
from treadle.io import descriptors
from treadle.io.files import write_atomic
from treadle.io.tasks import heeding
from treadle.workspace import directories
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import (
    DEPTH_CAP,
    Look,
    bring_files,
    files_under,
    hidden_changes,
    metadata_of,
    news,
    take,
    write_files,
)
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


def age(look: Look) -> Look:
    """As if the look were long after the files were written, so that their metadata can be trusted."""
    look.wall += 10**9
    look.running += 10**9
    for part in look.parts.values():
        part.sure = True
    return look


def test_a_file_that_got_its_old_times_back_is_read(root: Path, store: Store) -> None:
    first = age(take(store, str(root)))
    old = os.stat(root / "a.txt")
    (root / "a.txt").write_text("ONE\n")
    os.utime(root / "a.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert take(store, str(root), earlier=first).tree != first.tree


def test_metadata_are_not_believed_when_they_are_too_fresh_or_the_clock_was_set(root: Path, store: Store) -> None:
    first = take(store, str(root))
    metadata = first.seen["a.txt"]
    (root / "a.txt").write_text("ONE\n")
    found = os.stat(root / "a.txt")
    first.seen["a.txt"] = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    assert metadata != first.seen["a.txt"]
    assert take(store, str(root), earlier=first).tree != first.tree, "written within one tick of the first look"
    first.wall += 3600 * 10**9  # the clock was an hour ahead then
    assert take(store, str(root), earlier=first).tree != first.tree


def test_ignored_files_and_git_files_that_changed_are_found(root: Path, store: Store) -> None:
    (root / ".gitignore").write_text("*.log\ncache/\n")
    (root / "cache").mkdir()
    for name in ("same.log", "edited.log", "gone.log", "cache/x", "rules.log"):
        (root / name).write_text("x")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("")

    def watched(path: str) -> bool:
        return path == "rules.log"

    before = take(store, str(root), watched=watched)
    (root / "edited.log").write_text("longer")
    (root / "gone.log").unlink()
    (root / "cache" / "new").write_text("")
    (root / ".git" / "config").write_text("[core]\n")
    (root / "rules.log").write_text("x")
    (root / "a.txt").write_text("in the patch\n")
    after = take(store, str(root), base=before.files, earlier=before, watched=watched)
    assert hidden_changes(before, after) == [".git/config", "cache/new", "edited.log", "gone.log"]
    (root / "rules.log").write_text("y")
    after = take(store, str(root), base=before.files, earlier=before, watched=watched)
    assert "rules.log" in hidden_changes(before, after)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "remove", "rules", "mode", "swap"]),
            st.sampled_from(["a", "d/a", "d/b.log", "d/e/a", "d/e/b.log", "n/x.log", "n/y"]),
        ),
        max_size=6,
    )
)
def test_a_look_that_takes_over_what_did_not_change_is_the_same_as_a_fresh_one(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, str]]
) -> None:
    root, store = tmp_path_factory.mktemp("root"), Store.make(str(tmp_path_factory.mktemp("store")))
    for name in ("a", "d/a", "d/b.log", "d/e/a", "d/e/b.log"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(name)
    (root / ".gitignore").write_text("*.log\n")
    first = age(take(store, str(root)))
    for act, name in acts:
        place = root / name
        place.parent.mkdir(exist_ok=True, parents=True)
        if act == "write":
            place.write_text("changed")
        elif act == "remove":
            place.unlink(missing_ok=True)
        elif act == "rules":
            (place.parent / ".gitignore").write_text("!b.log\ny\n")
        elif act == "mode" and place.exists():
            place.chmod(0o755)
        elif act == "swap" and place.exists():
            place.rename(place.parent / "moved")
    quick, fresh = take(store, str(root), base=first.files, earlier=first), take(store, str(root), base=first.files)
    assert (quick.tree, quick.files, quick.seen) == (fresh.tree, fresh.files, fresh.seen)
    assert hidden_changes(first, quick) == hidden_changes(first, fresh)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.make(str(tmp_path / "store"))


def test_what_was_taken_is_written_as_it_was(store: Store, tmp_path: Path) -> None:
    one = tmp_path / "one"
    (one / "deep" / "er").mkdir(parents=True)
    (one / "deep" / "er" / "x").write_bytes(bytes(range(256)) * 9000)
    (one / "crlf.txt").write_bytes(b"a\r\n")
    (one / ".gitattributes").write_text("* text eol=crlf filter=evil\n")
    (one / "run.sh").write_text("#!/bin/sh\n")
    (one / "run.sh").chmod(0o755)
    (one / "link").symlink_to("deep/er")
    (one / "deep" / "link").symlink_to("er/x")
    (one / "deep" / "second").write_text("beside\n")
    (one / os.fsdecode(b"\xff\xfe.txt")).write_text("odd\n")
    (one / "new\nline").write_text("odd\n")
    look = take(store, str(one))
    seen = write_files(store, look.files, str(tmp_path / "two"))
    assert seen.keys() == look.files.keys() and seen["link"] == metadata_of(os.lstat(tmp_path / "two" / "link"))
    assert take(store, str(tmp_path / "two")).tree == look.tree
    assert (tmp_path / "two" / "crlf.txt").read_bytes() == b"a\r\n"


@pytest.mark.parametrize("path", ["../out", "a/../../b", ".git/config", "a/.Git/hooks/x", "/etc/x"])
def test_a_path_that_leads_elsewhere_is_refused(store: Store, tmp_path: Path, path: str) -> None:
    entry = TreeEntry(mode="100644", blob=store.put("blob", b"x"))
    with pytest.raises(WorkspaceError, match="not a path"):
        write_files(store, {path: entry}, str(tmp_path / "new"))


def test_nothing_is_written_through_a_link_of_the_same_tree(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    files = {
        "a": TreeEntry(mode="120000", blob=store.put("blob", str(outside).encode())),
        "a/x": TreeEntry(mode="100644", blob=store.put("blob", b"x")),
    }
    with pytest.raises(Exception, match="File exists"):
        write_files(store, files, str(tmp_path / "new"))
    assert list(outside.iterdir()) == []


def test_a_directory_that_has_something_in_it_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").touch()
    with pytest.raises(WorkspaceError, match="not empty"):
        write_files(store, {}, str(tmp_path / "new"))


def test_what_the_disk_refuses_is_told_with_the_place(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=f"cannot write {tmp_path}/file/new: Not a directory"):
        write_files(store, {}, str(tmp_path / "file" / "new" / "er"))


def test_a_forged_object_is_not_written_as_if_it_were_right(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    store = Store.make(str(tmp_path / "store"), lenders=[f"{repository.common}/objects"])
    _, files = store.borrow_tree(repository.commit())
    forge(Path(repository.common) / "objects", files["a.txt"].blob, b"evil\n")
    with pytest.raises(WorkspaceError, match="does not match its hash"):
        write_files(store, files, str(tmp_path / "new"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "node_modules" / "a").mkdir(parents=True)
    (root / "node_modules" / "a" / "x.js").write_text("x")
    (root / "node_modules" / ".bin").symlink_to("a")
    (root / ".env").write_text("e")
    return root


def test_directories_and_files_are_brought_and_what_is_there_stays(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / ".env").write_text("the result's own")
    paths = [path for name in ("node_modules", "./.env", "missing") for path in files_under(str(source), name)]
    assert sorted(paths) == [".env", "node_modules/.bin", "node_modules/a/x.js"]
    bring_files(str(source), str(target), paths)
    assert (target / "node_modules" / "a" / "x.js").read_text() == "x" and (
        target / "node_modules" / ".bin"
    ).is_symlink()
    assert (target / ".env").read_text() == "the result's own"


@pytest.mark.parametrize("name", ["/etc/passwd", "../other", "a/../../b"])
def test_only_what_is_in_the_source_can_be_brought(source: Path, name: str) -> None:
    with pytest.raises(WorkspaceError, match="is not in"):
        files_under(str(source), name)


@pytest.mark.parametrize("linked", [False, True])
def test_no_link_of_the_result_is_followed(source: Path, tmp_path: Path, linked: bool) -> None:
    hooks, target = tmp_path / "hooks", tmp_path / "target"
    hooks.mkdir()
    target.mkdir()
    (target / "build").symlink_to(hooks)
    (target / "dangling").symlink_to(hooks / "pre-commit")
    for name in ("build/post-checkout", "build/deep/x", "dangling", "fine"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    bring_files(
        str(source), str(target), ["build/post-checkout", "build/deep/x", "dangling", "build", "fine"], linked=linked
    )
    assert list(hooks.iterdir()) == [] and (target / "fine").read_text() == "x"


def test_no_link_of_the_source_is_followed_unless_that_is_wanted(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "id_rsa").write_text("SECRET")
    (source / "keys").symlink_to(secret)
    bring_files(str(source), str(tmp_path / "target"), ["keys/id_rsa"])
    assert not (tmp_path / "target" / "keys").exists()
    bring_files(str(source), str(tmp_path / "target"), ["keys", "node_modules", ".env"], linked=True)
    assert (tmp_path / "target" / "keys").resolve() == secret.resolve()
    assert (tmp_path / "target" / "node_modules").is_symlink() and (tmp_path / "target" / ".env").is_file()


def listed(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_what_is_brought_counts_together_and_nothing_of_git_is(source: Path, tmp_path: Path) -> None:
    (source / "a").write_bytes(b"12345")
    (source / "b").write_bytes(b"12345")
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("x")
    os.mkfifo(source / "pipe")
    (source / "in").symlink_to("a")
    paths = ["a", "b", ".git/config", "pipe", "in", "none", "a/x"]
    bring_files(str(source), str(tmp_path / "one"), paths, cap=10)
    assert listed(tmp_path / "one") == ["a", "b", "in"] and os.readlink(tmp_path / "one" / "in") == "a"
    with pytest.raises(WorkspaceError, match=f"the files to copy from {source} have more than 9 bytes") as error:
        bring_files(str(source), str(tmp_path / "two"), paths, cap=9)
    assert error.value.hint == "name what the check needs with --bring"
    assert files_under(str(source), "in") == ["in"] and files_under(str(source), "./b") == ["b"]
    assert sorted(files_under(str(source), ".")) == [
        ".env", ".git/config", "a", "b", "in", "node_modules/.bin", "node_modules/a/x.js", "pipe",
    ]  # fmt: skip
