"""What a card declares, by its effect, with the real programs, beside what the scenarios of test_contract.py show."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.drivers.programs import PROGRAMS, environment
from tests.drivers.scenarios import HELLO, PATIENCE, USED, script
from tests.installed import TREADLE
from tests.live.agents import agent
from tests.live.shown import PAGE, TRIALS, page
from treadle.agent.providers.script import Script, ScriptedReply
from treadle.drivers.card import cards
from treadle.events import Message, ThinkingDelta
from treadle.session import Change, SessionSpec
from treadle.sessions.abilities import can
from treadle.sessions.session import BaseSession, run_turn
from treadle.testing.server import ModelServer

MARK = "You speak like a lighthouse keeper."
SECOND = {"claude": "claude-other", "codex": "other", "pi": "scripted/second", "opencode": "scripted/second"}
SECOND |= {"gemini": "gemini-3.8-flash"}
"""Another model, as a person names it to each agent that can have two of them here."""


class Bench(NamedTuple):
    name: str
    home: Path
    work: Path
    server: ModelServer

    @asynccontextmanager
    async def opened(self, **spec: Any) -> AsyncIterator[BaseSession]:
        made = agent(self.name, self.home, self.server.url, None, self.work)
        async with asyncio.timeout(2 * PATIENCE):
            session = await made.open(SessionSpec.of(cwd=str(self.work), **spec))
            try:
                yield session
            finally:
                await session.close()

    async def turn(self, session: BaseSession, prompt: str) -> list[Any]:
        return [event async for event in run_turn(session, prompt)]

    def bodies(self) -> str:
        return json.dumps([request.body for request in self.server.asked])


async def told(bench: Bench) -> None:
    """Instructions reach the model, and its reasoning comes back."""
    async with bench.opened(mode="full-auto", append_system_prompt=MARK) as session:
        events = await bench.turn(session, "[[think]]")
    assert events[-1].text == HELLO and MARK in bench.bodies()
    if can(cards()[bench.name].capabilities, "thinking"):
        thoughts = [event for event in events if isinstance(event, ThinkingDelta)]
        thoughts += [event for event in events if isinstance(event, Message) and event.kind == "thinking"]
        assert "weigh" in "".join(event.text for event in thoughts)


async def commanded(bench: Bench) -> None:
    async with bench.opened(mode="full-auto") as session:
        await bench.turn(session, "[[hello]]")
        async with asyncio.timeout(PATIENCE):
            while not session.commands():
                await asyncio.sleep(0.05)


async def planned(bench: Bench) -> None:
    """In plan mode it changes nothing, although nothing was denied before."""
    async with bench.opened(mode="full-auto") as session:
        await bench.turn(session, "[[hello]]")
        await session.configure(Change(mode="plan"))
        assert session.info.mode == "plan"
        await bench.turn(session, "[[write]]")
    assert not (bench.work / "note.txt").exists()


async def switched(bench: Bench) -> None:
    wanted = SECOND[bench.name].rpartition("/")[2]
    async with bench.opened(mode="full-auto") as session:
        await bench.turn(session, "[[hello]]")
        assert not any(wanted in f"{request.path} {request.body.get('model')}" for request in bench.server.asked)
        await session.configure(Change(model=SECOND[bench.name]))
        before = len(bench.server.asked)
        assert (await bench.turn(session, "[[hello]]"))[-1].text == HELLO
    assert any(wanted in f"{request.path} {request.body.get('model')}" for request in bench.server.asked[before:])


async def schema(bench: Bench) -> None:
    """The first answer does not fit; it is told so, and the second does."""
    env = environment(bench.name, bench.home, bench.server.url)
    wanted = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    process = await asyncio.create_subprocess_exec(
        *(TREADLE, "-p", "--agent", bench.name, "[[hello]]", "--output-format", "json"),
        *("--json-schema", json.dumps(wanted), "--permission-mode", "full-auto"),
        env=env,
        cwd=bench.work,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 2 * PATIENCE)
    assert json.loads(out)["structured_output"] == {"n": 17}, (out, err)


RUN: dict[str, Callable[[Bench], Awaitable[None]]] = {
    each.__name__: each for each in (told, commanded, planned, switched, schema)
}
CASES = [
    (name, trial)
    for name in PROGRAMS
    for trial, abilities in TRIALS.items()
    if can(cards()[name].capabilities, abilities[0]) and (trial != "switched" or name in SECOND)
]


def _script(name: str, work: Path, trial: str) -> Script:
    program = PROGRAMS[name]
    known = script(program.tools, str(work) if program.absolute else "").reply
    thinking = ScriptedReply(when=r"\[\[think\]\]", thinking="I weigh it well.", text=HELLO, usage=USED, times="always")
    fits = ScriptedReply(when=r"schema|JSON|json", text='{"n": 17}', usage=USED, times="always")
    first = ScriptedReply(when=r"\[\[hello\]\]", text="seventeen", usage=USED)
    titled, *rest = known
    return Script(reply=(titled, *([first, fits] if trial == "schema" else [thinking]), *rest))


@pytest.mark.parametrize(("name", "trial"), CASES)
async def test_what_a_card_declares_works(name: str, trial: str, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    async with ModelServer(_script(name, work, trial), batch=False) as server:
        await RUN[trial](Bench(name, home, work, server))


def test_every_trial_is_run() -> None:
    assert RUN.keys() == TRIALS.keys()


def test_what_was_seen_is_a_table_in_the_docs() -> None:
    """Runs last here: what this run and those before it came to."""
    PAGE.write_text(page())
