"""What a run may still spend, decided before each call: a call that does not fit is refused and not made.

The price of a call is known only afterwards, so it is estimated before: the input by its length, of which as much is
taken for cached as the last call of that model had; the output by the limit that the call asks for, which is lowered to
what is left. Calls at the same time wait for each other where only together they do not fit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from treadle.errors import BudgetExceeded
from treadle.events import Usage
from treadle.session import LONGEST_OUTPUT, Amount, Limits
from treadle.sessions.totals import Totals, price_of
from treadle.wire.models.families import AskedCall, letters, with_output_limit

LETTERS = 4
"""Letters of a request for one token, about."""
SHORTEST = 256
"""Tokens below which a reply is of no use: such a call is refused."""


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may use, until it has ended."""

    cost_usd: float = 0.0
    tokens: int = 0
    body: bytes | None = None
    """The request with a lower limit for its reply; None: as it came."""
    note: str = ""


class Spending:
    def __init__(self, limits: Limits, costs: Callable[[Usage], float | None]) -> None:
        """`costs`: the price of a call that used so much; None when it is unknown."""
        self.limits = limits
        self.spent = Totals()
        self.known_cost = 0.0
        """In USD, of the calls whose price is known."""
        self._costs = costs
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

    def most(self, call: AskedCall) -> Amount:
        """What a call may use, as far as it can be estimated."""
        tokens, longest = letters(call.body) // LETTERS, call.output_limit or LONGEST_OUTPUT
        return tokens + longest, self._costs(Usage(model=call.model, input_tokens=tokens, output_tokens=longest))

    async def reserve(self, call: AskedCall) -> Reserved:
        """Raises BudgetExceeded when the call does not fit into what is left."""
        if not self.limited:
            return Reserved()
        self.check()
        size = letters(call.body)
        while True:
            try:
                made = self._fitted(call, size, self._open)
            except BudgetExceeded:
                if not self._open:
                    raise
                self._fitted(call, size, ())  # what does not fit alone is refused at once
                self._changed.clear()
                await self._changed.wait()
                continue
            self._open.append(made)
            return made

    def release(self, reserved: Reserved) -> None:
        if reserved in self._open:
            self._open.remove(reserved)
        self._changed.set()

    def _fitted(self, call: AskedCall, size: int, others: list[Reserved] | tuple[()]) -> Reserved:
        tokens = size // LETTERS
        before = (prompt for model, prompt in self._last.items() if model.startswith(call.model))
        known = min(tokens, next(before, 0))
        given = Usage(model=call.model, input_tokens=tokens - known, cache_read_tokens=known)
        wanted = call.output_limit or LONGEST_OUTPUT
        most = min(self._by_tokens(tokens, wanted, others), self._by_cost(given, wanted, others))
        cost = self._costs(msgspec.structs.replace(given, output_tokens=most)) or 0.0
        if most >= wanted:
            return Reserved(cost_usd=cost, tokens=tokens + most)
        body = with_output_limit(call, most)
        if body is None:
            raise BudgetExceeded(f"the rest of the budget allows only {most} tokens of thought and reply")
        place = f" in place of {wanted}" if call.output_limit else ""
        note = f"the reply of {call.model} is limited to {most} tokens{place}: that is what is left"
        return Reserved(cost_usd=cost, tokens=tokens + most, body=body, note=note)

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

    def _by_cost(self, given: Usage, wanted: int, others: list[Reserved] | tuple[()]) -> int:
        """The same for the limit on money. An unknown price is counted afterwards, if it is known then."""
        allowed = self.limits.max_cost_usd
        input_cost, each = self._costs(given), self._costs(Usage(model=given.model, output_tokens=1_000_000))
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
