"""Totals of a turn: what counts, what does not, and that unknown stays unknown."""

from typing import Any

from tests.wire.test_translations import hold
from treadle.events import ErrorInfo, Event, Message, TextDelta, ToolEnded, ToolStarted, TurnEnded, TurnStarted, Usage
from treadle.sessions import session
from treadle.sessions import totals as module
from treadle.sessions.totals import Totals, TurnTotals


def at(ts: float, make: type[Event], **fields: Any) -> Event:
    return make(ts=ts, turn="t1", **fields)


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


def test_a_total_with_one_estimate_in_it_is_never_called_measured() -> None:
    counted, guessed = Usage(input_tokens=3, cost_usd=0.5), Usage(input_tokens=4, source="estimate")
    assert not Totals.of([counted, counted]).estimated
    assert Totals.of([guessed]).estimated and Totals.of([guessed, counted]).estimated
    assert Totals.of([counted, guessed]).estimated and Totals.of([counted, guessed, counted]).cost_usd is None


def test_what_comes_of_events_is_as_it_was() -> None:
    hold("sessions", {"sessions totals": (module, ""), "sessions log": (session, "")})
