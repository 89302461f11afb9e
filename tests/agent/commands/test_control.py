"""Commands that change how the session goes on."""

from pathlib import Path

from tests.agent.commands.conftest import ran
from tests.agent.conftest import SAY, Opened
from tests.scripts import calls
from treadle.agent.native import NativeAgent
from treadle.agent.providers.script import parse
from treadle.agent.session import NativeSession
from treadle.agent.transcript import Transcript
from treadle.events import AnyEvent, ToolDenied
from treadle.session import SessionSpec
from treadle.sessions.totals import run_turn
from treadle.testing.server import ModelServer

WRITE = calls("write_file", {"file_path": "made.txt", "content": "hello"})


async def turn(session: NativeSession, text: str = "go") -> list[AnyEvent]:
    return [event async for event in run_turn(session, text)]


async def test_clear_forgets_the_conversation_for_this_process_and_the_next(opened: Opened) -> None:
    session = await opened(SAY + SAY)
    await turn(session, "one")
    await ran(session, "clear")
    assert session.context.messages == []
    await turn(session, "two")
    assert [message.text for message in Transcript.read(session.id).view()] == ["two", "done"]


async def test_a_model_that_cannot_be_had_leaves_the_old_one(opened: Opened) -> None:
    session = await opened()
    assert "cannot read the script" in await ran(session, "model scripted:/nowhere", ok=False)
    assert (await turn(session))[-1].text == "done"  # type: ignore[union-attr]


async def test_without_a_name_the_models_of_the_service_are_listed(opened: Opened, work: Path) -> None:
    async with ModelServer(parse(f'model = "theirs-7"\n{SAY}')) as server:
        session = await NativeAgent({"TREADLE_BASE_URL": server.url}).open(
            SessionSpec.of(cwd=str(work), model="chat:mine")
        )
        assert (await ran(session, "model")).splitlines()[1:] == ["chat:mine", "chat:theirs-7"]
    assert (await ran(session, "model")).splitlines()[1:] == ["chat:mine"], "the service is gone"
    await session.close()
    assert "theirs" not in await ran(await opened(), "model")


async def test_permissions_are_listed_and_added_for_the_session(opened: Opened, work: Path) -> None:
    session = await opened(WRITE + SAY + WRITE + SAY)
    assert await ran(session, "permissions") == "mode: suggest\nNo rules."
    assert await ran(session, "permissions allow Write(made*)") == "For this session: allow Write(made*)"
    assert await ran(session, "permissions") == "mode: suggest\nallow  Write(made*)"
    await turn(session)
    assert (work / "made.txt").exists()
    await ran(session, "permissions deny Write(made*)")
    assert any(isinstance(event, ToolDenied) for event in await turn(session))
    session.permissions.remembered.add(("bash", "ls"))
    assert (await ran(session, "permissions")).endswith("allow           Write(made*)\nallowed by you  bash ls")
    for wrong in ("permit x", "allow"):
        assert f"{wrong!r} is not a rule" in await ran(session, f"permissions {wrong}", ok=False)
    await ran(session, "permissions allow (((", ok=False)


async def test_memory_lists_what_is_known_and_adds_to_it(opened: Opened, work: Path) -> None:
    session = await opened('[[reply]]\nsystem = "- use tabs"\ntext = "I know"\n')
    assert "no AGENTS.md yet" in await ran(session, "memory")
    await ran(session, "memory add use   tabs")
    assert (work / "AGENTS.md").read_text() == "- use tabs\n"
    assert str(work / "AGENTS.md") in await ran(session, "memory")
    assert (await turn(session))[-1].text == "I know"  # type: ignore[union-attr]
    assert f"{work}/AGENTS.md  11 bytes" in await ran(session, "memory")
    for wrong, why in {
        "add": "what is to be remembered?",
        "forget it": "'forget' is not something /memory does",
    }.items():
        assert (await ran(session, f"memory {wrong}", ok=False)).startswith(f"{why}\nusage: /memory")
