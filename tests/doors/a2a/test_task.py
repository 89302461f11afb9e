"""A task from a message to its end: what its client sees, is asked, and may do."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.doors.a2a.callers import ASK, opened, state_of, text_of
from treadle.errors import ProviderError
from treadle.events import Asked, Message, TextDelta, ToolStarted
from treadle.testing.sessions import ScriptedAgent
from treadle.wire.a2a import records
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault


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


async def test_an_approval_of_another_input_that_the_agent_cannot_take_is_reported_as_a_denial(tmp_path: Path) -> None:
    async with opened(ScriptedAgent([ASK, Message(text="Done.")], cannot=("changed_input",)), tmp_path) as client:
        task = await client.send()
        decided = {"data": {"decision": "allow", "args": {"command": "rm y"}}}
        done = await client.send(taskId=task["id"], parts=[decided])
        assert state_of(done) == "COMPLETED"
        assert "so bash was denied" in done["history"][-1]["parts"][0]["text"]


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
