"""A session of one agent goes on with another, which is told what was said and done."""

import json
import os
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.installed import TREADLE, treadle
from tests.scripts import calls, reply, says
from treadle.agent.providers.script import Script, ScriptedReply
from treadle.agents import find_agent, taking_over
from treadle.errors import Busy, Unsupported
from treadle.fleet.orders import begun
from treadle.io.files import write_atomic
from treadle.io.paths import config_file, private_dir
from treadle.redact import Redactor
from treadle.session import Rules, Session, SessionSpec, Start
from treadle.sessions.handover import Gathering
from treadle.sessions.tokens import estimate
from treadle.sessions.totals import run_turn
from treadle.testing.server import ModelServer
from treadle.wire.fleet.orders import Spec

FACTS = {
    "a constraint": "legacy/ stays untouched",
    "a second constraint": "no new dependencies",
    "a constraint said late": "tabs, not spaces",
    "a name that a person gave": "Kestrel",
    "a number that a person gave": "port 4711",
    "a decision": "YAML because JSON has no comments",
    "another decision": "asyncio instead of threads",
    "a command that failed": "make kestrel-all",
    "what it printed": "E4242 unknown rule",
    "an edit that failed": "no such text: frobnicate",
    "a file that was written": "made.txt",
    "a file that was read": "odd.cfg",
    "a file's odd state": "half of odd.cfg is in Latin-1",
    "a to-do item": "write the changelog",
    "an item under way": "port the parser",
    "a dead end": "the cache cannot be shared",
    "an assumption": "assuming the clock is UTC",
    "the last words": "the parser is half ported",
    "a command that worked": "echo counted-99",
    "the first words": "Build the settings page",
}
SCRIPT = (
    reply(
        text="I chose YAML because JSON has no comments. I use asyncio instead of threads.",
        call=[
            {"name": "bash", "arguments": {"command": "make kestrel-all || { echo E4242 unknown rule; exit 2; }"}},
            {"name": "read_file", "arguments": {"file_path": "odd.cfg"}},
            {"name": "write_file", "arguments": {"file_path": "made.txt", "content": "x"}},
        ],
    )
    + calls("edit_file", {"file_path": "made.txt", "old_string": "no such text: frobnicate", "new_string": "y"})
    + calls(
        "todo",
        {
            "todos": [
                {"content": "write the changelog", "status": "pending"},
                {"content": "port the parser", "status": "in_progress"},
            ]
        },
    )
    + calls("bash", {"command": "echo counted-99"})
    + says("Note that half of odd.cfg is in Latin-1. It turns out that the cache cannot be shared.")
    + says("I go on, assuming the clock is UTC. For now the parser is half ported.")
)
FIRST = "Build the settings page. Its name is Kestrel, on port 4711: legacy/ stays untouched, and no new dependencies."
AGENT = "[agents.{name}]\nspeaks = 'acp'\ncommand = '{program} acp --model {model}'\n"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(Script(reply=(ScriptedReply(text="I know.", times="always"),))) as server:
        yield server


@pytest.fixture
def work(tmp_path: Path, state_home: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "odd.cfg").write_text("x")
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    url = f"{server.url}/v1"
    monkeypatch.setenv("TREADLE_BASE_URL", url)
    private_dir(os.path.dirname(config_file()))
    first = AGENT.format(name="first", program=TREADLE, model=f"scripted:{script}")
    second = AGENT.format(name="second", program=f"env TREADLE_BASE_URL={url} {TREADLE}", model="chat:m")
    write_atomic(config_file(), (first + second).encode())
    return work


async def opened(agent: str, work: Path, model: str | None = None, **start: Any) -> Session:
    spec = SessionSpec(cwd=str(work), model=model, mode="yolo", inherit_env=True, start=Start(**start))
    return await find_agent(agent).open(spec)


async def first_session(agent: str, work: Path) -> str:
    session = await opened(agent, work, f"scripted:{work.parent / 'script.toml'}" if agent == "native" else None)
    try:
        for prompt in (FIRST, "Use tabs, not spaces."):
            [_ async for _ in run_turn(session, prompt)]
        return session.id
    finally:
        await session.close()


async def first_request(agent: str, work: Path, session: str, server: ModelServer) -> str:
    """What the next agent sends its model first, of the last message."""
    going_on = await opened(agent, work, "chat:m" if agent == "native" else None, resume=session)
    try:
        [_ async for _ in run_turn(going_on, "Go on.")]
    finally:
        await going_on.close()
    return str([message["content"] for message in server.asked[0].body["messages"]][-1])


