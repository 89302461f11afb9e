"""What an outside agent reaches where the network is limited: its model, and what a person allows while it works."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.drivers.card import cards
from treadle.drivers.confined import enclosure
from treadle.drivers.worker.driver import WorkerAgent
from treadle.events import AnyEvent, Asked, TurnEnded, Warned
from treadle.io.sandbox import methods
from treadle.session import Answer, Confinement, Mode, SessionSpec, Toolset
from treadle.sessions.session import run_turn
from treadle.testing.server import ModelServer

if not methods.available().network:
    pytest.skip("the network cannot be limited here", allow_module_level=True)

MODEL = cards()["codex"].hosts


def networked(workspace: Path, name: str, mode: Mode | None, **more: object) -> tuple[str, tuple[str, ...], str]:
    spec = SessionSpec(cwd=str(workspace), mode=mode, confinement=Confinement(use="on", **more))  # type: ignore[arg-type]
    made = enclosure(spec, name, [name], {"HOME": str(workspace)})
    assert made is not None
    found = made.asked.network, made.asked.hosts, made.warning.message if made.warning is not None else ""
    made.close()
    return found


@pytest.mark.parametrize("mode", ["auto-edit", "full-auto", None])
def test_by_default_an_agent_that_is_known_reaches_its_model_only(tmp_path: Path, mode: Mode | None) -> None:
    assert networked(tmp_path, "codex", mode) == ("off", MODEL, "")
    assert networked(tmp_path, "codex", mode, network="on") == ("on", (), "")
    assert networked(tmp_path, "codex", mode, network="off", hosts=("a.example",))[1] == ("a.example", *MODEL)


def test_where_a_person_sees_what_it_does_it_has_the_network(tmp_path: Path) -> None:
    assert networked(tmp_path, "codex", "suggest") == ("on", (), "")


def test_one_whose_model_is_not_known_has_the_network_and_that_is_said(tmp_path: Path) -> None:
    network, hosts, told = networked(tmp_path, "worker:mine", "full-auto")
    assert (network, hosts) == ("on", ()) and "worker:mine" in told and "--network" in told
    spec = SessionSpec(cwd=str(tmp_path), mode="full-auto")
    made = enclosure(spec, "worker:mine", ["mine"], {"HOME": str(tmp_path)}, (), ("model.example",))
    assert made is not None and (made.asked.network, made.asked.hosts) == ("off", ("model.example",))
    made.close()


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
