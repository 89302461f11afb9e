"""Changes are merged three-way, completely or not at all."""

import os
import resource
import shutil
import stat
from pathlib import Path

import pytest

from treadle.errors import StorageError
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import take
from treadle.workspace.merge import Merged, plan_back
from treadle.workspace.store import Store

LINES = [f"line {number}\n" for number in range(20)]


class Case:
    """A source, a copy of it that the run changed, and the store with both trees."""

    def __init__(self, base: Path) -> None:
        self.source, self.copy = base / "source", base / "copy"
        self.source.mkdir()
        for name, text in {"a.txt": "".join(LINES), "b.txt": "bee\n", "d/e.txt": "eee\n"}.items():
            self.write(self.source, name, text)
        (self.source / "pic.bin").write_bytes(b"\0\1\2")
        shutil.copytree(self.source, self.copy, symlinks=True)
        self.store = Store.make(str(base / "store"))
        self.before = self.taken()

    def taken(self) -> str:
        return take(self.store, str(self.copy)).tree

    def write(self, root: Path, name: str, text: str) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def merge(self) -> Merged:
        return self.bring(self.taken())

    def bring(self, after: str) -> Merged:
        journal = self.source.parent / "apply.json"
        done = plan_back(self.store, self.before, after, str(self.source)).carry_out(str(journal))
        assert not journal.exists()
        return done


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def changed(place: int, text: str) -> str:
    return "".join([*LINES[:place], text, *LINES[place + 1 :]])


def test_every_kind_of_change_comes_back(case: Case) -> None:
    (case.copy / "a.txt").write_text(changed(3, "three\n"))
    (case.copy / "b.txt").unlink()
    (case.copy / "pic.bin").write_bytes(b"\0\3")
    case.write(case.copy, "new/deep.sh", "#!/bin/sh\n")
    (case.copy / "new/deep.sh").chmod(0o755)
    (case.copy / "link").symlink_to("a.txt")
    shutil.rmtree(case.copy / "d")
    done = case.merge()
    assert done.conflicts == ()
    assert set(done.written) == {"a.txt", "pic.bin", "new/deep.sh", "link"}
    assert set(done.deleted) == {"b.txt", "d/e.txt"}
    assert (case.source / "a.txt").read_text() == changed(3, "three\n")
    assert os.access(case.source / "new/deep.sh", os.X_OK) and os.readlink(case.source / "link") == "a.txt"
    assert not (case.source / "b.txt").exists() and not (case.source / "d").exists()
    assert case.merge() == Merged()


def test_edits_in_different_lines_are_joined(case: Case) -> None:
    (case.copy / "a.txt").write_text(changed(3, "theirs\n"))
    (case.source / "a.txt").write_text(changed(15, "ours\n"))
    assert case.merge().conflicts == ()
    text = (case.source / "a.txt").read_text()
    assert "theirs\n" in text and "ours\n" in text


def test_one_conflict_leaves_everything_as_it_was(case: Case) -> None:
    (case.copy / "a.txt").write_text(changed(3, "theirs\n"))
    (case.copy / "b.txt").write_text("better\n")
    (case.source / "a.txt").write_text(changed(3, "ours\n"))
    (conflict,) = case.merge().conflicts
    assert conflict.path == "a.txt" and conflict.reason.endswith("here, in the same lines, in 1 place")
    assert (case.source / "b.txt").read_text() == "bee\n"
    assert (case.source / "a.txt").read_text() == changed(3, "ours\n")


