"""Limits of a turn and of its session: model calls, wall time, tokens, money."""

import time
from collections.abc import Callable

from treadle.errors import BudgetExceeded, MaxIterations, TimedOut
from treadle.session import Limits
from treadle.sessions.totals import Totals


class TurnBudget:
    """Checked before every model call of a turn. Cost and tokens count over the session, the rest over the turn."""

    def __init__(self, limits: Limits, *, priced: Callable[[], bool] = lambda: True) -> None:
        """`priced`: whether the cost of a model call will be known."""
        self.limits = limits
        self._priced = priced
        self._started = time.monotonic()

    def seconds_left(self) -> float | None:
        if self.limits.max_seconds is None:
            return None
        return max(self._started + self.limits.max_seconds - time.monotonic(), 0.0)

    def check(self, iterations: int, spent: Totals) -> None:
        """Raises when one more model call would go over a limit."""
        limits = self.limits
        if limits.max_iterations is not None and iterations >= limits.max_iterations:
            raise MaxIterations(f"stopped after {iterations} model calls, the limit for one turn")
        if self.seconds_left() == 0.0:
            raise self.out_of_time()
        if limits.max_tokens is not None and spent.total_tokens >= limits.max_tokens:
            raise BudgetExceeded(f"{spent.total_tokens} tokens are used, the limit is {limits.max_tokens}")
        if limits.max_cost_usd is not None:
            if not self._priced() or spent.calls and spent.cost_usd is None:
                raise BudgetExceeded(
                    "a cost limit is set, but what this model costs is unknown, so the limit cannot be enforced",
                    hint='give its price in config.toml under [models.prices."MODEL"], or limit tokens instead',
                )
            if spent.cost_usd is not None and spent.cost_usd >= limits.max_cost_usd:
                raise BudgetExceeded(f"${spent.cost_usd:.4f} is spent, the limit is ${limits.max_cost_usd:.4f}")

    def out_of_time(self) -> TimedOut:
        return TimedOut(f"the turn took more than {self.limits.max_seconds:g} s")
