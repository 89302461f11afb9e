"""`treadle git` by its commands, on what a real session left in a real repository."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.agent.checkouts import Working, checkout, git
from tests.agent.test_leftovers import MERGING, killed
from treadle.cli.root import treadle
from treadle.errors import NotFound
from treadle.io.sandbox import methods
from treadle.sandboxed.repositories import find

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")


def run(*arguments: str, command: str = "git") -> tuple[int, str]:
    result = CliRunner().invoke(treadle, [command, *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def gc(*arguments: str) -> tuple[int, str]:
    return run(*arguments, command="gc")


def left() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gc("git", "--dry-run", "--json")[1])
    return found


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = checkout(tmp_path / "w")
    monkeypatch.chdir(top)

    async def leave() -> None:
        agent = Working(top)
        await agent.run(MERGING)
        agent.confining.close()

    asyncio.run(leave())
    return top


def test_what_was_left_is_listed_and_adopted_with_one_command(top: Path) -> None:
    [seen] = left()
    assert seen["name"] == "s1" and seen["state"] == "kept" and seen["bytes"] > 1000
    assert gc("git", "--older-than", "1s")[0] == 0 and left() != [], "work is not removed by its age"
    work = "unfinished: MERGE_HEAD; files in conflict: 1; branches and tags: a, main; treadle git adopt s1"
    assert work in gc("git", "--dry-run")[1]
    code, said = run("adopt")
    assert code == 0 and said.endswith("all that s1 left is now in your repository\n")
    assert git(top, "status", "--porcelain") == "UU file.txt" and left() == []


def test_what_could_not_follow_is_kept_until_it_is_dropped(top: Path) -> None:
    git(top, "commit", "-q", "--allow-empty", "-m", "mine")
    code, said = run("adopt", "s1")
    assert code == 1 and said.endswith("the rest of s1 is kept: try again, or treadle gc git:s1\n")
    assert gc("git:s1")[0] == 0 and left() == []
    with pytest.raises(NotFound, match="no session s1 has left unfinished git work"):
        run("adopt", "s1")


@pytest.mark.slow
def test_what_one_session_left_of_two_checkouts_is_judged_apart_and_dropped_together(tmp_path: Path) -> None:
    killed(checkout(tmp_path / "a"), MERGING)
    killed(checkout(tmp_path / "b"), "git status")
    for each in find():
        os.utime(each.directory, (0, 0))
    assert [row["state"] for row in left()] == ["kept", "would go"]
    assert gc("git:killed")[0] == 0 and left() == []


def test_what_a_session_at_work_has_is_not_taken_and_what_is_dropped_is_told(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = gc("git:s1", "--json")
    assert code == 0 and [row["state"] for row in json.loads(said)] == ["removed"] and left() == []
    with pytest.raises(NotFound, match="no session has left unfinished git work of this checkout") as none:
        run("adopt")
    assert "treadle gc git --dry-run" in str(none.value)
    agent = Working(top)
    asyncio.run(agent.run("git checkout -q -b more"))
    with pytest.raises(NotFound, match="0 of the git that can be removed"):
        gc("git:s1")
    with pytest.raises(NotFound, match="session s1 is still running") as working:
        run("adopt", "s1")
    assert "end the session first" in str(working.value)
    agent.confining.close()
