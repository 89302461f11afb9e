"""Limits stop before the next model call, and an unknown price is never taken for nothing."""

from types import SimpleNamespace

import pytest

from treadle.agent import loop as budgets
from treadle.agent.loop import TurnBudget
from treadle.errors import BudgetExceeded, MaxIterations, TimedOut
from treadle.session import Limits
from treadle.sessions.totals import Totals


def test_without_limits_everything_goes() -> None:
    TurnBudget(Limits()).check(10_000, Totals(input_tokens=10**9, calls=1))


def test_the_number_of_model_calls_is_kept() -> None:
    budget = TurnBudget(Limits(max_iterations=2))
    budget.check(1, Totals())
    with pytest.raises(MaxIterations, match="after 2 model calls"):
        budget.check(2, Totals())


def test_wall_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(budgets, "time", SimpleNamespace(monotonic=lambda: now))
    budget = TurnBudget(Limits(max_seconds=5))
    budget.check(0, Totals())
    assert budget.seconds_left() == 5
    now = 104.9
    budget.check(0, Totals())
    now = 105.0
    assert TurnBudget(Limits()).seconds_left() is None
    with pytest.raises(TimedOut, match="more than 5 s"):
        budget.check(0, Totals())


def test_tokens_of_every_bucket_count() -> None:
    spent = Totals(input_tokens=1, output_tokens=1, cache_read_tokens=97, cache_write_tokens=1, calls=1)
    with pytest.raises(BudgetExceeded, match="100 tokens are used, the limit is 100"):
        TurnBudget(Limits(max_tokens=100)).check(1, spent)
    TurnBudget(Limits(max_tokens=101)).check(1, spent)


def test_money_is_kept() -> None:
    budget = TurnBudget(Limits(max_cost_usd=0.5))
    budget.check(1, Totals(cost_usd=0.4, calls=1))
    with pytest.raises(BudgetExceeded, match=r"\$0\.5000 is spent"):
        budget.check(1, Totals(cost_usd=0.5, calls=1))


def test_a_cost_limit_with_an_unknown_price_stops_and_says_what_to_do() -> None:
    with pytest.raises(BudgetExceeded, match=r"unknown.*\[models\.prices"):
        TurnBudget(Limits(max_cost_usd=100)).check(1, Totals(input_tokens=5, calls=1))


def test_a_limit_on_money_without_a_known_price_is_refused_before_the_first_call() -> None:
    budget = TurnBudget(Limits(max_cost_usd=1.0), priced=lambda: False)
    with pytest.raises(BudgetExceeded, match="what this model costs is unknown"):
        budget.check(0, Totals())
    TurnBudget(Limits(max_cost_usd=1.0), priced=lambda: True).check(0, Totals())
