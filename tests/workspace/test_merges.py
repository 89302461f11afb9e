"""Merges beside a branch: as the branch's attributes say, and the same commit every time."""

import subprocess
from pathlib import Path

import pytest

from tests.fleet.repositories import git
from treadle.workspace import checkouts, merges
from treadle.workspace.store import Store
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
    merges.set_attributes(store, git(top, "rev-parse", "main"))
    found = store.merge(a, b)
    assert set(found.conflicts) == {"list.txt", "other.txt"}
    assert "filter=evil" not in Path(store.directory, "info", "attributes").read_text()
    merges.set_attributes(store, plain)
    assert set(store.merge(a, b).conflicts) == {"list.txt", "deep/list.txt", "other.txt"}
    assert set(merges.kinds(store.merge(a, b).messages).values()) == {"content"}


def test_what_is_built_twice_is_the_same_commit(user: UserRepository, tmp_path: Path) -> None:
    main, a = git(Path(user.top), "rev-parse", "main"), branch(user, "a", "a")
    made = set()
    for number in range(2):
        store = store_of(user, tmp_path / f"store{number}")
        tree = store.merge(main, a).tree
        made.add(store.commit(tree, [main, a], "merged", who=merges.fixed_identity(store, [main, a])))
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
    merged = store.commit(store.merge(main, a).tree, [main, a], "merged", who=merges.fixed_identity(store, [main, a]))
    merges.check_out(store, user, "refs/heads/main", merged, main, str(here))
    assert (here / "list.txt").read_text() == "one\na\n" and not canary.exists()
    log = subprocess.run(["git", "log", "--format=%s"], cwd=here, capture_output=True, text=True, check=True).stdout
    assert log.splitlines()[0] == "merged" and "start" in log
    assert git(top, "rev-parse", "main") == main, "the user's branch is where it was"
