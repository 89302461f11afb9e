"""The conversation itself, with a view that only remembers."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.waiting import until
from treadle.cli.chat.page import Page
from treadle.cli.chat.question import Question
from treadle.cli.chat.status import Status
from treadle.cli.chat.talk import Talk
from treadle.events import Asked, TextDelta
from treadle.session import Answer, SessionSpec
from treadle.testing.sessions import ScriptedSession, Step


def asked() -> Asked:
    return Asked(request="r", kind="permission", text="may I?", name="bash", command="ls")


class Remembers:
    glance = 0.0

    def __init__(self, answer: Answer | None = None) -> None:
        self.text = ""
        self.answer = answer
        self.open: list[Question] = []

    def print(self, text: str) -> None:
        self.text += text

    def changed(self) -> None:
        pass

    async def ask(self, question: Question) -> Answer:
        self.open.append(question)
        try:
            if self.answer is None:
                await asyncio.Event().wait()
            assert self.answer is not None
            return self.answer
        finally:
            self.open.remove(question)


@asynccontextmanager
async def talking(
    cwd: Path, *turns: Sequence[Step], answer: Answer | None = None, cannot: Sequence[str] = ()
) -> AsyncIterator[tuple[Talk, Remembers, ScriptedSession]]:
    session = ScriptedSession(SessionSpec(cwd=str(cwd), answers=True), list(turns), cannot)
    view = Remembers(answer)
    talk = Talk(session, view, Page(lambda: 80, colour=False), Status(session), str(cwd))
    running = [asyncio.create_task(talk.run()), asyncio.create_task(talk.watch())]
    try:
        yield talk, view, session
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        await session.close()


async def test_a_steer_that_comes_too_late_is_the_next_prompt(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def deaf(session: ScriptedSession, turn: object) -> None:
        turn.hears = False  # type: ignore[attr-defined]
        await gate.wait()

    async with talking(tmp_path, [deaf]) as (talk, view, session):
        talk.enter("first")
        await until(lambda: talk.busy)
        await until(lambda: session._current is not None and not session._current.hears)
        talk.enter("and this")
        await until(lambda: list(talk.queued) == ["and this"])
        gate.set()
        await until(lambda: "> and this" in view.text and "and this\n\n" in view.text)


async def test_a_question_is_taken_back_when_its_turn_is_interrupted(tmp_path: Path) -> None:
    async with talking(tmp_path, [asked()]) as (talk, view, _):
        talk.enter("go")
        await until(lambda: view.open)
        assert talk.interrupt()
        await until(lambda: "interrupted" in view.text)
        assert view.open == []


async def test_an_answer_reaches_the_agent(tmp_path: Path) -> None:
    async with talking(tmp_path, [asked(), TextDelta(text="thanks")], answer=Answer(decision="allow")) as (
        talk,
        view,
        _,
    ):
        talk.enter("go")
        await until(lambda: "thanks" in view.text)


async def test_leaving_waits_for_what_is_queued_and_quitting_does_not(tmp_path: Path) -> None:
    async with talking(tmp_path) as (talk, view, _):
        talk.queue("one")
        talk.queue("two")
        talk.leave()
        await talk.rest()
        assert "> one" in view.text and "> two" in view.text
    never = asyncio.Event()
    async with talking(tmp_path, [never]) as (talk, view, _):
        talk.queue("one")
        talk.queue("two")
        await until(lambda: talk.busy)
        talk.quit()
        await talk.rest()
        assert "> two" not in view.text


async def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with talking(tmp_path) as (talk, view, _):
        talk.enter("/nonsense")
        await until(lambda: "unknown command /nonsense" in view.text)


async def test_a_command_of_ones_own_can_be_interrupted(tmp_path: Path) -> None:
    async with talking(tmp_path) as (talk, view, _):
        talk.enter("!echo begun; exec sleep 600")
        await until(lambda: "begun" in view.text)
        talk.interrupt()
        await until(lambda: "your command was interrupted" in view.text and not talk.busy)


async def test_what_a_background_task_asks_waits_for_an_empty_line(tmp_path: Path) -> None:
    async with talking(tmp_path, answer=Answer(decision="allow")) as (talk, view, session):
        asking = asyncio.create_task(
            session.ask(Asked(request="q", kind="permission", text="may I?", parent="agent_1"))
        )
        await until(lambda: "agent_1 asks: may I? (press Enter to answer)" in view.text)
        talk.enter("")
        assert (await asking).decision == "allow"


async def test_the_person_sees_the_wait_before_the_agent_has_the_prompt(tmp_path: Path) -> None:
    order: list[str] = []

    async def taken(session: ScriptedSession, turn: object) -> None:
        order.append("the agent has it")

    async with talking(tmp_path, [taken]) as (talk, view, _):
        view.changed = lambda: order.append(talk.page.progress.says()[2:])  # type: ignore[method-assign]
        talk.enter("go")
        await until(lambda: "the agent has it" in order)
        seen = order[: order.index("the agent has it")]
        assert any(re.fullmatch(r"waiting for the model 0:\d\d \(Esc interrupts\)", line) for line in seen)


async def test_several_lines_that_begin_with_a_heading_are_a_prompt_and_no_note(tmp_path: Path) -> None:
    async with talking(tmp_path, [TextDelta(text="read")]) as (talk, view, _):
        talk.enter("# A plan\n\nDo this.")
        await until(lambda: "read" in view.text)
        assert not (tmp_path / "AGENTS.md").exists()
        talk.enter("# no tabs")
        await until(lambda: (tmp_path / "AGENTS.md").exists())


async def test_words_for_an_agent_that_hears_none_while_it_works_are_the_next_prompt_and_the_person_is_told(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    async with talking(tmp_path, [gate], cannot=("steer",)) as (talk, view, session):
        talk.enter("first")
        await until(lambda: session._current is not None)
        talk.enter("and this")
        await until(lambda: list(talk.queued) == ["and this"])
        assert "scripted cannot be given a message while it works: this is the next prompt" in view.text
        gate.set()
        await until(lambda: "> and this" in view.text)
    assert session.steered == []
