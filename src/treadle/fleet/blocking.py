"""Async connections for scripts and notebooks: one connection for a call, or for as long as something is followed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from treadle.errors import LocalError

C = TypeVar("C")
T = TypeVar("T")
Connect = Callable[[], AbstractAsyncContextManager[C]]


def call(connect: Connect[C], work: Callable[[C], Awaitable[T]], instead: str) -> T:
    """Connect, do this and disconnect. `instead` is what a program with an event loop writes."""

    async def connected() -> T:
        async with connect() as found:
            return await work(found)

    with _runner(instead) as runner:
        return runner.run(connected())


def each(connect: Connect[C], made: Callable[[C], AsyncGenerator[T]], instead: str) -> Iterator[T]:
    """Connect and give one after the other."""
    with _runner(instead) as runner:
        stack = connect()
        changes = made(runner.run(stack.__aenter__()))
        try:
            while True:
                yield runner.run(anext(changes))
        except StopAsyncIteration:
            return
        finally:
            runner.run(changes.aclose())
            runner.run(stack.__aexit__(None, None, None))


def _runner(instead: str) -> asyncio.Runner:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.Runner()
    raise LocalError("an event loop runs here already", hint=instead)
