"""Every session, native or driven: one TurnEnded per turn, a bounded queue, questions with deadlines."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stand_ins.sessions import ScriptedSession, Step
from treadle.errors import Busy, LocalError, ProviderError
from treadle.events import (
    Answered,
    AnyEvent,
    Asked,
    Closed,
    Message,
    TextDelta,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.session import AgentInfo, Answer, Change, CommandResult, Limits, Prompt, SessionSpec
from treadle.sessions.session import BaseSession, Turn
from treadle.sessions.totals import run_turn

Behaviour = Callable[["Playing", Turn], Awaitable[TurnEnded]]


class Playing(BaseSession):
    """A session whose turns do what the test tells them."""

    def __init__(self, behaviour: Behaviour, **more: object) -> None:
        super().__init__("s1", AgentInfo(name="playing", capabilities={"steer": "native"}), **more)  # type: ignore[arg-type]
        self.behaviour = behaviour

    async def _steer(self, turn: Turn, text: str) -> bool:
        return turn.steer(text)

    async def _turn(self, turn: Turn) -> TurnEnded:
        return await self.behaviour(self, turn)


async def say(session: Playing, turn: Turn) -> TurnEnded:
    turn.text = turn.prompt.text.upper()
    session.emit(TextDelta(text=turn.text))
    return turn.ending("completed", stop_reason="stop")


async def hang(session: Playing, turn: Turn) -> TurnEnded:
    turn.text = "half"
    session.emit(TextDelta(text="half"))
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def turn_of(session: Playing, text: str = "hi") -> list[AnyEvent]:
    return [event async for event in run_turn(session, text)]


async def test_an_interrupt_ends_the_turn_with_what_it_had_and_keeps_the_session() -> None:
    session = Playing(hang)
    events: list[AnyEvent] = []
    async for event in run_turn(session, "hi"):
        events.append(event)
        if isinstance(event, TextDelta):
            await session.interrupt(event.turn, "enough")
    ended = events[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "interrupted" and ended.text == "half"
    assert ended.error and ended.error.code == "cancelled" and ended.error.message == "enough"
    session.behaviour = say
    assert len(await turn_of(session)) == 3
    await session.close()


async def test_a_queued_turn_can_be_interrupted_and_is_then_never_run() -> None:
    session = Playing(hang)
    reader = session.events()
    running = await session.prompt(Prompt(text="first"))
    queued = await session.prompt(Prompt(text="second"))
    await session.interrupt(queued)
    await session.interrupt(running)
    await session.close()
    mine = [event for event in await reader.batch() if event.turn == queued]
    assert [type(event) for event in mine] == [TurnStarted, TurnEnded]


async def test_a_full_queue_says_busy() -> None:
    session = Playing(hang, queue_limit=2)
    reader = session.events()
    await session.prompt(Prompt(text="runs"))
    await anext(reader)
    await session.prompt(Prompt(text="waits"))
    await session.prompt(Prompt(text="waits"))
    with pytest.raises(Busy, match="2 turns are waiting"):
        await session.prompt(Prompt(text="too many"))
    await session.close()


async def test_close_ends_every_turn_then_says_closed_and_refuses_more() -> None:
    session = Playing(hang)
    reader = session.events()
    await session.prompt(Prompt(text="one"))
    await anext(reader)
    await session.prompt(Prompt(text="two"))
    await session.close()
    await session.close()
    rest = [event async for event in reader]
    assert isinstance(rest[-1], Closed) and sum(isinstance(event, TurnEnded) for event in rest) == 2
    with pytest.raises(LocalError, match="closed"):
        await session.prompt(Prompt(text="late"))


async def ask(session: Playing, turn: Turn) -> TurnEnded:
    answer = await session.ask(Asked(request="q1", kind="permission", text="may I?", deadline=session.deadline()))
    turn.text = f"{answer.decision} by {answer.by}"
    return turn.ending("completed")


async def test_what_must_be_alone_is_refused_during_a_turn_and_holds_back_the_next() -> None:
    session = Playing(say)
    reader = session.events()
    async with session.alone():
        with pytest.raises(Busy, match="Another prompt or command is already running"):
            session.alone()
        turn = await session.prompt(Prompt(text="x"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert reader.ready() == [] and session.busy
        await session.interrupt(turn)
    assert [type(event) for event in reader.ready()] == [TurnStarted, TurnEnded]
    await session.close()


async def test_a_question_nobody_answers_in_time_is_a_no() -> None:
    session = Playing(ask, answers=True, question_seconds=0.01)
    *_, ended = await turn_of(session)
    assert isinstance(ended, TurnEnded) and ended.text == "deny by deadline"
    await session.close()


async def test_a_question_with_nobody_there_is_a_no_at_once_and_never_asked() -> None:
    session = Playing(ask)
    events = await turn_of(session)
    assert not any(isinstance(event, Asked) for event in events)
    assert isinstance(events[-1], TurnEnded) and events[-1].text == "deny by nobody"
    await session.close()


@given(
    st.lists(
        st.sampled_from(["prompt", "interrupt", "interrupt queued", "step", "fail next", "alone", "again"]), max_size=20
    )
)
def test_whatever_is_done_every_turn_started_ends_exactly_once(actions: list[str]) -> None:
    async def play() -> None:
        failing = False

        async def behave(session: Playing, turn: Turn) -> TurnEnded:
            nonlocal failing
            await asyncio.sleep(0)
            if failing:
                failing = False
                raise ProviderError("down")
            return turn.ending("completed")

        session = Playing(behave, queue_limit=3)
        turns: list[str] = []
        held: asyncio.Lock | None = None
        for action in actions:
            if action == "alone" and not session.busy:
                held = session.alone()
                await held.acquire()
            elif action == "again" and held is not None:
                held.release()
                held = None
            elif action == "prompt":
                try:
                    turns.append(await session.prompt(Prompt(text="x")))
                except Busy:
                    pass
            elif action == "interrupt" and turns:
                await session.interrupt(turns[0])
            elif action == "interrupt queued" and turns:
                await session.interrupt(turns[-1])
            elif action == "fail next":
                failing = True
            else:
                await asyncio.sleep(0)
        if held is not None:
            held.release()
        reader = session.events()
        await session.close()
        events = [event async for event in reader]
        for turn in turns:
            mine = [type(event) for event in events if event.turn == turn]
            assert mine[0] is TurnStarted and mine[-1] is TurnEnded
            assert mine.count(TurnStarted) == mine.count(TurnEnded) == 1

    asyncio.run(play())


async def test_a_question_ends_with_the_turn_that_asked_it() -> None:
    asked = Asked(request="q", kind="question", text="which?")

    async def ask(session: Playing, turn: Turn) -> TurnEnded:
        await session.ask(asked)
        return turn.ending("completed")

    session = Playing(ask, answers=True)
    events = []
    async for event in run_turn(session, "go"):
        events.append(event)
        if isinstance(event, Asked):
            interrupting = asyncio.create_task(session.interrupt(event.turn))
    await interrupting
    [answered] = [event for event in events if isinstance(event, Answered)]
    assert (answered.request, answered.decision, answered.by) == ("q", "deny", "nobody")
    await session.close()


class Commanding(Playing):
    """Its commands run until they are released or stopped."""

    def __init__(self) -> None:
        super().__init__(hang)
        self.begun, self.go, self.reached = asyncio.Event(), asyncio.Event(), list[str]()

    async def _command(self, name: str, args: str) -> CommandResult | None:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            if args == "patient":  # it still returns what it has
                await self.go.wait()
                return CommandResult(message="half")
            raise
        return CommandResult(message=f"{name} {args}")

    async def _interrupt_other(self, target: str, reason: str) -> None:
        self.reached.append(f"{target}: {reason}")


async def test_a_session_has_no_commands_and_changes_nothing_unless_its_kind_says_so() -> None:
    session = Playing(say)
    assert session.commands() == [] and session.info.name == "playing"
    assert await session.command("dance", "") is None
    with pytest.raises(LocalError, match="playing cannot change its model"):
        await session.configure(Change(model="other"))
    await session.close()


@pytest.mark.parametrize("how", ["interrupt", "close"])
async def test_a_command_that_is_stopped_says_that_it_failed(how: str) -> None:
    session = Commanding()
    work = asyncio.create_task(session.command("look", ""))
    await session.begun.wait()
    await (session.interrupt("/look") if how == "interrupt" else session.close())
    assert await work == CommandResult(message="", ok=False)
    await session.close()


async def test_whoever_waits_for_a_command_and_is_stopped_waits_for_its_end_all_the_same() -> None:
    session = Commanding()
    waiting = asyncio.create_task(session.command("look", "patient"))
    await session.begun.wait()
    for _ in range(3):  # the first stops the command, which runs until it is released
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done() and session._commands
    session.go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not session._commands
    await session.close()


async def test_a_turn_hears_further_words_while_a_step_is_to_come() -> None:
    session = Playing(hang)
    reader = session.events()
    turn = await session.prompt(Prompt(text="go"))
    async for event in reader:
        if isinstance(event, TextDelta):
            break
    assert await session.steer(turn, "left") and not await session.steer("another", "right")
    assert session._current is not None and list(session._current.steering) == ["left"]
    session._current.hears = False
    assert not await session.steer(turn, "too late")
    await session.close()
    assert not await session.steer(turn, "over")


async def test_an_interrupt_right_after_an_answer_is_not_lost() -> None:
    async def ask(session: Playing, turn: Turn) -> TurnEnded:
        await session.ask(Asked(request="r", kind="permission", text="may I"))
        await asyncio.Event().wait()
        return turn.ending("completed")

    session = Playing(ask, answers=True)
    reader = session.events()
    turn = await session.prompt(Prompt(text="go"))
    async for event in reader:
        if isinstance(event, Asked):
            break
    await session.answer("r", Answer(decision="deny"))
    await asyncio.wait_for(session.interrupt(turn), 60)
    await session.close()
    assert [event.outcome async for event in reader if isinstance(event, TurnEnded)] == ["interrupted"]


async def test_a_turn_may_interrupt_itself() -> None:
    async def give_up(session: Playing, turn: Turn) -> TurnEnded:
        await session.interrupt(turn.id, "I cannot")
        await session.interrupt(turn.id, "really not")
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    session = Playing(give_up)
    ended = (await turn_of(session))[-1]
    assert isinstance(ended, TurnEnded) and ended.outcome == "interrupted"
    assert ended.error is not None and ended.error.message == "I cannot"
    await session.close()


@pytest.mark.parametrize(
    ("limits", "ends", "words"),
    [
        (Limits(max_tokens=20), "completed", ""),
        (Limits(max_tokens=19), "limited", "20 tokens are used, 19 were allowed"),
        (Limits(max_cost_usd=0.5), "limited", "0.6000 USD are spent, 0.5 were allowed"),
    ],
)
@pytest.mark.parametrize("last", [False, True], ids=["while it works", "with its last word"])
async def test_a_turn_that_spends_more_than_its_session_may_is_stopped(
    limits: Limits, ends: str, words: str, last: bool
) -> None:
    used = Usage(input_tokens=8, output_tokens=2, cost_usd=0.3)
    waits: list[Step] = [] if last or ends == "completed" else [asyncio.Event()]
    unpriced = Usage()  # what is known about the others counts all the same
    session = ScriptedSession(SessionSpec(cwd="/"), [[used, unpriced], [used, *waits], [used]])
    session.limits = limits
    async with asyncio.timeout(60):
        first, second = [[event async for event in run_turn(session, "go")][-1] for _ in range(2)]
    assert first.outcome == "completed" and second.outcome == ends
    assert (second.error.message if second.error else "") == words and session.spent.total_tokens == 20
    await session.close()


@pytest.mark.parametrize("limits", [Limits(max_tokens=5), Limits(max_cost_usd=1.0), Limits()])
async def test_a_limit_on_what_an_agent_never_reports_is_warned_of_once(limits: Limits) -> None:
    session = ScriptedSession(SessionSpec(cwd="/"), [[Message(text="a")], [Message(text="b")]])
    session.limits = limits
    events = [event for _ in range(2) async for event in run_turn(session, "go")]
    warned = [event.code for event in events if isinstance(event, Warned)]
    assert warned == (["not_enforced"] if limits != Limits() else [])
    await session.close()
