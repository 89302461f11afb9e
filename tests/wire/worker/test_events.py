from typing import Any

import pytest

from treadle import events
from treadle.policy.guess import access_of
from treadle.wire.worker import messages as wire
from treadle.wire.worker.events import WorkerIncoming, WorkerOutgoing, envelope, error_info

OLD, NEW = (0, 2), (0, 5)
USAGE = events.Usage(
    input_tokens=10,
    output_tokens=5,
    cache_read_tokens=3,
    cache_write_tokens=2,
    reasoning_tokens=1,
    cost_usd=0.0015,
    request_id="gen-1",
)


@pytest.mark.parametrize(
    ("event", "old", "new"),
    [
        (events.TextDelta(text="a"), [wire.ContentDelta("a")], [wire.ContentDelta("a")]),
        (events.TextDelta(text="a", parent="call"), [], []),
        (events.ThinkingDelta(text="a"), [], []),
        (events.Usage(input_tokens=5, source="estimate"), [], []),
        (events.FileChanged(path="a", change="added"), [], []),
        (events.TurnStarted(prompt="p"), [], [wire.TurnState("queued"), wire.TurnState("running")]),
        (events.ToolStarted(call="c", name="n", args={}), [wire.ToolStart("n", {})], [wire.ToolStart("n", {}, "c")]),
        (
            events.ToolEnded(call="c", name="n", result="é" * 600),
            [wire.ToolEnd("n", "é" * 500)],
            [wire.ToolEnd("n", "é" * 500, "c")],
        ),
        (events.ModelRouted(model="m"), [], [wire.RoutedModel("m")]),
        (
            USAGE,
            [wire.UsageEvent(prompt_tokens=15, completion_tokens=5, total_tokens=20)],
            [
                wire.UsageEvent(
                    prompt_tokens=15,
                    completion_tokens=5,
                    total_tokens=20,
                    cost_micros=1500,
                    cost_currency="USD",
                    cached_tokens=3,
                    cache_write_tokens=2,
                    reasoning_tokens=1,
                    generation_id="gen-1",
                )
            ],
        ),
    ],
)
def test_a_client_is_sent_what_its_version_knows(event: events.Event, old: list[Any], new: list[Any]) -> None:
    assert list(WorkerOutgoing(OLD).payloads(event)) == old
    assert list(WorkerOutgoing(NEW).payloads(event)) == new


def test_an_unknown_price_is_absent_and_never_zero() -> None:
    [sent] = WorkerOutgoing(NEW).payloads(events.Usage(input_tokens=1))
    assert isinstance(sent, wire.UsageEvent) and (sent.cost_micros, sent.cost_currency) == (None, None)
    [back] = WorkerIncoming("x", access_of).events(sent)
    assert isinstance(back, events.Usage) and back.cost_usd is None


def test_a_streamed_block_is_not_sent_twice_and_an_unstreamed_one_is_sent_once() -> None:
    out = WorkerOutgoing(OLD)
    block = events.Message(text="hello")
    assert [out.payloads(event) for event in (events.TextDelta(text="hello"), block, block)] == [
        (wire.ContentDelta("hello"),),
        (),
        (wire.ContentDelta("hello"),),
    ]
    assert out.payloads(events.Message(text="hm", kind="thinking")) == ()


def test_an_ask_that_nobody_can_answer_is_a_request_and_a_denial() -> None:
    reason = "bash (execute) requires approval in suggest mode"
    denied = events.ToolDenied(call="c", name="bash", reason=reason, by="nobody")
    assert WorkerOutgoing(OLD).payloads(denied) == (
        wire.PermissionRequest(name="bash", reason=reason),
        wire.PermissionDenied("bash", reason),
    )
    by_rule = events.ToolDenied(call="c", name="bash", reason="no", by="rule")
    assert WorkerOutgoing(OLD).payloads(by_rule) == (wire.PermissionDenied("bash", "no"),)


