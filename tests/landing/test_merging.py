"""`fleet merge` loses nothing: whatever happens meanwhile, the branch only ever moves to what was verified."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from tests.fleet.repositories import git
from tests.fleet.test_client import requested
from treadle.errors import WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.fleet.run import terminals
from treadle.io.sandbox import methods
from treadle.landing import merging, train
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import LandedRecord
from treadle.workspace import branch_moves, checkouts

HEAD = "refs/heads/main"


class Finished:
    """Finished orders of which only the results exist: a commit in a bundle, as a runner leaves them."""

    def __init__(self, bus: Bus, repository: Path, tmp_path: Path) -> None:
        self.bus, self.repository = bus, repository
        self.clone = tmp_path / "clone"
        git(tmp_path, "clone", "-q", str(repository), str(self.clone))
        self.base = git(repository, "rev-parse", "HEAD")

    async def order(self, name: str, files: dict[str, str | None], **fields: object) -> str:
        git(self.clone, "checkout", "-q", "--detach", self.base)
        for path, text in files.items():
            place = self.clone / path
            if text is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
        git(self.clone, "add", "-A")
        self.commit(name)
        commit = git(self.clone, "rev-parse", "HEAD")
        git(self.clone, "update-ref", "refs/made/one", commit)
        bundle = self.clone.parent / f"{name}.bundle"
        git(self.clone, "bundle", "create", "-q", str(bundle), "refs/made/one", f"^{self.base}")
        await streams.put(self.bus, f"bundle.{name}.1", bundle.read_bytes())
        result = {"commit": commit, "base": self.base, "bundle": f"bundle.{name}.1", "bundled": "refs/made/one"}
        spec = Spec(id=name, task=name, root=str(self.repository), base=self.base, **fields)  # type: ignore[arg-type]
        made = Order(id=name, state="done", changed=time.time(), title=name, result=result)
        await self.bus.put(f"spec.{name}", encode(spec), expect=0)
        await self.bus.put(f"order.{name}", encode(made), expect=0)
        return name

    def commit(self, name: str) -> None:
        git(self.clone, "commit", "-qm", name)


@pytest.fixture
def finished(bus: Bus, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finished:
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    return Finished(bus, repository, tmp_path)


def clean(repository: Path) -> bool:
    return git(repository, "status", "--porcelain") == "" and git(repository, "fsck", "--no-dangling") == ""


class WaitingVerify:
    """A check that says that it has begun, and ends when it may: green, or red."""

    def __init__(self, repository: Path, tmp_path: Path) -> None:
        self._later, self._temp = repository / ".git/objects/info", tmp_path / "temp"
        self.command = (
            f"touch begun; while ! test -e go && ! test -e {self._later}/go; do sleep 0.02; done; "
            f"! test -e red && ! test -e {self._later}/red"
        )

    async def begun(self) -> Path:
        """Where it runs."""
        async with asyncio.timeout(60):
            while not (found := list(self._temp.glob("treadle-tmp-check-*/tree/begun"))):
                await asyncio.sleep(0.02)
        return found[0].parent

    def end(self, *running: Path, red: bool = False) -> None:
        """End this one and later ones. One that runs need not see what appears outside of its directory."""
        for place in (*running, self._later):
            if red:
                (place / "red").touch()
            (place / "go").touch()


async def test_a_merge_moves_the_branch_and_the_checkout_follows(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n", "deep/er/new.txt": "new\n"})
    two = await finished.order("two", {"b.txt": None})
    verify = 'test $(git log --oneline -1 --format=%an) = treadle && test -z "$(git status --porcelain)"'
    steps = await merging.merge(bus, [one, two], str(repository), verify=verify, by="ann")
    assert [(step.merged, step.why, step.title) for step in steps] == [(True, "", "one"), (True, "", "two")], steps
    noted = [each for each in await requested(bus) if each["order"] == one]
    landed = {"commit": steps[0].commit, "branch": "main"}
    assert [each["result"] for each in noted] == [{"merged": steps[0].commit, "landed": landed}]
    assert noted[0]["by"] == "ann" and noted[0]["what"] == f"landed on main as {steps[0].commit[:12]}"
    line = train.name_of(str(repository / ".git"), "main")
    kept = await bus.get(keys.LANDED(one, line))
    assert kept is not None and f'"repository":"{repository}"'.encode() in kept.value
    assert (repository / "a.txt").read_text() == "two\n" and not (repository / "b.txt").exists()
    assert (repository / "deep/er/new.txt").read_text() == "new\n" and clean(repository)
    assert git(repository, "log", "--format=%s", "--first-parent").splitlines()[0] == "Merge order two: two"
    assert git(repository, "rev-parse", "HEAD") == steps[1].commit
    again = await merging.merge(bus, [one], str(repository))
    assert again[0].merged and again[0].why == "it is on the branch already"
    assert again[0].commit == (await client.get_order(bus, one)).result["commit"]
    same = await bus.get(keys.LANDED(one, line))
    assert same is not None and same.revision == kept.revision, "it has landed once"


async def test_a_merge_that_is_cancelled_ends_its_check(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"})
    verify = WaitingVerify(repository, tmp_path)
    working = asyncio.create_task(merging.merge(bus, [one], str(repository), verify=verify.command))
    await verify.begun()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert not [task for task in asyncio.all_tasks() if "Passenger._check" in repr(task.get_coro())]
    assert git(repository, "rev-parse", "HEAD") == finished.base and clean(repository)


async def test_what_has_not_ended_stops_the_rest_and_what_changed_nothing_does_not(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    for name, state in (("idle", "done"), ("lost", "failed"), ("last", "done")):
        order = Order(id=name, state=state, changed=1.0, title=name)  # type: ignore[arg-type]
        await bus.put(f"order.{name}", encode(order), expect=0)
    steps = await merging.merge(bus, ["idle", "lost", "last"], str(repository))
    assert [(step.order, step.merged, step.why) for step in steps] == [
        ("idle", True, "it changed nothing"),
        ("lost", False, "it is failed, so there is nothing to merge"),
    ]


async def test_what_is_on_the_branch_is_noted_with_a_proof_only_where_a_commit_names_it(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"})
    git(repository, "pull", "-q", str(finished.clone), "refs/made/one")
    (step,) = await merging.merge(bus, [one], str(repository), by="ann")
    assert step.merged and step.why == "it is on the branch already"
    (noted,) = await requested(bus)
    assert noted["result"] == {"merged": git(repository, "rev-parse", "HEAD")} and noted["by"] == "ann"
    line = train.name_of(str(repository / ".git"), "main")
    assert await bus.get(keys.LANDED(one, line)) is None
    two = await finished.order("two", {"b.txt": "two\n"})
    git(repository, "fetch", "-q", str(finished.clone), "refs/made/one")
    git(repository, "merge", "-q", "--no-ff", "-m", "as a merge that was killed\n\nOrder: two\n", "FETCH_HEAD")
    (step,) = await merging.merge(bus, [two], str(repository))
    kept = await bus.get(keys.LANDED(two, line))
    assert step.merged and kept is not None
    proof = msgspec.json.decode(kept.value, type=LandedRecord)
    found = [git(repository, "rev-parse", name) for name in ("HEAD", "HEAD^1", "HEAD^{tree}")]
    assert [proof.commit, proof.on, proof.tree] == found, "read from the branch"


async def test_files_that_other_programs_obey_are_merged_when_a_person_agrees(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n", "sub/AGENTS.md": "obey\n"})
    before = git(repository, "rev-parse", "HEAD")
    (step,) = await merging.merge(bus, [one], str(repository), verify="test -e a.txt")
    assert not step.merged and "sub/AGENTS.md" in step.why and f"treadle fleet merge {one} --anyway" in step.why
    assert git(repository, "rev-parse", "HEAD") == before and not (repository / "sub").exists()
    (step,) = await merging.merge(bus, [one], str(repository), verify="test -e a.txt", anyway=True)
    assert step.merged and (repository / "sub" / "AGENTS.md").read_text() == "obey\n"


async def test_the_branch_does_not_move_before_the_verdict_nor_after_a_red_one(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"})
    verify = WaitingVerify(repository, tmp_path)
    working = asyncio.create_task(merging.merge(bus, [one], str(repository), verify=verify.command))
    running = await verify.begun()
    assert git(repository, "rev-parse", "HEAD") == finished.base and clean(repository)
    (repository / "mine.txt").write_text("mine\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a person's commit")
    mine = git(repository, "rev-parse", "HEAD")
    verify.end(running, red=True)
    (step,) = await working
    assert not step.merged and "fails with it" in step.why
    assert git(repository, "rev-parse", "HEAD") == mine and clean(repository), "the person's commit is still there"


async def test_a_commit_made_meanwhile_stays_and_the_merge_is_verified_again_on_top_of_it(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"})
    verify = WaitingVerify(repository, tmp_path)
    both = (
        f"{verify.command} && if test $(cat a.txt) = two && test -e mine.txt; then exit 0; else test ! -e mine.txt; fi"
    )
    working = asyncio.create_task(merging.merge(bus, [one], str(repository), verify=both))
    running = await verify.begun()
    (repository / "mine.txt").write_text("mine\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a person's commit")
    mine = git(repository, "rev-parse", "HEAD")
    verify.end(running)
    (step,) = await working
    assert step.merged, step
    assert git(repository, "rev-parse", "HEAD^1") == mine and clean(repository)
    assert (repository / "mine.txt").exists() and (repository / "a.txt").read_text() == "two\n"


@pytest.mark.slow
async def test_two_merges_at_once_both_land_or_say_why_not(bus: Bus, finished: Finished, repository: Path) -> None:
    good = await finished.order("good", {"a.txt": "two\n"})
    bad = await finished.order("bad", {"b.txt": "red\n"})
    verify = "test $(cat b.txt) = one"
    (landed,), (refused,) = await asyncio.gather(
        merging.merge(bus, [good], str(repository), verify=verify),
        merging.merge(bus, [bad], str(repository), verify=verify),
    )
    assert landed.merged and not refused.merged
    assert branch_moves.contains(checkouts.around(str(repository)), HEAD, landed.commit)
    assert (repository / "b.txt").read_text() == "one\n" and clean(repository)
    many = [await finished.order(f"many{number}", {f"new{number}.txt": "x\n"}) for number in range(4)]
    found = await asyncio.gather(*(merging.merge(bus, [each], str(repository)) for each in many))
    assert all(steps[0].merged for steps in found), found
    assert all((repository / f"new{number}.txt").exists() for number in range(4)) and clean(repository)


@pytest.mark.parametrize("how", ["dirty", "staged", "untracked", "merging", "detached"])
async def test_what_a_person_has_not_committed_stands_in_the_way_and_is_left_alone(
    bus: Bus, finished: Finished, repository: Path, how: str
) -> None:
    one = await finished.order("one", {"a.txt": "two\n", "new.txt": "new\n"})
    told = "not committed"
    if how in ("dirty", "staged"):
        (repository / "a.txt").write_text("mine\n")
        git(repository, "add", "a.txt") if how == "staged" else None
    elif how == "untracked":
        (repository / "new.txt").write_text("mine\n")
        told = "new.txt"
    elif how == "merging":
        (repository / ".git/MERGE_HEAD").write_text(finished.base)
        told = "MERGE_HEAD"
    else:
        git(repository, "checkout", "-q", "--detach")
        with pytest.raises(WorkspaceError, match="no branch is checked out"):
            await merging.merge(bus, [one], str(repository))
        return
    before = git(repository, "status", "--porcelain")
    (step,) = await merging.merge(bus, [one], str(repository), verify="false")
    assert not step.merged and told in step.why, "said before the check"
    assert git(repository, "rev-parse", "HEAD") == finished.base and git(repository, "status", "--porcelain") == before
    assert not (repository / ".git/index.lock").exists()


async def test_a_linked_worktree_of_the_branch_follows_and_another_branch_is_left_alone(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"})
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", "-b", "other", str(linked))
    (step,) = await merging.merge(bus, [one], str(linked))
    assert step.merged and (linked / "a.txt").read_text() == "two\n"
    assert git(linked, "status", "--porcelain") == "" and git(linked, "rev-parse", "other") == step.commit
    assert git(repository, "rev-parse", "main") == finished.base and clean(repository)


CONFLICTS = {
    "content": ({"a.txt": "mine\n"}, {"a.txt": "yours\n"}, "content"),
    "both added": ({"new.txt": "mine\n"}, {"new.txt": "yours\n"}, "add/add"),
    "deleted": ({"a.txt": None}, {"a.txt": "yours\n"}, "modify/delete"),
    "file and directory": ({"new": "mine\n"}, {"new/file": "yours\n"}, "file/directory"),
}


@pytest.mark.parametrize("kind", CONFLICTS)
async def test_a_conflict_is_told_with_its_kind_and_changes_nothing(
    bus: Bus, finished: Finished, repository: Path, kind: str
) -> None:
    mine, yours, told = CONFLICTS[kind]
    first, second = await finished.order("first", mine), await finished.order("second", yours)
    steps = await merging.merge(bus, [first, second], str(repository))
    assert [step.merged for step in steps] == [True, False] and told in steps[1].kinds.values(), steps
    assert "its work is kept: resolve by hand or send it back" in steps[1].why and steps[1].conflicts
    assert git(repository, "rev-parse", "HEAD") == steps[0].commit and clean(repository)


async def test_the_branchs_own_attributes_say_how_a_list_is_merged(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    (repository / ".gitattributes").write_text("a.txt merge=union\n* filter=evil\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "attributes")
    finished.base = git(repository, "rev-parse", "HEAD")
    git(finished.clone, "fetch", "-q")
    first = await finished.order("first", {"a.txt": "one\nmine\n"})
    second = await finished.order("second", {"a.txt": "one\nyours\n"})
    steps = await merging.merge(bus, [first, second], str(repository))
    assert [step.merged for step in steps] == [True, True], steps
    assert (repository / "a.txt").read_text() == "one\nmine\nyours\n"


async def test_a_bundle_that_is_not_what_the_order_says_is_refused(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one, two = await finished.order("one", {"a.txt": "two\n"}), await finished.order("two", {"b.txt": "evil\n"})
    await streams.put(bus, f"bundle.{one}.1", await streams.get(bus, f"bundle.{two}.1"))
    (step,) = await merging.merge(bus, [one], str(repository))
    assert not step.merged and "and not" in step.why and git(repository, "rev-parse", "HEAD") == finished.base


@pytest.mark.slow
async def test_a_merge_needs_no_train_waits_for_none_and_sends_nothing_back(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    line = await train.ensure(bus, str(repository), "main", verify="false")
    waiting = await finished.order("waiting", {"b.txt": "two\n"})
    await train.board(bus, line, [waiting])
    before, _ = await train.load(bus, line)
    one = await finished.order("one", {"a.txt": "two\n"})
    red = await finished.order("red", {"new.txt": "red\n"})
    marked = await finished.order("marked", {"more.txt": "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n"})
    (step,) = await merging.merge(bus, [one], str(repository))
    assert step.merged, step
    assert "Verified-Tree" not in git(repository, "log", "-1", "--format=%B"), "nothing was checked"
    verify = "echo first; echo last; test ! -e new.txt"
    (step,) = await merging.merge(bus, [red], str(repository), verify=verify)
    assert step.why == f"{verify} fails with it, so the branch was left as it is: last" and not step.merged
    (step,) = await merging.merge(bus, [red], str(repository), verify="test ! -e new.txt")
    assert step.why == "test ! -e new.txt fails with it, so the branch was left as it is: "
    (step,) = await merging.merge(bus, [marked], str(repository))
    assert not step.merged and step.why == "it adds conflict markers"
    assert await train.trains(bus) == {line: before}, "the branch's own train was left alone"


async def test_verify_is_confined_and_gets_what_the_order_brings(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"a.txt": "two\n"}, bring=(".env",), setup="echo ready > made")
    outside = tmp_path / "outside"
    verify = f"touch {outside}; test -e .env && test $(cat made) = ready && test $(cat a.txt) = two"
    (step,) = await merging.merge(bus, [one], str(repository), verify=verify)
    assert step.merged, step
    assert outside.exists() == (methods.available().method is None) and clean(repository)


KILLED = """
import os, signal, sys
from treadle.workspace import branch_moves, checkouts, journal
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository
point, repository, directory, bundle, commit = sys.argv[1:]
def dies(module, name, after=False):
    real = getattr(module, name)
    def wrapped(*args, **more):
        if after:
            real(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(module, name, wrapped)
where = {"before the index is locked": (branch_moves, "_lock_index", False),
         "index locked": (branch_moves, "_lock_index", True),
         "staged": (journal, "stage", True),
         "branch moved": (branch_moves, "_settle", False),
         "files moved": (journal, "settle", True),
         "index moved": (branch_moves, "rename", True)}
user = checkouts.around(repository)
old = branch_moves.tip(user, "refs/heads/main")
store = Store.make(directory, lenders=user.object_places())
store.take_bundle(open(bundle, "rb").read(), "refs/made/one", "refs/heads/work")
dies(*where[point])
branch_moves.move(user, "refs/heads/main", store, old, commit, "test")
"""
POINTS = ["before the index is locked", "index locked", "staged", "branch moved", "files moved", "index moved"]


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_step_leaves_a_branch_and_a_checkout_that_agree_after_the_next_merge(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path, point: str
) -> None:
    one = await finished.order("one", {"a.txt": "two\n", "new.txt": "new\n", "b.txt": None})
    work = str((await client.get_order(bus, one)).result["commit"])
    arguments = [point, str(repository), str(tmp_path / "store"), str(tmp_path / "one.bundle"), work]
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, *arguments], env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    moved = point not in POINTS[:3]
    assert git(repository, "rev-parse", "main") == (work if moved else finished.base)
    two = await finished.order("two", {"deep/other.txt": "x\n"})
    (step,) = await merging.merge(bus, [two], str(repository))
    assert step.merged, step
    assert clean(repository) and (repository / "a.txt").read_text() == ("two\n" if moved else "one\n")
    (step,) = await merging.merge(bus, [one], str(repository))
    assert step.merged and (repository / "new.txt").exists() and not (repository / "b.txt").exists()
    assert clean(repository) and not (repository / ".git/index.lock").exists()
    assert list(repository.glob(".treadle-apply-*")) == []


async def test_a_kill_while_it_is_verified_leaves_the_branch_and_the_order_as_they_were(
    bus: Bus, finished: Finished, repository: Path, tmp_path: Path
) -> None:
    one = await finished.order("one", {"a.txt": "red\n"})
    verify = WaitingVerify(repository, tmp_path)
    argv = [*terminals.treadle("fleet"), "merge", one, "--into", str(repository), "--verify", verify.command]
    killed = subprocess.Popen(argv, env=dict(os.environ))
    await verify.begun()
    killed.kill()
    killed.wait(60)
    assert git(repository, "rev-parse", "HEAD") == finished.base and clean(repository)
    verify.end(red=True)
    (step,) = await merging.merge(bus, [one], str(repository), verify=verify.command)
    assert not step.merged and git(repository, "rev-parse", "HEAD") == finished.base, "main never was red"
