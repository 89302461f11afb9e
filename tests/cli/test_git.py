"""`treadle git` by its commands, on what a real session left in a real repository."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.agent.checkouts import Working, checkout, git
from tests.agent.test_leftovers import MERGING
from treadle.cli.root import treadle
from treadle.errors import NotFound
from treadle.io.sandbox import methods

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(treadle, ["git", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


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
    [seen] = json.loads(run("list", "--json")[1])
    assert seen["session"] == "s1" and seen["checkout"] == str(top) and seen["unfinished"] == ["MERGE_HEAD"]
    assert "unfinished: MERGE_HEAD\n    files in conflict: 1\n    branches and tags: a, main\n" in run("list")[1]
    code, said = run("adopt")
    assert code == 0 and said.endswith("all that s1 left is now in your repository\n")
    assert git(top, "status", "--porcelain") == "UU file.txt" and json.loads(run("list", "--json")[1]) == []
    assert run("list")[1] == "no session has left anything in its own repository\n"


def test_what_could_not_follow_is_kept_until_it_is_dropped(top: Path) -> None:
    git(top, "commit", "-q", "--allow-empty", "-m", "mine")
    code, said = run("adopt", "s1")
    assert code == 1 and said.endswith("the rest of s1 is kept: try again, or treadle git drop s1\n")
    assert run("drop", "s1") == (0, "removed what s1 left\n")
    with pytest.raises(NotFound, match="no session s1 has left anything"):
        run("adopt", "s1")


def test_another_checkouts_are_not_taken_over_from_here(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout(tmp_path / "other"))
    with pytest.raises(NotFound, match="of this checkout"):
        run("adopt")


def test_programs_get_what_was_done_for_each_session(top: Path) -> None:
    git(top, "commit", "-q", "--allow-empty", "-m", "mine")
    code, said = run("adopt", "--json")
    [done] = json.loads(said)
    assert code == 1 and done["session"] == "s1" and done["whole"] is False and done["notes"]
    code, said = run("adopt")
    assert code == 1 and said.splitlines()[:-1] == done["notes"]


def test_what_a_session_at_work_has_is_not_taken_and_what_is_dropped_is_told(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = run("drop", "s1", "--json")
    assert code == 0 and json.loads(said) == {"removed": ["s1"]} and json.loads(run("list", "--json")[1]) == []
    with pytest.raises(NotFound, match="no session has left anything in its own repository of this checkout") as none:
        run("adopt")
    assert "treadle git list" in str(none.value)
    agent = Working(top)
    asyncio.run(agent.run("git checkout -q -b more"))
    with pytest.raises(NotFound, match="session s1 is at work") as working:
        run("drop", "s1")
    assert "end the session first" in str(working.value)
    agent.confining.close()