@pytest.mark.parametrize(
    ("before", "after", "named"), [("native", "second", "{id}"), ("first", "native", "first:{id}")]
)
async def test_what_matters_of_a_session_reaches_the_next_agents_first_request(
    before: str, after: str, named: str, work: Path, server: ModelServer
) -> None:
    text = await first_request(after, work, named.format(id=await first_session(before, work)), server)
    missing = [name for name, fact in FACTS.items() if fact not in text]
    assert len(missing) <= 1, missing
    assert estimate(text) <= 8000 and text.endswith("Go on.")


WIRES = {
    "native": "native",
    "acp": "acp:{} acp --model {}",
    "worker": "worker:{} worker",
    "sidecar": "sidecar:{} sidecar",
}


async def on_wire(wire: str, program: str, work: Path, model: str, handover: str = "") -> Session:
    """In ACP the model is the command's."""
    how = {"model": None} if wire == "acp" else {"model": model}
    spec = SessionSpec(cwd=str(work), mode="yolo", inherit_env=True, start=Start(handover=handover), **how)
    return await find_agent(WIRES[wire].format(program, model)).open(spec)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), list(pairwise([*WIRES, "native"])))
async def test_over_every_wire_what_matters_reaches_the_next_agent(
    before: str, after: str, work: Path, server: ModelServer
) -> None:
    gathering = Gathering(Redactor())
    session = await on_wire(before, TREADLE, work, f"scripted:{work.parent / 'script.toml'}")
    late = "Use tabs, not spaces."
    try:  # each prompt of a sidecar is an order of its own
        for prompt in (f"{FIRST} {late}",) if before == "sidecar" else (FIRST, late):
            async for event in run_turn(session, prompt):
                gathering.look(event)
    finally:
        await session.close()
    handover = gathering.handover(before).prompt()
    program = f"env TREADLE_BASE_URL={server.url}/v1 {TREADLE}"
    session = await on_wire(after, program, work, "chat:m", handover)
    try:
        [_ async for _ in run_turn(session, "Go on.")]
    finally:
        await session.close()
    text = str(server.asked[0].body["messages"][-1]["content"])
    missing = [name for name, fact in FACTS.items() if fact not in text]
    unsaid = {"an assumption", "the last words"} if before == "sidecar" else set()
    assert len(set(missing) - unsaid) <= 1, missing
    assert estimate(text) <= 8000 and text.endswith("Go on.")


async def test_a_trajectory_of_another_program_begins_a_session(work: Path, server: ModelServer) -> None:
    steps = [{"step_id": 1, "source": "user", "message": "Call it Kestrel."}]
    agent = {"name": "openhands", "version": "1"}
    (work / "run.json").write_text(json.dumps({"schema_version": "ATIF-v1.8", "agent": agent, "steps": steps}))
    text = await first_request("second", work, f"atif:{work / 'run.json'}", server)
    assert "You take over a task from openhands." in text and "Call it Kestrel." in text and text.endswith("Go on.")


async def test_what_another_agent_would_be_told_can_be_given_to_several_orders(work: Path) -> None:
    session = await first_session("native", work)
    done = treadle("sessions", "export", session, "--format", "handover", cwd=work)
    assert [name for name, fact in FACTS.items() if fact not in done.stdout] == [] and done.stdout[:10] == "<handover>"
    order = begun(Spec(id="one", task=f"{done.stdout} Go on."), 1.0)
    assert order.title == "Go on."
    assert treadle("sessions", "export", "nosuch", "--format", "handover", cwd=work).returncode == 1


async def test_a_session_that_is_open_elsewhere_is_not_taken_over_but_can_be_copied(work: Path) -> None:
    session = await opened("native", work, f"scripted:{work.parent / 'script.toml'}")
    try:
        [_ async for _ in run_turn(session, FIRST)]
        with pytest.raises(Busy, match="open in another process"):
            await opened("second", work, resume=session.id)
        await (await opened("second", work, resume=session.id, fork=True)).close()
    finally:
        await session.close()


async def test_what_a_session_was_denied_stays_denied_for_the_next_agent(work: Path) -> None:
    spec = SessionSpec(
        cwd=str(work), model=f"scripted:{work.parent / 'script.toml'}", rules=Rules(deny=("Bash(rm *)",))
    )
    session = await find_agent("native").open(spec)
    await session.close()
    taken = await taking_over(SessionSpec(cwd=str(work), start=Start(resume=session.id)), "second")
    assert taken.rules.deny == ("Bash(rm *)",) and taken.start.resume is None


async def test_an_agent_that_shows_nothing_of_its_session_is_said_so(work: Path) -> None:
    session = await opened("first", work)
    await session.close()
    with pytest.raises(Unsupported, match="cannot show the conversation"):
        await opened("native", work, resume=f"first:{session.id}")
