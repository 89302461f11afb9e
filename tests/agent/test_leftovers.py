"""A session that is killed with its commits not yet taken over loses none of them, and leaves no lock."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.checkouts import Working, checkout, git
from treadle.agent import leftovers
from treadle.cli import checks
from treadle.io.paths import state_dir
from treadle.io.sandbox import methods

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.agent.checkouts import ENV, Working
from tests.io.sandbox.rooms import sh
from treadle.workspace import staging
from treadle.workspace.in_place import LOCK

async def main():
    agent = Working(Path(sys.argv[1]), session="killed")
    await agent.confining.ready(print)
    await sh(agent.confining.now(), sys.argv[2], agent.top, env=ENV)
    place = agent.confining.sealing.begin()[0]
    if sys.argv[3] == "locked":
        with staging.held(place.user, os.path.join(place.directory, LOCK)):
            os.kill(os.getpid(), signal.SIGKILL)
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


async def test_its_commits_are_a_branch_when_the_next_session_begins(top: Path) -> None:
    killed(top, "echo two > file.txt; git commit -qam two; git gc -q; git tag -am x v1")
    assert git(top, "log", "--format=%s") == "one" and len(kept()) == 1
    [found] = [one for one in checks.state(True) if one.name == "kept repository"]
    assert not found.ok and str(top) in found.fix and "session killed" in found.says
    agent = Working(top, session="next")
    await agent.ok("true")
    [said] = agent.said
    assert said.startswith("session killed ended before its commits were taken over: they are now ")
    [branch] = git(top, "for-each-ref", "--format=%(refname:short)", "refs/heads/treadle").split()
    assert branch in said and git(top, "log", "--format=%s", branch) == "two\none"
    assert git(top, "for-each-ref", "--format=%(objecttype)", "refs/treadle") == "tag"
    assert git(top, "fsck", "--strict", "--no-dangling") == "" and git(top, "rev-parse", "main") != branch
    agent.confining.close()
    assert kept() == []


async def test_one_that_left_nothing_new_is_removed_without_a_word(top: Path) -> None:
    killed(top, "git status")
    agent = Working(top)
    await agent.ok("true")
    agent.confining.close()
    assert agent.said == [] and kept() == []


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


async def test_a_session_that_lives_is_left_alone(top: Path) -> None:
    one, other = Working(top, session="one"), Working(top, session="other")
    await one.ok("true")
    await other.ok("true")
    assert leftovers.find() == [] and len(kept()) == 2
    one.confining.close()
    other.confining.close()
    assert kept() == []


async def test_an_unfinished_merge_stays_where_it_is(top: Path) -> None:
    killed(
        top,
        "git switch -qc a; echo a > file.txt; git commit -qam a; git switch -q main; echo b > file.txt;"
        " git commit -qam b; git merge a",
    )
    agent = Working(top)
    await agent.ok("true")
    [left] = leftovers.find()
    assert leftovers.unfinished(left) == ["MERGE_HEAD"] and len(git(top, "branch", "--list", "treadle/*").split()) == 2
    agent.confining.close()


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


async def test_refs_that_are_a_link_lead_nowhere(top: Path) -> None:
    killed(top, "git commit -q --allow-empty -m two; mv .git/refs .git/r; ln -s / .git/refs")
    [left] = leftovers.find()
    assert leftovers._ids(left.private) <= {git(top, "rev-parse", "HEAD")}
