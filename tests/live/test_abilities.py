"""What a card declares, by its effect, with the real programs, beside what the scenarios of test_contract.py show."""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.drivers.notes_server import __file__ as NOTES
from tests.drivers.programs import PROGRAMS, environment
from tests.drivers.scenarios import HELLO, PATIENCE, USED, script
from tests.installed import TREADLE
from tests.live.agents import agent
from tests.live.shown import PAGE, TRIALS, page
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.drivers.card import cards
from treadle.events import Message, ThinkingDelta
from treadle.session import Change, Instructions, Reasoning, SessionSpec, Subagent, Toolset
from treadle.sessions.abilities import can
from treadle.sessions.session import BaseSession
from treadle.sessions.totals import run_turn
from treadle.testing.server import ModelServer

MARK = "You speak like a lighthouse keeper."
SECOND = {"claude": "claude-other", "codex": "other", "pi": "scripted/second", "opencode": "scripted/second"}
SECOND |= {"gemini": "gemini-3.8-flash", "qwen": "second", "kimi": "second"}
"""Another model, as a person names it to each agent that can have two of them here."""


class Bench(NamedTuple):
    name: str
    home: Path
    work: Path
    server: ModelServer

    @asynccontextmanager
    async def opened(self, toolset: Toolset | None = None, **options: Any) -> AsyncIterator[BaseSession]:
        spec = SessionSpec.of(cwd=str(self.work), **options)
        spec = spec if toolset is None else msgspec.structs.replace(spec, tools=toolset)
        made = agent(self.name, self.home, self.server.url, None, self.work, fresh=not any(self.home.iterdir()))
        async with asyncio.timeout(2 * PATIENCE):
            session = await made.open(spec)
            try:
                yield session
            finally:
                await session.close()

    async def turn(self, session: BaseSession, prompt: str) -> list[Any]:
        return [event async for event in run_turn(session, prompt)]

    async def bodies_of(self, prompt: str = "[[hello]]", **spec: Any) -> str:
        """What the model is told in a session of one turn."""
        before = len(self.server.asked)
        async with self.opened(mode="full-auto", **spec) as session:
            await self.turn(session, prompt)
        return json.dumps([request.body for request in self.server.asked[before:]])

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


async def paced(bench: Bench) -> None:
    """The effort reaches the model service, from the first turn on and when it is changed."""
    async with bench.opened(mode="full-auto", thinking=Reasoning(effort="low")) as session:
        for wanted in ("low", "high"):
            before = len(bench.server.asked)
            assert (await bench.turn(session, "[[hello]]"))[-1].text == HELLO
            told = json.dumps([request.body for request in bench.server.asked[before:]])
            assert f'effort": "{wanted}"' in told, told[-2000:]
            await session.configure(Change(thinking=Reasoning(effort="high")))


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


async def beside(bench: Bench) -> None:
    """It writes in a further directory, which is outside of its own, and no one is asked."""
    async with bench.opened(mode="full-auto", add_dirs=(str(_other(bench.work)),)) as session:
        await bench.turn(session, "[[write]]")
    assert (_other(bench.work) / "note.txt").read_text() == "hello\n"


def _other(work: Path) -> Path:
    place = work.parent / "other"
    place.mkdir(exist_ok=True)
    return place


async def forgotten(bench: Bench) -> None:
    """Nothing of the prompt is in any file of its home afterwards; without being asked for that, it is."""

    def stored(word: str) -> bool:
        files = [path for path in bench.home.rglob("*") if path.is_file()]
        return any(word.encode() in path.read_bytes() for path in files)

    assert "violet-one" in await bench.bodies_of("[[hello]] violet-one", persist=False)
    assert not stored("violet-one")
    await bench.bodies_of("[[hello]] violet-two")
    assert stored("violet-two")


async def numbered(bench: Bench) -> None:
    """The id that was chosen is the one to go on with."""
    chosen = str(uuid.uuid4())
    assert "violet-one" in await bench.bodies_of("[[hello]] violet-one", session_id=chosen)
    assert "violet-one" in await bench.bodies_of("[[hello]] violet-two", resume=chosen)


async def barely(bench: Bench) -> None:
    (bench.work / "CLAUDE.md").write_text(MARK)
    assert MARK not in await bench.bodies_of(project=False) and MARK in await bench.bodies_of()


