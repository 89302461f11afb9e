"""Counts as recorded agents report them, each over a different span."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.events import Usage
from treadle.wire.acp.tools import UsageMeter, read_counts

CLAUDE = {"inputTokens": 120, "outputTokens": 25, "cachedReadTokens": 50, "cachedWriteTokens": 10, "totalTokens": 205}
COPILOT = {"inputTokens": 180, "outputTokens": 25, "totalTokens": 205, "cachedReadTokens": 50, "cachedWriteTokens": 0}


def buckets(usage: Usage | None) -> tuple[int, ...]:
    assert usage is not None
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def test_cached_tokens_are_not_counted_twice_whichever_way_they_are_told() -> None:
    assert buckets(read_counts(CLAUDE)) == (120, 25, 50, 10)
    assert buckets(read_counts(COPILOT)) == (130, 25, 50, 0)


@pytest.mark.parametrize(
    "told", [None, 3, {}, {"inputTokens": True}, {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}]
)
def test_no_counts_are_no_usage(told: Any) -> None:
    assert read_counts(told) is None


def test_counts_of_a_turn_are_taken_as_they_are() -> None:
    meter = UsageMeter("turn")
    for _ in range(2):
        assert [buckets(usage) for usage in meter.turn({"usage": CLAUDE})] == [(120, 25, 50, 10)]


def test_of_counts_over_the_session_each_turn_has_what_it_added() -> None:
    meter = UsageMeter("session")
    twice = {name: 2 * count for name, count in COPILOT.items()}
    assert [buckets(usage) for usage in meter.turn({"usage": COPILOT})] == [(130, 25, 50, 0)]
    assert [buckets(usage) for usage in meter.turn({"usage": twice})] == [(130, 25, 50, 0)]
    assert meter.turn({"usage": twice}) == []


def test_an_agent_that_counts_from_nothing_each_time_shows_it_by_counting_less() -> None:
    meter = UsageMeter("session")
    meter.turn({"usage": {"inputTokens": 500, "outputTokens": 50, "totalTokens": 550}})
    assert [buckets(usage) for usage in meter.turn({"usage": CLAUDE})] == [(120, 25, 50, 10)]


def test_counts_along_the_way_are_the_turns_own() -> None:
    meter = UsageMeter("turn")
    step = meter.step({"inputTokens": 180, "outputTokens": 25, "totalTokens": 205, "cachedReadTokens": 50}, 606)
    assert buckets(step) == (130, 25, 50, 0) and step is not None and step.duration_ms == 606
    assert meter.turn({"usage": CLAUDE}) == []


def test_counts_by_model_are_one_usage_each() -> None:
    models = [
        {"model": "small", "token_count": {"input_tokens": 180, "output_tokens": 25}},
        {"model": "big", "token_count": {"input_tokens": 10, "output_tokens": 1}},
        {"model": "none", "token_count": None},
        "odd",
    ]
    found = UsageMeter("turn").turn({"stopReason": "end_turn", "_meta": {"quota": {"model_usage": models}}})
    assert [(usage.model, *buckets(usage)) for usage in found] == [("small", 180, 25, 0, 0), ("big", 10, 1, 0, 0)]


def test_money_is_what_the_session_cost_more_than_before() -> None:
    meter = UsageMeter("turn")
    meter.cost({"amount": 0.5, "currency": "USD"})
    assert meter.turn({"usage": CLAUDE})[0].cost_usd == 0.5
    meter.cost({"amount": 0.75, "currency": "USD"})
    assert meter.turn({"usage": CLAUDE})[0].cost_usd == 0.25


@pytest.mark.parametrize(
    "told",
    [None, {"amount": 1, "currency": "EUR"}, {"amount": "1", "currency": "USD"}, {"amount": True, "currency": "USD"}],
)
def test_money_that_is_not_told_in_dollars_is_unknown(told: Any) -> None:
    meter = UsageMeter("turn")
    meter.cost(told)
    assert meter.turn({"usage": CLAUDE})[0].cost_usd is None


def test_what_an_earlier_process_paid_is_not_paid_again() -> None:
    meter = UsageMeter("turn")
    meter.cost({"amount": 0.5, "currency": "USD"})
    meter.resumed()
    meter.cost({"amount": 0.75, "currency": "USD"})
    assert meter.turn({"usage": CLAUDE})[0].cost_usd == 0.25


def test_an_agent_without_counts_gives_none() -> None:
    assert UsageMeter("none").turn({"usage": CLAUDE}) == []


@given(st.dictionaries(st.sampled_from(list(CLAUDE)), st.integers(0, 1000)))
def test_buckets_are_never_negative(told: dict[str, int]) -> None:
    usage = read_counts(told)
    assert usage is None or min(buckets(usage)) >= 0


def test_how_full_the_conversation_is_needs_both_numbers() -> None:
    meter = UsageMeter()
    for told in ({"used": 5}, {"size": 9}, {"used": 0, "size": 9}):
        meter.updated(told)
        assert meter.context == (None, None)
    meter.updated({"used": 5, "size": 9, "cost": {"amount": 2, "currency": "USD"}})
    assert meter.context == (5, 9) and meter.turn({"usage": CLAUDE})[0].cost_usd == 2.0


def test_a_session_whose_cost_so_far_is_not_known_has_no_price_for_its_next_turn() -> None:
    meter = UsageMeter("turn")
    meter.resumed()
    prices = []
    for spent in (0.5, 0.75, 0.25, 0.75):
        meter.cost({"amount": spent, "currency": "USD"})
        prices.append(meter.turn({"usage": CLAUDE})[0].cost_usd)
    assert prices == [None, 0.25, None, None], "0.5 began before us, 0.25 is less than before, 0.75 was billed"
    free = UsageMeter("turn")
    free.cost({"amount": 0, "currency": "USD"})
    assert free.turn({"usage": CLAUDE})[0].cost_usd is None


def test_a_step_without_counts_leaves_those_of_the_answer() -> None:
    meter = UsageMeter("turn")
    meter.model = "m"
    assert meter.step(None, 5) is None and meter.turn({"usage": CLAUDE})[0].model == "m"
    odd = meter.step({"input_tokens": 1, "cachedInputTokens": 2, "reasoningOutputTokens": 3}, True)
    assert odd is not None and (odd.duration_ms, odd.reasoning_tokens, odd.model) == (0, 3, "m")
    assert buckets(odd) == (1, 0, 2, 0) and meter.turn("no object") == [] and meter.turn({"usage": CLAUDE}) == []


def test_counts_of_which_one_fell_began_anew() -> None:
    meter = UsageMeter()
    meter.turn({"usage": {"inputTokens": 5, "outputTokens": 5}})
    assert [buckets(usage) for usage in meter.turn({"usage": {"inputTokens": 9, "outputTokens": 4}})] == [(9, 4, 0, 0)]
    assert [buckets(usage) for usage in meter.turn({"usage": {"inputTokens": 9, "outputTokens": 6}})] == [(0, 2, 0, 0)]
    assert buckets(read_counts({"cachedReadTokens": 7, "totalTokens": 0})) == (0, 0, 7, 0)
    both = {"inputTokens": 9, "outputTokens": 1, "cachedReadTokens": 2, "cachedWriteTokens": 3, "totalTokens": 10}
    assert buckets(read_counts(both)) == (4, 1, 2, 3)
