"""A session that is killed with its commits not yet taken over loses none of them, and leaves no lock."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.checkouts import Working, checkout, git
from treadle.cli import doctor
from treadle.errors import Busy
from treadle.io.files import locked
from treadle.io.paths import state_dir
from treadle.io.sandbox import methods
from treadle.sandboxed import repositories
from treadle.workspace.in_place import OWNED

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.agent.checkouts import ENV, Working
from tests.io.sandbox.rooms import sh
from treadle.workspace import in_place as takeover, index_file as staging
from treadle.workspace.in_place import LOCK
from treadle.workspace.user_repository import UserRepository

def dies(owner, name, after):
    # when this step begins, or when it is done
    real = getattr(owner, name)
    def step(*args, **more):
        if after:
            real(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(owner, name, step)

async def main():
    when = sys.argv[3]
    if when == "received":
        dies(takeover, "receive", True)
    elif when == "refs moved":
        dies(UserRepository, "set_head", False)
    elif when == "HEAD moved":
        dies(staging.HeldIndex, "put", False)
    elif when == "index written":
        dies(takeover.Takeover, "_move", False)
    agent = Working(Path(sys.argv[1]), session="killed")
    await agent.confining.ready(print)
    await sh(agent.confining.now(), sys.argv[2], agent.top, env=ENV)
    place = agent.confining.sealing.begin()[0]
    if when == "locked":
        with staging.held(place.user, os.path.join(place.directory, LOCK)):
            os.kill(os.getpid(), signal.SIGKILL)
    if when:
        await agent.confining.sealing.settle()
        sys.exit("it was not killed")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return checkout(tmp_path / "w")


def killed(top: Path, command: str, when: str = "") -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(top), command, when], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def kept() -> list[str]:
    return os.listdir(os.path.join(state_dir(), "git"))


@pytest.mark.slow
async def test_its_commits_are_a_branch_when_the_next_session_begins(top: Path) -> None:
    killed(top, "echo two > file.txt; git commit -qam two; git gc -q; git tag -am x v1")
    assert git(top, "log", "--format=%s") == "one" and len(kept()) == 1
    [found] = [one for one in doctor.state(True) if one.name == "kept repository"]
    assert not found.ok and str(top) in found.fix and "session killed" in found.says
    agent = Working(top, session="next")
    await agent.ok("true")
    [said] = agent.said
    assert said.startswith("session killed ended before its commits were taken over: they are now ")
    [branch] = git(top, "for-each-ref", "--format=%(refname:short)", "refs/heads/treadle").split()
    assert branch in said and git(top, "log", "--format=%s", branch) == "two\none"
    assert git(top, "fsck", "--strict", "--no-dangling") == "" and git(top, "rev-parse", "main") != branch
    agent.confining.close()
    assert kept() == [] and git(top, "for-each-ref", "--format=%(objecttype)", "refs/treadle") == "tag"


@pytest.mark.slow
async def test_a_lock_that_it_left_on_the_index_is_taken_away_and_anothers_is_not(top: Path) -> None:
    killed(top, "true", "locked")
    lock = top / ".git" / "index.lock"
    assert lock.exists()
    agent = Working(top)
    await agent.ok("true")
    assert not lock.exists() and "unlocked" in agent.said[0]
    agent.confining.close()
    killed(top, "true", "locked")
    lock.write_bytes(b"of another git")
    other = Working(top, session="other")
    await other.run("true")
    assert lock.read_bytes() == b"of another git"
    other.confining.close()


SWITCHES = "git switch -qc new; echo two > file.txt; echo x > more; git add .; git commit -qm two"


@pytest.mark.slow
@pytest.mark.parametrize("when", ["received", "index written"])
async def test_killed_before_the_refs_moved_its_commits_are_a_branch(top: Path, when: str) -> None:
    tags = when == "received"  # by the time that the index is written, a tag has been taken over
    killed(top, f"{SWITCHES}; git tag -am x v1" if tags else SWITCHES, when)
    assert git(top, "branch", "--format=%(refname:short)") == "main"
    agent = Working(top, session="next")
    await agent.ok("true")
    agent.confining.close()
    [branch] = git(top, "branch", "--list", "--format=%(refname:short)", "treadle/*").split()
    assert git(top, "log", "--format=%s", branch) == "two\none" and branch in agent.said[-1]
    tagged = git(top, "for-each-ref", "--format=%(objecttype)", "refs/treadle", "refs/tags")
    assert tagged == "tag" * tags and git(top, "fsck", "--strict", "--unreachable") == ""
    assert git(top, "branch", "--show-current") == "main" and git(top, "ls-files") == "file.txt"
    assert kept() == [] and not list((top / ".git").glob("index.*"))


@pytest.mark.slow
@pytest.mark.parametrize("when", ["refs moved", "HEAD moved"])
async def test_killed_after_the_refs_moved_head_and_the_index_follow(top: Path, when: str) -> None:
    killed(top, SWITCHES, when)
    agent = Working(top, session="next")
    await agent.ok("true")
    agent.confining.close()
    assert git(top, "branch", "--show-current") == "new" and git(top, "log", "--format=%s") == "two\none"
    assert git(top, "status", "--porcelain") == git(top, "branch", "--list", "treadle/*") == ""
    assert kept() == [] and not list((top / ".git").glob("index.*"))


async def test_what_the_user_has_rewritten_since_is_not_taken_for_the_agents(top: Path) -> None:
    killed(top, "git status")
    git(top, "commit", "-q", "--amend", "-m", "rewritten")
    agent = Working(top)
    await agent.ok("true")
    agent.confining.close()
    assert agent.said == [] and git(top, "branch", "--format=%(refname:short)") == "main"


@pytest.mark.slow
async def test_what_a_killed_session_made_git_run_is_run_only_inside(top: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    program = f"sh -c 'touch {canary}'"
    killed(
        top,
        f'git commit -q --allow-empty -m two; git config core.fsmonitor "{program}"; git config core.pager "{program}";'
        f' git config uploadpack.packObjectsHook "{program}"; git config core.alternateRefsCommand "{program}"',
    )
    agent = Working(top)
    await agent.ok("true")
    assert "treadle/killed-" in agent.said[0] and not canary.exists()
    agent.confining.close()


MERGING = (
    "git switch -qc a; echo a > file.txt; git commit -qam a; git switch -q main; echo b > file.txt; git commit -qam b;"
    " git merge a"
)


async def left_by(top: Path, command: str) -> repositories.Leftover:
    """What a session leaves that ends in the middle of something."""
    agent = Working(top)
    await agent.run(command)
    agent.confining.close()
    [left] = repositories.find()
    return left


async def test_a_person_takes_over_an_unfinished_merge_and_ends_it_with_their_own_git(top: Path) -> None:
    left = await left_by(top, f"{MERGING}; git branch other")
    assert git(top, "log", "--format=%s") == "one" and git(top, "branch", "--list", "other") == ""
    [seen] = await repositories.look()
    assert (seen.unfinished, seen.conflicts, seen.branches) == (("MERGE_HEAD",), 1, ("a", "main", "other"))
    marked = (top / "file.txt").read_bytes()
    notes, whole = await repositories.hand_over(left)
    assert whole and notes == [
        "the merge is now in your repository: resolve 1 file and git add, then git commit, or git merge --abort"
    ]
    assert git(top, "status", "--porcelain") == "UU file.txt" and (top / "file.txt").read_bytes() == marked
    assert git(top, "rev-parse", "MERGE_HEAD") == git(top, "rev-parse", "a") and b"<<<<<<<" in marked
    assert git(top, "rev-parse", "other") == git(top, "rev-parse", "main") and kept() == []
    (top / "file.txt").write_text("c\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "--no-edit")
    assert git(top, "log", "-1", "--format=%s %P").split()[:3] == ["Merge", "branch", "'a'"]
    assert git(top, "fsck", "--strict", "--no-dangling") == "" and git(top, "status", "--porcelain") == ""


@pytest.mark.parametrize("act", ["commit", "merge"])
async def test_when_the_user_has_gone_on_the_commits_are_a_branch_and_the_rest_is_kept(top: Path, act: str) -> None:
    left = await left_by(top, MERGING)
    if act == "commit":
        git(top, "commit", "-q", "--allow-empty", "-m", "mine")
    else:
        (top / ".git" / "MERGE_HEAD").write_text(git(top, "rev-parse", "HEAD"))
    before = git(top, "rev-parse", "HEAD"), git(top, "ls-files", "--stage"), (top / "file.txt").read_bytes()
    for _ in range(2):
        notes, whole = await repositories.hand_over(left)
        assert not whole and "kept as the branch treadle/s1, and nothing else was changed" in notes[-1]
    after = git(top, "rev-parse", "HEAD"), git(top, "ls-files", "--stage"), (top / "file.txt").read_bytes()
    assert after == before and git(top, "log", "-1", "--format=%s", "treadle/s1") == "b" and len(kept()) == 1
    await repositories.drop(left)
    assert kept() == []


async def test_of_a_rebase_the_commands_are_not_taken_over(top: Path) -> None:
    left = await left_by(
        top,
        "git switch -qc a; echo a > file.txt; git commit -qam a; git switch -q main; echo b > file.txt;"
        " git commit -qam b; git rebase --exec 'touch ran' a",
    )
    notes, whole = await repositories.hand_over(left)
    assert whole and "rebase-merge was not taken over, because its steps can name programs" in notes
    assert git(top, "status", "--porcelain") == "UU file.txt" and git(top, "branch", "--show-current") == ""
    assert not any((top / ".git" / name).exists() for name in ("rebase-merge", "rebase-apply", "sequencer"))


async def test_what_a_merge_names_must_be_a_commit(top: Path) -> None:
    left = await left_by(top, f"{MERGING}; git rev-parse HEAD^{{tree}} > .git/MERGE_HEAD")
    notes, whole = await repositories.hand_over(left)
    assert not whole and "the agent's MERGE_HEAD is not a commit" in notes[-1]
    assert not (top / ".git" / "MERGE_HEAD").exists()


async def test_a_session_that_lives_keeps_what_it_has(top: Path) -> None:
    agent = Working(top)
    await agent.run(MERGING)
    [seen] = await repositories.look()
    assert seen.at_work and seen.unfinished == ("MERGE_HEAD",)
    [left] = repositories.find(living=True)
    with pytest.raises(Busy):
        await repositories.hand_over(left)
    with pytest.raises(Busy):
        await repositories.drop(left)
    agent.confining.close()


async def test_what_another_session_takes_over_just_now_is_left_to_it(top: Path) -> None:
    killed(top, "git commit -q --allow-empty -m two")
    [left] = repositories.find()
    adopting = repositories.adopt(str(top))
    found = adopting.send(None)  # it goes on when a thread has found what is left
    await asyncio.wait([found])
    with locked(os.path.join(left.home, OWNED), 0), pytest.raises(StopIteration) as ended:
        adopting.send(None)
    assert ended.value.value == [] and git(top, "branch", "--list", "treadle/*") == ""
    [note] = await repositories.adopt(str(top))
    assert "treadle/killed" in note and kept() == []
