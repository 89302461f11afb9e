"""A turn that someone follows: nothing of it is missed, and leaving it ends it."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stand_ins.sessions import ScriptedSession, Step
from treadle.events import Answered, Asked, Message, TextDelta, TurnEnded, Usage, Warned
from treadle.session import Answer, Prompt, SessionSpec
from treadle.sessions.totals import ServedTurn

ASKED = Asked(request="q", kind="permission", text="may I?", name="bash")
YES = Answer(decision="allow")


def session(*turns: list[Step]) -> ScriptedSession:
    return ScriptedSession(SessionSpec(cwd="/", answers=True), list(turns))


async def taken(served: ServedTurn, *, whole: bool) -> list[Any]:
    """All events of the turn, one by one or in batches."""
    async with asyncio.timeout(60):
        if not whole:
            return [event async for event in served]
        found: list[Any] = []
        while batch := await served.batch():
            found += batch
        return found


STEPS = st.sampled_from(
    [
        TextDelta(text="a"),
        Message(text="b"),
        Usage(input_tokens=1),
        Warned(message="w"),
        Warned(message="g", code="gap"),
    ]
)


@given(st.lists(st.lists(STEPS), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_every_event_of_its_turn_is_seen_once_and_in_order_and_none_of_another(
    turns: list[list[Any]], whole: bool, theirs: bool
) -> None:
    async def play() -> None:
        opened = session(*turns)
        opened.emit(Warned(message="while it was opened"))
        seen = 0
        for number, steps in enumerate(turns):
            async with ServedTurn(opened, after=seen) as served:
                turn = await (opened if theirs else served).prompt(Prompt(text="go"))
                events = await taken(served, whole=whole)
            before = ["Warned"] if number == 0 else []
            expected = [*before, "TurnStarted", *(type(step).__name__ for step in steps), "TurnEnded"]
            assert [type(event).__name__ for event in events] == expected
            assert [event.seq for event in events] == sorted({event.seq for event in events})
            assert {event.turn for event in events[len(before) :]} == {turn} and events[-1] is served.ended
            assert served.totals.summary().usage.calls == sum(isinstance(step, Usage) for step in steps)
            seen = served.seen
            assert await served.batch() == []
        await opened.close()

    asyncio.run(play())


async def test_who_leaves_before_the_end_has_interrupted_the_turn() -> None:
    opened = session([TextDelta(text="a"), asyncio.Event()])
    reader = opened.events()
    async with ServedTurn(opened, left="gone") as served:
        await served.prompt(Prompt(text="go"))
        await anext(served)
    await opened.close()
    (ended,) = [event for event in reader.ready() if isinstance(event, TurnEnded)]
    assert ended.outcome == "interrupted" and ended.error is not None and ended.error.message == "gone"


@pytest.mark.parametrize("by", ["client", "client, and goes on", "another", "no one"])
async def test_a_question_is_put_to_the_client_until_it_is_settled(by: str) -> None:
    opened, put, given_up = session([ASKED, Message(text="done")]), asyncio.Event(), asyncio.Event()

    async def ask(asked: Asked) -> Answer | None:
        put.set()
        if by == "client":
            return YES
        if by == "client, and goes on":
            await served.answer("q", YES)
        try:
            while served.ended is None:
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            given_up.set()
            raise
        return None

    async with ServedTurn(opened, ask=ask) as served:
        await served.prompt(Prompt(text="go"))
        following = asyncio.create_task(taken(served, whole=False))
        await asyncio.wait_for(put.wait(), 60)
        if by == "another":
            await opened.answer("q", YES)
        elif by == "no one":
            await served.interrupt("enough")
        events = await following
        assert not served.questions and not await served.answer("q", YES), "it is no longer open"
    assert [event.decision for event in events if isinstance(event, Answered)] == [
        "deny" if by == "no one" else "allow"
    ]
    assert given_up.is_set() is (not by.startswith("client"))
    await opened.close()


async def test_a_session_that_closes_ends_what_is_followed_and_takes_no_prompt() -> None:
    opened = session([asyncio.Event()])
    async with ServedTurn(opened) as served:
        await served.prompt(Prompt(text="go"))
        await opened.close()
        assert (await taken(served, whole=True))[-1].outcome == "interrupted"
        assert not await served.steer("more")
    async with ServedTurn(opened) as late:
        with pytest.raises(Exception, match="closed"):
            await late.prompt(Prompt(text="go"))
        assert await late.batch() == [] and late.ended is None
