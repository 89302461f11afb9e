"""Retries, politely: the one retry rule of every provider."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol

import msgspec

from treadle.agent.providers.base import ReplyItem
from treadle.errors import ProviderError
from treadle.events import ErrorInfo, Retrying, TextDelta

RESET = 60.0
"""A wait named by a service is a limit's reset when it is at least this many seconds."""


class Clock(Protocol):
    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tries: int = 0
    """The most tries; 0 means as many as there is time for."""
    patience: float = 300.0
    """How many seconds all tries together may take, where the service does not say when to ask again."""
    reset_patience: float = 3600.0
    """The longest wait, in seconds, for a time that the service names. Beyond it, the error is raised."""
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def wait(self, tried: int, error: ProviderError) -> float:
        """Seconds before the next try; never earlier than a time that the service named."""
        import random

        if error.retry_after_ms is not None:
            return error.retry_after_ms / 1000 * random.uniform(1.0, 1.1)
        return min(self.longest_wait, self.first_wait * 2.0 ** min(tried - 1, 30)) * random.uniform(0.5, 1.0)

    def gives_up(self, tried: int, passed: float, wait: float, error: ProviderError) -> bool:
        """Whether to raise the error now: after so many tries and seconds, with such a wait before the next."""
        if not error.retryable or self.tries and tried >= self.tries:
            return True
        if _is_reset(wait, error):
            return passed > self.patience or wait > max(self.patience, self.reset_patience)
        return passed + wait > min(self.patience, error.patience)


def _is_reset(wait: float, error: ProviderError) -> bool:
    """Whether the service has said when its limit resets, and that is not at once."""
    return error.retry_after_ms is not None and wait >= RESET


async def retrying(
    attempt: Callable[[], AsyncGenerator[ReplyItem, None]], policy: RetryPolicy, clock: Clock
) -> AsyncGenerator[ReplyItem, None]:
    """Stream `attempt`, and start it over while it fails retryably before any words of the answer were passed on.

    Thinking may be repeated, and half a call is never passed on. Words cannot be taken back, so a later failure is
    raised, still marked as retryable: the loop asks for the rest.
    """
    began = clock.now()
    tried = 0
    while True:
        tried += 1
        answering = False
        try:
            async with aclosing(attempt()) as items:
                async for item in items:
                    answering = answering or type(item) is TextDelta and bool(item.text.strip())
                    yield item
            return
        except ProviderError as error:
            wait = policy.wait(tried, error)
            if answering or policy.gives_up(tried, clock.now() - began, wait, error):
                raise
            if _is_reset(wait, error):
                began += wait  # waiting for a limit to reset is not a failure of the service
            again = Retrying(attempt=tried, delay_ms=round(wait * 1000), error=ErrorInfo(**error.envelope()))
        yield again
        await clock.sleep(wait)
