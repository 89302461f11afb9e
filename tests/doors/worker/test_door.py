"""The door against a scripted session, over a stream in memory. Whole conversations with the installed command are in
tests/wire/transcripts/worker, which tests/cli plays; here is what needs a session that is told what to do."""

import asyncio
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.stand_ins.sessions import ScriptedAgent, ScriptedSession
from treadle.doors.worker.door import Worker
from treadle.errors import Busy, ConfigError, PeerClosed
from treadle.events import (
    Answered,
    Asked,
    ModelRouted,
    TextDelta,
    ToolStarted,
    TurnEnded,
    Warned,
)
from treadle.session import SessionSpec
from treadle.sessions.session import Turn
from treadle.settings import trust

CONFIG = {"model": "m/x", "system_prompt": "s", "tools": ["bash"]}
INIT = {"type": "init", "id": "1", "protocol_version": "0.2.0", "config": CONFIG}
SEND = {"type": "send", "id": "2", "message": "hi"}
SHUTDOWN = {"type": "shutdown", "id": "9"}


class Client:
    """The other end of the stream: what the worker reads, and the lines it wrote."""

    def __init__(self) -> None:
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._output: asyncio.Queue[bytes] = asyncio.Queue()
        self.lines: list[Any] = []
        self.warnings: list[str] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self.gone = False
        self.left = asyncio.Event()
        self.exit: asyncio.Task[int]

    async def read(self) -> bytes:
        return await self._input.get()

    async def write(self, data: bytes) -> None:
        await self.reading.wait()
        if self.gone:
            raise PeerClosed("gone")
        for line in data.splitlines():
            self._output.put_nowait(line)

    async def abandoned(self) -> None:
        await self.left.wait()

    def ask(self, *requests: Any) -> None:
        lines = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in requests]
        self._input.put_nowait(b"".join(line + b"\n" for line in lines))

    def close(self) -> None:
        self._input.put_nowait(b"")

    def written(self) -> list[bytes]:
        return [self._output.get_nowait() for _ in range(self._output.qsize())]

    async def next(self) -> Any:
        line = json.loads(await asyncio.wait_for(self._output.get(), 60))
        self.lines.append(line)
        return line

    async def until(self, kind: str) -> Any:
        """Read up to the first response or event of this kind, and give it."""
        while True:
            line = await self.next()
            if kind in (line["type"], line.get("event", {}).get("event") if line["type"] == "event" else None):
                return line

    async def rest(self) -> list[Any]:
        """Everything up to the worker's end."""
        assert await asyncio.wait_for(self.exit, 60) == 0
        while not self._output.empty():
            await self.next()
        return self.lines


@asynccontextmanager
async def worker(agent: ScriptedAgent, **environ: str) -> Any:
    client = Client()
    serving = Worker(agent, client, environ=environ, warn=client.warnings.append)
    client.exit = asyncio.create_task(serving.run())
    try:
        yield client
    finally:
        client.exit.cancel()
        await asyncio.gather(client.exit, return_exceptions=True)


async def talk(agent: ScriptedAgent, *requests: Any, **environ: str) -> list[Any]:
    """Write all requests at once, close the input, and give every line of the answer."""
    async with worker(agent, **environ) as client:
        client.ask(*requests)
        client.close()
        lines: list[Any] = await client.rest()
        return lines


def error(line: Any) -> tuple[str, str, str]:
    assert (line["type"], line["status"]) == ("result", "error")
    return line["id"], line["error"]["code"], line["error"]["message"]


def config(**more: Any) -> dict[str, Any]:
    return {**INIT, "config": {**CONFIG, **more}}


async def test_the_environment_of_the_ecosystem_is_honoured() -> None:
    agent = ScriptedAgent()
    environ = {"HEDDLE_MODEL": "other/m", "HEDDLE_APPROVAL_MODE": "auto-edit", "HEDDLE_PROTOCOL_VERSION": "0.4.0"}
    [init, status] = await talk(agent, config(model=""), {"type": "status", "id": "2"}, **environ)
    assert (agent.sessions[0].spec.model, agent.sessions[0].spec.mode) == ("other/m", "auto-edit")
    assert (init["protocol_version"], status["model"]) == ("0.4.0", "other/m")


