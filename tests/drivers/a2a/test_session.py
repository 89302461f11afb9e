"""A session with an A2A agent: our own server with a scripted agent, over HTTP on loopback."""

import asyncio
import base64
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent.pixels import png
from tests.drivers.a2a.talk import card, got, piece, result, says, sent, status, streamed, talking, task
from tests.serve.receiver import receiving
from tests.serve.test_a2a import served_agent
from treadle.agents import find_agent
from treadle.drivers.a2a import driver as session_module
from treadle.drivers.a2a.driver import A2aAgent
from treadle.drivers.card import Launch, cards
from treadle.errors import (
    AuthFailed,
    ConfigError,
    RemoteError,
    RemoteProtocolError,
    ToolError,
    TreadleError,
    Unsupported,
)
from treadle.events import AnyEvent, Asked, Message, TextDelta, TurnEnded, Warned
from treadle.session import Answer, Limits, Prompt, Session, SessionSpec
from treadle.sessions.totals import run_turn
from treadle.wire.a2a.messages import A2aPart

QUESTION = Asked(request="q", kind="question", text="Which?", options=("red", "blue"))


@asynccontextmanager
async def driven(tmp_path: Path, *turns: Sequence[Any], token: str = "", **spec: Any) -> AsyncIterator[Session]:
    async with served_agent(tmp_path, *turns, token=False) as (client, _):
        agent = find_agent(f"a2a:{client.http.base_url}", {})
        session = await agent.open(SessionSpec(cwd=str(tmp_path), **spec))
        try:
            yield session
        finally:
            await session.close()


async def played(session: Session, text: str = "Hi.") -> list[AnyEvent]:
    async with asyncio.timeout(60):
        return [event async for event in run_turn(session, text)]


