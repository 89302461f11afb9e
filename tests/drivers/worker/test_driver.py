"""The driver against real processes: a worker that does whatever the script says."""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.worker.workers import DELTA, OK, PATIENT, agent, ending, gone, session, turn
from treadle.drivers.card import Launch
from treadle.drivers.worker.driver import CARDS, WorkerAgent, WorkerSession, _a_few_heartbeats, launched
from treadle.errors import (
    ConfigError,
    RemoteProtocolError,
    Unsupported,
)
from treadle.events import Asked, Event, Failed, TextDelta, ToolEnded, ToolStarted, TurnEnded, Usage, Warned
from treadle.io.peer import Patience
from treadle.session import Answer, Limits, Prompt, Rules, SessionSpec
from treadle.sessions.totals import totals

USAGE = {"event": {"event": "usage", "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}


async def test_a_prompt_goes_through_and_its_events_come_back() -> None:
    async with session({}) as opened:
        first = await turn(opened, "hello")
        second = await turn(opened, "again")
    assert [type(event).__name__ for event in first] == ["TurnStarted", "TextDelta", "Usage", "TurnEnded"]
    assert (ending(first).outcome, ending(first).text, ending(first).iterations) == ("completed", "hello", 1)
    assert ending(second).text == "again"
    assert totals(first).usage.total_tokens == 5


async def test_unknown_events_fields_and_responses_are_taken_as_they_come() -> None:
    script = {
        "send": [
            {"event": {"event": "aura", "colour": "green"}},
            {"say": {"type": "gossip", "id": "9"}},
            {"event": {"event": "content_delta", "text": "a", "mood": 7}},
            {"event": {"event": "tool_start", "name": "grep", "args": None}},
            {"event": {"event": "tool_start", "name": "bash", "args": {"command": "ls"}}},
            {"event": {"event": "tool_end", "name": "bash", "result_preview": "x"}},
            {"result": {"status": "ok", "confidence": 0.7}},
        ]
    }
    async with session(script) as opened:
        events = await turn(opened)
    assert ending(events).outcome == "completed" and ending(events).text == "a"
    started = [event for event in events if isinstance(event, ToolStarted)]
    assert [(event.name, event.kind, event.command) for event in started] == [
        ("grep", "read", None),
        ("bash", "execute", "ls"),
    ]
    [end] = [event for event in events if isinstance(event, ToolEnded)]
    assert end.call == started[1].call


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        ({"code": "provider_error", "message": "no", "retryable": True}, "failed", "provider_error"),
        ({"code": "max_iterations", "message": "no", "retryable": False}, "limited", "max_iterations"),
        ({"code": "cancelled", "message": "cancelled", "retryable": False}, "interrupted", "cancelled"),
    ],
)
async def test_an_error_result_is_told_once_and_the_session_goes_on(error: Any, outcome: str, code: str) -> None:
    async with session({"send": [{"result": {"status": "error", "error": error}}]}) as opened:
        events = await turn(opened)
        assert ending(events).outcome == outcome
        assert ending(events).error is not None and ending(events).error.code == code  # type: ignore[union-attr]
        assert sum(isinstance(event, Failed) for event in events) == (outcome != "interrupted")
        assert len(await turn(opened)) > 1


async def test_an_error_event_and_its_result_are_one_failure() -> None:
    error = {"code": "provider_error", "message": "Rate limited", "retryable": True}
    steps = [
        {"event": {"event": "error", **error, "provider": "openrouter"}},
        {"result": {"status": "error", "error": error}},
    ]
    async with session({"send": steps}) as opened:
        events = await turn(opened)
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert failed.provider == "openrouter" and failed.error.retryable


async def test_a_result_without_its_newline_counts() -> None:
    result = '{"type":"result","id":"%s","status":"ok","response":"x","tool_calls_made":[],"iterations":1}'
    code = (
        "import json,sys\n"
        "for line in sys.stdin:\n"
        "  r=json.loads(line)\n"
        "  if r['type']=='init': print(json.dumps({'type':'init_ok','id':r['id'],'session_id':'s'}),flush=True)\n"
        f"  if r['type']=='send': sys.stdout.write({result!r} % r['id']); break\n"
    )
    opened = await WorkerAgent([sys.executable, "-c", code], patience=PATIENT).open(SessionSpec(cwd=os.getcwd()))
    assert ending(await turn(opened)).text == "x"
    await opened.close()


