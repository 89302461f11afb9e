"""A tree is written byte for byte, and never outside its directory."""

import os
from pathlib import Path

import pytest

from tests.workspace.repositories import make
from tests.workspace.test_store import forge
from treadle.errors import StorageError, WorkspaceError
from treadle.io.descriptors import remove_tree
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import metadata_of, take, write_files
from treadle.workspace.store import Store


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


def test_a_submodule_is_an_empty_directory_and_stays_one(store: Store, tmp_path: Path) -> None:
    files = {
        "lib/sub": TreeEntry(mode="160000", blob="1" * 40),
        "a": TreeEntry(mode="100644", blob=store.put("blob", b"")),
    }
    tree = store.put_files(files)
    write_files(store, files, str(tmp_path / "out"))
    assert os.listdir(tmp_path / "out" / "lib" / "sub") == []
    assert take(store, str(tmp_path / "out"), base=files).tree == tree


@pytest.mark.slow
def test_a_very_deep_file_is_written(store: Store, tmp_path: Path) -> None:
    files = {"d/" * 1400 + "f": TreeEntry(mode="100644", blob=store.put("blob", b"deep"))}
    assert write_files(store, files, str(tmp_path / "out")).keys() == files.keys()
    remove_tree(str(tmp_path / "out"))


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


def test_files_are_written_folder_by_folder_into_an_empty_directory_that_may_be_there(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    entry = TreeEntry(mode="100644", blob=store.put("blob", b"x"))
    seen = write_files(store, dict.fromkeys(("b/x", "a", "b/c/z", "b/y", "d"), entry), str(tmp_path / "new"))
    assert list(seen) == ["a", "d", "b/x", "b/y", "b/c/z"]
    assert seen["b/x"] == metadata_of((tmp_path / "new" / "b" / "x").stat())


def test_what_the_disk_refuses_is_told_with_the_place(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=f"cannot write {tmp_path}/file/new: Not a directory"):
        write_files(store, {}, str(tmp_path / "file" / "new" / "er"))


def test_a_forged_object_is_not_written_as_if_it_were_right(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    store = Store.make(str(tmp_path / "store"), lenders=[f"{repository.common}/objects"])
    _, files = store.borrow_tree(repository.commit())
    forge(Path(repository.common) / "objects", files["a.txt"].blob, b"evil\n")
    with pytest.raises(WorkspaceError, match="not what its name says"):
        write_files(store, files, str(tmp_path / "new"))
