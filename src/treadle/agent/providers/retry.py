"""Try again, politely: the one retry rule of every provider."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol

import msgspec

from treadle.agent.providers.base import ReplyItem
from treadle.errors import ProviderError
from treadle.events import ErrorInfo, ModelRouted, Retrying


class Clock(Protocol):
    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tries: int = 4
    patience: float = 30.0
    """Seconds that all tries together may take. A service that asks for more gets its error reported at once."""
    first_wait: float = 0.5
    longest_wait: float = 8.0

    def wait(self, tried: int, error: ProviderError) -> float:
        """Seconds before the next try; a service that named a time is not asked earlier."""
        if error.retry_after_ms is not None:
            return error.retry_after_ms / 1000 * random.uniform(1.0, 1.1)
        return min(self.longest_wait, self.first_wait * 2.0 ** (tried - 1)) * random.uniform(0.5, 1.0)


async def retrying(
    attempt: Callable[[], AsyncGenerator[ReplyItem, None]], policy: RetryPolicy, clock: Clock
) -> AsyncGenerator[ReplyItem, None]:
    """Stream `attempt`, again while it fails retryably before saying anything.

    What was already passed on cannot be taken back: a later failure is raised, still marked retryable.
    """
    began = clock.now()
    tried = 0
    while True:
        tried += 1
        said = False
        try:
            async with aclosing(attempt()) as items:
                async for item in items:
                    said = said or type(item) is not ModelRouted
                    yield item
            return
        except ProviderError as error:
            wait = policy.wait(tried, error)
            out_of_time = clock.now() - began + wait > policy.patience
            if said or not error.retryable or tried >= policy.tries or out_of_time:
                raise
            again = Retrying(attempt=tried, delay_ms=round(wait * 1000), error=ErrorInfo(**error.envelope()))
        yield again
        await clock.sleep(wait)