async def test_the_mode_of_the_projects_settings_counts_when_nobody_else_says_one(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.toml").write_text('permission_mode = "plan"\n')
    for environ, mode in (({}, "plan"), ({"HEDDLE_APPROVAL_MODE": "auto-edit"}, "auto-edit")):
        await talk(agent := ScriptedAgent(), INIT, **environ)
        assert agent.sessions[0].spec.mode == mode
    (tmp_path / ".treadle" / "config.toml").write_text("permission_mode = 7\n")
    [line] = await talk(ScriptedAgent(), INIT)
    assert line["type"] == "init_ok", "what nobody trusts may not keep people from working"
    trust.trust(str(tmp_path))
    [line] = await talk(ScriptedAgent(), INIT)
    assert error(line)[:2] == ("1", "protocol_error")


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_iterations": 0},
        {"capabilities": ["cwd"], "cwd": "not/absolute"},
        {"hooks": {"pre_tool": [{"command": "exit 1"}]}},
    ],
)
async def test_an_init_that_asks_for_the_impossible_is_refused(wrong: dict[str, Any]) -> None:
    [line] = await talk(ScriptedAgent(), config(**wrong))
    assert error(line)[:2] == ("1", "protocol_error")


async def test_fields_that_nobody_reads_are_named_on_stderr() -> None:
    async with worker(ScriptedAgent()) as client:
        about = {"referer": "https://example.com", "title": "t"}
        client.ask(config(app_attribution=about, routing={"gateway": "g"}, hooks={}), {**SEND, "newField": 1}, SHUTDOWN)
        assert [line["type"] for line in await client.rest()] == ["init_ok", "event", "result", "shutdown_ok"]
    assert client.warnings == ["init: not used here: config.routing", "send: not used here: newField"]


async def test_a_status_written_ahead_with_its_send_sees_it_running() -> None:
    hold = asyncio.Event()
    async with worker(ScriptedAgent([hold])) as client:
        client.ask(INIT, SEND, {"type": "status", "id": "s"}, SHUTDOWN)
        assert (await client.until("status_ok"))["active"] is True
        hold.set()
        lines = await client.rest()
    assert [line["type"] for line in lines] == ["init_ok", "status_ok", "result", "shutdown_ok"]


async def test_a_client_that_stopped_reading_for_good_ends_the_work() -> None:
    agent = ScriptedAgent([TextDelta(text="a"), asyncio.Event()])
    async with worker(agent, HEDDLE_HEARTBEAT_INTERVAL="10") as client:
        client.ask(INIT, SEND)
        await client.until("content_delta")
        client.gone = True
        assert await asyncio.wait_for(client.exit, 60) == 1
    assert agent.sessions[0].closed


async def test_a_client_that_leaves_while_a_send_is_silent_ends_the_work_at_once() -> None:
    agent = ScriptedAgent([TextDelta(text="a"), asyncio.Event()])
    async with worker(agent, HEDDLE_HEARTBEAT_INTERVAL="600000") as client:
        client.ask(INIT, SEND)
        await client.until("content_delta")
        client.left.set()
        assert await asyncio.wait_for(client.exit, 60) == 1
    assert agent.sessions[0].closed


async def test_a_client_that_leaves_when_all_is_answered_has_missed_nothing() -> None:
    agent = ScriptedAgent()
    async with worker(agent) as client:
        client.ask(INIT, SEND)
        await client.until("result")
        client.left.set()
        assert await asyncio.wait_for(client.exit, 60) == 0
    assert agent.sessions[0].closed


async def test_a_slow_reader_holds_the_session_back_and_loses_nothing() -> None:
    made = 0

    async def flood(session: ScriptedSession, turn: Turn) -> None:
        nonlocal made
        for made in range(20_000):
            session.emit(TextDelta(text=str(made)))
            await session.room()

    async with worker(ScriptedAgent([flood])) as client:
        client.ask(INIT)
        await client.until("init_ok")
        client.reading.clear()
        client.ask(SEND, SHUTDOWN)
        for _ in range(200):
            await asyncio.sleep(0)
        held = made
        client.reading.set()
        lines = await client.rest()
    assert held < 15_000, held
    assert [line["event"]["text"] for line in lines if line["type"] == "event"] == [str(n) for n in range(20_000)]


