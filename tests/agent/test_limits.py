"""Limits of a turn, and going in circles: both stop before the next model call."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent import loop as budgets
from treadle.agent.loop import Repeats, TurnBudget
from treadle.agent.messages import ToolCall
from treadle.errors import BudgetExceeded, LoopDetected, MaxIterations, TimedOut
from treadle.session import Limits
from treadle.sessions.totals import Totals


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


def test_tokens_of_every_bucket_count() -> None:
    spent = Totals(input_tokens=1, output_tokens=1, cache_read_tokens=97, cache_write_tokens=1, calls=1)
    with pytest.raises(BudgetExceeded, match="100 tokens are used, the limit is 100"):
        TurnBudget(Limits(max_tokens=100)).check(1, spent)
    TurnBudget(Limits(max_tokens=101)).check(1, spent)


def step(arguments: str, name: str = "bash") -> list[ToolCall]:
    return [ToolCall(id="c", name=name, arguments=arguments)]


def test_key_order_and_spacing_do_not_hide_a_repeat() -> None:
    repeats = Repeats(2)
    repeats.note(step('{"a":1,"b":2}'))
    with pytest.raises(LoopDetected):
        repeats.note(step('{ "b": 2, "a": 1 }'))


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_cycle_is_a_loop_when_it_has_come_round_often_enough(length: int) -> None:
    repeats = Repeats(3)
    steps = [step(f'{{"n":{number % length}}}') for number in range(length * 3)]
    for one in steps[:-1]:
        repeats.note(one)
    with pytest.raises(LoopDetected, match=f"cycle of {length}"):
        repeats.note(steps[-1])


def test_zero_turns_it_off() -> None:
    repeats = Repeats(0)
    for _ in range(50):
        repeats.note(step("{}"))


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(2, 4))
def test_a_loop_is_reported_exactly_when_the_last_steps_repeat(steps: list[int], threshold: int) -> None:
    def looping(seen: list[int]) -> bool:
        return any(
            len(seen) >= length * threshold and seen[-length * threshold :] == seen[-length:] * threshold
            for length in range(1, 5)
        )

    repeats, seen = Repeats(threshold), []
    for number in steps:
        seen.append(number)
        if looping(seen):
            with pytest.raises(LoopDetected):
                repeats.note(step(str(number)))
            return
        repeats.note(step(str(number)))


def test_the_same_calls_with_other_results_are_progress() -> None:
    repeats = Repeats(3)
    for number in range(20):
        repeats.note(step('{"command":"make status"}'), [f"{number} %"])


def test_whoever_polls_slowly_may_get_the_same_result_for_long() -> None:
    repeats = Repeats(3)
    for _ in range(59):
        repeats.note(step('{"command":"sleep 30; ./ready"}'), ["not yet"], 30.0)
    with pytest.raises(LoopDetected, match="came 60 times"):
        repeats.note(step('{"command":"sleep 30; ./ready"}'), ["not yet"], 30.0)


def test_calls_that_come_back_at_once_and_never_stop_are_a_loop_whatever_their_results() -> None:
    repeats = Repeats(3)
    for number in range(59):
        repeats.note(step('{"command":"date"}'), [str(number)])
    with pytest.raises(LoopDetected, match="60 times in a row, one right after the other"):
        repeats.note(step('{"command":"date"}'), ["59"])
