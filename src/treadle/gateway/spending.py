"""What a session may still spend, decided before each call: a call that does not fit is refused and not made. The
gateway asks here for outside agents, the loop of our own for itself.

The price of a call is known only afterwards, so it is estimated before: the input by its length, of which as much is
taken for cached as the last call of that model had; the output by the limit that the call asks for, which is lowered to
what is left. Calls at the same time wait for each other where only together they do not fit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import msgspec

from treadle.errors import BudgetExceeded
from treadle.events import Usage
from treadle.session import LONGEST_OUTPUT, Amount, Calling, Limits
from treadle.sessions.totals import Totals, price_of

SHORTEST = 256
"""Tokens below which a reply is of no use: such a call is refused."""
Costs: TypeAlias = Callable[[Usage], float | None]
"""The price of a call that used so much; None when it is unknown."""


class ComingCall(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a call before it is made."""

    model: str
    tokens: int
    """Of its input, about."""
    output_limit: int | None = None
    """The most tokens that it wants in the reply; None: it does not say."""

    def used(self, output: int, cached: int = 0) -> Usage:
        cached = min(self.tokens, cached)
        read, given = cached, self.tokens - cached
        return Usage(model=self.model, input_tokens=given, cache_read_tokens=read, output_tokens=output)


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may use, until it has ended."""

    cost_usd: float = 0.0
    tokens: int = 0
    output: int | None = None
    """A lower limit for its reply; None: what it asked for."""
    note: str = ""


class Spending:
    def __init__(
        self, limits: Limits, costs: Costs, spent: Totals | None = None, calling: Calling | None = None
    ) -> None:
        """`spent`: by the session before. `calling`: who is asked before each call, too."""
        self.limits = limits
        self.spent = spent or Totals()
        self.known_cost = self.spent.cost_usd or 0.0
        """In USD, of the calls whose price is known."""
        self._costs = costs
        self._calling = calling
        self._open: list[Reserved] = []
        self._last: dict[str, int] = {}
        """The prompt tokens of the last call of each model."""
        self._changed = asyncio.Event()

    def add(self, usage: Usage) -> Usage:
        """Count a call. Returns it with its cost, as far as that is known."""
        if usage.cost_usd is None:
            usage = msgspec.structs.replace(usage, cost_usd=self._costs(usage))
        self._last[usage.model] = usage.prompt_tokens
        self.spent = self.spent.plus(usage)
        self.known_cost += price_of(usage) or 0.0
        return usage

    @property
    def limited(self) -> bool:
        return self.limits.max_cost_usd is not None or self.limits.max_tokens is not None

    def check(self) -> None:
        """Raises BudgetExceeded when all is used up."""
        money, tokens, used = self.limits.max_cost_usd, self.limits.max_tokens, self.spent.total_tokens
        if money is not None and self.known_cost >= money:
            raise BudgetExceeded(f"the budget is used up: {self.known_cost:.4f} USD of {money:g} are spent")
        if tokens is not None and used >= tokens:
            raise BudgetExceeded(f"the budget is used up: {used} of {tokens} tokens are used")

    def _used(self) -> Amount:
        return self.spent.total_tokens, self.spent.cost_usd

    @contextlib.asynccontextmanager
    async def call(self, coming: ComingCall, costs: Costs | None = None) -> AsyncIterator[Reserved]:
        """Held while a call is made. Raises BudgetExceeded when it does not fit into what is left. `costs`: the prices
        of its model, where they are others than those of the session."""
        costs, longest = costs or self._costs, coming.output_limit or LONGEST_OUTPUT
        ended = None
        if self._calling is not None:
            most = coming.tokens + longest, costs(coming.used(longest))
            ended = await self._calling(self._used, most)
        reserved = None
        try:
            reserved = await self._reserve(coming, costs)
            yield reserved
        finally:
            if reserved in self._open:
                self._open.remove(reserved)
            self._changed.set()
            if ended is not None:
                ended()

    async def _reserve(self, coming: ComingCall, costs: Costs) -> Reserved:
        if not self.limited:
            return Reserved()
        self.check()
        while True:
            try:
                made = self._fitted(coming, costs, self._open)
            except BudgetExceeded:
                if not self._open:
                    raise
                self._fitted(coming, costs, ())  # what does not fit alone is refused at once
                self._changed.clear()
                await self._changed.wait()
                continue
            self._open.append(made)
            return made

    def _fitted(self, coming: ComingCall, costs: Costs, others: list[Reserved] | tuple[()]) -> Reserved:
        before = (prompt for model, prompt in self._last.items() if model.startswith(coming.model))
        given = coming.used(0, next(before, 0))
        wanted = coming.output_limit or LONGEST_OUTPUT
        most = min(self._by_tokens(coming.tokens, wanted, others), self._by_cost(given, costs, wanted, others))
        cost = costs(msgspec.structs.replace(given, output_tokens=most)) or 0.0
        if most >= wanted:
            return Reserved(cost_usd=cost, tokens=coming.tokens + most)
        place = f" in place of {wanted}" if coming.output_limit else ""
        note = f"the reply of {coming.model} is limited to {most} tokens{place}: that is what is left"
        return Reserved(cost_usd=cost, tokens=coming.tokens + most, output=most, note=note)

    def _by_tokens(self, tokens: int, wanted: int, others: list[Reserved] | tuple[()]) -> int:
        """How many tokens of reply fit into the limit on tokens."""
        allowed = self.limits.max_tokens
        if allowed is None:
            return wanted
        left = allowed - self.spent.total_tokens - sum(other.tokens for other in others)
        if left - tokens < min(SHORTEST, wanted):
            used = f"{self.spent.total_tokens} of {allowed} tokens are used"
            raise BudgetExceeded(f"the next call does not fit: {used}, and its input alone has about {tokens}")
        return min(wanted, left - tokens)

    def _by_cost(self, given: Usage, costs: Costs, wanted: int, others: list[Reserved] | tuple[()]) -> int:
        """The same for the limit on money. An unknown price is counted afterwards, if it is known then."""
        allowed = self.limits.max_cost_usd
        input_cost, each = costs(given), costs(Usage(model=given.model, output_tokens=1_000_000))
        if allowed is None:
            return wanted
        spent = self.known_cost
        if input_cost is None or each is None:
            return wanted
        left = allowed - spent - sum(other.cost_usd for other in others) - input_cost
        room = int(left / each * 1_000_000) if each else wanted
        if room < min(SHORTEST, wanted):
            asks = f"its input alone costs about {input_cost:.4f} USD"
            raise BudgetExceeded(f"the next call does not fit: {spent:.4f} USD of {allowed:g} are spent, and {asks}")
        return min(wanted, room)
