"""Limits of a turn, and going in circles: both stop before the next model call."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent import loop as budgets
from treadle.agent.loop import Repeats, TurnBudget
from treadle.agent.messages import ToolCall
from treadle.errors import BudgetExceeded, LoopDetected, TimedOut
from treadle.session import Limits
from treadle.sessions.totals import Totals


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


def test_a_limit_on_money_without_a_known_price_is_refused_before_the_first_call() -> None:
    budget = TurnBudget(Limits(max_cost_usd=1.0), priced=lambda: False)
    with pytest.raises(BudgetExceeded, match="what this model costs is unknown"):
        budget.check(0, Totals())
    TurnBudget(Limits(max_cost_usd=1.0), priced=lambda: True).check(0, Totals())


def step(arguments: str, name: str = "bash") -> list[ToolCall]:
    return [ToolCall(id="c", name=name, arguments=arguments)]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(2, 4))
def test_a_loop_is_reported_exactly_when_the_last_steps_repeat(steps: list[int], threshold: int) -> None:
    def looping(seen: list[int]) -> bool:
        return any(
            len(seen) >= length * threshold and seen[-length * threshold :] == seen[-length:] * threshold
            for length in range(1, 5)
        )

    repeats, seen = Repeats(threshold, strict=True), []
    for number in steps:
        seen.append(number)
        if looping(seen):
            with pytest.raises(LoopDetected):
                repeats.note(step(str(number)))
            return
        repeats.note(step(str(number)))


def test_no_model_is_called_once_the_tokens_of_the_session_are_used() -> None:
    budget = TurnBudget(Limits(max_tokens=10))
    budget.check(0, Totals(input_tokens=9))
    with pytest.raises(BudgetExceeded, match="10 tokens are used, the limit is 10"):
        budget.check(0, Totals(input_tokens=9, output_tokens=1))
