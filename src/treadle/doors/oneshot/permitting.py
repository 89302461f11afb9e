"""Permission questions that a program answers, and the lasting rules that come with an answer.

`--permission-prompt-tool mcp__SERVER__TOOL` sends them to a tool of an MCP server, which answers in JSON, as for Claude
Code: `{"behavior": "allow", "updatedInput": {...}}` or `{"behavior": "deny", "message": "..."}`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from treadle.doors.oneshot.adaptable import Adaptable
from treadle.errors import NotFound, TreadleError
from treadle.events import Asked
from treadle.session import Answer, Change, Session, parse_mode
from treadle.wire.oneshot import permissions

Warn = Callable[[str], None]
AskTool = Callable[[dict[str, Any]], Awaitable[str]]


async def apply(updates: Any, session: Session, warn: Warn) -> None:
    """Apply what a program allows or forbids from now on. What cannot be applied is a warning: the run goes on."""
    for update in updates if isinstance(updates, list) else ():
        table = update if isinstance(update, dict) else {}
        rules = permissions.rules_of(table)
        if table.get("type") == "setMode":
            with _warned(warn):
                await session.configure(Change(mode=parse_mode(str(table.get("mode")))))
        elif rules and isinstance(session, Adaptable):
            for verdict, rule in rules:
                with _warned(warn):
                    session.add_rule(verdict, rule)
            if table.get("destination") != "session":
                warn("the rules of a permission update hold for this session and are not kept")
        else:
            warn("a permission update of the host is left out: such calls are asked about again")


@contextmanager
def _warned(warn: Warn) -> Iterator[None]:
    try:
        yield
    except TreadleError as error:
        warn(f"a permission update of the host is left out: {error}")


async def put_to_tool(session: Session, ask: AskTool, warn: Warn) -> None:
    """Ask this tool every permission question of a session, until the session is closed."""
    async with asyncio.TaskGroup() as tasks:
        async for event in session.events(after=-1):
            if isinstance(event, Asked):
                tasks.create_task(_put(event, session, ask, warn))


async def _put(asked: Asked, session: Session, ask: AskTool, warn: Warn) -> None:
    question = permissions.question(asked)
    try:
        text = await ask({name: question[name] for name in ("tool_name", "input", "tool_use_id")})
        reply = msgspec.json.decode(text, type=dict[str, Any])
        answer = permissions.answered(reply, asked)
        if answer.decision == "allow":
            await apply(reply.get("updatedPermissions"), session, warn)
    except TreadleError as error:
        answer = Answer(decision="deny", text=f"the permission tool failed: {error}", by="host")
    except msgspec.MsgspecError:
        answer = Answer(decision="deny", text="the permission tool answered with no JSON object", by="host")
    try:
        await session.answer(asked.request, answer)
    except NotFound as error:
        warn(f"an answer came too late: {error}")