async def test_a_worker_does_not_end_before_a_slow_reader_has_its_last_line() -> None:
    async with worker(ScriptedAgent()) as client:
        client.ask(INIT)
        await client.until("init_ok")
        client.reading.clear()
        client.ask(SEND, SHUTDOWN)
        for _ in range(200):
            await asyncio.sleep(0)
        assert not client.exit.done()
        client.reading.set()
        lines = await client.rest()
    assert lines[-1]["type"] == "shutdown_ok"


async def test_a_prompt_that_the_session_refuses_is_an_error_result() -> None:
    class Full(ScriptedAgent):
        async def open(self, spec: Any) -> ScriptedSession:
            session = await super().open(spec)

            async def prompt(prompt: Any) -> str:
                raise Busy("no room")

            session.prompt = prompt  # type: ignore[method-assign]
            return session

    [_, result] = await talk(Full(), INIT, SEND)
    assert error(result) == ("2", "provider_error", "no room")


async def test_a_client_that_can_answer_is_asked_and_waited_for() -> None:
    asked = Asked(request="q1", kind="permission", text="may I?", name="bash", args={"command": "ls"})
    agent = ScriptedAgent([asked, TextDelta(text="done")])
    async with worker(agent) as client:
        client.ask(config(capabilities=["answers"]), SEND)
        assert (await client.until("init_ok"))["capabilities"] == {"extensions": ["answers"]}
        request = (await client.until("permission_request"))["event"]
        assert request["request_id"] == "q1" and request["args"] == {"command": "ls"}
        answer = {"type": "answer", "id": "a1", "target_id": "2", "request_id": "q1", "decision": "allow"}
        client.ask(answer)
        assert await client.until("answer_ok") == {"type": "answer_ok", "id": "a1", "accepted": True}
        await client.until("result")
        client.ask({**answer, "id": "a2"}, SHUTDOWN)
        assert await client.until("answer_ok") == {"type": "answer_ok", "id": "a2", "accepted": False}
        await client.rest()


async def test_an_approval_of_another_input_that_the_agent_cannot_take_is_a_denial_that_is_reported() -> None:
    asked = Asked(request="q1", kind="permission", text="may I?", name="bash", args={"command": "ls"})
    agent = ScriptedAgent([asked, TextDelta(text="done")], cannot=("changed_input",))
    async with worker(agent) as client:
        client.ask(config(capabilities=["answers"]), SEND)
        await client.until("permission_request")
        answer = {"type": "answer", "id": "a1", "target_id": "2", "request_id": "q1", "decision": "allow"}
        client.ask({**answer, "args": {"command": "pwd"}}, SHUTDOWN)
        await client.rest()
    (denied,) = [event for event in agent.sessions[0].events().ready() if isinstance(event, Answered)]
    assert denied.decision == "deny" and "make a new call with exactly this input" in denied.text


@pytest.mark.parametrize("when", ["before the question", "after the question"])
async def test_a_client_that_has_closed_our_input_is_not_waited_for_when_a_question_is_open(when: str) -> None:
    asked = Asked(request="q1", kind="permission", text="may I?", name="bash", args={"command": "ls"})
    hold = asyncio.Event()
    agent = ScriptedAgent([TextDelta(text="a"), hold, asked, TextDelta(text="done")])
    async with worker(agent) as client:
        client.ask(config(capabilities=["answers"]), SEND)
        await client.until("content_delta")
        if when == "before the question":
            client.close()
            hold.set()
        else:
            hold.set()
            await client.until("permission_request")
            client.close()
        lines = await client.rest()
    assert [line["status"] for line in lines if line["type"] == "result"] == ["ok"]