def end_of(events: list[AnyEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]


async def test_text_arrives_as_it_is_written_and_ends_as_a_message(tmp_path: Path) -> None:
    async with driven(tmp_path, [TextDelta(text="One "), TextDelta(text="two."), Message(text="One two.")]) as session:
        events = await played(session)
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "One two."
        assert [event.text for event in events if isinstance(event, Message)] == ["One two."]
        assert end_of(events).outcome == "completed" and end_of(events).text == "One two."


async def test_turns_are_tasks_of_one_conversation(tmp_path: Path) -> None:
    async with driven(tmp_path) as session:
        assert [end_of(await played(session, text)).text for text in ("a", "b")] == ["a", "b"]
        assert session._context  # type: ignore[attr-defined]


async def test_a_question_is_asked_here_and_answered_there(tmp_path: Path) -> None:
    async def ask(session: Any, turn: Any) -> None:
        session.emit(Message(text=(await session.ask(QUESTION)).text))

    async with driven(tmp_path, [ask], answers=True) as session:
        reader = session.events(after=-1)
        await session.prompt(Prompt(text="Hi."))
        async with asyncio.timeout(60):
            async for event in reader:
                if isinstance(event, Asked):
                    assert event.options == ("red", "blue") and "Which?" in event.text
                    await session.answer(event.request, Answer(decision="allow", text="blue"))
                if isinstance(event, TurnEnded):
                    assert event.text == "blue"
                    break
        reader.close()


async def test_where_no_one_can_answer_it_is_told_no(tmp_path: Path) -> None:
    async def ask(session: Any, turn: Any) -> None:
        session.emit(Message(text=(await session.ask(QUESTION)).decision))

    async with driven(tmp_path, [ask]) as session:
        assert end_of(await played(session)).text == "deny"


async def test_an_interrupt_cancels_the_task(tmp_path: Path) -> None:
    async with driven(tmp_path, [TextDelta(text="begun"), asyncio.Event()]) as session:
        reader = session.events(after=-1)
        turn = await session.prompt(Prompt(text="Hi."))
        async with asyncio.timeout(60):
            async for event in reader:
                if isinstance(event, TextDelta):
                    await session.interrupt(turn)
                if isinstance(event, TurnEnded):
                    assert event.outcome == "interrupted"
                    break
            assert not any(isinstance(event, Warned) for event in reader.ready())
        reader.close()


async def test_a_task_that_fails_is_a_turn_that_fails_with_its_reason(tmp_path: Path) -> None:
    async with driven(tmp_path, [RemoteError("the disk is full")]) as session:
        ended = end_of(await played(session))
        assert ended.outcome == "failed" and ended.error is not None and "the disk is full" in ended.error.message


async def test_its_token_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_agent(tmp_path, token=True) as (client, tokens):
        name = f"a2a:{client.http.base_url}"
        session = await find_agent(name, {}).open(SessionSpec(cwd=str(tmp_path)))
        refused = end_of(await played(session))
        assert refused.error is not None and refused.error.code == AuthFailed.code
        await session.close()
        monkeypatch.setenv("TREADLE_A2A_TOKEN", tokens.make("it", "all")[1])
        session = await find_agent(name, {}).open(SessionSpec(cwd=str(tmp_path)))
        assert end_of(await played(session)).outcome == "completed"
        await session.close()


async def test_a_token_is_not_sent_to_another_machine_in_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_A2A_TOKEN", "t")
    with pytest.raises(ConfigError, match="plain text"):
        await find_agent("a2a:http://agent.example", {}).open(SessionSpec(cwd=str(tmp_path)))


@pytest.mark.parametrize(
    ("card", "error"),
    [
        ({"name": "x", "url": "http://127.0.0.1:1/"}, RemoteError),
        ({"name": "x", "url": "h:1", "preferredTransport": "GRPC"}, RemoteProtocolError),
        ([], RemoteProtocolError),
    ],
)
async def test_a_card_that_leads_elsewhere_or_nowhere_is_refused(
    card: Any, error: type[TreadleError], tmp_path: Path
) -> None:
    async with receiving() as server:
        server.reply = msgspec.json.encode(card)
        with pytest.raises(error):
            await find_agent(f"a2a:{server.url}", {}).open(SessionSpec(cwd=str(tmp_path)))


# What an agent does that is not ours


def texts(events: list[AnyEvent]) -> list[str]:
    return [f"+{event.text}" for event in events if isinstance(event, TextDelta)] + [
        event.text for event in events if isinstance(event, Message)
    ]


def why(events: list[AnyEvent]) -> str:
    ended = end_of(events)
    assert ended.outcome == "failed" and ended.error is not None
    return f"{ended.error.code}: {ended.error.message}"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "POLL", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_one_that_does_not_stream_is_asked_until_its_task_has_ended(tmp_path: Path) -> None:
    replies = [
        sent(task("working", ("a", "One"))),
        got(task("submitted", ("a", "One two"))),
        got(task("completed", ("a", "One two"), words=says(A2aPart(text="said elsewhere")))),
        sent(says(A2aPart(text="Hello."))),
    ]
    async with talking(tmp_path, *replies, mode="full-auto") as (session, server):
        events = await played(session)
        assert texts(events) == ["+One", "+ two", "One two"] and end_of(events).text == "One two"
        assert end_of(await played(session, "Again.")).text == "Hello."
        (_, first), *asked, (method, second) = server.called
        assert [params for _, params in asked] == [{"id": "t"}] * 2 and {name for name, _ in asked} == {"GetTask"}
        assert first["message"].keys() == {"messageId", "role", "parts"} and first["message"]["role"] == "ROLE_USER"
        assert (method, second["message"]["contextId"]) == ("SendMessage", "c") and "taskId" not in second["message"]
        info = session.info
        assert (info.name, info.version, info.mode, info.capabilities["images"]) == ("a2a", "7", "full-auto", "native")
        assert info.losses["Usage"].level == "dropped"


async def test_a_stream_is_followed_to_its_end_and_what_is_replaced_is_no_further_text(tmp_path: Path) -> None:
    stream = streamed(
        task("submitted"),
        status("working"),
        piece("a", "One", append=False),
        piece("a", " two", append=True),
        piece("a", " two", append=True),
        piece("b", "draft", append=False),
        piece("b", "final", append=False),
        status("completed", says(A2aPart(text="not the answer"))),
        piece("a", "after the end", append=True),
    )
    async with talking(tmp_path, stream, streaming=True) as (session, server):
        events = await played(session)
        assert texts(events) == ["+One", "+ two", "+ two", "+draft", "One two two", "final"]
        assert end_of(events).text == "final" and [name for name, _ in server.called] == ["SendStreamingMessage"]


@pytest.mark.usefixtures("at_once")
async def test_a_stream_that_breaks_off_is_taken_up_by_asking(tmp_path: Path) -> None:
    replies = [streamed(task("working")), got(task("completed", words=says(A2aPart(text="At last."))))]
    async with talking(tmp_path, *replies, streaming=True) as (session, server):
        events = await played(session)
        assert texts(events) == ["At last."] and [name for name, _ in server.called][1:] == ["GetTask"]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("replies", "problem"),
    [
        ([sent(task("failed"))], "remote_error: the task was failed"),
        ([sent(task("rejected", words=says(A2aPart(text="no"))))], "remote_error: the task was rejected: no"),
        ([sent(task("canceled"))], "remote_error: the task was canceled"),
        ([sent(piece("a", "x", append=False))], "protocol_error: it answered with neither a task nor a message"),
        ([sent(task("working")), result([])], "protocol_error: its answer is not a task: Expected `object`"),
        ([sent(task("auth-required"))], "auth_failed: the agent asks for a sign-in, which is not possible here"),
        ([sent(task("input-required"))], "remote_error: its question was not answered: The agent needs something"),
    ],
)
async def test_a_task_that_does_not_complete_says_why(tmp_path: Path, replies: list[bytes], problem: str) -> None:
    async with talking(tmp_path, *replies) as (session, _):
        events = await played(session)
        assert why(events).startswith(problem) and (":" in problem[12:]) == (":" in why(events)[12:])