@pytest.mark.parametrize(
    ("theirs", "ours", "reason"),
    [
        ("delete b.txt", "edit b.txt", "deleted by the run, changed here"),
        ("edit b.txt", "delete b.txt", "changed by the run, deleted here"),
        ("add n.txt", "edit n.txt", "another file of that name"),
        ("add n.txt", "mkdir n.txt", "a directory of that name"),
        ("binary pic.bin", "edit pic.bin", "binary"),
        ("rename a.txt", "delete a.txt", "not here any more"),
        ("rename a.txt", "edit renamed.txt", "but here is another file of that name"),
        ("add n.txt", "fifo n.txt", "cannot be read here: not an ordinary file"),
        ("edit b.txt", "link b.txt", "a symbolic link was changed on both sides"),
        ("link b.txt", "edit b.txt", "a symbolic link was changed on both sides"),
        ("add d/out/x.txt", "linkout d/out", "d/out is a symbolic link here"),
        ("add n.txt", "filled n.txt", "here is a directory of that name"),
        ("add out/x.txt", "linkout out", "symbolic link"),
    ],
)
def test_what_cannot_be_joined_is_named_with_the_reason(case: Case, theirs: str, ours: str, reason: str) -> None:
    for what, root in ((theirs, case.copy), (ours, case.source)):
        verb, name = what.split()
        path = root / name
        match verb:
            case "delete":
                path.unlink()
            case "edit" | "add":
                case.write(root, name, f"{verb} in {root.name}\n")
            case "binary":
                path.write_bytes(b"\0\7")
            case "mkdir":
                path.mkdir()
            case "rename":
                path.rename(root / "renamed.txt")
            case "linkout":
                path.symlink_to("/tmp")
            case "link":
                path.unlink()
                path.symlink_to(root.name)
            case "fifo":
                os.mkfifo(path)
            case "filled":
                path.mkdir()
                (path / "out").symlink_to("/tmp")
    (conflict,) = case.merge().conflicts
    assert reason in conflict.reason


def test_no_change_goes_through_a_link_that_an_earlier_run_made_to_git(case: Case, tmp_path: Path) -> None:
    hooks = case.source / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (case.copy / "x").symlink_to(case.source / ".git")
    assert case.merge().written == ("x",)
    case.before = case.taken()
    (case.copy / "x").unlink()
    case.write(case.copy, "x/hooks/post-checkout", "evil\n")
    (case.copy / "x2").symlink_to("x")
    assert case.merge().conflicts == ()  # the run deleted the link, so there is a directory now
    assert os.listdir(hooks) == [] and (case.source / "x" / "hooks" / "post-checkout").is_file()


@pytest.mark.parametrize("to", [".git", "d", "."])
def test_a_link_on_the_way_is_not_followed_even_to_what_is_inside(case: Case, to: str) -> None:
    (case.source / ".git" / "hooks").mkdir(parents=True)
    (case.source / "x").symlink_to(case.source / to)
    case.write(case.copy, "x/hooks/post-checkout", "evil\n")
    case.write(case.copy, "b.txt", "also\n")
    (conflict,) = case.merge().conflicts
    assert conflict.path == "x/hooks/post-checkout" and "x is a symbolic link" in conflict.reason
    assert not any(case.source.rglob("post-checkout")) and (case.source / "b.txt").read_text() == "bee\n"


def test_a_rename_meets_an_edit(case: Case) -> None:
    (case.copy / "a.txt").rename(case.copy / "z.txt")
    (case.source / "a.txt").write_text(changed(9, "ours\n"))
    assert case.merge().conflicts == ()
    assert "ours\n" in (case.source / "z.txt").read_text()
    assert not (case.source / "a.txt").exists()


def test_a_rename_that_is_here_already_wholly_or_in_part(case: Case) -> None:
    (case.copy / "a.txt").rename(case.copy / "z.txt")
    shutil.copy(case.source / "a.txt", case.source / "z.txt")
    done = case.merge()
    assert (done.conflicts, done.deleted) == ((), ("a.txt",)) and not (case.source / "a.txt").exists()
    assert case.merge() == Merged()