@pytest.mark.parametrize("told", [5, {"extensions": 7, "enabled_tools": "x"}, {"extensions": [{}, "steer"]}])
async def test_capabilities_that_make_no_sense_are_ignored(told: Any) -> None:
    answer = {**INIT_OK, "capabilities": told}
    if not isinstance(told, dict):
        with pytest.raises(RemoteProtocolError):
            await agent({"init": [{"say": answer}]}).open(SessionSpec(cwd=os.getcwd()))
        return
    async with session({"init": [{"say": answer}]}) as opened:
        assert opened.info.tools == ()


def test_a_command_with_half_a_quote_is_refused() -> None:
    with pytest.raises(ConfigError, match="check its quotes"):
        WorkerAgent("agent 'x")


def child_then(path: Path, *steps: Any) -> dict[str, Any]:
    return {"send": [{"child": str(path)}, {"stderr": "last words"}, DELTA, *steps]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "code", "says"),
    [
        ([{"exit": 9}], "peer_exited", "exited with code 9.*last words"),
        ([{"exit": 0}], "peer_exited", "exited with code 0"),
        ([{"sleep": 60}], "peer_stalled", "sent nothing for 5 s.*last words"),
        ([{"raw": "Traceback (most recent call last):\n"}, {"sleep": 60}], "protocol_error", "Invalid JSON"),
        ([{"raw": '{"type":"event"}\n'}], "protocol_error", "broke the protocol"),
        ([{"say": {"type": "result", "id": "77", "status": "ok", "tool_calls_made": [], "iterations": 1}}],
         "protocol_error", "77"),
        ([{"raw": '{"type":"res'}, {"exit": 1}], "peer_exited", "exited with code 1"),
        ([{"deaf": True}, {"sleep": 60}], "peer_stalled", "sent nothing"),
    ],
)  # fmt: skip
async def test_a_worker_that_breaks_mid_send_ends_the_turn_clearly_and_leaves_no_process(
    steps: Any, code: str, says: str, tmp_path: Path
) -> None:
    patience = Patience(handshake=60, silence=5 if code == "peer_stalled" else 60, grace=0.5)
    async with session(child_then(tmp_path / "pid", *steps), patience) as opened:
        events = await turn(opened)
        error = ending(events).error
        assert ending(events).outcome == "failed" and ending(events).text == "a"
        assert error is not None and error.code == code and re.search(says, error.message, re.S), error
        assert gone(tmp_path / "pid")
        again = ending(await turn(opened)).error
        assert again is not None and "open a new session" in again.message


async def test_a_flood_of_stderr_does_not_stop_the_worker() -> None:
    flood = {"repeat": 3000, "do": [{"stderr": "x" * 1000}]}
    async with session({"send": [flood, OK]}) as opened:
        assert ending(await turn(opened)).outcome == "completed"


async def test_an_endless_line_is_an_error_and_not_endless_memory() -> None:
    flood = {"repeat": "forever", "do": [{"raw": "x" * 100_000}]}
    async with session({"send": [flood]}) as opened:
        error = ending(await turn(opened)).error
    assert error is not None and error.code == "protocol_error" and "longer than" in error.message


async def test_a_flood_of_events_is_read_as_fast_as_the_reader_takes_it() -> None:
    async with session({"send": [{"repeat": 20_000, "do": [DELTA]}, OK]}) as opened:
        events = await turn(opened)
    assert sum(isinstance(event, TextDelta) for event in events) == 20_000


UNTIL_CANCEL = [DELTA, {"await": "cancel"}]


CANCELLED = {"result": {"status": "error", "error": {"code": "cancelled", "message": "cancelled", "retryable": False}}}


async def interrupted(opened: WorkerSession) -> list[Event]:
    reader = opened.events(after=-1)
    id = await opened.prompt(Prompt(text="go"))
    events: list[Event] = []
    async for event in reader:
        events.append(event)
        if isinstance(event, TextDelta):
            asyncio.get_running_loop().create_task(opened.interrupt(id, "enough"))
        if isinstance(event, TurnEnded):
            return events
    raise AssertionError("the session closed")


async def test_an_interrupt_is_a_cancel_that_waits_for_the_result() -> None:
    async with session({"send": [*UNTIL_CANCEL, USAGE, CANCELLED]}) as opened:
        end = ending(await interrupted(opened))
        assert (end.outcome, end.text, end.iterations) == ("interrupted", "a", 1)
        assert end.error is not None and end.error.message == "enough"
        assert ending(await interrupted(opened)).outcome == "interrupted"


async def test_a_worker_of_the_other_school_may_say_cancelled() -> None:
    async with session({"send": [*UNTIL_CANCEL, {"result": {"status": "cancelled"}}]}) as opened:
        assert ending(await interrupted(opened)).outcome == "interrupted"


