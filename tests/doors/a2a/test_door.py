"""Conversations and tasks over a scripted agent, without HTTP."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.doors.a2a.callers import ASK, Caller, opened, state_of, text_of
from tests.stand_ins.sessions import ScriptedAgent
from treadle.doors.a2a import door as doors
from treadle.errors import ProviderError
from treadle.events import Message, TextDelta, Usage
from treadle.wire.a2a import messages
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault


async def test_a_message_becomes_a_task_that_ends_with_the_answer(tmp_path: Path) -> None:
    turn = [TextDelta(text="One "), TextDelta(text="two."), Message(text="One two."), Usage(input_tokens=3)]
    async with opened(ScriptedAgent(turn), tmp_path) as client:
        task = await client.send()
        assert (state_of(task), text_of(task)) == ("COMPLETED", ["One two."])
        assert task["metadata"]["usage"]["inputTokens"] == 3
        assert [message["role"] for message in task["history"]] == ["ROLE_USER"]
        assert await client.call("GetTask", id=task["id"]) == task
        assert "history" not in await client.call("GetTask", id=task["id"], historyLength=0)


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
            assert refused.value.code == messages.TASK_NOT_FOUND
        with pytest.raises(Fault):
            await other.send("allow", taskId=task["id"])
        assert (await other.call("ListTasks"))["totalSize"] == 0
        joined = await other.send("mine", contextId=task["contextId"])
        assert state_of(joined) == "COMPLETED", "a context of another client is another conversation"


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"url": "http://169.254.169.254/"}, messages.CONTENT_TYPE_NOT_SUPPORTED),
        ({"raw": "aGk=", "mediaType": "application/zip"}, messages.CONTENT_TYPE_NOT_SUPPORTED),
        ({"raw": "aGk=", "mediaType": "image/png"}, messages.CONTENT_TYPE_NOT_SUPPORTED),
        ({"raw": "////", "mediaType": "text/plain"}, messages.CONTENT_TYPE_NOT_SUPPORTED),
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


@pytest.mark.parametrize(
    ("modes", "taken"), [(["image/png"], False), (["image/png", "text/plain"], True), (["*/*"], True)]
)
async def test_a_client_that_accepts_no_text_is_refused(modes: list[str], taken: bool, tmp_path: Path) -> None:
    sent = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi."}]}
    async with opened(ScriptedAgent(), tmp_path) as client:
        asked = client.call("SendMessage", message=sent, configuration={"acceptedOutputModes": modes})
        if taken:
            assert state_of((await asked)["task"]) == "COMPLETED"
            return
        with pytest.raises(Fault) as refused:
            await asked
        assert refused.value.code == messages.CONTENT_TYPE_NOT_SUPPORTED


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
        with pytest.raises(Fault, match="cannot resume"):
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
        third = Caller(client.door, owner="third")
        found = await asyncio.gather(third.send("d"), third.send("e"), third.send("f"), return_exceptions=True)
        assert [isinstance(one, Fault) for one in found] == [False, True, True], "also while the first is being opened"


async def test_the_oldest_tasks_that_have_ended_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "TASKS", 2)
    async with opened(ScriptedAgent(), tmp_path) as client:
        made = [(await client.send(str(number)))["id"] for number in range(4)]
        with pytest.raises(Fault):
            await client.call("GetTask", id=made[0])
        assert (await client.call("GetTask", id=made[-1]))["id"] == made[-1]


async def test_without_webhooks_each_of_their_methods_says_so(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        task = (await client.send())["id"]
        for method, params in (
            ("CreateTaskPushNotificationConfig", {"taskId": task, "url": "https://x.example/"}),
            ("GetTaskPushNotificationConfig", {"taskId": task, "id": "x"}),
            ("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "x"}),
            ("ListTaskPushNotificationConfigs", {"taskId": task}),
        ):
            with pytest.raises(Fault, match="calls no webhooks") as refused:
                await client.call(method, **params)
            assert refused.value.code == messages.PUSH_NOT_SUPPORTED


async def test_a_task_is_followed_cancelled_and_gone_on_with_only_as_it_can_be(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ASK], [Message(text="x")]), tmp_path) as client:
        task = await client.send()
        with pytest.raises(Fault, match="contextId is not that of the task"):
            await client.send("allow", taskId=task["id"], contextId="other")
        with pytest.raises(Fault, match="more than 200 characters"):
            await client.send("x", contextId="c" * 201)
        assert state_of(await client.send("x", contextId="c" * 200)) == "COMPLETED"
        cancelled = await client.call("CancelTask", id=task["id"])
        assert state_of(cancelled) == "CANCELED"
        with pytest.raises(Fault, match="the task is canceled") as refused:
            await client.call("CancelTask", id=task["id"])
        assert refused.value.code == messages.TASK_NOT_CANCELABLE
        with pytest.raises(Fault, match="nothing to follow"):
            await client.call("SubscribeToTask", id=task["id"])
        for name in (None, "", 3):
            with pytest.raises(Fault, match=r"`id`|\$\.id`"):
                await client.call("GetTask", id=name)
        with pytest.raises(Fault, match="there is no method 'no/such'$"):
            await client.call("no/such")


async def test_when_all_conversations_are_busy_none_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "SESSIONS", 1)
    agent = ScriptedAgent([ASK])
    async with opened(agent, tmp_path) as client:
        await client.send("a")
        with pytest.raises(Fault, match="1 conversations are busy"):
            await Caller(client.door, owner="another").send("b")
        assert not agent.sessions[0].closed
    assert agent.sessions[0].closed, "all are closed with the door"


async def test_one_who_does_not_wait_gets_the_task_as_it_is(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ASK]), tmp_path) as client:
        begun = await client.send(now=True)
        assert state_of(begun) in ("SUBMITTED", "WORKING")
        await client.until(begun["id"], "INPUT_REQUIRED")