async def sourced(bench: Bench) -> None:
    (bench.work / "CLAUDE.md").write_text(MARK)
    named = [Instructions(sources=("user",)), Instructions(sources=("user", "project"))]
    assert [MARK in await bench.bodies_of(instructions=each) for each in named] == [False, True]


async def alone(bench: Bench) -> None:
    """A server of its own settings is started, unless only given ones are to be used."""
    log = bench.work / "log"
    theirs = {"command": sys.executable, "args": [NOTES, str(log)]}
    (bench.home / "claude").mkdir()
    (bench.home / "claude" / ".claude.json").write_text(json.dumps({"mcpServers": {"theirs": theirs}}))
    for only in (True, False):
        async with bench.opened(mode="full-auto", toolset=Toolset(only_servers=only)) as session:
            await bench.turn(session, "[[hello]]")
            async with asyncio.timeout(PATIENCE):
                while not only and not log.exists():
                    await asyncio.sleep(0.05)
            assert log.exists() != only


async def limited(bench: Bench) -> None:
    shell = PROGRAMS[bench.name].tools.shell("")[0]
    assert _offered(await bench.bodies_of(tools=("bash",))) == {shell}
    assert {shell} < _offered(whole := await bench.bodies_of()), whole
    left = _offered(await bench.bodies_of(denied_tools=("bash",)))
    assert shell not in left and left >= _offered(whole) - {shell}  # Claude Code then has tools that search instead


def _offered(bodies: str) -> set[str]:
    """The tools that the model can call, in either form; Claude Code keeps a place for later ones."""
    tools = [tool for body in json.loads(bodies) for tool in body.get("tools") or ()]
    return {tool.get("name") or tool["function"]["name"] for tool in tools} - {"DeferredToolPlaceholder"}


async def delegated(bench: Bench) -> None:
    scout = Subagent(name="scout", description="It looks.", prompt=MARK)
    assert MARK in await bench.bodies_of("[[delegate]]", subagents=(scout,))


async def skilled(bench: Bench) -> None:
    for name in ("alpha", "beta"):
        place = bench.work / ".claude" / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: What {name} does.\n---\nDo it.\n")
    bodies = await bench.bodies_of(instructions=Instructions(skills=("alpha",)))
    assert "What alpha does." in bodies and "What beta does." not in bodies


async def extended(bench: Bench) -> None:
    """A command of a plugin is one of its commands, and what it says reaches the model."""
    plugin = _other(bench.work) / "kit"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": "kit", "version": "1.0.0"}))
    (plugin / "commands").mkdir()
    (plugin / "commands" / "greet.md").write_text(f"---\ndescription: Greets.\n---\n{MARK}\n")
    assert MARK in await bench.bodies_of("/kit:greet", instructions=Instructions(plugins=(str(plugin),)))


RUN: dict[str, Callable[[Bench], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        *(
            told,
            commanded,
            planned,
            switched,
            paced,
            schema,
            beside,
            forgotten,
            numbered,
            barely,
            sourced,
            alone,
            limited,
        ),
        *(delegated, skilled, extended),
    )
}
CASES = [
    (name, trial)
    for name in PROGRAMS
    for trial, abilities in TRIALS.items()
    if can(cards()[name].capabilities, abilities[0]) and (trial != "switched" or name in SECOND)
]


def _script(name: str, work: Path, trial: str) -> Script:
    program = PROGRAMS[name]
    folder = str(_other(work)) if trial == "beside" else str(work) if program.absolute else ""
    known = script(program.tools, folder).reply
    thinking = ScriptedReply(when=r"\[\[think\]\]", thinking="I weigh it well.", text=HELLO, usage=USED, times="always")
    fits = ScriptedReply(when=r"schema|JSON|json", text='{"n": 17}', usage=USED, times="always")
    first = ScriptedReply(when=r"\[\[hello\]\]", text="seventeen", usage=USED)
    titled, *rest = known
    if trial == "delegated":
        asks = {"description": "look", "prompt": "[[hello]]", "subagent_type": "scout", "run_in_background": False}
        call = (CallLine(name="Agent", arguments=asks, id="call_scout"),)
        rest = [ScriptedReply(when=r"\[\[delegate\]\]", text="I ask another.", call=call, usage=USED), *rest]
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
