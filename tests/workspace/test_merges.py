"""Merges beside a branch: as the branch's attributes say, with its submodules, and the same commit every time."""

import subprocess
from pathlib import Path

import pytest

from tests.fleet.repositories import git
from treadle.workspace import branch_merges, checkouts
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import write_files
from treadle.workspace.store import Store, lending
from treadle.workspace.submodules import write_submodules
from treadle.workspace.user_repository import UserRepository


@pytest.fixture
def user(tmp_path: Path) -> UserRepository:
    place = tmp_path / "repo"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    (place / "deep").mkdir()
    for name in ("list.txt", "deep/list.txt", "other.txt"):
        (place / name).write_text("one\n")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "start")
    return checkouts.around(str(place))


def branch(user: UserRepository, name: str, text: str) -> str:
    """A commit that appends to every list, on a branch of its own."""
    top = Path(user.top)
    git(top, "checkout", "-q", "-b", name, "main")
    for path in ("list.txt", "deep/list.txt", "other.txt"):
        (top / path).write_text(f"one\n{text}\n")
    git(top, "commit", "-qam", name)
    made = git(top, "rev-parse", "HEAD")
    git(top, "checkout", "-q", "main")
    return made


def store_of(user: UserRepository, place: Path) -> Store:
    return Store.make(str(place), lenders=user.object_places())