async def test_a_running_send_can_be_steered_by_a_client_that_said_so() -> None:
    hold = asyncio.Event()
    agent = ScriptedAgent([TextDelta(text="a"), hold])
    steer = {"type": "steer", "id": "s1", "target_id": "2", "message": "left"}
    async with worker(agent) as client:
        client.ask(config(capabilities=["steer"]), SEND)
        await client.until("content_delta")
        client.ask(steer, {**steer, "id": "s2", "target_id": "99"})
        replies = [await client.until("steer_ok") for _ in range(2)]
        hold.set()
        client.ask(SHUTDOWN)
        await client.rest()
    assert [(line["id"], line["accepted"]) for line in replies] == [("s1", True), ("s2", False)]
    assert agent.sessions[0].steered == ["left"]


async def test_a_message_that_the_agent_cannot_be_given_is_refused_with_the_reason() -> None:
    hold = asyncio.Event()
    agent = ScriptedAgent([TextDelta(text="a"), hold], cannot=("steer",))
    async with worker(agent) as client:
        client.ask(config(capabilities=["steer"]), SEND)
        await client.until("content_delta")
        client.ask({"type": "steer", "id": "s1", "target_id": "2", "message": "left"})
        reply = await client.until("steer_ok")
        hold.set()
        client.ask(SHUTDOWN)
        await client.rest()
    assert reply["accepted"] is False and "scripted cannot be given a message while it works" in reply["reason"]
    assert agent.sessions[0].steered == []


async def test_a_bug_in_the_session_is_an_error_of_that_send_only() -> None:
    lines = await talk(ScriptedAgent([ZeroDivisionError("oops")]), INIT, SEND, {**SEND, "id": "3"})
    results = [line for line in lines if line["type"] == "result"]
    assert error(results[0])[1] == "provider_error" and "ZeroDivisionError" in error(results[0])[2]
    assert results[1]["status"] == "ok"


async def test_what_follows_a_shutdown_is_answered_before_it_is_done() -> None:
    status = {"type": "status", "id": "3"}
    lines = await talk(ScriptedAgent(refuses=ConfigError("no")), INIT, SHUTDOWN, status, SEND, b"x")
    assert [line["id"] for line in lines] == ["1", "3", "2", "unknown", "9"]
    assert lines[-1]["type"] == "shutdown_ok"


async def test_warnings_of_the_session_go_to_stderr() -> None:
    class Noting(ScriptedAgent):
        async def open(self, spec: Any) -> ScriptedSession:
            session = await super().open(spec)
            session.emit(Warned(message="a setting was ignored", code="settings"))
            return session

    async with worker(Noting([Warned(message="odd")])) as client:
        client.ask(INIT, SEND, {**SEND, "id": "3"}, SHUTDOWN)
        lines = await client.rest()
    assert client.warnings == ["a setting was ignored", "odd"]
    assert [line["type"] for line in lines] == ["init_ok", "result", "event", "result", "shutdown_ok"]


async def test_a_client_that_asks_without_end_and_reads_nothing_is_held_back() -> None:
    async with worker(ScriptedAgent()) as client:
        client.ask(INIT)
        await client.until("init_ok")
        client.reading.clear()
        for number in range(100):
            client.ask(*({"type": "status", "id": f"{number}.{n}"} for n in range(100)))
        for _ in range(500):
            await asyncio.sleep(0)
        unread = client._input.qsize()
        assert unread > 10, unread
        client.reading.set()
        client.close()
        lines = await client.rest()
    assert len(lines) == 10_001


async def test_however_many_sends_wait_a_cancel_is_read_and_too_many_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treadle.doors.worker.door.ROOM", 100)
    hold = asyncio.Event()
    async with worker(ScriptedAgent([TextDelta(text="a"), hold])) as client:
        client.ask(INIT, SEND)
        await client.until("content_delta")
        client.ask(*({**SEND, "id": f"more.{n}"} for n in range(150)))
        refused = [await client.until("result") for _ in range(50)]
        client.ask({"type": "cancel", "id": "9", "target_id": SEND["id"]})
        cancelled = await client.until("result")
        client.close()
        lines = await client.rest()
    assert all(line["session_id"] for line in refused)
    assert {error(line)[1] for line in refused} == {"busy"} and all(line["error"]["retryable"] for line in refused)
    assert error(cancelled)[:2] == (SEND["id"], "cancelled")
    assert sum(line["type"] == "result" for line in lines) == 151, "each send has one result"


