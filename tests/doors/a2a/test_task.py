"""A task from a message to its end: what its client sees, is asked, and may do."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.doors.a2a.callers import ASK, opened, state_of, text_of
from tests.stand_ins.sessions import ScriptedAgent, ScriptedSession
from tests.waiting import until
from treadle.doors.a2a.door import ServedTask
from treadle.events import (
    Asked,
    ErrorInfo,
    Message,
    Retrying,
    TextDelta,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.session import Answer, Prompt, SessionSpec
from treadle.wire.a2a import messages
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
                assert refused.value.code == messages.UNSUPPORTED_OPERATION
            else:
                await client.send("More.", taskId=task["id"], now=True)
            go.set()
            await client.until(task["id"], "COMPLETED")
            assert agent.sessions[0].steered == ([] if cannot else ["More."])


def message(text: str) -> messages.A2aMessage:
    return messages.A2aMessage(id=text, role="user", parts=(messages.A2aPart(text=text),))


class Changes(asyncio.Queue[Any]):
    """One who watches, with the changes of the state that it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def put_nowait(self, item: Any) -> None:
        self.told += [item] if isinstance(item, messages.StatusUpdate) else []


async def served(*turns: list[Any]) -> tuple[ServedTask, ScriptedSession, list[Any]]:
    session = ScriptedSession(SessionSpec.of(cwd="/", answers=True), list(turns))
    task = ServedTask(session, "c1", message("first"), "owner", -1)
    changes = Changes()
    task._watchers.add(changes)
    return task, session, changes.told


async def test_a_task_is_shown_with_as_much_history_as_is_asked_for() -> None:
    task, session, _ = await served()
    task.note(message("second"))
    for history, shown in ((None, ["first", "second"]), (0, []), (1, ["second"]), (2, ["first", "second"])):
        assert [each.id for each in task.snapshot(history).history] == shown
    assert all((each.context, each.task) == ("c1", task.id) for each in task.snapshot().history)
    task._append("words")
    assert len(task.snapshot().artifacts) == 1 and task.snapshot(artifacts=False).artifacts == ()
    assert task.status.state == "submitted" and not task.ended
    await session.close()


async def test_what_was_spent_is_told_when_it_has_ended() -> None:
    for spent, told in (
        ([Usage(input_tokens=5, output_tokens=2, cost_usd=0.5)], {"inputTokens": 5, "outputTokens": 2, "costUsd": 0.5}),
        ([Usage(input_tokens=5)], {"inputTokens": 5, "outputTokens": 0}),
        ([], None),
    ):
        task, session, changes = await served([*spent, TextDelta(text="the answer")])
        await task.begin(Prompt(text="go"))
        assert task.snapshot().metadata == {}
        await asyncio.wait_for(task.follow(), 60)
        assert task.snapshot().metadata == changes[-1].metadata == ({"usage": told} if told else {})
        assert [artifact.parts[0].text for artifact in task.snapshot().artifacts] == ["the answer"]
        await session.close()


async def test_outcomes_are_states_and_what_went_wrong_is_in_the_history() -> None:
    down = ErrorInfo(code="x", message="it is down")
    for outcome, error, state in (
        ("completed", None, "completed"),
        ("interrupted", None, "canceled"),
        ("failed", down, "failed"),
        ("limited", down, "failed"),
    ):
        task, session, changes = await served()
        task._take(TurnEnded(outcome=outcome, error=error))  # type: ignore[arg-type]
        assert (task.status.state, changes[-1].status.state, task.ended) == (state, state, True)
        last = task.snapshot().history[-1]
        assert (last.text == "it is down" and last.role == "agent") == (error is not None)
        await asyncio.wait_for(task.rest(), 60)
        with pytest.raises(Fault, match=f"the task is {state} and takes no further messages"):
            await task.hear(message("more"))
        await session.close()


