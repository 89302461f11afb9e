"""Totals of a turn: what counts, what does not, and that unknown stays unknown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.events import (
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
from treadle.sessions.totals import Totals, over, totals, unmetered


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
    assert (summary.text, summary.outcome, summary.iterations, summary.total_ms) == ("y", "failed", 3, 4000)


def test_nothing_folds_into_an_empty_running_turn() -> None:
    assert totals([]).outcome is None and totals([]).total_ms == 0


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
