"""Warnings, from while a session is opened and from its turns, reach the client of every door through its protocol."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doors.a2a import callers as a2a
from tests.doors.acp import test_door as acp
from tests.doors.codex import callers as codex
from tests.doors.mcp import test_door as mcp
from tests.doors.oneshot.ran import Ran
from tests.doors.sidecar.test_door import order
from tests.doors.worker import test_door as worker
from tests.stand_ins.sessions import ScriptedAgent, ScriptedSession
from treadle.doors.oneshot.hosting import Verbose
from treadle.events import Warned
from treadle.receipts.work import AgentWork
from treadle.session import SessionSpec

OPENING, LATER = "careful, said when it was opened", "careful, said in a turn"


class Cautious(ScriptedAgent):
    """Warns when a session is opened, as `agents.AgentWrapper` does, and in its first turn."""

    def __init__(self) -> None:
        super().__init__([Warned(message=LATER, code="not_told")])

    async def open(self, spec: SessionSpec) -> ScriptedSession:
        session = await super().open(spec)
        session.emit(Warned(message=OPENING, code="not_told"))
        return session


async def over_a2a(agent: ScriptedAgent, cwd: Path) -> list[Any]:
    async with a2a.opened(agent, cwd) as client:
        return [part["text"] for message in (await client.send())["history"] for part in message["parts"]]


async def over_acp(agent: ScriptedAgent, cwd: Path) -> list[Any]:
    async with acp.opened(agent, cwd) as editor:
        await editor.call("session/prompt", sessionId=await acp.new(editor, cwd), prompt=acp.said("hi"))
        assert not editor.warnings and not editor.texts()
        return [
            update["content"]["text"] for update in editor.updates if update.get("_meta") == {"warning": "not_told"}
        ]


async def over_codex(agent: ScriptedAgent, cwd: Path) -> list[Any]:
    async with codex.opened(agent, cwd) as client:
        await client.turn(await client.thread(cwd), "hi")
        return [params["message"] for method, params in client.told if method == "warning"]


async def over_mcp(agent: ScriptedAgent, cwd: Path) -> list[Any]:
    async with mcp.client(agent, cwd) as client:
        run = await client.call("run", prompt="hi")
        events = (await client.call("read", run=run["run"]))["events"]
        return [event["text"] for event in events if event["type"] == "warning"]


async def over_oneshot(agent: ScriptedAgent, cwd: Path) -> list[Any]:
    session = await agent.open(SessionSpec(cwd=str(cwd)))
    ran = await Ran(session, "stream-json", extra=Verbose(session, cwd=str(cwd))).go()
    return [record["content"] for record in ran.out.records if record.get("subtype") == "informational"]


async def over_codex_exec(agent: ScriptedAgent, cwd: Path) -> list[Any]:
    ran = await Ran(await agent.open(SessionSpec(cwd=str(cwd))), "codex-json").go()
    items = [record.get("item", {}) for record in ran.out.records]
    return [item["message"] for item in items if item.get("type") == "error"]


async def over_sidecar(agent: ScriptedAgent, cwd: Path) -> list[Any]:
    work = AgentWork("run", order(cwd), agent, await agent.probe())
    events = [event async for batch in work.events() for event in batch]
    return [event.message for event in events if type(event).__name__ == "WarningGiven"]


async def over_worker(agent: ScriptedAgent, cwd: Path) -> list[Any]:
    init = {**worker.INIT, "config": {**worker.CONFIG, "capabilities": ["warnings"]}}
    lines = await worker.talk(agent, init, worker.SEND, worker.SHUTDOWN)
    events = [line["event"] for line in lines if line["type"] == "event"]
    return [event["message"] for event in events if event["event"] == "warning"]


DOORS = (over_a2a, over_acp, over_codex, over_codex_exec, over_mcp, over_oneshot, over_sidecar, over_worker)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_a_client_is_warned(door: Callable[[ScriptedAgent, Path], Awaitable[list[Any]]], tmp_path: Path) -> None:
    found = await door(Cautious(), tmp_path)
    assert [text for text in found if text in (OPENING, LATER)] == [OPENING, LATER]
