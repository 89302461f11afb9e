"""Conversations and tasks over a scripted agent, without HTTP."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from treadle.doors.a2a import door as doors
from treadle.doors.a2a.door import A2aDoor
from treadle.doors.a2a.push import Allowed
from treadle.errors import ProviderError
from treadle.events import Asked, Message, TextDelta, ToolStarted, Usage
from treadle.session import AgentInfo, SessionSpec
from treadle.testing.sessions import ScriptedAgent
from treadle.wire.a2a import records
from treadle.wire.a2a.versions import Version
from treadle.wire.common.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Fault

ASK = Asked(request="q", kind="permission", text="May it?", call="c", name="bash", command="rm x")


class Caller:
    def __init__(self, door: A2aDoor, version: Version = "1.0", owner: str = "") -> None:
        self.door, self.version, self.owner = door, version, owner

    async def call(self, method: str, **params: Any) -> Any:
        return await asyncio.wait_for(self.door.call(self.owner, self.version, method, params), 60)

    async def send(self, text: str = "Hi.", *, now: bool = False, **message: Any) -> dict[str, Any]:
        sent = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **message}
        found = await self.call("SendMessage", message=sent, configuration={"returnImmediately": now})
        task: dict[str, Any] = found["task"]
        return task

    async def stream(self, method: str = "SendStreamingMessage", **params: Any) -> list[dict[str, Any]]:
        given = params or {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi."}]}}
        async with asyncio.timeout(60):
            return [event async for event in await self.call(method, **given)]

    async def until(self, task: str, state: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while (found := await self.call("GetTask", id=task))["status"]["state"] != f"TASK_STATE_{state}":
                await asyncio.sleep(0.005)
        return dict(found)


@asynccontextmanager
async def opened(
    agent: ScriptedAgent, cwd: Path, *, able: Sequence[str] = ("resume",), warned: list[str] | None = None
) -> AsyncIterator[Caller]:
    info = AgentInfo(name="scripted", capabilities=dict.fromkeys(able, "native"))
    spec = SessionSpec(cwd=str(cwd), answers=True)
    door = A2aDoor(agent, info, base=spec, webhooks=Allowed(()), warn=(warned if warned is not None else []).append)
    try:
        yield Caller(door)
    finally:
        await door.close()


def state_of(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def text_of(task: dict[str, Any]) -> list[str]:
    return [artifact["parts"][0]["text"] for artifact in task.get("artifacts", [])]


async def test_a_message_becomes_a_task_that_ends_with_the_answer(tmp_path: Path) -> None:
    turn = [TextDelta(text="One "), TextDelta(text="two."), Message(text="One two."), Usage(input_tokens=3)]
    async with opened(ScriptedAgent(turn), tmp_path) as client:
        task = await client.send()
        assert (state_of(task), text_of(task)) == ("COMPLETED", ["One two."])
        assert task["metadata"]["usage"]["inputTokens"] == 3
        assert [message["role"] for message in task["history"]] == ["ROLE_USER"]
        assert await client.call("GetTask", id=task["id"]) == task
        assert "history" not in await client.call("GetTask", id=task["id"], historyLength=0)


async def test_a_stream_begins_with_the_task_appends_its_text_and_closes_when_it_has_ended(tmp_path: Path) -> None:
    turn = [TextDelta(text="One "), ToolStarted(call="c", name="bash", command="ls"), TextDelta(text="two.")]
    async with opened(ScriptedAgent([*turn, Message(text="One two.")]), tmp_path) as client:
        first, *updates = await client.stream()
        assert "task" in first
        shown = [each["artifactUpdate"] for each in updates if "artifactUpdate" in each]
        assert "".join(each["artifact"]["parts"][0]["text"] for each in shown) == "One two."
        assert [(each["append"], each["lastChunk"]) for each in shown] == [(False, False), (True, False), (True, True)]
        states = [state_of(each["statusUpdate"]) for each in updates if "statusUpdate" in each]
        assert states[-1] == "COMPLETED" and set(states[:-1]) == {"WORKING"}
        said = [each["statusUpdate"]["status"].get("message") for each in updates if "statusUpdate" in each]
        assert any(message and message["parts"][0]["text"] == "bash: ls" for message in said)


async def test_an_answer_that_comes_out_different_replaces_what_was_streamed(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([TextDelta(text="Onetwo"), Message(text="One, two.")]), tmp_path) as client:
        assert text_of(await client.send()) == ["One, two."]


async def test_a_context_is_one_session_and_each_message_in_it_a_task(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with opened(agent, tmp_path) as client:
        first = await client.send("a")
        second = await client.send("b", contextId=first["contextId"])
        other = await client.send("c")
        assert len(agent.sessions) == 2 and first["id"] != second["id"]
        assert other["contextId"] != first["contextId"]
        listed = await client.call("ListTasks", contextId=first["contextId"])
        assert [task["id"] for task in listed["tasks"]] == [second["id"], first["id"]]
        assert listed["totalSize"] == 2 and listed["nextPageToken"] == "" and "artifacts" not in listed["tasks"][0]


async def test_pages_of_tasks_follow_each_other(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        made = [(await client.send(str(number)))["id"] for number in range(5)]
        seen: list[str] = []
        token = ""
        for _ in range(3):
            page = await client.call("ListTasks", pageSize=2, pageToken=token, includeArtifacts=True)
            seen += [task["id"] for task in page["tasks"]]
            token = page["nextPageToken"]
        assert sorted(seen) == sorted(made) and token == ""


@pytest.mark.parametrize("reply", ["allow", "Yes", "session", "always"])
async def test_a_question_makes_the_task_need_input_and_a_reply_goes_on(reply: str, tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ASK, Message(text="Done.")]), tmp_path) as client:
        task = await client.send()
        assert state_of(task) == "INPUT_REQUIRED"
        text, data = task["status"]["message"]["parts"]
        assert "May it?" in text["text"] and "rm x" in text["text"]
        assert data["data"] == {"question": "permission", "request": "q", "tool": "bash", "args": None, "paths": []}
        done = await client.send(reply, taskId=task["id"])
        assert (state_of(done), done["id"]) == ("COMPLETED", task["id"])
        assert [message["role"] for message in done["history"]] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]


async def test_a_reply_that_is_no_answer_is_refused_and_the_question_stays(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ASK]), tmp_path) as client:
        task = await client.send()
        for text in ("perhaps", "allow everything", ""):
            with pytest.raises(Fault) as refused:
                await client.send(text, taskId=task["id"])
            assert refused.value.code == INVALID_PARAMS
        assert state_of(await client.call("GetTask", id=task["id"])) == "INPUT_REQUIRED"


async def test_several_questions_are_asked_one_after_the_other(tmp_path: Path) -> None:
    async def both(session: Any, turn: Any) -> None:
        second = Asked(request="r", kind="question", text="Which?", options=("red", "blue"))
        answers = await asyncio.gather(session.ask(ASK), session.ask(second))
        session.emit(Message(text=" ".join(f"{each.decision}:{each.text}" for each in answers)))

    async with opened(ScriptedAgent([both]), tmp_path) as client:
        task = await client.send()
        task = await client.send("deny not now", taskId=task["id"])
        assert state_of(task) == "INPUT_REQUIRED" and "2. blue" in task["status"]["message"]["parts"][0]["text"]
        task = await client.send("2", taskId=task["id"])
        assert text_of(task) == ["deny:not now allow:blue"]


async def test_a_stream_ends_when_input_is_needed_and_a_subscription_goes_on(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ASK, Message(text="Done.")]), tmp_path) as client:
        events = await client.stream()
        last = events[-1].get("statusUpdate") or events[-1]["task"]
        assert state_of(last) == "INPUT_REQUIRED"
        name = last.get("taskId") or last["id"]
        following = asyncio.create_task(client.stream("SubscribeToTask", id=name))
        await client.send("allow", taskId=name)
        seen = await following
        assert "task" in seen[0] and state_of(seen[-1].get("statusUpdate") or seen[-1]["task"]) == "COMPLETED"


async def test_a_running_task_is_cancelled_and_an_ended_one_is_not(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([asyncio.Event()]), tmp_path) as client:
        task = await client.send(now=True)
        assert state_of(await client.call("CancelTask", id=task["id"])) == "CANCELED"
        with pytest.raises(Fault) as again:
            await client.call("CancelTask", id=task["id"])
        assert again.value.code == records.TASK_NOT_CANCELABLE
        with pytest.raises(Fault) as more:
            await client.send("More.", taskId=task["id"])
        assert more.value.code == records.UNSUPPORTED_OPERATION
        with pytest.raises(Fault):
            await client.stream("SubscribeToTask", id=task["id"])


async def test_words_for_a_working_task_reach_an_agent_that_can_be_given_some(tmp_path: Path) -> None:
    for cannot in ((), ("steer",)):
        go = asyncio.Event()
        agent = ScriptedAgent([go], cannot=cannot)
        async with opened(agent, tmp_path) as client:
            task = await client.send(now=True)
            await client.until(task["id"], "WORKING")
            if cannot:
                with pytest.raises(Fault) as refused:
                    await client.send("More.", taskId=task["id"], now=True)
                assert refused.value.code == records.UNSUPPORTED_OPERATION
            else:
                await client.send("More.", taskId=task["id"], now=True)
            go.set()
            await client.until(task["id"], "COMPLETED")
            assert agent.sessions[0].steered == ([] if cannot else ["More."])


async def test_a_turn_that_fails_is_a_failed_task_that_says_why(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ProviderError("the model is down")]), tmp_path) as client:
        task = await client.send()
        assert state_of(task) == "FAILED"
        assert "the model is down" in task["status"]["message"]["parts"][0]["text"]


async def test_why_an_agent_does_not_start_is_the_owners_to_know(tmp_path: Path) -> None:
    warned: list[str] = []
    async with opened(ScriptedAgent(refuses=ProviderError("/home/me/key is empty")), tmp_path, warned=warned) as client:
        with pytest.raises(Fault) as refused:
            await client.send()
        assert "/home/me" not in refused.value.message and "/home/me" in warned[0]


async def test_a_client_sees_no_tasks_of_another(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ASK]), tmp_path) as client:
        task = await client.send()
        other = Caller(client.door, owner="other")
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            with pytest.raises(Fault) as refused:
                await other.call(method, id=task["id"])
            assert refused.value.code == records.TASK_NOT_FOUND
        with pytest.raises(Fault):
            await other.send("allow", taskId=task["id"])
        assert (await other.call("ListTasks"))["totalSize"] == 0
        joined = await other.send("mine", contextId=task["contextId"])
        assert state_of(joined) == "COMPLETED", "a context of another client is another conversation"


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"url": "http://169.254.169.254/"}, records.CONTENT_TYPE_NOT_SUPPORTED),
        ({"raw": "aGk=", "mediaType": "application/zip"}, records.CONTENT_TYPE_NOT_SUPPORTED),
        ({"raw": "aGk=", "mediaType": "image/png"}, records.CONTENT_TYPE_NOT_SUPPORTED),
        ({"raw": "////", "mediaType": "text/plain"}, records.CONTENT_TYPE_NOT_SUPPORTED),
        ({"raw": "!", "mediaType": "text/plain"}, INVALID_PARAMS),
        ({"text": " "}, INVALID_PARAMS),
        ({"text": "a", "data": {}}, INVALID_PARAMS),
    ],
)
async def test_a_part_that_the_agent_cannot_be_given_is_refused(part: Any, code: int, tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        with pytest.raises(Fault) as refused:
            await client.send(parts=[part])
        assert refused.value.code == code


async def test_files_of_text_and_data_become_part_of_the_prompt(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        file = {"raw": "aGk=", "mediaType": "text/plain", "filename": "a.txt"}
        task = await client.send(parts=[{"text": "/Look:"}, file, {"data": {"a": 1}}])
        assert text_of(task) == ['/Look:\n\na.txt:\nhi\n\n{"a":1}']


async def test_the_same_over_0_3(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ASK, Message(text="Done.")]), tmp_path) as client:
        old = Caller(client.door, "0.3")
        sent = {"messageId": "m", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "Hi."}]}
        task = await old.call("message/send", message=sent)
        assert task["kind"] == "task" and task["status"]["state"] == "input-required"
        reply = {**sent, "taskId": task["id"], "parts": [{"kind": "data", "data": {"decision": "allow"}}]}
        events = await old.stream("message/stream", message=reply)
        assert events[-1]["kind"] == "status-update" and events[-1]["final"] is True
        with pytest.raises(Fault) as unknown:
            await old.call("SendMessage", message=sent)
        assert unknown.value.code == METHOD_NOT_FOUND and "A2A-Version" in unknown.value.message


async def test_an_idle_conversation_is_closed_for_a_new_one_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "SESSIONS", 1)
    agent = ScriptedAgent()
    async with opened(agent, tmp_path) as client:
        first = await client.send("a")
        await client.send("b")
        assert agent.sessions[0].closed
        await client.send("c", contextId=first["contextId"])
        assert agent.sessions[2].spec.start.resume == agent.sessions[0].id
    agent = ScriptedAgent()
    async with opened(agent, tmp_path, able=()) as client:
        first = await client.send("a")
        await client.send("b")
        with pytest.raises(Fault, match="cannot go on"):
            await client.send("c", contextId=first["contextId"])


async def test_a_client_whose_conversations_are_all_busy_leaves_room_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "OF_ONE_CLIENT", 1)
    agent = ScriptedAgent([ASK])
    async with opened(agent, tmp_path) as client:
        assert state_of(await client.send("a")) == "INPUT_REQUIRED"
        with pytest.raises(Fault, match="of this client are busy"):
            await client.send("b")
        assert state_of(await Caller(client.door, owner="another").send("c")) == "COMPLETED"


async def test_the_oldest_tasks_that_have_ended_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "TASKS", 2)
    async with opened(ScriptedAgent(), tmp_path) as client:
        made = [(await client.send(str(number)))["id"] for number in range(4)]
        with pytest.raises(Fault):
            await client.call("GetTask", id=made[0])
        assert (await client.call("GetTask", id=made[-1]))["id"] == made[-1]
