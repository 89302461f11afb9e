"""Runs: sessions that a client knows by an id."""

import asyncio

import pytest

from tests.stand_ins.sessions import ScriptedAgent
from treadle.doors.mcp.door import OPEN, AgentRun, Runs, ask_while
from treadle.errors import Busy, NotFound
from treadle.events import Asked, TextDelta, TurnEnded
from treadle.session import Answer, SessionSpec
from treadle.sessions.totals import ServedTurn

ASKED = Asked(request="r1", kind="permission", text="may I?", name="bash")


def runs(agent: ScriptedAgent) -> Runs:
    return Runs(lambda name: agent, "scripted", SessionSpec(cwd="/", answers=True))


async def started(agent: ScriptedAgent, prompt: str = "go") -> tuple[Runs, AgentRun]:
    made = runs(agent)
    run = await made.open(agent=None)
    await run.prompt(prompt)
    return made, run


async def test_a_run_at_work_takes_no_second_prompt() -> None:
    made, run = await started(ScriptedAgent([asyncio.Event()]))
    with pytest.raises(Busy, match="still running"):
        await run.prompt("too")
    await made.close()
    assert run.status == "interrupted"


async def test_waiting_for_an_answer_is_settled_unless_questions_do_not_count() -> None:
    made, run = await started(ScriptedAgent([ASKED, TextDelta(text="done")]))
    await asyncio.wait_for(run.settled(), 60)
    assert (run.status, list(run.questions)) == ("waiting", ["r1"])
    await run.settled(0.01, questions=False)
    assert run.status == "waiting"
    await run.session.answer("r1", Answer(decision="allow"))
    await asyncio.wait_for(run.settled(questions=False), 60)
    assert (run.status, run.questions) == ("completed", {})
    await made.close()


async def test_questions_are_put_to_a_person_until_one_cannot_be() -> None:
    second = Asked(request="r2", kind="permission", text="and now?", name="bash")
    made, run = await started(ScriptedAgent([ASKED, second, TextDelta(text="done")]))
    asked: list[str] = []

    async def elicit(question: Asked) -> Answer | None:
        asked.append(question.request)
        return Answer(decision="allow") if question.request == "r1" else None

    await asyncio.wait_for(ask_while(run, elicit), 60)
    assert asked == ["r1", "r2"] and list(run.questions) == ["r2"]
    await made.close()


async def test_a_session_that_closes_under_a_run_ends_it() -> None:
    made, run = await started(ScriptedAgent([asyncio.Event()]))
    await run.session.close()
    await asyncio.wait_for(run.settled(), 60)
    assert not run.busy
    await made.close()


async def test_the_one_that_rested_longest_makes_room_and_none_that_works() -> None:
    agent = ScriptedAgent()
    made = runs(agent)
    opened = [await made.open(agent=None) for _ in range(OPEN)]
    await made.open(agent="other")
    assert agent.sessions[0].closed and not agent.sessions[1].closed
    with pytest.raises(NotFound, match="no run"):
        made.get(opened[0].id)
    for run in made:
        run._served = ServedTurn(run.session)
    with pytest.raises(Busy, match="already running"):
        await made.open(agent=None)
    await made.close()


async def test_a_run_is_of_the_agent_that_was_named_and_only_its_last_events_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str] = []
    agent = ScriptedAgent([TextDelta(text=str(number)) for number in range(9)])

    def find(name: str) -> ScriptedAgent:
        found.append(name)
        return agent

    made = Runs(find, "usual", SessionSpec(cwd="/", answers=True))
    with pytest.raises(NotFound, match="the runs are none"):
        made.get("run_0")
    one, two = await made.open(agent=None), await made.open(agent="other", cwd="/tmp")
    assert found == ["usual", "other"] and (one.agent, two.agent, two.cwd) == ("usual", "other", "/tmp")
    with pytest.raises(NotFound, match=f"the runs are {one.id}, {two.id}; `resume`"):
        made.get("run_0")
    monkeypatch.setattr("treadle.doors.mcp.door.STORED_EVENTS", 3)
    await one.prompt("go")
    await asyncio.wait_for(one.settled(), 60)
    assert len(one.events) == 3 and isinstance(one.events[-1], TurnEnded)
    await asyncio.wait_for(one.news(0.001), 60)
    await made.close()
    assert all(session.closed for session in agent.sessions)


async def test_one_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    agent = ScriptedAgent()
    made = runs(agent)
    one, _ = await made.open(agent=None), await made.open(agent=None)

    async def broken() -> None:
        raise ZeroDivisionError

    one.close = broken  # type: ignore[method-assign]
    await made.close()
    assert [session.closed for session in agent.sessions] == [False, True]
    await agent.sessions[0].close()


async def test_an_answer_to_what_is_answered_already_is_nothing() -> None:
    made, run = await started(ScriptedAgent([ASKED, TextDelta(text="done")]))
    await asyncio.wait_for(run.settled(), 60)
    asked: list[str] = []

    async def elicit(question: Asked) -> Answer | None:
        asked.append(question.request)
        if len(asked) == 1:
            await run.session.answer("r1", Answer(decision="deny"))
            run.questions["r2"] = question
            return Answer(decision="allow")
        return None

    await asyncio.wait_for(ask_while(run, elicit), 60)
    assert asked == ["r1", "r1"] and "r1" not in run.questions
    await made.close()