async def test_a_cancel_that_is_not_heeded_ends_the_worker(tmp_path: Path) -> None:
    script = {"send": [{"child": str(tmp_path / "pid")}, DELTA, {"sleep": 60}]}
    patience = Patience(handshake=60, silence=60, cancel=0.3, grace=0.3)
    async with session(script, patience) as opened:
        events = await interrupted(opened)
    assert ending(events).outcome == "interrupted"
    assert [event.code for event in events if isinstance(event, Warned)] == ["cancel_not_heeded"]
    assert gone(tmp_path / "pid")


EXPENSIVE = {"event": {**USAGE["event"], "cost_micros": 400_000, "cost_currency": "USD"}}


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_iterations=2), "max_iterations"),
        (Limits(max_cost_usd=1.0), "budget_exceeded"),
        (Limits(max_tokens=12), "budget_exceeded"),
        (Limits(max_seconds=0.3), "timeout"),
    ],
)
async def test_limits_that_a_worker_does_not_keep_are_kept_for_it(limits: Limits, code: str) -> None:
    steps = [EXPENSIVE, EXPENSIVE, EXPENSIVE, {"await": "cancel"}, CANCELLED]
    async with session({"send": steps}, limits=limits) as opened:
        end = ending(await turn(opened))
        assert end.outcome == "limited" and end.error is not None and end.error.code == code
        assert not opened._worker.gone


async def test_model_calls_of_a_subagent_are_no_iterations_of_the_worker() -> None:
    steps = [
        USAGE,
        {"event": {"event": "tool_start", "name": "task", "args": {}}},
        USAGE,
        USAGE,
        {"event": {"event": "tool_end", "name": "task", "result_preview": "x"}},
        USAGE,
        {"result": {"status": "ok", "iterations": 2}},
    ]
    async with session({"send": steps}, limits=Limits(max_iterations=2)) as opened:
        events = await turn(opened)
    assert (ending(events).outcome, ending(events).iterations) == ("completed", 2)
    assert totals(events).usage.total_tokens == 20


async def test_an_interrupt_while_the_send_is_being_written_ends_the_worker() -> None:
    script = {"init": [{"normal": True}, {"sleep": 60}]}
    async with session(script, Patience(handshake=60, silence=60, cancel=60, shutdown=60, grace=0.3)) as opened:
        id = await opened.prompt(Prompt(text="x" * 2_000_000))
        for _ in range(50):
            await asyncio.sleep(0)
        await opened.interrupt(id, "enough")
        assert opened._worker.gone


async def test_the_cost_limit_counts_over_the_session() -> None:
    steps = [EXPENSIVE, OK]
    async with session({"send": steps}, limits=Limits(max_cost_usd=0.7)) as opened:
        assert ending(await turn(opened)).outcome == "completed"
        assert ending(await turn(opened)).outcome == "limited"


INIT_OK = {"type": "init_ok", "id": "$id", "session_id": "s", "protocol_version": "0.5.0"}


def able(*extensions: str) -> list[Any]:
    return [{"say": {**INIT_OK, "capabilities": {"extensions": list(extensions)}}}]


async def test_a_question_of_the_worker_is_asked_here_and_answered_there() -> None:
    ask = {"event": {"event": "permission_request", "name": "bash", "reason": "may I?", "request_id": "q1"}}
    script = {"init": able("answers"), "send": [ask, {"await": "answer"}, OK]}
    async with session(script, answers=True) as opened:
        reader = opened.events(after=-1)
        await opened.prompt(Prompt(text="go"))
        async for event in reader:
            if isinstance(event, Asked):
                assert (event.text, event.name, event.tool_kind) == ("may I?", "bash", "execute")
                await opened.answer("q1", Answer(decision="allow"))
            if isinstance(event, TurnEnded):
                break
        assert event.outcome == "completed"


async def test_a_worker_that_cannot_be_steered_is_not() -> None:
    async with session({"init": able(), "send": [*UNTIL_CANCEL, CANCELLED]}) as opened:
        assert opened.info.capabilities["steer"] == "unsupported"
        reader = opened.events(after=-1)
        id = await opened.prompt(Prompt(text="go"))
        async for event in reader:
            if isinstance(event, TextDelta):
                break
        with pytest.raises(Unsupported, match="cannot be given a message while it works"):
            await opened.steer(id, "left")


async def test_rules_that_the_worker_does_not_promise_to_keep_are_warned_about() -> None:
    async with session({}, rules=Rules(deny=("Bash",)), mode="suggest") as opened:
        await opened.prompt(Prompt(text="x"))
        reader = opened.events()
        warnings = [await anext(aiter(reader)) for _ in range(2)]
    assert all(isinstance(event, Warned) and event.code == "not_enforced" for event in warnings)
    async with session({"init": able("permissions", "approval_mode")}, mode="suggest") as opened:
        assert opened._log.last == 0


