"""Async connections for scripts and notebooks: one connection for a call, or for as long as something is followed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from treadle.errors import LocalError
from treadle.io.process.loop import Stepping

C = TypeVar("C")
T = TypeVar("T")
Connect = Callable[[], AbstractAsyncContextManager[C]]


def call(connect: Connect[C], work: Callable[[C], Awaitable[T]], instead: str) -> T:
    """Connect, do this and disconnect. `instead` is what a program with an event loop writes."""

    async def connected() -> T:
        async with connect() as found:
            return await work(found)

    with _loop(instead) as loop:
        return loop.run(connected())


def each(connect: Connect[C], made: Callable[[C], AsyncGenerator[T]], instead: str) -> Iterator[T]:
    """Connect and give one after the other."""
    with _loop(instead) as loop:
        stack = connect()
        changes = made(loop.run(stack.__aenter__()))
        try:
            while True:
                yield loop.run(anext(changes))
        except StopAsyncIteration:
            return
        finally:
            loop.run(changes.aclose())
            loop.run(stack.__aexit__(None, None, None))


def _loop(instead: str) -> Stepping:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return Stepping()
    raise LocalError("an event loop runs here already", hint=instead)