async def test_what_it_does_is_seen_by_those_who_watch_while_it_works() -> None:
    task, session, _ = await served()
    watching = task.watch(through=False)
    assert await anext(watching) == task.snapshot()
    task._take(ToolStarted(call="c", name="early"))
    task._take(TurnStarted(prompt="go"))
    error = ErrorInfo(code="x", message="busy")
    for event in (
        ToolStarted(call="c", name="bash", command="ls"),
        ToolStarted(call="c", name="read", paths=("a", "b")),
        ToolStarted(call="c", name="wait"),
        ToolStarted(call="c", name="inner", parent="t"),
        TextDelta(text="inner", parent="t"),
        Retrying(attempt=1, delay_ms=1, error=error),
        Warned(message="not told", code="not_told"),
        Warned(message="a file of ours", code="other"),
        TurnEnded(outcome="completed"),
    ):
        task._take(event)
    seen = [event async for event in watching]
    words = [event.status.message.text for event in seen if event.status.message is not None]
    owners = "a warning for the agent's owner: other"
    assert words == ["bash: ls", "read: a, b", "wait", "trying again: busy", "not told", owners]
    assert [event.metadata for event in seen][1:4] == [{"tool": "bash"}, {"tool": "read"}, {"tool": "wait"}]
    assert [event.metadata for event in seen][5] == {"warning": "not_told"}
    assert [each.text for each in task.snapshot().history][-2:] == ["not told", owners]
    await session.close()


async def test_questions_come_one_after_the_other_and_those_that_are_over_are_not_put() -> None:
    asked = [Asked(request=name, kind="permission", text=f"may {name}?", name="bash") for name in ("q1", "q2", "q3")]

    async def ask(session: ScriptedSession, turn: Any) -> None:
        await asyncio.gather(*(session.ask(one) for one in asked))

    task, session, changes = await served([ask])
    watching, through = task.watch(through=False), task.watch(through=True)
    await task.begin(Prompt(text="go"))
    following = asyncio.create_task(task.follow())
    await asyncio.wait_for(task.rest(), 60)
    assert [change.status.state for change in changes] == ["working", "input-required"]
    for name in ("q2", "q1"):  # by another, or their time has run out
        await session.answer(name, Answer(decision="deny"))
    await until(lambda: changes[-1].status.message.parts[1].data["request"] == "q3")
    await task.hear(message("yes"))
    await asyncio.wait_for(following, 60)
    states = [[event.status.state async for event in each] for each in (watching, through)]
    assert states[0] == ["submitted", "working", "input-required"]
    assert states[1] == ["submitted", "working", "input-required", "input-required", "working", "completed"]
    await session.close()


async def test_a_watcher_that_is_too_far_behind_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.doors.a2a.door.BEHIND", 2)
    task, session, _ = await served()
    task._watchers.clear()
    watching = task.watch(through=True)
    for text in ("a", "b", "c", "d"):
        task._append(text)
    seen = [event async for event in watching]
    assert len(seen) == 3 and task._watchers == set(), "the task, and two of four pieces"
    await session.close()


async def test_text_is_appended_to_one_answer_until_it_is_whole() -> None:
    task, session, _ = await served()
    watching = task.watch(through=True)
    task._whole("")
    task._append("One")
    task._whole("One")
    task._whole("Two")
    task._append("Thr")
    task._whole("Three")
    task._take(TurnEnded(outcome="completed", text="Three"))
    shown = [event async for event in watching][1:-1]
    assert [(each.artifact.id, each.artifact.parts[0].text, each.append, each.last) for each in shown] == [
        ("answer-1", "One", False, False),
        ("answer-1", "", True, True),
        ("answer-2", "Two", False, False),
        ("answer-2", "", True, True),
        ("answer-3", "Thr", False, False),
        ("answer-3", "Three", False, False),
        ("answer-3", "", True, True),
    ]
    assert [artifact.parts[0].text for artifact in task.snapshot().artifacts] == ["One", "Two", "Three"]
    await session.close()


async def test_a_session_that_closes_or_a_server_that_stops_fails_the_task() -> None:
    task, session, _ = await served([asyncio.Event()])
    await task.begin(Prompt(text="go"))
    following = asyncio.create_task(task.follow())
    await asyncio.sleep(0)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert task.status.state == "failed" and task.snapshot().history[-1].text == "the server stopped"
    await session.close()
    other, closed, _ = await served()
    await closed.close()
    await asyncio.wait_for(other.follow(), 60)
    assert [each.text for each in other.snapshot().history] == ["first", "the session was closed"]
