"""The conversation itself, with a view that only remembers."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cli.conftest import Terminal
from tests.stand_ins.sessions import ScriptedSession, Step
from tests.waiting import until
from treadle.cli.chat.page import Page
from treadle.cli.chat.question import Question
from treadle.cli.chat.talk import Attention, Reporter, Status, Talk
from treadle.events import Asked, TextDelta
from treadle.session import Answer, CommandResult, Session, SessionSpec
from treadle.sessions.session import Turn
from treadle.terminal.settings import STATE_FILE_VARIABLE


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


async def test_what_is_said_during_a_turn_is_handed_over_and_what_the_next_agent_asks_beside_is_seen(
    tmp_path: Path,
) -> None:
    gate, second = asyncio.Event(), ScriptedSession(SessionSpec(cwd=str(tmp_path), answers=True), [])
    async with talking(tmp_path, [gate], answer=Answer(decision="allow")) as (talk, view, session):

        async def hand(agent: str) -> Session:
            await session.close()
            for _ in range(20):  # while the other starts, all hear that the first has ended
                await asyncio.sleep(0)
            talk.agent = agent
            return second

        talk.hand = hand
        talk.enter("/agent nosuch")
        await until(lambda: "there is no agent 'nosuch' (the agents are native, " in view.text)
        talk.enter("first")
        await until(lambda: session._current is not None)
        talk.enter("never YAML")
        await until(lambda: "» never YAML" in view.text)
        gate.set()
        await talk.rest()
        assert talk.gathering.handover().task == ("first", "never YAML")
        talk.enter("/agent codex")
        await until(lambda: "codex continues from here" in view.text)
        asking = asyncio.create_task(second.ask(asked()))
        await until(lambda: "asks: " in view.text)
        talk.enter("")
        assert (await asking).decision == "allow"
    await second.close()


async def test_a_question_is_taken_back_when_its_turn_is_interrupted(tmp_path: Path) -> None:
    async with talking(tmp_path, [asked()]) as (talk, view, _):
        talk.enter("go")
        await until(lambda: view.open)
        assert talk.interrupt()
        await until(lambda: "interrupted" in view.text)
        assert view.open == []


async def test_what_a_background_task_asks_waits_for_an_empty_line(tmp_path: Path) -> None:
    async with talking(tmp_path, answer=Answer(decision="allow")) as (talk, view, session):
        out = Terminal()
        talk.reporter = Reporter(out, {STATE_FILE_VARIABLE: "x"})
        asking = asyncio.create_task(
            session.ask(Asked(request="q", kind="permission", text="may I?", parent="agent_1"))
        )
        await until(lambda: "agent_1 asks: may I? (press Enter to answer)" in view.text)
        assert "state=blocked" in out.getvalue(), "nothing else is reported while nothing runs"
        talk.enter("")
        assert (await asking).decision == "allow"


async def test_what_is_typed_with_a_mark_is_no_prompt(tmp_path: Path) -> None:
    heard: list[str] = []

    async def hears(session: ScriptedSession, turn: Turn) -> None:
        heard.append(turn.prompt.text)

    async with talking(tmp_path, [hears], [hears]) as (talk, view, _):
        assert not talk.busy and not talk.interrupt() and talk.unqueue() is None
        talk.enter("?")
        await until(lambda: "Shift-Tab" in view.text)
        talk.enter("!echo out; exit 3")
        await until(lambda: "exit code 3" in view.text)
        assert "out\n" in view.text
        talk.enter("#  use   tabs ")
        await until(lambda: "noted in AGENTS.md" in view.text)
        assert (tmp_path / "AGENTS.md").read_text() == "- use tabs\n" and heard == []
        talk.enter("go")
        await until(lambda: heard)
        assert heard == ["I ran a command of my own:\n$ echo out; exit 3\nout\n\n(exit code 3)\n\ngo"]
        await talk.rest()
        talk.enter("!")
        await until(lambda: len(heard) == 2)
        assert heard[1] == "!", "what was run is told once, and a mark alone is a prompt"


async def test_commands_of_the_chat_of_the_agent_and_of_nobody(tmp_path: Path) -> None:
    results = {"say": CommandResult(message="said it"), "fail": CommandResult(message="did not", ok=False)}

    async with talking(tmp_path) as (talk, view, session):

        async def command(name: str, args: str) -> CommandResult | None:
            given.append((name, args, talk.busy))
            return results.get(name)

        given: list[tuple[str, str, bool]] = []
        session._command = command  # type: ignore[method-assign, assignment]
        talk.enter("/theme light")
        await until(lambda: "The theme is now light." in view.text)
        talk.enter("/say it loud")
        await until(lambda: "said it" in view.text)
        talk.enter("/fail")
        await until(lambda: "did not" in view.text)
        assert given == [("say", "it loud", True), ("fail", "", True)]
        await talk.rest()

        async def pick(_: str) -> str | None:
            return picks.pop(0)

        picks: list[str | None] = [None, "chosen"]
        talk.pickers = {"say": pick}
        talk.enter("/say")
        talk.enter("/say")
        talk.enter("/say typed")
        await until(lambda: len(given) == 4)
        assert given[2:] == [("say", "chosen", True), ("say", "typed", True)]
        await talk.rest()
        assert "Commands of the chat:" not in view.text
        results["help"] = CommandResult(message="of the agent")
        talk.enter("/help more")
        await talk.rest()
        assert "of the agent" in view.text and "Commands of the chat:" not in view.text
        talk.enter("/help")
        await talk.rest()
        assert "of the agent\n\nCommands of the chat:\n" in view.text
        talk.enter("/exit")
        talk.queue("never")
        await talk.rest()
        assert "never" not in view.text or list(talk.queued) == []


async def test_the_state_is_reported_and_the_person_called(tmp_path: Path) -> None:
    async with talking(tmp_path, [asked(), TextDelta(text="thanks")], answer=Answer(decision="allow")) as (
        talk,
        view,
        _,
    ):
        out = Terminal()
        talk.reporter = Reporter(out, {STATE_FILE_VARIABLE: "x"})
        talk.attention = Attention(("title",), out, {"TERM": "xterm"})
        talk.enter("go")
        await until(lambda: "thanks" in view.text and "state=done" in out.getvalue())
        states = re.findall(r"state=(\w+)|treadle: ([\w ]+) \(", out.getvalue())
        told = [one or two for one, two in states]
        assert told[:3] == ["idle", "working", "working"] and "waits for you" in told
        assert told[-2:] in (["done", "done"], ["working", "done"]) and "treadle: done (" in out.getvalue()
