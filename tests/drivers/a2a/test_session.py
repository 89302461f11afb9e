"""A session with an A2A agent: our own server with a scripted agent, over HTTP on loopback."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.serve.receiver import receiving
from tests.serve.test_a2a import served_agent
from treadle.agents import find_agent
from treadle.errors import AuthFailed, ConfigError, RemoteError, RemoteProtocolError, TreadleError, Unsupported
from treadle.events import AnyEvent, Asked, Message, TextDelta, TurnEnded, Warned
from treadle.session import Answer, Confinement, Prompt, Rules, Session, SessionSpec
from treadle.sessions.session import run_turn

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


@pytest.mark.parametrize("spec", [{"model": "m"}, {"confinement": Confinement(use="on")}], ids=["a model", "a sandbox"])
async def test_what_it_cannot_be_asked_for_is_refused(spec: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        async with driven(tmp_path, **spec):
            pass


async def test_rules_that_do_not_reach_it_are_warned_of(tmp_path: Path) -> None:
    async with driven(tmp_path, rules=Rules(deny=("bash",))) as session:
        warned = [event.message for event in session.events().ready() if isinstance(event, Warned)]
        assert any("do not reach" in message for message in warned)


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
