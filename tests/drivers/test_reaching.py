"""What an outside agent reaches where the network is limited: its model, and what a person allows while it works."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.drivers.card import cards
from treadle.drivers.confined import HostGate, enclosure
from treadle.drivers.worker.driver import WorkerAgent
from treadle.events import AnyEvent, Asked, Event, TurnEnded, Warned
from treadle.io.sandbox import methods
from treadle.session import Answer, Confinement, SessionSpec, Toolset
from treadle.sessions.totals import run_turn
from treadle.testing.server import ModelServer

if not methods.available().network:
    pytest.skip("the network cannot be limited here", allow_module_level=True)

MODEL = cards()["codex"].hosts


def test_servers_that_it_was_given_and_base_urls_are_reached(tmp_path: Path) -> None:
    servers = {"one": {"url": "https://mcp.example/x"}, "two": {"command": "true"}}
    spec = SessionSpec(cwd=str(tmp_path), mode="full-auto", tools=Toolset(servers=servers))
    made = enclosure(spec, "codex", ["codex"], {"HOME": str(tmp_path), "OPENAI_BASE_URL": "http://b.example:81/v1"})
    assert made is not None and made.asked.hosts == (*MODEL, "b.example:81", "mcp.example")
    made.close()


class Listener:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.port = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    made = Listener()
    async with await asyncio.start_server(made, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made


async def played(workspace: Path, command: str, answer: Answer | None) -> list[AnyEvent]:
    """A worker whose model runs a command; a person gives the answer, if there is one."""
    call = ScriptedReply(call=(CallLine(name="bash", arguments={"command": command}),))
    async with ModelServer(Script(reply=(call, ScriptedReply(text="Done.")))) as server:
        host = server.url.removeprefix("http://")
        spec = SessionSpec(
            cwd=str(workspace),
            model="openai:scripted",
            mode="full-auto",
            answers=answer is not None,
            env={"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.url}/v1"},
        )
        worker = [str(Path(sys.executable).with_name("treadle-worker"))]
        session = await WorkerAgent(worker, hosts=(host,)).open(spec)
        events: list[AnyEvent] = []
        try:
            async for event in run_turn(session, "go"):
                events.append(event)
                if isinstance(event, Asked):
                    assert answer is not None
                    await session.answer(event.request, answer)
        finally:
            await session.close()
    assert [event.outcome for event in events if isinstance(event, TurnEnded)] == ["completed"]
    return events


async def test_nothing_else_is_reached_and_the_way_to_allow_it_is_said(tmp_path: Path, listener: Listener) -> None:
    fetch = f"curl -sS http://127.0.0.1:{listener.port}/; curl -sS http://127.0.0.1:{listener.port}/; true"
    told = [event for event in await played(tmp_path, fetch, None) if isinstance(event, Warned)]
    [refusal] = [event.message for event in told if event.code == "network"]  # said once
    assert listener.heard == [] and f"127.0.0.1:{listener.port} may not be reached" in refusal
    assert "--network" in refusal


@pytest.mark.parametrize(("answer", "reached"), [("allow", 2), ("deny", 0)])
async def test_a_person_is_asked_about_a_host_once_in_a_turn(
    tmp_path: Path, listener: Listener, answer: str, reached: int
) -> None:
    fetch = f"curl -sS http://127.0.0.1:{listener.port}/; curl -sS http://127.0.0.1:{listener.port}/; true"
    events = await played(tmp_path, fetch, Answer(decision=answer))  # type: ignore[arg-type]
    [asked] = [event for event in events if isinstance(event, Asked)]
    assert asked.args == {"host": "127.0.0.1", "port": listener.port} and len(listener.heard) == reached


class Person:
    """Answers what a session is asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []

    async def ask(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return self.answers.pop(0)

    def deadline(self) -> float | None:
        return 5.0


async def test_a_host_is_refused_aloud_once_in_a_turn_and_quietly_outside_of_one() -> None:
    gate, said = HostGate("mine", ("a.example",)), list[Event]()
    assert not await gate.reach("b.example", 443) and list(gate.refused) == ["b.example"]
    with gate.turn(said.append, None):
        assert gate.refused == {}, "a turn begins with none"
        for port in (443, 443, 81):
            assert not await gate.reach("b.example", port)
        assert list(gate.refused) == ["b.example", "b.example:81"]
    assert [event.code for event in said if isinstance(event, Warned)] == ["network", "network"]
    assert isinstance(said[0], Warned) and said[0].message == gate.refused["b.example"]
    assert not await gate.reach("c.example", 443) and len(said) == 2


async def test_what_a_person_allows_for_the_session_is_reached_from_then_on() -> None:
    gate, said = HostGate("mine", ()), list[Event]()
    person = Person(Answer(decision="allow"), Answer(decision="allow", scope="session"), Answer(decision="deny"))
    with gate.turn(said.append, cast(Any, person)):
        assert await gate.reach("once.example", 443) and await gate.reach("kept.example", 443)
        assert not await gate.reach("no.example", 443) and not await gate.reach("no host", 443)
        assert list(gate.refused) == ["no.example", "no host"]
    assert [asked.args["host"] for asked in person.asked] == ["once.example", "kept.example", "no.example"]
    assert {asked.deadline for asked in person.asked} == {5.0} and "mine" in person.asked[0].text
    assert await gate.reach("kept.example", 443) and not await gate.reach("once.example", 443)
    changed = Person(Answer(decision="allow", changed_args={"host": "x"}))
    with gate.turn(said.append, cast(Any, changed)):
        assert not await gate.reach("other.example", 443)
    granted = [event.message for event in said if isinstance(event, Warned) and "rest of this session" in event.message]
    assert len(granted) == 1 and granted[0].startswith("kept.example can be reached")


@pytest.mark.parametrize(
    ("name", "mode", "asked", "found"),
    [
        *(("codex", mode, {}, ("off", cards()["codex"].hosts)) for mode in ("auto-edit", "full-auto", None)),
        ("codex", "full-auto", {"network": "on"}, ("on", ())),
        (
            "codex",
            "full-auto",
            {"network": "off", "hosts": ("a.example",)},
            ("off", ("a.example", *cards()["codex"].hosts)),
        ),
        ("codex", "suggest", {}, ("on", ())),
        ("worker:mine", "full-auto", {}, ("on", ())),
    ],
)
def test_an_agent_that_is_known_reaches_its_model_only_unless_a_person_sees_what_it_does(
    tmp_path: Path, name: str, mode: Any, asked: Any, found: object
) -> None:
    spec = SessionSpec(cwd=str(tmp_path), mode=mode, confinement=Confinement(use="on", **asked))
    made = enclosure(spec, name, [name], {"HOME": str(tmp_path)})
    assert made is not None and (made.asked.network, made.asked.hosts) == found
    assert (made.warning is not None) == (name != "codex"), "that it has the network is said"
    made.close()
