"""Async connections for a script: closed whatever happens, and Ctrl-C breaks into no step of the loop."""

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from treadle.errors import LocalError
from treadle.fleet import library


class Line:
    """What a connection would be: it knows whether it is open, and gives numbers."""

    def __init__(self) -> None:
        self.open = self.ended_while_open = False
        self.problems: list[dict[str, Any]] = []

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Line"]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.problems.append(context))
        self.open = True
        try:
            yield self
        finally:
            self.open = False

    async def numbers(self) -> AsyncGenerator[int]:
        try:
            for number in range(3):
                await asyncio.sleep(0)
                yield number
        finally:
            self.ended_while_open = self.open

    async def interrupted(self) -> AsyncGenerator[int]:
        """Ctrl-C comes between a look at a future and the setting of its result, as when a message arrives."""
        yield 1
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def step() -> None:
            if not arrived.done():
                signal.raise_signal(signal.SIGINT)
                arrived.set_result(None)

        loop.call_soon(step)
        await arrived
        await asyncio.Event().wait()


def test_a_call_connects_gives_the_result_and_disconnects() -> None:
    line = Line()

    async def work(found: Line) -> bool:
        return found.open

    assert library.call(line.connect, work, "") is True
    assert not line.open


def test_each_is_given_one_after_the_other_and_the_connection_is_closed_at_the_end() -> None:
    line = Line()
    seen = []
    for number in library.each(line.connect, Line.numbers, ""):
        assert line.open
        seen.append(number)
    assert seen == [0, 1, 2] and not line.open


def test_a_script_that_stops_following_closes_the_connection() -> None:
    line = Line()
    following = library.each(line.connect, Line.numbers, "")
    assert next(following) == 0
    following.close()  # type: ignore[attr-defined]
    assert not line.open and line.ended_while_open, "first what is followed ends, and then the connection"


def test_ctrl_c_while_following_ends_it_without_a_traceback_of_the_loop() -> None:
    line = Line()
    following = library.each(line.connect, Line.interrupted, "")
    assert next(following) == 1
    with pytest.raises(KeyboardInterrupt):
        next(following)
    assert line.problems == [] and not line.open
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def test_in_a_program_with_an_event_loop_it_says_what_to_write_instead() -> None:
    async def work(found: Line) -> None:
        raise AssertionError

    with pytest.raises(LocalError, match="event loop runs here already") as raised:
        library.call(Line().connect, work, "await goals.watch()")
    assert raised.value.hint == "await goals.watch()"