def test_a_question_carries_what_its_answer_needs_only_for_a_client_that_answers() -> None:
    asked = events.Asked(request="q", kind="permission", text="why", name="bash", args={"command": "ls"})
    [plain] = WorkerOutgoing(NEW).payloads(asked)
    assert plain == wire.PermissionRequest(name="bash", reason="why")
    [full] = WorkerOutgoing(NEW, answers=True).payloads(asked)
    assert full == wire.PermissionRequest(
        name="bash", reason="why", request_id="q", kind="permission", args={"command": "ls"}
    )
    assert WorkerIncoming("x", access_of).events(full) == (
        events.Asked(
            request="q", kind="permission", text="why", name="bash", args={"command": "ls"}, tool_kind="execute"
        ),
    )
    question = events.Asked(request="q2", kind="question", text="which?", options=("a", "b"))
    [sent] = WorkerOutgoing(OLD, answers=True).payloads(question)
    assert sent == wire.PermissionRequest(
        name="ask_user", reason="which?", request_id="q2", kind="question", options=("a", "b")
    )
    plan = events.Asked(request="q3", kind="plan", text="1. look")
    assert WorkerOutgoing(OLD, answers=True).payloads(plan) == (wire.PlanComplete("1. look", "q3"),)
    assert WorkerOutgoing(OLD).payloads(plan) == (wire.PlanComplete("1. look"),)


@pytest.mark.parametrize(
    "event",
    [
        events.TextDelta(text="a"),
        events.ToolStarted(call="c1", name="bash", args={"command": "ls"}, kind="execute", command="ls"),
        events.ToolStarted(call="c1", name="read_file", args={"path": "a"}, kind="read", paths=("a",)),
        USAGE,
        events.ContextPruned(messages_pruned=1, tokens_before=2, tokens_after=1),
        events.ContextCompacted(tokens_before=0, tokens_after=0),
        events.ContextHandoff(),
        events.ModelRouted(model="m"),
        events.Failed(
            error=events.ErrorInfo(code="provider_error", message="no", retryable=True), provider="openrouter"
        ),
    ],
)
def test_an_event_that_goes_out_comes_back_the_same(event: events.Event) -> None:
    [payload] = WorkerOutgoing(NEW).payloads(event)
    assert WorkerIncoming("x", access_of).events(payload) == (event,)


def test_calls_without_ids_are_told_apart_by_order() -> None:
    read = WorkerIncoming("s", access_of)
    starts = [read.events(wire.ToolStart("grep", {"n": n})) for n in (1, 2)]
    ends = [read.events(wire.ToolEnd("grep", text)) for text in ("one", "Error: two", "stray")]
    assert [start[0].call for start in starts] == ["s.1", "s.2"]  # type: ignore[attr-defined]
    assert [(end[0].call, end[0].ok) for end in ends] == [  # type: ignore[attr-defined]
        ("s.1", True),
        ("s.2", False),
        ("s.3", True),
    ]


def test_calls_with_ids_may_end_in_any_order() -> None:
    read = WorkerIncoming("s", access_of)
    for id in ("a", "b"):
        read.events(wire.ToolStart("grep", None, id))
    assert [read.events(wire.ToolEnd("grep", "x", id))[0].call for id in ("b", "a")] == ["b", "a"]  # type: ignore[attr-defined]


def test_a_permission_request_that_waits_for_nobody_is_a_warning() -> None:
    [event] = WorkerIncoming("s", access_of).events(wire.PermissionRequest(name="bash"))
    assert event == events.Warned(message="bash requires approval", code="permission_request")


@pytest.mark.parametrize("payload", [wire.Heartbeat(5), wire.TurnState("running"), wire.UnknownMessage("x", b"{}")])
def test_what_has_no_meaning_here_is_skipped(payload: Any) -> None:
    assert WorkerIncoming("s", access_of).events(payload) == ()


@pytest.mark.parametrize(
    ("ours", "code", "details"),
    [
        (events.ErrorInfo(code="loop_detected", message="m"), "loop_detected", None),
        (events.ErrorInfo(code="provider_error", message="m", details={"a": 1}), "provider_error", {"a": 1}),
        (
            events.ErrorInfo(code="rate_limited", message="m", retryable=True, retry_after_ms=9),
            "provider_error",
            {"code": "rate_limited", "retry_after_ms": 9},
        ),
        (
            events.ErrorInfo(code="config_error", message="m", details=[1]),
            "protocol_error",
            {"code": "config_error", "more": [1]},
        ),
        (events.ErrorInfo(code="internal_error", message="m"), "provider_error", {"code": "internal_error"}),
    ],
)
def test_only_codes_of_the_specification_go_out_and_ours_come_back(
    ours: events.ErrorInfo, code: str, details: Any
) -> None:
    sent = envelope(ours)
    assert (sent.code, sent.message, sent.retryable, sent.details) == (code, "m", ours.retryable, details)
    assert error_info(sent).code == ours.code