async def answering(session: Session, answer: Answer) -> tuple[Asked, list[AnyEvent]]:
    asked, found = None, []
    async with asyncio.timeout(60):
        async for event in run_turn(session, "Hi."):
            found.append(event)
            if isinstance(event, Asked):
                asked = event
                await session.answer(event.request, answer)
    assert asked is not None
    return asked, found


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(decision="allow", text="blue"), "blue"),
        (Answer(decision="allow"), "yes"),
        (Answer(decision="deny"), "no"),
        (Answer(decision="deny", text="never"), "never"),
    ],
)
async def test_a_question_in_words_is_answered_in_words(tmp_path: Path, answer: Answer, told: str) -> None:
    words = says(A2aPart(text="Which?"), A2aPart(data={"colour": 1}))
    replies = [sent(task("input-required", ("a", "So far."), words=words)), sent(task("completed", ("a", "So far.")))]
    async with talking(tmp_path, *replies, answers=True, answer_seconds=math.inf) as (session, server):
        asked, events = await answering(session, answer)
        assert (asked.kind, asked.text, asked.name, asked.args) == ("question", "Which?", None, None)
        assert asked.options == () and asked.deadline is None
        assert texts(events) == ["+So far.", "So far."], "told once"
        message = server.called[1][1]["message"]
        assert (message["parts"], message["taskId"], message["contextId"]) == ([{"text": told}], "t", "c")


@pytest.mark.parametrize(
    ("data", "kind", "name", "options"),
    [
        ({"question": "permission", "tool": "bash", "args": {"c": 1}, "options": [1, "b"]}, "permission", "bash", 2),
        ({"question": "choice", "tool": "", "options": "none"}, "question", None, 0),
    ],
)
async def test_what_treadle_asks_over_there_is_asked_with_its_details(
    tmp_path: Path, data: dict[str, Any], kind: str, name: str | None, options: int
) -> None:
    words = says(A2aPart(text="May I?"), A2aPart(data=data))
    replies = [sent(task("input-required", words=words)), sent(task("completed"))]
    async with talking(tmp_path, *replies, answers=True) as (session, server):
        asked, _ = await answering(session, Answer(decision="allow", scope="session", text="go"))
        assert (asked.kind, asked.name, asked.args) == (kind, name, data.get("args"))
        assert asked.options == ("1", "b")[:options] and asked.deadline is not None
        assert server.called[1][1]["message"]["parts"] == [
            {"data": {"decision": "allow", "scope": "session", "text": "go"}}
        ]


async def test_a_turn_that_takes_too_long_cancels_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CANCEL_SECONDS", 0.05)
    limits = Limits(max_seconds=0.05)
    async with talking(tmp_path, sent(task("working")), limits=limits) as (session, server):
        ended = end_of(events := await played(session))
        assert ended.outcome == "limited" and ended.error is not None
        assert ended.error.message == "the turn took more than 0.05 s"
        warned = [(event.code, event.message) for event in events if isinstance(event, Warned)]
        assert warned == [("cancel_not_heeded", "Far was not told to stop: no answer in time")]
        events = await played(session)
        assert end_of(events).outcome == "limited" and not [event for event in events if isinstance(event, Warned)]


async def test_an_interrupt_is_sent_once_the_task_has_a_name(tmp_path: Path) -> None:
    refused = msgspec.json.encode({"error": {"code": -32002, "message": "too late"}})
    async with talking(tmp_path, sent(task("working", ("a", "x"))), refused) as (session, server):
        reader = session.events(after=-1)
        turn = await session.prompt(Prompt(text="Hi."))
        async with asyncio.timeout(60):
            async for event in reader:
                if isinstance(event, TextDelta):
                    await session.interrupt(turn)
                    break
        assert server.called[-1] == ("CancelTask", {"id": "t"})
        assert [event.message for event in reader.ready() if isinstance(event, Warned)] == [
            "Far was not told to stop: it refused: too late"
        ]
        reader.close()


async def test_images_go_to_one_that_takes_them(tmp_path: Path) -> None:
    async with talking(tmp_path, images=False) as (session, _):
        with pytest.raises(Unsupported, match="^Far accepts no images"):
            await session.prompt(Prompt(text="Look.", images=(png(),)))
    async with talking(tmp_path, sent(task("completed")), images=True) as (session, server):
        with pytest.raises(ToolError, match="image 2 "):
            await session.prompt(Prompt(text="Look.", images=(png(), b"no image")))
        async with asyncio.timeout(60):
            assert [event async for event in run_turn(session, "Look.", images=(png(),))]
        parts = server.called[0][1]["message"]["parts"]
        assert parts == [{"text": "Look."}, {"raw": base64.b64encode(png()).decode(), "mediaType": "image/png"}]


async def test_it_is_named_by_one_address_and_says_its_version(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="named by one address"):
        await A2aAgent(cards()["a2a"], Launch(argv=("http://a", "http://b"))).open(SessionSpec(cwd=str(tmp_path)))
    async with receiving() as server:
        server.reply = card(server.url)
        assert await A2aAgent(cards()["a2a"], Launch(argv=(server.url,))).version() == "7"
        agent = A2aAgent(cards()["a2a"], Launch(argv=(server.url,), options={"token": "MINE"}))
        session = await agent.open(SessionSpec(cwd=str(tmp_path), env={"MINE": "k", "TREADLE_A2A_TOKEN": "other"}))
        await session.close()
        assert server.heard[-1].headers["authorization"] == "Bearer k"
