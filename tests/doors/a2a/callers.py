"""A client of the door over a scripted agent, without HTTP."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.stand_ins.sessions import ScriptedAgent
from treadle.doors.a2a.door import A2aDoor
from treadle.events import Asked
from treadle.session import AgentInfo, SessionSpec

ASK = Asked(request="q", kind="permission", text="May it?", call="c", name="bash", command="rm x")


class Caller:
    def __init__(self, door: A2aDoor, owner: str = "") -> None:
        self.door, self.owner = door, owner

    async def call(self, method: str, **params: Any) -> Any:
        return await asyncio.wait_for(self.door.call(self.owner, method, params), 60)

    async def send(self, text: str = "Hi.", *, now: bool = False, **message: Any) -> dict[str, Any]:
        sent = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **message}
        found = await self.call("SendMessage", message=sent, configuration={"returnImmediately": now})
        task: dict[str, Any] = found["task"]
        return task

    async def stream(self, method: str = "SendStreamingMessage", **params: Any) -> list[dict[str, Any]]:
        given = params or {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi."}]}}
        async with asyncio.timeout(60):
            return [event async for event in await self.call(method, **given)]

    async def until(self, task: str, state: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while (found := await self.call("GetTask", id=task))["status"]["state"] != f"TASK_STATE_{state}":
                await asyncio.sleep(0.005)
        return dict(found)


@asynccontextmanager
async def opened(
    agent: ScriptedAgent,
    cwd: Path,
    *,
    able: Sequence[str] = ("resume",),
    warned: list[str] | None = None,
) -> AsyncIterator[Caller]:
    info = AgentInfo(name="scripted", capabilities=dict.fromkeys(able, "native"))
    spec = SessionSpec(cwd=str(cwd), answers=True)
    door = A2aDoor(agent, info, base=spec, warn=(warned if warned is not None else []).append)
    try:
        yield Caller(door)
    finally:
        await door.close()


def state_of(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def text_of(task: dict[str, Any]) -> list[str]:
    return [artifact["parts"][0]["text"] for artifact in task.get("artifacts", [])]
