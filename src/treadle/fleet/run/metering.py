"""What a run has used, and whether it may go on: asked before each model call, and updated after it."""

from collections.abc import Awaitable, Callable

from treadle.errors import BudgetExceeded, TreadleError
from treadle.events import Usage
from treadle.fleet.accounts import beyond
from treadle.fleet.run.attempt import RunningAttempt
from treadle.wire.fleet.records import AgentQuestion, Used


class Meter:
    """At the order's limit the run stops and asks for more; when it gets more, its session continues from there.

    Our own agent asks before each model call, and a call as large as the last must still fit: so a limit is kept,
    rather than noticed once it is passed. Other agents only report what they have used, and are stopped at the
    limit.
    """

    def __init__(self, attempt: RunningAttempt, stop: Callable[[TreadleError], Awaitable[None]]) -> None:
        self._attempt = attempt
        self._stop = stop
        self.used = Used()
        self.asks_for_more: AgentQuestion | None = None
        self._marks: list[Used] = []
        """What the session had used when the run began, and before its last call."""

    async def count(self, event: Usage) -> None:
        self.used = self.used.plus(
            Used(
                input_tokens=event.input_tokens,
                output_tokens=event.output_tokens,
                cache_read_tokens=event.cache_read_tokens,
                cache_write_tokens=event.cache_write_tokens,
                calls=1,
                usd=event.cost_usd,
            )
        )
        if not self._marks and (why := self._beyond(self.used, Used())):
            await self._stop(self._ask(why))

    async def before_call(self, tokens: int, usd: float | None) -> None:
        """Wait while the run is paused; end the turn if the next call does not fit."""
        await self._attempt.may_go_on.wait()
        now = Used(input_tokens=tokens, usd=usd)
        first, before = self._marks or (now, now)
        self._marks = [first, now]
        if why := self._beyond(_since(first, now), _since(before, now)):
            raise self._ask(why)

    def _beyond(self, used: Used, next_call: Used) -> str:
        if self._attempt.stopped is not None or self.asks_for_more:
            return ""
        return beyond(self._attempt.limits, self._attempt.job.order.used.plus(used), next_call)

    def _ask(self, why: str) -> BudgetExceeded:
        text = f"{why}. Allow as much again?"
        self.asks_for_more = AgentQuestion(request="budget", kind="budget", text=text, tool="budget")
        self._attempt.parked = True
        return BudgetExceeded(why)


def _since(before: Used, now: Used) -> Used:
    usd = None if now.usd is None else now.usd - (before.usd or 0.0)
    return Used(input_tokens=now.input_tokens - before.input_tokens, usd=usd)
