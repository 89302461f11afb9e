"""An attempt's working tree: the agent's own, and what comes out of it is read and hashed by us."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from treadle.errors import NotFound, WorkspaceError
from treadle.fleet.run import trees
from treadle.fleet.run.attempt import fault_of
from treadle.io.sandbox import methods
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import AWAY
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
    taker = trees.WorkTaker(tree, (".env",))
    here = Path(taker.write_tree(str(tmp_path / "check"), taker.files().tree))
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
    """A checkpoint once removed the ref of a result that was just being bundled."""
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
    other_branch = replace(spec, land="origin:other")
    with pytest.raises(remotes.RemoteAway) as away:
        trees.see_branch(user, other_branch)
    assert fault_of(None, away.value, None, "") == "ours" and away.value.code in AWAY, "it is tried again"
    (tmp_path / "away.git").rename(bare)
    with pytest.raises(WorkspaceError, match="has no branch or commit"):
        trees.see_branch(user, other_branch)


def test_without_a_repository_or_in_place_the_agent_works_where_the_files_are(repository: Path, tmp_path: Path) -> None:
    plain, work = tmp_path / "plain", str(tmp_path / "work")
    plain.mkdir()
    spec = Spec(id="one", task="x", root=str(plain))
    assert trees.prepare(spec, str(plain), work, work) == trees.WorkTree(root=str(plain))
    here = replace(spec, root=str(repository), in_place=True)
    assert trees.prepare(here, str(repository), work, work) == trees.WorkTree(root=str(repository))
    trees.settle(trees.WorkTree(root=str(repository)), None, "one", {}, counted=True)
    assert not os.path.exists(work) and (repository / "a.txt").exists()
    with pytest.raises(WorkspaceError, match=f"there is no directory {work} on this node") as refused:
        trees.prepare(spec, work, work, work)
    assert refused.value.hint == "choose a node that has it: --label"
    with pytest.raises(WorkspaceError, match="has no branch or commit 'nothing'") as empty:
        trees.prepare(replace(here, in_place=False, base="nothing"), str(repository), work, work)
    assert empty.value.hint == "did you mean main?"


def test_a_part_of_a_repository_is_worked_on_in_that_part(repository: Path, tmp_path: Path) -> None:
    part = repository / "part"
    part.mkdir()
    (part / "c.txt").write_text("one\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "part")
    (part / "note").write_text("mine\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "of-before").write_text("x")
    spec = Spec(id="one", task="x", root=str(part), bring=("note",))
    tree = trees.prepare(spec, str(part), str(tmp_path / "work"), str(tmp_path / "store"))
    assert (tree.root, tree.top, tree.source) == (str(tmp_path / "work/part"), str(tmp_path / "work"), str(repository))
    assert tree.start == git(repository, "rev-parse", "HEAD") and not (tmp_path / "work" / "of-before").exists()
    (Path(tree.root) / "c.txt").write_text("two\n")
    taker = trees.WorkTaker(tree, ("note",))
    assert taker.dirty() == {"part/c.txt"}, "what was brought is not the agent's work"
    assert (taker.origin.top, taker.origin.commit, taker.origin.inside) == (str(repository), tree.start, "part")
    here = Path(taker.write_tree(str(tmp_path / "check"), taker.files().tree))
    assert here == tmp_path / "check" / "part" and (here / "c.txt").read_text() == "two\n"
    assert (here / "note").read_text() == "mine\n" and (tmp_path / "check" / "a.txt").exists()


def test_work_that_does_not_count_is_kept_for_a_look_and_what_is_no_work_is_removed(
    repository: Path, tmp_path: Path
) -> None:
    tree = prepared(repository, tmp_path)
    taker, work = trees.WorkTaker(tree, ()), Path(tree.root)
    left = taken(taker)
    assert left == trees.Left(head=tree.start, commit=tree.start)
    assert taker.result(left) == ({"base": tree.start, "files": 0}, b"")
    (work / "a.txt").write_text("two\n")
    trees.settle(tree, taker, "one", {}, counted=False)
    assert work.exists() and Path(tree.store).exists()
    (work / "a.txt").write_text("one\n")
    git(work, "commit", "-q", "--allow-empty", "-m", "mine")
    trees.settle(tree, taker, "one", {"commit": tree.start}, counted=False)
    assert work.exists(), "it has committed something"
    git(work, "reset", "-q", "--hard", tree.start)
    trees.settle(tree, taker, "one", {"commit": tree.start}, counted=False)
    assert not work.exists() and not Path(tree.store).exists()
    assert git(repository, "for-each-ref", "--format=%(refname)", "refs/treadle", "refs/heads/treadle") == ""


def test_a_result_says_what_changed_and_a_branch_of_before_goes_forward(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = prepared(repository, tmp_path)
    taker, work = trees.WorkTaker(tree, ()), Path(tree.root)
    git(repository, "branch", "treadle/one", tree.start)
    (work / "a.txt").rename(work / "c.txt")
    (work / "b.txt").write_text("two\n")
    left = taken(taker)
    told, patch = taker.result(left)
    assert (told["base"], told["commit"], told["files"]) == (tree.start, left.commit, 2)
    assert told["changed"] == ["a.txt", "b.txt", "c.txt"] and "odd" not in told
    assert told["stat"] == "2 files changed, 1 insertion(+), 1 deletion(-)" and b"rename to c.txt" in patch
    assert taker.store.tree_of(left.commit) == told["tree"]
    monkeypatch.setattr(trees, "CHANGED_MAX", 2)
    monkeypatch.setattr(trees, "PATCH_MAX", 10)
    told, cut = taker.result(left)
    assert told["changed"] == ["a.txt", "b.txt"] and cut == patch[:10]
    trees.settle(tree, taker, "one", told, counted=True)
    assert git(repository, "rev-parse", "treadle/one") == left.commit
    assert git(repository, "log", "-1", "--format=%an %ae %cn", "treadle/one") == "treadle treadle@localhost treadle"
    assert git(repository, "reflog", "-1", "--format=%gs", "treadle/one") == "treadle: the order is done"


def test_the_work_begins_where_the_order_says(repository: Path) -> None:
    spec, user = Spec(id="one", task="x", root=str(repository)), checkouts.around(str(repository))
    begins = [trees.beginning(replace(spec, **each)) for each in ({}, {"land": "main"}, {"land": "main", "base": "c"})]
    assert begins == ["HEAD", "refs/heads/main", "c"]
    for fields in ({}, {"land": "main"}, {"land": "gone:main", "base": "c"}, {"land": "gone:main", "in_place": True}):
        assert trees.see_branch(user, replace(spec, **fields)) == ""
    with pytest.raises(NotFound, match="has no remote 'gone'"):
        trees.see_branch(user, replace(spec, land="gone:main"))


def test_what_is_checked_out_is_read_as_data(tmp_path: Path) -> None:
    place = tmp_path / ".git"
    (place / "refs" / "heads").mkdir(parents=True)
    assert trees._head_mark(str(tmp_path)) == ""
    for head, mark in (
        ("c0ffee\n", "c0ffee"),
        ("ref: refs/heads/loose\n", "refs/heads/loose c1"),
        ("ref: refs/heads/packed\n", "refs/heads/packed c2 refs/heads/packed"),
        ("ref: refs/../../loose\n", "ref: refs/../../loose"),
        ("ref: /etc/passwd\n", "ref: /etc/passwd"),
    ):
        (place / "HEAD").write_text(head)
        (place / "refs" / "heads" / "loose").write_text("c1\n")
        (place / "packed-refs").write_text("c2 refs/heads/packed\n")
        assert trees._head_mark(str(tmp_path)) == mark
    (place / "packed-refs").unlink()
    (place / "HEAD").write_text("ref: refs/heads/packed\n")
    assert trees._head_mark(str(tmp_path)) == ""


def test_what_an_attempt_left_is_removed_also_when_its_repository_is_gone(repository: Path, tmp_path: Path) -> None:
    tree = prepared(repository, tmp_path)
    for source, kept in (("/nowhere", True), (str(repository), False)):
        for name in ("work", "store"):
            (tmp_path / name).mkdir(exist_ok=True)
        trees.remove_leftovers(str(tmp_path), replace(tree, source=source))
        assert not (tmp_path / "work").exists() and not (tmp_path / "store").exists()
        assert bool(git(repository, "for-each-ref", "refs/treadle")) is kept