async def test_a_signal_ends_every_send_that_runs_or_waits_with_a_result() -> None:
    async with worker(ScriptedAgent([TextDelta(text="a"), asyncio.Event()])) as client:
        client.ask(INIT, SEND, {**SEND, "id": "3"}, {**SEND, "id": "4"})
        await client.until("content_delta")
        client.exit.cancel()
        ends = [await client.until("result") for _ in range(3)]
    assert [error(line)[:2] for line in ends] == [(SEND["id"], "cancelled"), ("3", "cancelled"), ("4", "cancelled")]


async def test_an_event_that_cannot_be_written_ends_its_send_and_nothing_else() -> None:
    strange = ToolStarted(call="c", name="t", args={("no", "key"): 1})
    lines = await talk(ScriptedAgent([strange, asyncio.Event()]), INIT, SEND, {**SEND, "id": "3"})
    results = [line for line in lines if line["type"] == "result"]
    assert error(results[0])[:2] == ("2", "provider_error") and results[1]["status"] == "ok"


async def test_a_bug_in_the_worker_is_told_before_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Client):
        async def read(self) -> bytes:
            raise ZeroDivisionError("oops")

    client = Broken()
    code = await Worker(ScriptedAgent(), client, environ={}, warn=str).run()
    assert code == 1 and "ZeroDivisionError" in caplog.text
    told = error(await client.next())
    assert told[:2] == ("unknown", "protocol_error") and "ZeroDivisionError: oops" in told[2]


async def test_a_cancel_is_answered_though_what_runs_does_not_end() -> None:
    """As a tool that ignores SIGTERM. What it was is over before the next send begins."""
    stubborn = Stubborn()
    async with worker(stubborn) as client:
        client.ask(INIT, SEND)
        await client.until("content_delta")
        client.ask({"type": "cancel", "id": "c", "target_id": "2"})
        assert error(await client.until("result")) == ("2", "cancelled", "cancelled")
        assert not stubborn.ended
        stubborn.hold.set()
        client.ask({**SEND, "id": "3"}, SHUTDOWN)
        assert (await client.until("result"))["id"] == "3" and stubborn.ended
        await client.rest()


