"""An attempt's working tree: the agent's own, and what comes out of it is read and hashed by us."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from treadle.errors import WorkspaceError
from treadle.fleet.run import trees
from treadle.io.sandbox import methods
from treadle.wire.fleet.orders import Spec
from treadle.workspace import checkouts, remotes

confined = pytest.mark.skipif(methods.available().method is None, reason="commits come out through a sandbox")


def prepared(repository: Path, tmp_path: Path, **fields: object) -> trees.WorkTree:
    spec = Spec(id="one", task="x", root=str(repository), base=git(repository, "rev-parse", "HEAD"), **fields)  # type: ignore[arg-type]
    return trees.prepare(spec, str(repository), str(tmp_path / "work"), str(tmp_path / "store"))


def taken(taker: trees.WorkTaker) -> trees.Left:
    return taker.commit(asyncio.run(taker.head()), "the work")


def test_a_tree_has_the_files_and_a_git_of_its_own_and_the_users_repository_is_untouched(
    repository: Path, tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*") if path.is_file()}
    tree = prepared(repository, tmp_path, bring=(".env",))
    [kept] = (repository / ".git" / "refs" / "treadle" / "base").glob("*/*")
    assert kept.read_text().strip() == tree.start, "what the order begins with survives the user's git gc"
    before[kept] = kept.stat().st_mtime_ns
    work = Path(tree.root)
    assert (work / "a.txt").read_text() == "one\n" and (work / ".env").exists()
    assert git(work, "status", "--porcelain") == "" and git(work, "log", "--format=%s") == "start"
    assert git(work, "rev-parse", "--git-common-dir") == ".git"
    (work / "a.txt").write_text("two\n")
    taker = trees.WorkTaker(tree, (".env",))
    left = taken(taker)
    told, patch = taker.result(left)
    assert told["changed"] == ["a.txt"] and b"+two" in patch
    after = {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*") if path.is_file()}
    assert after == before
    trees.settle(tree, taker, "o1", told, counted=True)
    assert git(repository, "for-each-ref", "--format=%(refname)", "refs/treadle") == ""


def test_a_check_sees_the_result_and_what_the_user_brings_and_nothing_else_that_the_agent_left(
    repository: Path, tmp_path: Path
) -> None:
    tree = prepared(repository, tmp_path, bring=(".env",))
    work = Path(tree.root)
    (work / "new.txt").write_text("new\n")
    (work / ".env").unlink()
    (work / ".env").write_text("KEY=agent\n")
    (work / ".git" / "config").write_text("[core]\n\tfsmonitor = evil\n")
    here = Path(trees.WorkTaker(tree, (".env",)).write_result(str(tmp_path / "check")))
    assert sorted(path.name for path in here.iterdir()) == [".env", ".git", ".gitignore", "a.txt", "b.txt", "new.txt"]
    assert (here / ".env").read_text() == "KEY=1\n" and git(here, "status", "--porcelain") == "?? new.txt"


@confined
def test_the_agents_own_commits_come_out_and_the_rest_is_on_top(repository: Path, tmp_path: Path) -> None:
    tree = prepared(repository, tmp_path)
    work = Path(tree.root)
    git(work, "switch", "-qc", "mine")
    (work / "a.txt").write_text("two\n")
    git(work, "commit", "-qam", "by the agent")
    (work / "b.txt").write_text("two\n")
    taker = trees.WorkTaker(tree, ())
    left = taken(taker)
    trees.settle(tree, taker, "one", {"commit": left.commit}, counted=True)
    log = git(repository, "log", "--format=%s", "treadle/one").splitlines()
    assert log == ["the work", "by the agent", "start"] and not work.exists() and not Path(tree.store).exists()
    assert git(repository, "show", "treadle/one:b.txt") == "two"


@confined
@pytest.mark.parametrize("how", ["forged", "orphan", "broken", "back"])
def test_commits_that_are_not_what_they_seem_do_not_come_out_but_the_files_do(
    repository: Path, tmp_path: Path, how: str
) -> None:
    (repository / "b.txt").write_text("second\n")
    git(repository, "commit", "-qam", "second")
    tree = prepared(repository, tmp_path)
    work = Path(tree.root)
    (work / "a.txt").write_text("two\n")
    if how == "orphan":
        git(work, "checkout", "-q", "--orphan", "new")
        git(work, "commit", "-qam", "no ancestors")
    elif how == "back":
        git(work, "reset", "-q", "--soft", "HEAD~1")
    elif how == "broken":
        (work / ".git/HEAD").write_text("ref: refs/heads/../../../../etc/passwd\n")
    else:
        git(work, "commit", "-qam", "forged")
        blob = git(work, "rev-parse", "HEAD:a.txt")
        other = subprocess.run(
            ["git", "hash-object", "-w", "--stdin"], cwd=work, input=b"evil\n", check=True, capture_output=True
        )
        evil = other.stdout.decode().strip()
        place = work / ".git/objects" / blob[:2] / blob[2:]
        place.chmod(0o600)
        place.write_bytes((work / ".git/objects" / evil[:2] / evil[2:]).read_bytes())
    taker = trees.WorkTaker(tree, ())
    left = taken(taker)
    assert left.head == tree.start
    told, patch = taker.result(left)
    assert told["changed"] == ["a.txt"] and b"+two" in patch and b"evil" not in patch


def test_no_program_that_the_tree_names_is_run_by_us(repository: Path, tmp_path: Path) -> None:
    tree = prepared(repository, tmp_path)
    work, canary = Path(tree.root), tmp_path / "canary"
    evil = f"touch {canary}"
    (work / ".gitattributes").write_text("* filter=ev diff=ev merge=ev\n")
    for key in ("filter.ev.clean", "filter.ev.smudge", "filter.ev.process", "core.fsmonitor", "diff.ev.textconv"):
        git(work, "config", key, evil)
    git(work, "config", "core.hooksPath", str(work))
    (work / "reference-transaction").write_text(f"#!/bin/sh\n{evil}\n")
    (work / "reference-transaction").chmod(0o755)
    nested = work / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    git(nested, "config", "filter.ev.clean", evil)
    (nested / ".gitattributes").write_text("* filter=ev\n")
    (nested / "file").write_text("x")
    taker = trees.WorkTaker(tree, ())
    taker.dirty()
    told, _ = taker.result(taken(taker))
    trees.settle(tree, taker, "one", told, counted=True)
    assert not canary.exists() and "nested/file" in told["changed"]  # type: ignore[operator]
    assert any("git directory" in note for note in told["odd"])  # type: ignore[attr-defined]


def test_taking_again_and_again_while_others_take_gives_each_its_own_commit(repository: Path, tmp_path: Path) -> None:
    """In release 0.1 a checkpoint removed the ref of a result that was just being bundled."""
    from concurrent.futures import ThreadPoolExecutor

    tree = prepared(repository, tmp_path)
    taker = trees.WorkTaker(tree, ())
    (Path(tree.root) / "a.txt").write_text("two\n")
    left = taken(taker)

    def bundled(number: int) -> bytes:
        commit = left.commit if number % 2 else taker.commit(tree.start, f"checkpoint {number}").commit
        assert commit.encode() in taker.bundle(commit)
        return taker.bundle(left.commit)

    with ThreadPoolExecutor(8) as pool:
        assert all(left.commit.encode() in data for data in pool.map(bundled, range(16)))


def test_a_tree_is_restored_elsewhere_with_what_was_committed_and_what_was_not(
    repository: Path, tmp_path: Path
) -> None:
    tree = prepared(repository, tmp_path)
    work = Path(tree.root)
    (work / "a.txt").write_text("two\n")
    taker = trees.WorkTaker(tree, ())
    head = taken(taker).commit
    (work / "new.txt").write_text("new\n")
    left = taker.commit(head, "cut off")
    spec = Spec(id="one", task="x", root=str(repository), base=tree.start)
    bundle = taker.bundle(left.commit)
    place = tmp_path / "elsewhere"
    again = trees.prepare(spec, str(repository), str(place), str(tmp_path / "store2"), left, bundle)
    assert again.start == tree.start and git(place, "rev-parse", "HEAD") == head
    assert git(place, "status", "--porcelain") == "?? new.txt" and (place / "a.txt").read_text() == "two\n"


def test_a_branch_with_something_else_on_it_is_left_alone(repository: Path, tmp_path: Path) -> None:
    tree = prepared(repository, tmp_path)
    (Path(tree.root) / "a.txt").write_text("two\n")
    taker = trees.WorkTaker(tree, ())
    left = taken(taker)
    git(repository, "checkout", "-qb", "treadle/one")
    git(repository, "commit", "-q", "--allow-empty", "-m", "a person's")
    mine = git(repository, "rev-parse", "HEAD")
    trees.settle(tree, taker, "one", {"commit": left.commit}, counted=True)
    assert git(repository, "rev-parse", "treadle/one") == mine


def test_a_kept_worktree_of_the_release_before_is_removed_with_its_entry(repository: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    git(repository, "worktree", "add", "-q", "--detach", str(directory / "work"))
    old = trees.WorkTree(root=str(directory / "work"), top=str(directory / "work"), source=str(repository))
    trees.remove_leftovers(str(directory), old)
    assert not (directory / "work").exists() and len(git(repository, "worktree", "list").splitlines()) == 1
    assert os.listdir(directory) == []


def test_work_that_is_to_land_behind_a_remote_starts_from_where_the_branch_is_now(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotes, "PAUSE", 0.01)
    bare, other = tmp_path / "shared.git", tmp_path / "other"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    git(repository, "remote", "add", "origin", str(bare))
    spec = Spec(id="one", task="x", root=str(repository), land="origin:main")
    user = checkouts.around(str(repository))
    assert trees.see_branch(user, spec) == ""
    git(tmp_path, "clone", "-q", str(bare), str(other))
    (other / "theirs.txt").write_text("x\n")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "a colleague's")
    git(other, "push", "-q", "origin", "main")
    assert trees.see_branch(user, spec) == ""
    tree = trees.prepare(spec, str(repository), str(tmp_path / "work"), str(tmp_path / "store"))
    assert tree.start == git(bare, "rev-parse", "main") and (Path(tree.root) / "theirs.txt").exists()
    bare.rename(tmp_path / "away.git")
    assert "starts from origin/main as it was last seen, because origin cannot be read" in trees.see_branch(user, spec)
    with pytest.raises(WorkspaceError, match="has no commit"):
        trees.see_branch(user, replace(spec, land="origin:other"))
