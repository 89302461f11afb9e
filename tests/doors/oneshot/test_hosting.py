"""What a host is told with the answers to its prompts, over the wire as an SDK of Claude Code speaks it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.doors.oneshot.test_input import Host, prompt
from treadle.doors.oneshot.hosting import Hosting
from treadle.doors.oneshot.input import StreamInput
from treadle.doors.oneshot.run import OneShot
from treadle.doors.oneshot.verbose import Verbose
from treadle.events import Message, TextDelta, Usage
from treadle.testing.sessions import Step

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
