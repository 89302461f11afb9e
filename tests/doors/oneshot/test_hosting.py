"""What a host is told with the answers to its prompts, over the wire as an SDK of Claude Code speaks it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.doors.oneshot.test_input import Host, prompt
from tests.stand_ins.sessions import Step
from treadle.doors.oneshot.hosting import Verbose
from treadle.doors.oneshot.input import StreamInput
from treadle.doors.oneshot.run import Hosting, OneShot, RunEnding, result_of
from treadle.events import ErrorInfo, Message, TextDelta, TurnEnded, Usage
from treadle.sessions.totals import TurnSummary, totals
from treadle.wire.oneshot.connection import RunResult

FIRST, SECOND = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
SPENT = Usage(model="m", input_tokens=10, output_tokens=2, cost_usd=0.5)


class Hosted(Host):
    """A program that drives us as the SDKs do: with whole lines and partial ones."""

    def __init__(self, *turns: Sequence[Step], earlier: tuple[Usage, ...] = ()) -> None:
        self.earlier = earlier
        super().__init__(*turns)

    def made(self, session: Any, ours: Any) -> StreamInput:
        extra = Verbose(session, cwd="/", partial=True, deltas=False)
        runner = OneShot(session, "stream-json", out=ours, err=ours, extra=extra, hosting=Hosting(self.earlier))
        return StreamInput(session, runner, ours, self.warnings.append)


@pytest.fixture
def turn() -> list[Step]:
    return [TextDelta(text="one"), Message(text="one"), SPENT]


async def lines_of(host: Host) -> list[dict[str, Any]]:
    """All lines up to the next result."""
    lines = [await host.record()]
    while lines[-1]["type"] != "result":
        lines.append(await host.record())
    return lines


async def test_the_first_line_of_each_kind_and_the_result_name_the_prompt_that_they_answer(turn: list[Step]) -> None:
    host = Hosted(turn, turn)
    await host.say({**prompt("a"), "uuid": FIRST}, prompt("b"))
    lines = await lines_of(host)
    stamped = [line["type"] for line in lines if line.get("user_message_uuid") == FIRST]
    assert stamped == ["stream_event", "assistant", "result"]
    assert all(line["user_message_uuids"] == [FIRST] for line in lines if "user_message_uuid" in line)
    unnamed = await lines_of(host)
    assert not any("user_message_uuid" in line for line in unnamed), "this one came without a uuid"
    await host.end()


async def test_costs_go_on_from_prompt_to_prompt_and_from_what_was_resumed(turn: list[Step]) -> None:
    host = Hosted(turn, turn, earlier=(SPENT,))
    await host.say(prompt("a"))
    first = await host.until("result")
    await host.say(prompt("b"))
    second = await host.until("result")
    assert [first["total_cost_usd"], second["total_cost_usd"]] == [1.0, 1.5]
    assert second["modelUsage"]["m"]["inputTokens"] == 30 and second["usage"]["input_tokens"] == 10
    usage = (await host.control(subtype="get_usage"))["response"]["session"]
    assert usage["total_cost_usd"] == 1.5 and usage["model_usage"] == second["modelUsage"]
    await host.end()


async def test_results_are_numbered_and_say_how_many_prompts_wait(turn: list[Step]) -> None:
    host = Hosted(turn, turn)
    await host.say(prompt("a"), prompt("b"))
    told = [await host.until("result") for _ in range(2)]
    assert [one["result_index"] for one in told] == [0, 1]
    assert [one["queued_turn_count"] for one in told] == [1, 0]
    assert all(one["ttft_ms"] >= 0 and one["api_error_status"] is None for one in told)
    await host.end()


async def test_a_prompt_that_waits_can_be_taken_back_and_one_that_does_not_cannot() -> None:
    host = Hosted([TextDelta(text="one"), asyncio.Event()])
    await host.say({**prompt("a"), "uuid": FIRST})
    await host.until("stream_event")
    await host.say({**prompt("b"), "uuid": SECOND})
    begun = await host.control(subtype="cancel_async_message", message_uuid=FIRST)
    assert begun["response"] == {"cancelled": False}
    assert (await host.control(subtype="cancel_async_message", message_uuid=SECOND))["response"]["cancelled"] is True
    assert (await host.control(subtype="interrupt"))["response"] == {"still_queued": []}
    await host.until("result")
    assert await host.end() in (0, 1)
    assert len(host.results) == 1, "nothing is owed for the one that was taken back"


async def test_the_end_of_a_subagents_usage_is_not_in_the_usage_of_the_result(turn: list[Step]) -> None:
    host = Hosted([*turn, Usage(model="small", input_tokens=7, output_tokens=1, cost_usd=0.25, parent="t1")])
    await host.say(prompt("a"))
    result = await host.until("result")
    assert result["usage"]["input_tokens"] == 10 and result["modelUsage"]["small"]["inputTokens"] == 7
    assert result["total_cost_usd"] == 0.75
    await host.end()


async def test_a_mode_that_was_changed_and_a_request_to_the_model_are_status_lines(turn: list[Step]) -> None:
    host = Hosted(turn)
    await host.control(subtype="set_permission_mode", mode="acceptEdits")
    changed = await host.record()
    assert (changed["subtype"], changed["status"], changed["permissionMode"]) == ("status", None, "acceptEdits")
    await host.say(prompt("a"))
    lines = await lines_of(host)
    assert "requesting" in [line["status"] for line in lines if line.get("subtype") == "status"]
    await host.end()


def stamped(hosting: Hosting, *kinds: str, **more: Any) -> list[dict[str, Any]]:
    return hosting.stamp([{"type": kind, **more} for kind in kinds])


def test_what_a_subagent_says_is_no_first_word_and_is_not_stamped() -> None:
    hosting = Hosting()
    hosting.begin(FIRST)
    hosting.hear(TextDelta(text="x", parent="t1"))
    hosting.hear(SPENT)
    assert hosting._first is None
    assert stamped(hosting, "assistant", parent_tool_use_id="t1") == [{"type": "assistant", "parent_tool_use_id": "t1"}]
    hosting.hear(Message(text="x"))
    first = hosting._first
    assert first is not None and first >= 0
    hosting._first = 7
    hosting.hear(TextDelta(text="y"))
    assert hosting._first == 7, "only the first counts"
    named = {"user_message_uuid": FIRST, "user_message_uuids": [FIRST]}
    found = stamped(hosting, "assistant", "stream_event", "system", "assistant", parent_tool_use_id=None)
    none = {"parent_tool_use_id": None}
    assert found == [
        {"type": "assistant", **none, **named},
        {"type": "stream_event", **none, **named, "ttft_ms": 7},
        {"type": "system", **none},
        {"type": "assistant", **none},
    ]
    hosting.begin()
    assert stamped(hosting, "stream_event") == [{"type": "stream_event"}] and hosting._first is None


def test_a_result_has_what_only_a_host_reads() -> None:
    hosting = Hosting([SPENT, Usage(model="", input_tokens=1, cost_usd=0.25)])
    assert hosting.by_model.keys() == {"m"} and hosting.waiting() == 0 and hosting.before_result() == []
    hosting.waiting = lambda: 3
    hosting.begin(FIRST)
    hosting.hear(TextDelta(text="a"))
    hosting._first = 9
    summary = totals([SPENT, TurnEnded(outcome="completed")])

    def result() -> RunResult:
        return result_of(
            RunEnding(),
            TurnSummary(model_ms=5),
            0,
            msgspec.UNSET,
            session_id="s",
            milliseconds=20,
            window=None,
            hosted=True,
        )

    first, second, third = result(), result(), result()
    hosting.complete(first, summary, "help", ErrorInfo(code="x", message="m", details={"status": 529}))
    assert (first.total_cost_usd, first.duration_api_ms, first.duration_ms) == (1.25, 5, 20)
    assert (first.user_message_uuid, first.user_message_uuids) == (FIRST, [FIRST])
    assert (first.ttft_ms, first.ttft_stream_ms, first.local_command, first.api_error_status) == (9, 9, "help", 529)
    assert (first.queued_turn_count, first.result_index, first.fast_mode_state) == (3, 0, "off")
    hosting.begin()
    hosting.complete(second, summary, None, ErrorInfo(code="x", message="m"))
    assert (second.total_cost_usd, second.duration_api_ms, second.result_index) == (1.75, 10, 1)
    assert second.api_error_status is None and second.local_command is msgspec.UNSET
    assert second.user_message_uuid is msgspec.UNSET and second.ttft_ms is msgspec.UNSET
    hosting.complete(third, summary, "", None)
    assert third.local_command == "" and third.api_error_status is None
    assert (hosting.model_ms, hosting.total_ms, hosting.by_model["m"].input_tokens) == (15, 60, 40)
