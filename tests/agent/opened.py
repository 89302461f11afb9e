"""Sessions of our own agent with a scripted model."""

from typing import Any

from tests.scripts import calls, says
from treadle.events import (
    AnyEvent,
    Asked,
)
from treadle.session import Answer, Session
from treadle.sessions.totals import run_turn

WRITE = calls("write_file", {"file_path": "made.txt", "content": "hello"})


SAY = '[[reply]]\ntext = "done"\nusage = { input = 7, output = 3 }\n'


async def turn(session: Session, text: str = "go", answer: Answer | None = None) -> list[AnyEvent]:
    events = []
    async for event in run_turn(session, text):
        events.append(event)
        if isinstance(event, Asked) and answer is not None:
            await session.answer(event.request, answer)
    return events


def of(events: list[AnyEvent], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


DELEGATE_WRITE = (
    calls(
        "task",
        {"description": "write", "prompt": "write the file"},
        when="^go$",
        usage={"input": 40_000, "output": 10_000},
    )
    + calls(
        "write_file",
        {"file_path": "made.txt", "content": "hello"},
        when="write the file",
        system="for another agent",
        usage={"input": 60_000, "output": 40_000},
    )
    + says("done", times="always", usage={"input": 60_000, "output": 40_000})
)