def test_the_branchs_own_attributes_say_how_to_merge_at_every_depth_and_are_forgotten_with_it(
    user: UserRepository, tmp_path: Path
) -> None:
    store, top = store_of(user, tmp_path / "store"), Path(user.top)
    a, b = branch(user, "a", "a"), branch(user, "b", "b")
    plain = git(top, "rev-parse", "main")
    (top / "deep" / ".gitattributes").write_text("list.txt merge=union filter=evil\n# list.txt merge=ours\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "attributes")
    branch_merges.set_attributes(store, git(top, "rev-parse", "main"))
    found = store.merge(a, b)
    assert set(found.conflicts) == {"list.txt", "other.txt"}
    assert "filter=evil" not in Path(store.directory, "info", "attributes").read_text()
    branch_merges.set_attributes(store, plain)
    assert set(store.merge(a, b).conflicts) == {"list.txt", "deep/list.txt", "other.txt"}
    assert set(branch_merges.kinds(store.merge(a, b).messages).values()) == {"content"}


def test_what_is_built_twice_is_the_same_commit(user: UserRepository, tmp_path: Path) -> None:
    main, a = git(Path(user.top), "rev-parse", "main"), branch(user, "a", "a")
    made = set()
    for number in range(2):
        store = store_of(user, tmp_path / f"store{number}")
        tree = store.merge(main, a).tree
        made.add(store.commit(tree, [main, a], "merged", who=branch_merges.fixed_identity(store, [main, a])))
    assert len(made) == 1


def test_a_merged_commit_is_checked_out_with_its_history_and_runs_no_filter(
    user: UserRepository, tmp_path: Path
) -> None:
    top = Path(user.top)
    canary = tmp_path / "canary"
    git(top, "config", "filter.evil.smudge", f"touch {canary}; cat")
    (top / ".gitattributes").write_text("*.txt filter=evil\n")
    git(top, "add", ".gitattributes")
    git(top, "commit", "-qm", "attributes")
    main, a = git(top, "rev-parse", "main"), branch(user, "a", "a")
    canary.unlink(missing_ok=True)
    store, here = store_of(user, tmp_path / "store"), tmp_path / "here"
    merged = store.commit(
        store.merge(main, a).tree, [main, a], "merged", who=branch_merges.fixed_identity(store, [main, a])
    )
    branch_merges.check_out(store, user, "refs/heads/main", merged, main, str(here))
    assert (here / "list.txt").read_text() == "one\na\n" and not canary.exists()
    log = subprocess.run(["git", "log", "--format=%s"], cwd=here, capture_output=True, text=True, check=True).stdout
    assert log.splitlines()[0] == "merged" and "start" in log
    assert git(top, "rev-parse", "main") == main, "the user's branch is where it was"


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 12\n"


def changed(user: UserRepository, name: str, *, files: dict[str, str] | None = None, module: str = "") -> str:
    """A commit on the branch as it is, with these files and the submodule at this commit."""
    top = Path(user.top)
    git(top, "checkout", "-q", "-b", name, "main")
    for path, text in (files or {}).items():
        (top / path).write_text(text)
    git(top, "add", "-A")
    if module:
        git(top, "update-index", "--add", "--cacheinfo", f"160000,{module},module")
    git(top, "commit", "-qm", name)
    made = git(top, "rev-parse", "HEAD")
    git(top, "checkout", "-q", "main")
    return made


def test_a_driver_that_would_run_a_program_is_not_used_whatever_the_attributes_say(
    user: UserRepository, tmp_path: Path
) -> None:
    top, canary = Path(user.top), tmp_path / "canary"
    git(top, "config", "merge.mine.driver", f"touch {canary}; true")
    git(top, "config", "merge.lfs.driver", f"touch {canary}; true")
    (top / ".gitattributes").write_text("list.txt merge=mine\nother.txt merge=lfs filter=lfs diff=lfs -text\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "attributes")
    a, b, store = branch(user, "a", "a"), branch(user, "b", "b"), store_of(user, tmp_path / "store")
    branch_merges.set_attributes(store, git(top, "rev-parse", "main"))
    assert set(store.merge(a, b).conflicts) == {"list.txt", "deep/list.txt", "other.txt"} and not canary.exists()


def test_lfs_pointers_merge_as_text_and_conflict_when_both_sides_changed_one(
    user: UserRepository, tmp_path: Path
) -> None:
    top = Path(user.top)
    (top / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    for name in ("one.bin", "two.bin"):
        (top / name).write_text(POINTER.format(digest="0" * 64))
    git(top, "add", "-A")
    git(top, "commit", "-qm", "large files")
    one = changed(user, "one", files={"one.bin": POINTER.format(digest="1" * 64)})
    two = changed(user, "two", files={"two.bin": POINTER.format(digest="2" * 64)})
    other = changed(user, "other", files={"one.bin": POINTER.format(digest="3" * 64)})
    store = store_of(user, tmp_path / "store")
    branch_merges.set_attributes(store, git(top, "rev-parse", "main"))
    assert store.merge(one, two).conflicts == () and store.merge(one, other).conflicts == ("one.bin",)
    merged = store.commit(
        store.merge(one, two).tree, [one, two], "merged", who=branch_merges.fixed_identity(store, [one, two])
    )
    here = tmp_path / "here"
    branch_merges.check_out(store, user, "refs/heads/main", merged, one, str(here))
    assert (here / "one.bin").read_text() == POINTER.format(digest="1" * 64), "a check has the pointer: setup fetches"


def test_a_submodule_that_one_side_moved_is_taken_and_one_that_both_moved_conflicts(
    user: UserRepository, tmp_path: Path
) -> None:
    top = Path(user.top)
    git(top, "checkout", "-q", "main")
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git(top, "commit", "-qm", "a submodule")
    one, two = changed(user, "one", module="2" * 40), changed(user, "two", module="3" * 40)
    plain = changed(user, "plain", files={"new.txt": "x\n"}, module="1" * 40)
    store = store_of(user, tmp_path / "store")
    taken = store.merge(one, plain)
    assert taken.conflicts == () and store.borrow_tree(taken.tree)[1]["module"].blob == "2" * 40
    found = store.merge(one, two)
    assert found.conflicts == ("module",) and branch_merges.kinds(found.messages)["module"].startswith("submodule")
    here = tmp_path / "here"
    branch_merges.check_out(store, user, "refs/heads/main", one, one, str(here))
    assert list((here / "module").iterdir()) == [], "a check has it empty: setup fetches"


def test_a_resolution_that_git_remembers_is_not_replayed(user: UserRepository, tmp_path: Path) -> None:
    top = Path(user.top)
    git(top, "config", "rerere.enabled", "true")
    git(top, "config", "rerere.autoUpdate", "true")
    a, b = branch(user, "a", "a"), branch(user, "b", "b")
    git(top, "checkout", "-q", "-b", "by-hand", a)
    with pytest.raises(subprocess.CalledProcessError):
        git(top, "merge", "-q", b)
    for name in ("list.txt", "deep/list.txt", "other.txt"):
        (top / name).write_text("one\nboth\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "resolved")
    git(top, "checkout", "-q", "main")
    assert list((top / ".git" / "rr-cache").iterdir()), "git has it"
    assert set(store_of(user, tmp_path / "store").merge(a, b).conflicts) == {"list.txt", "deep/list.txt", "other.txt"}


class Branch:
    """Commits made of whole sets of files, each with its parent."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def commit(self, files: dict[str, str], *parents: str) -> str:
        entries = {
            path: TreeEntry(mode="100644", blob=self.store.put("blob", text.encode())) for path, text in files.items()
        }
        return self.store.loose_commit(self.store.put_files(entries), parents)

    def unstated(self, before: str, merged: str, base: str, work: str) -> list[str]:
        trees = self.store.tree_of(before), self.store.tree_of(merged)
        return branch_merges.unstated(self.store, *trees, base, work)


def test_what_a_merge_changes_and_the_work_did_not_is_unstated(store: Store) -> None:
    long = "".join(f"{number}\n" for number in range(30))
    made = Branch(store)
    base = made.commit({"a": "1", "b": "1", "c": long})
    work = made.commit({"a": "2", "b": "1", "c": long + "more\n", "new": "n"}, base)
    tip = made.commit({"a": "1", "b": "2", "moved": long}, base)
    right = made.commit({"a": "2", "b": "2", "moved": long + "more\n", "new": "n"}, tip, work)
    assert made.unstated(tip, right, base, work) == [], "what the branch has renamed is changed under its new name"
    dropped = made.commit({"a": "2", "b": "1", "moved": long + "more\n", "new": "n"}, tip, work)
    assert made.unstated(tip, dropped, base, work) == ["b"]
    both = made.commit({"a": "2", "b": "1", "moved": long, "extra": "x", "new": "n"}, tip, work)
    assert made.unstated(tip, both, base, work) == ["b", "extra"]
    copied = made.commit({"a": "2", "b": "2", "moved": long, "elsewhere": "n", "new": "n"}, tip, work)
    assert made.unstated(tip, copied, base, work) == [], "a content of the work's own"


LOCAL = ("-c", "protocol.file.allow=always", "submodule", "--quiet")


def made(place: Path, files: dict[str, str], *submodules: Path) -> Path:
    git(place.parent, "init", "-q", "-b", "main", str(place))
    for name, text in files.items():
        (place / name).write_text(text)
    for each in submodules:
        git(place, *LOCAL, "add", str(each), each.name)
    git(place, "add", "-A")
    git(place, "commit", "-qm", "start")
    return place


def written(top: Path, here: Path, **more: int) -> dict[str, str]:
    user = UserRepository.at(str(top))
    assert user is not None
    store = Store.make(str(here.parent / "store"), **lending(user))
    _, files = store.borrow_tree(git(top, "rev-parse", "HEAD"))
    write_files(store, files, str(here))
    return write_submodules(user, files, str(here), **more)


def test_submodules_of_submodules_are_written_as_the_commits_name_them(tmp_path: Path) -> None:
    deep = made(tmp_path / "deep", {"deep.txt": "deep\n"})
    lib = made(tmp_path / "lib", {"lib.txt": "lib\n"}, deep)
    top = made(tmp_path / "top", {"top.txt": "top\n"}, lib)
    git(top, *LOCAL, "update", "--init", "--recursive")
    (top / "lib" / "lib.txt").write_text("not committed\n")
    here = tmp_path / "here"
    assert written(top, here) == {}
    assert (here / "lib" / "lib.txt").read_text() == "lib\n"
    assert (here / "lib" / "deep" / "deep.txt").read_text() == "deep\n"
    assert not list(here.rglob(".git"))
    (tmp_path / "shallow").mkdir()
    at = git(lib, "rev-parse", "HEAD:deep")
    assert written(top, tmp_path / "shallow" / "here", depth=1) == {"lib/deep": at}
    assert (tmp_path / "shallow" / "here" / "lib" / "lib.txt").exists()


def test_what_the_checkout_has_not_or_what_is_no_commit_stays_empty_and_is_named(tmp_path: Path) -> None:
    lib = made(tmp_path / "lib", {"lib.txt": "lib\n"})
    top = made(tmp_path / "top", {"top.txt": "top\n"}, lib)
    blob = git(lib, "rev-parse", "HEAD:lib.txt")
    for name, commit in (("lib", blob), ("nowhere", "1" * 40)):
        git(top, "update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")
    git(top, "commit", "-qm", "moved")
    here = tmp_path / "here"
    assert written(top, here) == {"lib": blob, "nowhere": "1" * 40}
    assert list((here / "lib").iterdir()) == list((here / "nowhere").iterdir()) == []