async def test_the_child_sees_providers_keys_and_nothing_else_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k1")
    monkeypatch.setenv("GITHUB_TOKEN", "k2")
    monkeypatch.setenv("TREADLE_AGENT", "worker:this")
    code = (
        "import json,os,sys\n"
        "for line in sys.stdin:\n"
        "  r=json.loads(line); e=os.environ\n"
        "  if r['type']=='init': print(json.dumps({'type':'init_ok','id':r['id'],'session_id':"
        "str([e.get('OPENROUTER_API_KEY'),e.get('GITHUB_TOKEN'),e.get('MORE'),e.get('HEDDLE_HEARTBEAT_INTERVAL'),e.get('TREADLE_AGENT')])}),flush=True)\n"
        "  if r['type']=='shutdown': print(json.dumps({'type':'shutdown_ok','id':r['id']}),flush=True); break\n"
    )
    spec = SessionSpec.of(cwd=os.getcwd(), env={"MORE": "m"})
    opened = await WorkerAgent([sys.executable, "-c", code]).open(spec)
    assert opened.id == "['k1', None, 'm', '5000', None]"
    await opened.close()


async def test_usage_carries_the_model_it_was_for() -> None:
    async with session({}, model="vendor/m") as opened:
        [usage] = [event for event in await turn(opened) if isinstance(event, Usage)]
    assert usage.model == "vendor/m"


@pytest.mark.parametrize(("given", "seconds"), [("5000", 20), ("100", 20), ("60000", 240), ("soon", 20)])
def test_the_silence_of_a_worker_is_measured_in_its_own_heartbeats(given: str, seconds: float) -> None:
    assert _a_few_heartbeats({"HEDDLE_HEARTBEAT_INTERVAL": given}) == seconds


@pytest.mark.parametrize("limits", [Limits(max_tokens=5), Limits(max_cost_usd=1.0)])
async def test_a_limit_on_what_a_worker_does_not_report_is_warned_of_once(limits: Limits) -> None:
    async with session({"send": [OK]}, limits=limits) as opened:
        events = [*await turn(opened), *await turn(opened)]
    (warned,) = [event.message for event in events if isinstance(event, Warned) and "reported no" in event.message]
    assert warned.endswith("in this turn, so that limit was not enforced")
    assert [event.outcome for event in events if isinstance(event, TurnEnded)] == ["completed", "completed"]


@pytest.mark.parametrize("limits", [Limits(max_tokens=12), Limits(max_cost_usd=1.0)])
async def test_usage_that_comes_only_with_the_result_counts_against_the_limits(limits: Limits) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    priced = {**usage, "cost_micros": 1_200_000, "cost_currency": "USD"}
    tool = [
        {"event": {"event": "tool_start", "name": "bash", "args": {}}},
        {"event": {"event": "tool_end", "name": "bash", "result_preview": "x"}},
    ]
    async with session({"send": [*tool, {"result": {**OK["result"], "usage": priced}}]}, limits=limits) as opened:
        events = await turn(opened)
        assert not opened._worker.gone
    end = ending(events)
    assert end.outcome == "limited" and end.error is not None and end.error.code == "budget_exceeded"
    assert (end.text, totals(events).usage.total_tokens) == ("done", 13)


async def test_calls_are_counted_by_what_is_seen_of_a_worker_that_reports_no_usage() -> None:
    tool = [
        {"event": {"event": "tool_start", "name": "bash", "args": {}}},
        {"event": {"event": "tool_end", "name": "bash", "result_preview": "x"}},
    ]
    async with session(
        {"send": [*tool * 6, {"await": "cancel"}, CANCELLED]}, limits=Limits(max_iterations=2)
    ) as opened:
        events = await turn(opened)
    error = ending(events).error
    assert ending(events).outcome == "limited" and error is not None and error.code == "max_iterations"


@pytest.mark.parametrize("seconds", [0, -1, True, "5", None])
def test_the_time_for_a_first_answer_is_a_number_of_seconds(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="the option handshake of a worker cannot be") as wrong:
        launched(CARDS[0], Launch(argv=("w",), options={"handshake": seconds}))
    assert wrong.value.hint == "give a number of seconds"
    assert launched(CARDS[0], Launch(argv=("w", "a b"), options={"handshake": 0.5})).name == "worker:w 'a b'"


async def test_a_worker_is_not_started_to_look_at_it() -> None:
    found = await launched(CARDS[0], Launch(argv=("no-such-worker",))).probe()
    assert (found.name, found.version, found.capabilities) == ("worker:no-such-worker", "", {})
