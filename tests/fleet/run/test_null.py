"""The null agent: as many events as asked, and every way of being stopped has its own end."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.errors import Cancelled, TimedOut, TreadleError
from treadle.events import Message
from treadle.fleet.run import null


def attempt(agent: str) -> Any:
    """As much of an attempt as it looks at."""
    return SimpleNamespace(spec=SimpleNamespace(agent=agent), stopping=asyncio.Event(), stopped=None)


@pytest.mark.parametrize(("agent", "count"), [("null", 0), ("null:0", 1), ("null:0.01:3", 3)])
async def test_it_does_nothing_as_often_as_asked(agent: str, count: int) -> None:
    seen: list[Message] = []

    async def take(message: Message) -> None:
        seen.append(message)

    ended = await asyncio.wait_for(null.run(attempt(agent), take), 60)
    assert ended.outcome == "done" and [message.seq for message in seen] == list(range(1, count + 1))


async def test_one_that_is_stopped_ends_at_once(tmp_path: object) -> None:
    one = attempt("null:1000:2")

    async def take(message: Message) -> None:
        one.stopping.set()

    ended = await asyncio.wait_for(null.run(one, take), 60)
    assert (ended.outcome, ended.reason) == ("cancelled", "cancelled")


@pytest.mark.parametrize(("error", "outcome"), [(Cancelled("by ann"), "cancelled"), (TimedOut("too long"), "failed")])
def test_why_it_was_stopped_is_how_it_ends(error: TreadleError, outcome: str) -> None:
    one = attempt("null")
    one.stopped = error
    ended = null.stopped(one)
    assert (ended.outcome, ended.why, ended.reason) == (outcome, str(error), error.code)
