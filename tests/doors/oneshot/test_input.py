"""Many prompts on one stdin, and a host that interrupts, changes mode and model, and answers permission questions."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from tests.stand_ins.sessions import ScriptedSession, Step
from tests.streams import pair
from treadle.doors.oneshot.input import StreamInput
from treadle.doors.oneshot.run import OneShot
from treadle.errors import PeerClosed, RemoteError
from treadle.events import Asked, Task, TaskChanged, TextDelta, TurnStarted, Usage
from treadle.session import Answer, Change, SessionSpec

ASK = Asked(request="q1", kind="permission", text="may I?", name="bash", args={"command": "ls"}, call="c1")


class Configured(ScriptedSession):
    def __init__(self, *turns: Sequence[Step]) -> None:
        super().__init__(SessionSpec.of(cwd="/", session_id="s1", answers=True), list(turns), cannot=("images",))
        self.changes: list[Change] = []
        self.answers: list[Answer] = []

    async def configure(self, change: Change) -> None:
        self.changes.append(change)

    async def answer(self, request: str, answer: Answer) -> None:
        self.answers.append(answer)
        await super().answer(request, answer)


class Host:
    """The program at the other end."""

    def __init__(self, *turns: Sequence[Step], answers: bool = True) -> None:
        self.stream, ours = pair()
        self.session = Configured(*turns)
        self.warnings: list[str] = []
        self.answers = answers
        self.door = self.made(self.session, ours)
        self.running = asyncio.create_task(self.door.run())
        self.results: list[str] = []
        self._rest = b""

    def made(self, session: Configured, ours: Any) -> StreamInput:
        runner = OneShot(session, "stream-json", out=ours, err=ours)
        return StreamInput(session, runner, ours, self.warnings.append, answers=self.answers)

    async def say(self, *records: Any) -> None:
        for record in records:
            await self.stream.write(record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n")

    async def control(self, **request: Any) -> dict[str, Any]:
        await self.say({"type": "control_request", "request_id": "r1", "request": request})
        return (await self.until("control_response"))["response"]

    async def until(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                record = await self.record()
                if record["type"] == kind:
                    return record

    async def record(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            self._rest += await self.stream.read()
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        if found["type"] == "result":
            self.results.append(found.get("result", ""))
        return found

    async def end(self) -> int:
        self.stream.close_write()
        code = await asyncio.wait_for(self.running, 60)
        await self.session.close()
        return code


def prompt(content: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}}


@pytest.fixture
async def echo() -> AsyncIterator[Host]:
    host = Host()
    yield host
    if not host.running.done():
        await host.end()


async def test_each_prompt_gets_one_result_in_order(echo: Host) -> None:
    await echo.say(prompt("one"), prompt([{"type": "text", "text": "two"}]))
    assert [(await echo.until("result"))["result"] for _ in range(2)] == ["one", "two"]
    assert await echo.end() == 0


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}}


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (PDF, "scripted accepts no documents (save it as a file and name its path"),
        ({"type": "image", "source": {"type": "url", "url": "https://x/i.png"}}, "of the kind image (url)"),
        ({"type": "tool_result", "content": "x"}, "of the kind tool_result"),
        ("loose", "a block without a type"),
        (IMAGE, "scripted accepts no images"),
    ],
)
async def test_a_prompt_that_has_more_than_can_be_shown_is_refused(echo: Host, block: Any, why: str) -> None:
    await echo.say(prompt([{"type": "text", "text": "look"}, block]), prompt("go on"))
    refused = await echo.until("result")
    assert refused["is_error"] and why in refused["errors"][0] and echo.warnings == []
    assert (await echo.until("result"))["result"] == "go on"
    assert [event.prompt for event in echo.session.events().ready() if isinstance(event, TurnStarted)] == ["go on"]


async def test_a_document_that_is_text_is_read_as_text_and_no_prompt_at_all_is_an_error(echo: Host) -> None:
    await echo.say(prompt([{"type": "document", "source": {"type": "text", "data": "the words"}}]), {"type": "user"})
    assert (await echo.until("result"))["result"] == "<document>\nthe words\n</document>"
    assert (await echo.until("result"))["errors"] == ["the prompt is empty"]


async def test_images_with_a_command_are_refused_because_no_command_takes_them(echo: Host) -> None:
    await echo.say(prompt([{"type": "text", "text": "/help me"}, IMAGE]))
    assert (await echo.until("result"))["errors"] == [
        "images or documents came with the command /help, which takes none"
    ]


async def test_interrupted_from_outside_it_ends_the_turn_and_leaves_out_the_rest() -> None:
    host = Host([TextDelta(text="par"), asyncio.Event()])
    await host.say(prompt("go"), prompt("never"))
    await host.until("stream_event")
    await host.door.interrupt("enough")
    assert await asyncio.wait_for(host.running, 60) == 0
    assert (await host.until("result"))["result"] == "par"
    assert [event.prompt for event in host.session.events().ready() if isinstance(event, TurnStarted)] == ["go"]
    await host.session.close()


async def test_interrupted_while_it_waits_for_a_prompt_it_ends(echo: Host) -> None:
    await echo.say(prompt("one"))
    await echo.until("result")
    await echo.door.interrupt("enough")
    assert await asyncio.wait_for(echo.running, 60) == 0


async def test_an_interrupt_that_comes_with_its_prompt_is_not_lost() -> None:
    host = Host([asyncio.Event()])
    stop = {"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}}
    await host.say(b"".join(json.dumps(record).encode() + b"\n" for record in (prompt("go"), stop)))
    assert (await host.until("result"))["terminal_reason"] == "aborted_streaming"
    assert await host.end() == 0


async def test_a_question_that_nobody_need_answer_any_more_is_taken_back() -> None:
    host = Host([ASK, TextDelta(text="done")])
    await host.say(prompt("go"))
    asked = await host.until("control_request")
    await host.session.answer("q1", Answer(decision="deny"))
    assert (await host.until("control_cancel_request"))["request_id"] == asked["request_id"]
    assert (await host.until("result"))["result"] == "done"
    await host.end()


async def test_a_host_that_answers_nothing_is_not_asked() -> None:
    async def plan(session: ScriptedSession, turn: Any) -> None:
        session.emit(ASK)

    host = Host([plan, TextDelta(text="done")], answers=False)
    await host.say(prompt("go"))
    assert [(await host.record())["type"] for _ in range(2)] == ["stream_event", "result"]
    await host.end()


async def test_the_end_of_input_finishes_what_was_asked(echo: Host) -> None:
    await echo.say(json.dumps(prompt("last")).encode())
    echo.stream.close_write()
    assert (await echo.until("result"))["result"] == "last"


async def test_garbage_and_unknown_records_are_warned_about_and_cost_nothing_else(echo: Host) -> None:
    await echo.say(b"{not json\n", b"[]\n", b"\n", {"type": "weird"}, {"type": "keep_alive"}, prompt("fine"))
    assert (await echo.until("result"))["result"] == "fine"
    assert [warning.partition(":")[0] for warning in echo.warnings] == [
        "a line on stdin is ignored",
        "a line on stdin is ignored",
        "a record of type 'weird' on stdin is ignored",
    ]


@pytest.mark.parametrize("odd", ["text", 7, [1], None, {"subtype": ["x"]}, {"subtype": "set_model", "model": {"a": 1}}])
async def test_a_record_with_the_wrong_inside_costs_nothing_else(echo: Host, odd: Any) -> None:
    await echo.say({"type": "control_request", "request_id": odd, "request": odd})
    await echo.say({"type": "control_response", "response": odd}, {"type": "user", "message": odd})
    await echo.say({"type": "control_response", "response": {"request_id": odd, "response": odd}}, prompt("fine"))
    while echo.results[-1:] != ["fine"]:
        await echo.record()
    assert await echo.end() == 0


async def test_a_host_that_goes_away_is_one_error_and_not_a_group_of_them() -> None:
    host = Host([TextDelta(text="par"), asyncio.Event()])
    await host.say(prompt("go"))
    await host.until("stream_event")
    host.stream.close()
    host.session.emit(ASK)
    with pytest.raises(PeerClosed):
        await asyncio.wait_for(host.running, 60)
    await host.session.close()


async def test_initialize_is_answered(echo: Host) -> None:
    response = await echo.control(subtype="initialize", hooks=None)
    assert response["subtype"] == "success" and response["request_id"] == "r1" and "commands" in response["response"]


async def test_what_initialize_wants_and_does_not_get_is_named(echo: Host) -> None:
    response = await echo.control(subtype="initialize", planModeInstructions="draw it", promptSuggestions=False)
    assert response["subtype"] == "success"
    assert echo.warnings == ["initialize: planModeInstructions is not used here"]


async def test_hooks_that_cannot_be_run_refuse_initialize_and_every_prompt_after_it(echo: Host) -> None:
    response = await echo.control(subtype="initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["hook_0"]}]})
    assert response["subtype"] == "error" and "cannot run hooks" in response["error"]
    await echo.say({"type": "user", "message": {"role": "user", "content": "hello"}})
    result = await echo.until("result")
    assert result["is_error"] is True and "initialize was refused" in json.dumps(result)
    assert echo.session._current is None, "no turn was begun"


async def test_an_unknown_control_request_is_an_error_that_names_it(echo: Host) -> None:
    response = await echo.control(subtype="teleport")
    assert response["subtype"] == "error" and "teleport" in response["error"]


async def test_mode_and_model_are_changed_and_wrong_ones_refused(echo: Host) -> None:
    assert (await echo.control(subtype="set_permission_mode", mode="acceptEdits"))["subtype"] == "success"
    assert (await echo.control(subtype="set_model", model="anthropic:x"))["subtype"] == "success"
    assert (await echo.control(subtype="set_permission_mode", mode="wild"))["subtype"] == "error"
    assert echo.session.changes == [Change(mode="auto-edit"), Change(model="anthropic:x")]


async def test_an_interrupt_ends_the_turn_and_keeps_the_session() -> None:
    host = Host([TextDelta(text="par"), asyncio.Event()])
    await host.say(prompt("go"))
    await host.until("stream_event")
    assert (await host.control(subtype="interrupt"))["subtype"] == "success"
    await host.say(prompt("again"))
    while len(host.results) < 2:
        await host.record()
    assert host.results == ["par", "again"]
    await host.end()


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"behavior": "allow", "updatedInput": {"command": "ls"}}, Answer(decision="allow", by="host")),
        (
            {"behavior": "allow", "updatedInput": {"command": "ls -a"}},
            Answer(decision="allow", changed_args={"command": "ls -a"}, by="host"),
        ),
        ({"behavior": "deny", "message": "no way"}, Answer(decision="deny", text="no way", by="host")),
    ],
)
async def test_a_permission_question_is_put_to_the_host(response: dict[str, Any], expected: Answer) -> None:
    host = Host([ASK, TextDelta(text="done")])
    await host.say(prompt("go"))
    asked = await host.until("control_request")
    assert asked["request"]["subtype"] == "can_use_tool" and asked["request"]["tool_name"] == "Bash"
    assert asked["request"]["input"] == {"command": "ls"} and asked["request"]["tool_use_id"] == "c1"
    answer = {"subtype": "success", "request_id": asked["request_id"], "response": response}
    await host.say({"type": "control_response", "response": answer})
    assert (await host.until("result"))["result"] == "done"
    assert host.session.answers == [expected]
    await host.end()


async def test_a_background_task_is_told_with_what_it_used_and_its_end_gives_the_agent_a_turn() -> None:
    task = Task(id="t1", kind="process", label="build", status="running", started_at=1.0, usage=Usage(input_tokens=1))
    host = Host()
    await host.control(subtype="supported_commands")
    emit = host.session.emit
    emit(TaskChanged(change="started", task_id="t1", task=task))
    emit(TaskChanged(change="tool_start", task_id="t1"))
    emit(TaskChanged(change="tool_end", task_id="t1"))
    begun = await host.record()
    listed = await host.record()
    assert begun["subtype"] == "task_started" and [one["task_id"] for one in listed["tasks"]] == ["t1"]
    emit(TaskChanged(change="completed", task_id="t1", task=msgspec.structs.replace(task, status="completed")))
    updated, listed, told = [await host.record() for _ in range(3)]
    assert (updated["subtype"], listed["tasks"]) == ("task_updated", [])
    assert told["subtype"] == "task_notification" and told["usage"]["tool_uses"] == 1
    words = "The background task t1 has ended. Go on if there is something left to do."
    assert (await host.until("result"))["result"] == words
    waits = Task(id="t2", kind="agent", label="l", status="completed", mode="foreground")
    emit(TaskChanged(change="completed", task_id="t2", task=waits))
    assert (await host.until("system"))["subtype"] == "task_updated"
    assert await host.end() == 0
    prompts = [event.prompt for event in host.session.events().ready() if isinstance(event, TurnStarted)]
    assert prompts == [words], "for one that its caller waited for there is no turn"


async def test_an_end_while_a_turn_runs_gives_no_further_turn() -> None:
    hold = asyncio.Event()
    host = Host([TextDelta(text="a"), hold])
    await host.say(prompt("go"))
    await host.until("stream_event")
    task = Task(id="t1", kind="process", label="build", status="completed")
    host.session.emit(TaskChanged(change="completed", task_id="t1", task=task))
    await host.until("system")
    hold.set()
    await host.end()
    assert len([event for event in host.session.events().ready() if isinstance(event, TurnStarted)]) == 1


class Replaying(Host):
    def made(self, session: Configured, ours: Any) -> StreamInput:
        runner = OneShot(session, "stream-json", out=ours, err=ours)
        early = [{"type": "control_request", "request_id": "r0", "request": {"subtype": "initialize"}}]
        return StreamInput(session, runner, ours, self.warnings.append, replay=True, early=early)


async def test_prompts_are_written_back_for_a_host_that_wants_it_after_what_it_said_early() -> None:
    host = Replaying()
    assert (await host.until("control_response"))["response"]["request_id"] == "r0"
    await host.say({**prompt("one"), "uuid": "u1"}, prompt("two"))
    first, second = await host.until("user"), await host.until("user")
    assert first["uuid"] == "u1" and "one" in json.dumps(first["message"]) and second["uuid"]
    assert await host.end() == 0


async def test_without_being_asked_prompts_are_not_written_back(echo: Host) -> None:
    await echo.say({**prompt("one"), "uuid": "u1"})
    assert [(await echo.record())["type"] for _ in range(2)] == ["stream_event", "result"]
    assert echo.door._control.turns.keys() == {"u1"} and echo.door.waiting() == []


@pytest.mark.parametrize(("composed", "given"), [(True, []), (False, ["help"])])
async def test_what_a_host_composed_is_no_command(composed: bool, given: list[str]) -> None:
    host = Host()
    commands: list[str] = []

    async def command(name: str, args: str) -> None:
        commands.append(name)

    host.session.command = command  # type: ignore[method-assign,assignment]
    await host.say({**prompt("/help me"), "client_composed": composed})
    await host.until("result")
    assert commands == given
    await host.end()


async def test_a_denial_may_end_the_turn_and_an_error_of_the_host_is_one() -> None:
    for response, code, text in (
        ({"subtype": "success", "response": {"behavior": "deny", "message": "no", "interrupt": True}}, "aborted", "no"),
        ({"subtype": "error", "error": "it broke"}, "completed", "it broke"),
    ):
        host = Host([ASK, TextDelta(text="done")])
        await host.say(prompt("go"))
        asked = await host.until("control_request")
        await host.say({"type": "control_response", "response": {**response, "request_id": asked["request_id"]}})
        assert (await host.until("result"))["terminal_reason"].startswith(code)
        assert [(answer.decision, answer.text) for answer in host.session.answers] == [("deny", text)]
        await host.end()


async def test_a_mode_that_was_refused_is_not_told_as_changed_and_keep_alive_costs_nothing(echo: Host) -> None:
    await echo.say({"type": "keep_alive"})
    assert (await echo.control(subtype="set_permission_mode", mode="wild"))["subtype"] == "error"
    await echo.say(prompt("one"))
    assert (await echo.record())["type"] == "stream_event", "and no line of a new mode"
    assert echo.warnings == []


async def test_a_question_of_ours_to_the_host_fails_with_its_words(echo: Host) -> None:
    for response, expected in (
        ({"subtype": "success", "response": {"ok": 1}}, {"ok": 1}),
        ({"subtype": "success", "response": "odd"}, {}),
        ({"subtype": "error", "error": "it raised"}, "it raised"),
        ({"subtype": "error"}, "the host failed"),
    ):
        asking = asyncio.create_task(echo.door._ask_host({"subtype": "x"}))
        sent = await echo.until("control_request")
        assert sent["request"] == {"subtype": "x"}
        answer = {"type": "control_response", "response": {**response, "request_id": sent["request_id"]}}
        await echo.say(answer, answer)
        if isinstance(expected, dict):
            assert await asyncio.wait_for(asking, 60) == expected
        else:
            with pytest.raises(RemoteError, match=expected):
                await asyncio.wait_for(asking, 60)
    assert echo.door._requests == {}


async def test_an_interrupt_that_cancels_the_queue_withdraws_what_waits() -> None:
    host = Host([TextDelta(text="par"), asyncio.Event()])
    await host.say(prompt("go"))
    await host.until("stream_event")
    await host.say({**prompt("never"), "uuid": "u1"})
    answer = await host.control(subtype="interrupt", cancel_queued=True)
    assert answer["response"] == {"still_queued": [], "cancelled": ["u1"]}
    await host.end()
    assert [event.prompt for event in host.session.events().ready() if isinstance(event, TurnStarted)] == ["go"]


async def test_a_prompt_that_waits_is_withdrawn_once(echo: Host) -> None:
    assert not echo.door.withdraw("u1")
    await echo.door._take({**prompt("x"), "uuid": "u1"})
    assert echo.door.waiting() == ["u1"] and echo.door.withdraw("u1") and not echo.door.withdraw("u1")
    assert await echo.end() == 0