class Stubborn(ScriptedAgent):
    """Its first turn goes on after it was interrupted, until `hold` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = asyncio.Event()
        self.ended = False

    async def open(self, spec: SessionSpec) -> ScriptedSession:
        agent = self

        class Session(ScriptedSession):
            async def _turn(self, turn: Turn) -> TurnEnded:
                if agent.ended:
                    return await super()._turn(turn)
                self.emit(TextDelta(text="busy"))
                try:
                    await asyncio.Event().wait()
                finally:
                    await agent.hold.wait()
                    agent.ended = True
                raise AssertionError

        return Session(spec, [])


async def test_a_signal_is_heeded_when_a_slow_reader_has_the_last_lines() -> None:
    async with worker(ScriptedAgent([TextDelta(text="a"), asyncio.Event()])) as client:
        client.ask(INIT, SEND)
        await client.until("content_delta")
        client.reading.clear()
        client.exit.cancel()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not client.exit.done()
        client.reading.set()
        assert error(await client.until("result")) == ("2", "cancelled", "cancelled")


async def test_a_signal_before_an_init_ends_it_without_a_word() -> None:
    async with worker(ScriptedAgent()) as client:
        client.ask(SEND)
        client.exit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client.exit
        assert client.written() == []


@pytest.mark.parametrize(("limit", "most"), [("ROOM", 2), ("ROOM_BYTES", 1)])
async def test_too_many_sends_are_refused_before_an_init_is_done_too(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"treadle.doors.worker.door.{limit}", most)
    async with worker(ScriptedAgent()) as client:
        client.ask(INIT, SEND, {**SEND, "id": "3"})
        refused, opened = await client.next(), await client.next()
        await client.until("result")
        client.ask({**SEND, "id": "4"})
        later = await client.until("result")
    assert error(refused)[:2] == ("3", "busy") and opened["type"] == "init_ok"
    assert "failure" not in refused and "session_id" not in refused
    assert later["status"] == "ok", "what was served has made room"


@pytest.mark.parametrize(("name", "settles"), [("native", True), ("other", True), ("native", False)])
async def test_state_is_kept_where_the_client_says_by_an_agent_that_can(name: str, settles: bool) -> None:
    agent, client, moved = ScriptedAgent(), Client(), list[str]()
    agent.name = name

    def settle(root: str) -> Callable[[str], str]:
        moved.append(root)
        return lambda session: f"{root}/{session}.jsonl"

    runtime = {"mode": "isolated", "state_root": "/state", "inherit_ambient_config": False}
    for version in ("0.4.0", "0.3.0"):
        serving = Worker(agent, client, environ={}, warn=str, settle=settle if settles else None)
        client.ask({**config(runtime=runtime), "protocol_version": version})
        client.close()
        assert await asyncio.wait_for(serving.run(), 60) == 0
        line = await client.next()
        if name != "native" or not settles:
            assert "cannot store its state elsewhere" in error(line)[2] and moved == [] and agent.sessions == []
            continue
        path = f"/state/{line['session_id']}.jsonl"
        told = {"mode": "isolated", "state_root": "/state", "transcript_path": path}
        assert line.get("runtime") == (told if version == "0.4.0" else None)
    assert moved == ["/state"] * 2 * (name == "native" and settles)


async def test_a_cancel_is_told_to_newer_clients_and_a_second_one_changes_nothing() -> None:
    for version, wanted in (("0.5.0", ["queued", "running", "cancelling", "completed"]), ("0.4.0", [])):
        async with worker(ScriptedAgent([TextDelta(text="a"), asyncio.Event()])) as client:
            client.ask({**INIT, "protocol_version": version}, SEND)
            await client.until("content_delta")
            cancel = {"type": "cancel", "id": "c", "target_id": "2"}
            client.ask({**cancel, "target_id": "7"}, cancel, cancel, SHUTDOWN)
            lines = await client.rest()
        events = [line["event"] for line in lines if line["type"] == "event"]
        assert [event["state"] for event in events if event["event"] == "turn_state"] == wanted
        assert error(lines[-2])[1] == "cancelled"


async def test_the_model_that_was_chosen_is_told_from_0_3_on() -> None:
    for version, routed in (("0.2.0", None), ("0.3.0", "fast")):
        async with worker(ScriptedAgent([ModelRouted(model="fast")])) as client:
            client.ask({**INIT, "protocol_version": version}, SEND)
            await client.until("result")
            client.ask({"type": "status", "id": "s"}, SHUTDOWN)
            status = await client.until("status_ok")
            await client.rest()
        assert status.get("last_routed_model") == routed and status["model"] == "m/x"


async def test_no_one_answers_for_a_client_that_has_gone_and_answers_for_nothing_are_not_accepted() -> None:
    asked = Asked(request="q1", kind="permission", text="may I?", name="bash", args={})
    agent = ScriptedAgent([asked, TextDelta(text="done")])
    async with worker(agent) as client:
        client.ask(config(capabilities=["answers"]), SEND)
        await client.until("permission_request")
        answer = {"type": "answer", "id": "a1", "target_id": "2", "request_id": "other", "decision": "allow"}
        client.ask(answer, {**answer, "id": "a2", "target_id": "7", "request_id": "q1"})
        assert [(await client.until("answer_ok"))["accepted"] for _ in range(2)] == [False, False]
        client.close()
        await client.rest()
    (denied,) = [event for event in agent.sessions[0].events().ready() if isinstance(event, Answered)]
    assert (denied.decision, denied.by) == ("deny", "nobody") and "no one can answer" in denied.text


async def test_extensions_are_named_when_they_are_refused_and_kept_for_after_an_init() -> None:
    steer = {"type": "steer", "id": "7", "target_id": "2", "message": "x"}
    answer = {"type": "answer", "id": "8", "target_id": "2", "request_id": "q", "decision": "deny"}
    lines = await talk(ScriptedAgent(), steer, INIT, answer, steer)
    assert error(lines[0])[2] == "Not initialized. Send 'init' first."
    assert [error(line)[2] for line in lines[2:]] == [
        "config.capabilities of the init must name 'answers' for this",
        "config.capabilities of the init must name 'steer' for this",
    ]