@pytest.mark.parametrize(
    ("version", "routed", "call"), [((0, 2), 0, None), ((0, 3), 1, None), ((0, 4), 1, None), ((0, 5), 1, "c")]
)
def test_each_field_is_sent_from_the_version_that_added_it(
    version: tuple[int, int], routed: int, call: str | None
) -> None:
    out = WorkerOutgoing(version)
    assert len(out.payloads(events.ModelRouted(model="m"))) == routed
    assert out.payloads(events.ToolStarted(call="c", name="n", args={})) == (wire.ToolStart("n", {}, call),)
    assert bool(out.payloads(events.TurnStarted(prompt="p"))) is (call is not None)
    (used,) = out.payloads(USAGE)
    assert isinstance(used, wire.UsageEvent) and (used.generation_id is not None) is bool(routed)
    assert (used.cached_tokens is not None) is bool(routed)


def test_what_a_subagent_does_is_left_out_but_for_what_it_used() -> None:
    out = WorkerOutgoing(NEW)
    inner = [
        events.Message(text="a", parent="p"),
        events.Usage(input_tokens=1, parent="p"),
        events.TextDelta(text="b", parent="p"),
    ]
    assert [type(payload) for payload in out.translate(inner)] == [wire.UsageEvent]
    both = out.translate(
        [events.TextDelta(text="a"), events.ToolStarted(call="c", name="n", args={}), events.Message(text="b")]
    )
    assert [type(payload).__name__ for payload in both] == ["ContentDelta", "ToolStart", "ContentDelta"]
    assert out.translate([events.TextDelta(text="a"), events.Message(text="a")]) == [wire.ContentDelta("a")]


def test_a_tool_is_running_until_its_own_end() -> None:
    read = WorkerIncoming("s", access_of)
    assert not read.busy
    read.events(wire.ToolStart("grep", None, "a"))
    read.events(wire.ToolStart("grep", None, "b"))
    assert read.events(wire.ToolEnd("grep", "x", "unknown"))[0].call == "a"  # type: ignore[attr-defined]
    assert read.busy and read.events(wire.ToolEnd("grep", "x", "b"))[0].call == "b"  # type: ignore[attr-defined]
    assert not read.busy and read.events(wire.ToolEnd("grep", "x", "late"))[0].call == "late"  # type: ignore[attr-defined]
    (denied,) = read.events(wire.PermissionDenied("bash", "no"))
    assert denied == events.ToolDenied(call="s.1", name="bash", reason="no", by="mode")


def test_money_in_another_currency_is_unknown_and_counts_never_fall_below_nothing() -> None:
    def used(**more: Any) -> events.Usage:
        fields = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6, **more}
        (found,) = WorkerIncoming("x", access_of).events(wire.UsageEvent(**fields))
        assert isinstance(found, events.Usage)
        return found

    assert used(cost_micros=1500, cost_currency="EUR").cost_usd is None and used(cost_currency="USD").cost_usd is None
    assert used(cost_micros=1500).cost_usd == 0.0015 and used(cost_micros=0, cost_currency="USD").cost_usd == 0.0
    assert (
        used(cached_tokens=4, cache_write_tokens=4).input_tokens == 0 and used(reasoning_tokens=2).reasoning_tokens == 2
    )
    (asked,) = WorkerIncoming("x", access_of).events(wire.PermissionRequest(name="bash", request_id="q"))
    assert isinstance(asked, events.Asked) and (asked.kind, asked.text) == ("permission", "bash requires approval")
    (plan,) = WorkerIncoming("x", access_of).events(wire.PlanComplete("1."))
    assert isinstance(plan, events.Asked) and (plan.request, plan.kind, plan.text) == ("", "plan", "1.")


def test_when_to_try_again_is_said_beside_other_details_and_a_foreign_code_is_kept() -> None:
    known = events.ErrorInfo(code="timeout", message="m", details={"a": 1}, retry_after_ms=5)
    assert envelope(known).details == {"a": 1, "retry_after_ms": 5}
    assert envelope(events.ErrorInfo(code="timeout", message="m", details="words", retry_after_ms=5)).details == "words"
    assert envelope(events.ErrorInfo(code="timeout", message="m", retry_after_ms=5)).details == {"retry_after_ms": 5}
    for details in ({"code": 7}, ["code"], None):
        back = error_info(wire.ErrorEnvelope(code="timeout", message="m", retryable=True, details=details))
        assert (back.code, back.retryable, back.details) == ("timeout", True, details)
