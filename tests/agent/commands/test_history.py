"""Commands about sessions on disk."""

from pathlib import Path

from tests.agent.commands.conftest import ran
from tests.agent.conftest import SAY, Opened
from tests.scripts import calls
from treadle.agent.session import NativeSession
from treadle.agent.transcript import Transcript
from treadle.sessions.totals import run_turn

WRITE = calls("write_file", {"file_path": "made.txt", "content": "hello"})


async def say(session: NativeSession, text: str) -> None:
    async for _ in run_turn(session, text):
        pass


async def test_resume_goes_on_with_another_session_and_lets_this_one_go(opened: Opened) -> None:
    first = await opened()
    await say(first, "the first")
    await ran(first, "rename my first")
    await first.close()
    second = await opened(SAY + SAY)
    await say(second, "the second")
    old = second.id
    assert "/resume ID" in await ran(second, "resume")
    assert "(my first): 1 turns so far" in await ran(second, "resume my first")
    assert second.id == first.id and second.spent.total_tokens == 10
    await say(second, "and more")
    assert [m.text for m in Transcript.read(first.id).view()] == ["the first", "done", "and more", "done"]
    assert (await opened(resume=old)).id == old, "it is free to be opened elsewhere"


async def test_resuming_what_is_open_or_not_there_leaves_everything_as_it_was(opened: Opened) -> None:
    other = await opened()
    await say(other, "x")
    session = await opened()
    before = session.id
    assert "open in another process" in await ran(session, f"resume {other.id}", ok=False)
    assert "no session" in await ran(session, "resume nowhere", ok=False)
    assert session.id == before
    await say(session, "still works")


async def test_rewind_lists_turns_and_goes_back_with_the_files(opened: Opened, work: Path) -> None:
    session = await opened(SAY + WRITE + SAY, mode="auto-edit")
    assert "no turns yet" in await ran(session, "rewind")
    await say(session, "first")
    await say(session, "second")
    assert "  1  first\n  2  second" in await ran(session, "rewind")
    for number in ("3", "0"):
        assert f"there is no turn {number}" in await ran(session, f"rewind {number}", ok=False)
    assert "is not the number of a turn" in await ran(session, "rewind 1 2", ok=False)
    assert "usage: /rewind" in await ran(session, "rewind to the start", ok=False)
    assert await ran(session, "rewind 2") == "Back to before turn 2. Removed: made.txt."
    assert not (work / "made.txt").exists() and len(session.context.messages) == 2