def test_what_only_one_side_changed_is_kept_in_text_and_permissions(case: Case) -> None:
    (case.copy / "b.txt").chmod(0o755)
    (case.source / "b.txt").write_text("ours\n")
    (case.copy / "d" / "e.txt").write_text("theirs\n")
    (case.source / "d" / "e.txt").chmod(0o755)
    (case.copy / "a.txt").write_text("same\n")
    (case.copy / "a.txt").chmod(0o755)
    (case.source / "a.txt").write_text("same\n")
    assert case.merge().conflicts == ()
    found = {name: case.source / name for name in ("a.txt", "b.txt", "d/e.txt")}
    assert [path.read_text() for path in found.values()] == ["same\n", "ours\n", "theirs\n"]
    assert all(os.access(path, os.X_OK) for path in found.values())


def test_a_link_that_only_the_run_changed_is_changed_here(case: Case) -> None:
    for root in (case.source, case.copy):
        for name in ("one", "two"):
            (root / name).symlink_to("a.txt")
    case.before = case.taken()
    (case.copy / "one").unlink()
    (case.copy / "one").symlink_to("b.txt")
    (case.copy / "two").unlink()
    (case.copy / "two").write_text("now a file\n")
    assert case.merge().conflicts == () and os.readlink(case.source / "one") == "b.txt"
    assert stat.S_IMODE((case.source / "two").lstat().st_mode) == 0o644


def test_conflicts_in_a_file_are_counted_and_submodules_and_forbidden_paths_are_refused(case: Case) -> None:
    for root, word in ((case.copy, "theirs"), (case.source, "ours")):
        (root / "a.txt").write_text("".join([f"{word}\n", *LINES[1:15], f"{word}\n", *LINES[16:]]))
    (case.copy / "b.txt").rename(case.copy / "c.txt")
    files = case.store.files(case.taken())
    after = case.store.put_files({**files, "sub": TreeEntry(mode="160000", blob="1" * 40)})

    plan = plan_back(case.store, case.before, after, str(case.source), lambda deltas: {"b.txt": "is obeyed"})
    assert {each.path: each.reason for each in plan.merged.conflicts} == {
        "a.txt": "changed by the run and here, in the same lines, in 2 places",
        "c.txt": "b.txt is obeyed: look at the patch and change it yourself",
        "sub": "a submodule was changed, which cannot be merged",
    }


def test_a_file_takes_the_place_of_a_directory_that_the_run_emptied(case: Case) -> None:
    shutil.rmtree(case.copy / "d")
    (case.copy / "d").write_text("now a file\n")
    assert case.merge().conflicts == ()
    assert (case.source / "d").read_text() == "now a file\n"


def test_a_file_does_not_take_the_place_of_a_directory_that_holds_more(case: Case) -> None:
    shutil.rmtree(case.copy / "d")
    (case.copy / "d").write_text("now a file\n")
    for more in ("more.txt", "link"):
        place = case.source / "d" / more
        place.symlink_to(case.source) if more == "link" else place.write_text("mine\n")
        (conflict,) = case.merge().conflicts
        assert conflict.path == "d" and "directory" in conflict.reason
        assert (case.source / "d" / "e.txt").exists()
        place.unlink()
    assert case.merge().conflicts == ()


def test_who_may_read_a_file_stays_as_it_was(case: Case) -> None:
    (case.source / "b.txt").chmod(0o600)
    (case.copy / "b.txt").write_text("changed\n")
    (case.copy / "b.txt").chmod(0o755)
    assert case.merge().written == ("b.txt",)
    assert stat.S_IMODE((case.source / "b.txt").stat().st_mode) == 0o700


def test_a_disk_that_is_full_changes_nothing(case: Case) -> None:
    (case.copy / "a.txt").write_text("small\n")
    (case.copy / "b.txt").write_bytes(b"x" * 3_000_000)
    (case.copy / "d" / "e.txt").unlink()
    after = case.taken()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(StorageError):
            case.bring(after)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(os.listdir(case.source)) == ["a.txt", "b.txt", "d", "pic.bin"]
    assert (case.source / "a.txt").read_text() == "".join(LINES) and (case.source / "d" / "e.txt").exists()
