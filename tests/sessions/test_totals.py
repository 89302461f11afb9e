"""Totals of a turn: what counts, what does not, and that unknown stays unknown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.events import (
    ErrorInfo,
    Event,
    FileChanged,
    Message,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
)
from treadle.session import Limits
from treadle.sessions.totals import Totals, TurnTotals, over, totals, unmetered


def at(ts: float, make: type[Event], **fields: Any) -> Event:
    return make(ts=ts, turn="t1", **fields)


def test_a_turn_with_tools_folds_into_its_text_tools_and_times() -> None:
    summary = totals(
        [
            at(10.0, TurnStarted, prompt="go"),
            at(10.2, Usage, model="m", input_tokens=100, output_tokens=5, cost_usd=0.5, duration_ms=200),
            at(10.2, ToolStarted, call="c1", name="read_file", args={"file_path": "a"}),
            at(10.3, ToolStarted, call="c2", name="glob", args={}),
            at(10.5, ToolEnded, call="c1", name="read_file", result="x"),
            at(10.7, ToolEnded, call="c2", name="glob", result="y", ok=False),
            at(10.8, ToolDenied, call="c3", name="bash", reason="no"),
            at(10.9, FileChanged, path="a", change="modified"),
            at(11.0, Usage, model="m", input_tokens=50, cache_read_tokens=60, output_tokens=7, cost_usd=0.25),
            at(11.0, TurnEnded, outcome="completed", text="done", iterations=2, stop_reason="stop"),
        ]
    )
    assert (summary.text, summary.outcome, summary.iterations) == ("done", "completed", 2)
    assert [use.started.name for use in summary.tools] == ["read_file", "glob"]
    assert [use.ended.ok for use in summary.tools if use.ended] == [True, False]
    assert summary.usage.cost_usd == 0.75 and summary.usage.prompt_tokens == 210 and summary.usage.total_tokens == 222
    assert (summary.total_ms, summary.tool_ms, summary.model_ms) == (1000, 500, 200)
    assert len(summary.denials) == len(summary.files) == 1


def test_one_unknown_price_makes_the_cost_unknown_for_good() -> None:
    priced, unpriced = Usage(model="m", cost_usd=1.0), Usage(model="m")
    assert totals([priced, unpriced, priced]).usage.cost_usd is None
    assert totals([unpriced, priced]).usage.cost_usd is None
    assert totals([priced, priced]).usage.cost_usd == 2.0
    assert totals([]).usage.cost_usd is None
    assert totals([Usage(model="m", cost_usd=0.0)]).usage.cost_usd == 0.0, "for nothing is a price"


def test_totals_are_added_bucket_by_bucket_and_one_unknown_cost_makes_the_sum_unknown() -> None:
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "calls")
    one = Totals(**dict(zip(names, (1, 2, 3, 4, 5, 6), strict=True)), cost_usd=0.5)
    other = Totals(**dict(zip(names, (10, 20, 30, 40, 50, 60), strict=True)), cost_usd=0.25, estimated=True)
    both = Totals(**dict(zip(names, (11, 22, 33, 44, 55, 66), strict=True)), cost_usd=0.75, estimated=True)
    assert one.together(other) == other.together(one) == both
    assert one.together(Totals()) == Totals().together(one) == one and Totals().together(Totals()) == Totals()
    assert one.together(Totals(calls=1)).cost_usd is Totals(calls=1).together(one).cost_usd is None
    usage = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, reasoning_tokens=5)
    counts = dict(zip(names, (2, 4, 6, 8, 10, 7), strict=True))
    assert one.plus(usage) == Totals(**counts, cost_usd=None)


@pytest.mark.parametrize("told", [-1.0, -0.0001, float("inf"), float("-inf"), float("nan")])
def test_a_price_that_cannot_be_is_not_added(told: float) -> None:
    """With a negative price a service could refund a budget; the real cost is unknown."""
    assert totals([Usage(model="m", cost_usd=told)]).usage.cost_usd is None
    assert totals([Usage(model="m", cost_usd=1.0), Usage(model="m", cost_usd=told)]).usage.cost_usd is None


def test_what_a_subagent_does_counts_for_usage_and_nothing_else() -> None:
    summary = totals(
        [
            at(1, TurnStarted, prompt="go"),
            at(1, ToolStarted, call="c9", name="bash", parent="task_1"),
            at(1, TextDelta, text="inner", parent="task_1"),
            at(2, Usage, model="small", input_tokens=3, parent="task_1"),
            at(3, TurnEnded, outcome="completed", text="outer"),
        ]
    )
    assert summary.tools == () and summary.text == "outer"
    assert summary.by_model["small"].input_tokens == 3


def test_the_time_that_a_subagent_spends_with_its_model_is_not_the_turns_own() -> None:
    summary = totals(
        [
            at(1, TurnStarted, prompt="go"),
            at(2, Usage, model="m", duration_ms=200),
            at(9, Usage, model="small", duration_ms=5000, parent="task_1"),
            at(9, TurnEnded, outcome="completed"),
        ]
    )
    assert summary.model_ms == 200


def test_a_model_without_a_name_counts_in_the_totals_alone() -> None:
    summary = totals([Usage(input_tokens=3), Usage(model="m", input_tokens=4)])
    assert summary.usage.input_tokens == 7 and list(summary.by_model) == ["m"]


def test_a_tool_still_running_at_the_end_has_no_end_but_its_time_counts() -> None:
    summary = totals(
        [
            at(1, TurnStarted, prompt="go"),
            at(2, ToolStarted, call="c", name="bash"),
            at(5, TurnEnded, outcome="interrupted"),
        ]
    )
    assert summary.tools[0].ended is None and summary.tool_ms == 3000


def test_an_agent_without_a_final_text_is_known_by_its_last_words() -> None:
    assert totals([at(1, TextDelta, text="a"), at(1, TextDelta, text="b")]).text == "ab"
    assert totals([at(1, TextDelta, text="a"), at(1, Message, text="all")]).text == "all"


def test_turns_that_make_one_run_fold_into_one_summary() -> None:
    first = [at(1, TurnStarted, prompt="a"), at(2, TurnEnded, outcome="completed", text="x", iterations=2)]
    second = [at(3, TurnStarted, prompt="b"), at(5, TurnEnded, outcome="failed", text="y", iterations=1)]
    summary = totals(first + second)
    assert (summary.turn, summary.prompt) == ("t1", "a")
    assert (summary.text, summary.outcome, summary.iterations, summary.total_ms) == ("y", "failed", 3, 4000)


def test_a_turn_that_runs_has_its_time_so_far_and_says_whether_a_tool_works() -> None:
    turn = TurnTotals()
    turn.add(at(1, TurnStarted, prompt="go"))
    turn.add(at(2, ToolEnded, call="strange", name="x", result=""))
    assert not turn.in_tools and turn.summary().tools == ()
    working = []
    for event in (
        at(3, ToolStarted, call="a", name="x"),
        at(4, ToolStarted, call="b", name="x"),
        at(6, ToolEnded, call="a", name="x", result=""),
        at(7, ToolEnded, call="b", name="x", result=""),
        at(7, Message, text="thought", kind="thinking"),
        at(8, Message, text="said"),
        at(9, TextDelta, text="more"),
    ):
        turn.add(event)
        working.append(turn.in_tools)
    assert working == [True, True, True, False, False, False, False]
    found = turn.summary()
    assert (found.turn, found.prompt, found.outcome, found.error, found.stop_reason) == ("t1", "go", None, None, "")
    assert (found.total_ms, found.tool_ms, found.model_ms, found.text) == (8000, 4000, 4000, "more")
    error = ErrorInfo(code="c", message="m")
    turn.add(at(0, TurnEnded, outcome="failed", error=error, stop_reason="stop"))
    found = turn.summary()
    assert (found.error, found.stop_reason, found.total_ms, found.model_ms) == (error, "stop", 0, 0)


def test_estimates_and_subagents_are_told_apart_from_what_was_counted() -> None:
    found = totals(
        [
            Usage(model="m", input_tokens=1, request_id="r1"),
            Usage(model="m", input_tokens=2, request_id="r2", parent="task_1"),
            Usage(model="m", input_tokens=4, request_id="r3", source="estimate"),
            at(1, ToolDenied, call="c", name="bash", reason="no", parent="task_1"),
        ]
    )
    assert [each.input_tokens for each in (found.usage, found.own, found.counted, found.by_model["m"])] == [7, 5, 3, 7]
    assert found.request_id == "r1" and len(found.denials) == 1
    assert (found.turn, found.prompt) == ("", "")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.one_of(st.none(), st.floats(0, 1)))))
def test_totals_are_sums(calls: list[tuple[int, int, float | None]]) -> None:
    usage = totals([Usage(model="m", input_tokens=i, output_tokens=o, cost_usd=c) for i, o, c in calls]).usage
    assert usage.input_tokens == sum(i for i, _, _ in calls) and usage.output_tokens == sum(o for _, o, _ in calls)
    assert (usage.cost_usd is None) == (not calls or any(c is None for _, _, c in calls))


def test_a_total_with_one_estimate_in_it_is_never_called_measured() -> None:
    counted, guessed = Usage(input_tokens=3, cost_usd=0.5), Usage(input_tokens=4, source="estimate")
    assert not Totals.of([counted, counted]).estimated
    assert Totals.of([guessed]).estimated and Totals.of([guessed, counted]).estimated
    assert Totals.of([counted, guessed]).estimated and Totals.of([counted, guessed, counted]).cost_usd is None


@pytest.mark.parametrize(
    ("limits", "spent", "message"),
    [
        (Limits(), Totals(input_tokens=9, cost_usd=9.0), None),
        (Limits(max_tokens=9), Totals(input_tokens=5, cache_read_tokens=4), None),
        (Limits(max_tokens=9), Totals(input_tokens=5, output_tokens=5), "10 tokens are used, 9 were allowed"),
        (Limits(max_cost_usd=1.0), Totals(cost_usd=1.0), None),
        (Limits(max_cost_usd=1.0), Totals(cost_usd=1.25), "1.2500 USD are spent, 1 were allowed"),
        (Limits(max_cost_usd=1.0), Totals(input_tokens=5), None),
    ],
)
def test_a_session_is_over_its_limit_when_it_has_used_more(limits: Limits, spent: Totals, message: str | None) -> None:
    error = over(limits, spent)
    assert (str(error) if error else None) == message


def test_what_a_limit_counts_and_the_agent_did_not_report_is_named() -> None:
    both = Limits(max_tokens=1, max_cost_usd=1.0)
    assert unmetered(both, Totals()) == "tokens and no costs"
    assert unmetered(both, Totals(input_tokens=1)) == "costs"
    assert unmetered(both, Totals(input_tokens=1, cost_usd=0.1)) == ""
    assert unmetered(Limits(), Totals()) == ""
