"""Snapshots see every kind of change and touch nothing."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workspace.test_git import make
from treadle.workspace.changes import quoted, status_lines
from treadle.workspace.git import git
from treadle.workspace.snapshot import Snapshots


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "keep.txt").write_text("".join(f"line {number}\n" for number in range(30)))
    (root / "edit.txt").write_text("one\ntwo\n")
    (root / "gone.txt").write_text("bye\n")
    (root / "old name.txt").write_text("".join(f"same {number}\n" for number in range(30)))
    (root / "pic.bin").write_bytes(bytes(range(256)))
    (root / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    return root


def change_everything(root: Path) -> None:
    (root / "edit.txt").write_text("one\n2\n")
    (root / "gone.txt").unlink()
    (root / "old name.txt").rename(root / "new näme.txt")
    (root / "pic.bin").write_bytes(bytes(range(255, -1, -1)))
    (root / "crlf.txt").write_bytes(b"a\nb\n")
    (root / "deep").mkdir()
    (root / "deep" / "new.txt").write_text("new\n")
    (root / "link").symlink_to("edit.txt")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)


def test_new_deleted_renamed_and_binary_files_are_all_seen(place: Path, tmp_path: Path) -> None:
    snapshots = Snapshots.create(str(tmp_path / "snapshots"), str(place))
    before = snapshots.snapshot()
    change_everything(place)
    after = snapshots.snapshot()
    found = {(change.kind, change.path) for change in snapshots.changes(before, after)}
    assert found == {
        ("modified", "edit.txt"),
        ("deleted", "gone.txt"),
        ("renamed", "new näme.txt"),
        ("modified", "pic.bin"),
        ("modified", "crlf.txt"),
        ("added", "deep/new.txt"),
        ("added", "link"),
        ("added", "run.sh"),
    }
    assert "R  old name.txt -> new näme.txt" in status_lines(snapshots.changes(before, after))


def test_git_can_apply_the_patch_to_the_old_state(place: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", place, copy], check=True)
    snapshots = Snapshots.create(str(tmp_path / "snapshots"), str(place))
    before = snapshots.snapshot()
    change_everything(place)
    git("apply", "--whitespace=nowarn", "-", cwd=str(copy), stdin=snapshots.patch(before, snapshots.snapshot()))
    subprocess.run(["diff", "-r", "--no-dereference", place, copy], check=True)


def test_no_change_is_no_difference(place: Path, tmp_path: Path) -> None:
    snapshots = Snapshots.create(str(tmp_path / "snapshots"), str(place))
    before = snapshots.snapshot()
    assert snapshots.snapshot() == before
    assert snapshots.changes(before, before) == [] and snapshots.patch(before, before) == b""


def test_a_repository_is_left_exactly_as_it_was(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    root = Path(repository.top)
    (root / "staged.txt").write_text("s\n")
    git("add", "staged.txt", cwd=repository.top)

    def state() -> list[str]:
        files = sorted(str(path) for path in (root / ".git").rglob("*") if path.is_file())
        return [*files, git("status", "--porcelain", cwd=repository.top).stdout.decode()]

    known = state()
    snapshots = Snapshots.create(str(tmp_path / "snapshots"), str(root))
    before = snapshots.snapshot()
    (root / "a.txt").write_text("two\n")
    (root / "b.txt").write_text("new\n")
    (root / "noise.log").write_text("ignored\n")
    changed = snapshots.changes(before, snapshots.snapshot())
    assert {(change.kind, change.path) for change in changed} == {("modified", "a.txt"), ("added", "b.txt")}
    (root / "a.txt").write_text("one\n")
    (root / "b.txt").unlink()
    assert state() == known


def test_attributes_and_filters_of_the_directory_do_not_apply(place: Path, tmp_path: Path) -> None:
    (place / ".gitattributes").write_text("* text=auto eol=crlf\n*.bin filter=evil\n")
    snapshots = Snapshots.create(str(tmp_path / "snapshots"), str(place))
    tree = snapshots.snapshot()
    entries = snapshots.entries(tree, ["crlf.txt", "pic.bin", "no.txt"])
    assert set(entries) == {"crlf.txt", "pic.bin"}
    assert snapshots.read(entries["crlf.txt"]) == b"a\r\nb\r\n"


def test_a_git_directory_inside_is_not_looked_at(place: Path, tmp_path: Path) -> None:
    (place / ".git").mkdir()
    (place / ".git" / "secret").write_text("s")
    snapshots = Snapshots.create(str(tmp_path / "snapshots"), str(place))
    assert "secret" not in snapshots._git("ls-tree", "-r", "--name-only", snapshots.snapshot()).stdout.decode()


@pytest.mark.parametrize("commits", [False, True])
def test_nothing_can_be_hidden_in_a_repository_inside(place: Path, tmp_path: Path, commits: bool) -> None:
    snapshots = Snapshots.create(str(tmp_path / "snapshots"), str(place))
    before = snapshots.snapshot()
    inner = make(place / "inner", commit=commits)
    (place / "inner" / "more").mkdir()
    (place / "inner" / "more" / "b.txt").write_text("b\n")
    (place / "inner" / "link").symlink_to("a.txt")
    middle = snapshots.snapshot()
    names = {"inner/a.txt", "inner/.gitignore", "inner/more/b.txt", "inner/link"}
    assert {change.path for change in snapshots.changes(before, middle)} == names
    (Path(inner.top) / "a.txt").write_text("two\n")
    (Path(inner.top) / "link").unlink()
    after = snapshots.snapshot()
    found = {(change.kind, change.path) for change in snapshots.changes(middle, after)}
    assert found == {("modified", "inner/a.txt"), ("deleted", "inner/link")}
    assert snapshots.snapshot() == after


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200 and not name.lower().startswith(".git")
)


@given(st.lists(names, min_size=1, max_size=4, unique=True))
def test_any_file_name_survives(tmp_path_factory: pytest.TempPathFactory, chosen: list[str]) -> None:
    base = tmp_path_factory.mktemp("names")
    root = base / "root"
    root.mkdir()
    snapshots = Snapshots.create(str(base / "snapshots"), str(root))
    before = snapshots.snapshot()
    for name in chosen:
        (root / name).write_text(name)
    found = snapshots.changes(before, snapshots.snapshot())
    assert sorted(change.path for change in found) == sorted(os.fsdecode(os.fsencode(name)) for name in chosen)


def test_a_name_that_could_be_taken_for_something_else_is_quoted() -> None:
    assert quoted("a b.txt") == "a b.txt" and quoted("näme") == "näme"
    assert quoted('two\nlines\t"\\') == r'"two\nlines\t\"\\"'
    assert quoted("\x1b[31m") == r'"\033[31m"' and quoted("a -> b") == '"a -> b"'
