"""The agents that speak the protocol, and what is known of them."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.drivers.acp.played import agent, greeting, heard, returns
from treadle.agents import find_driver
from treadle.drivers.acp.driver import AcpAgent, AcpSession
from treadle.drivers.card import Launch, cards
from treadle.errors import PeerExited
from treadle.session import Confinement, SessionSpec, Toolset

NAMED = ("gemini", "opencode", "qwen", "copilot", "kimi")


def test_any_command_is_an_agent_and_five_are_known_by_name() -> None:
    found = find_driver("acp:my-agent --flag 'a b'")
    assert isinstance(found, AcpAgent) and found.name == "acp:my-agent --flag 'a b'"
    for name in NAMED:
        named = find_driver(name)
        assert isinstance(named, AcpAgent) and named.name == name
        assert cards()[name].recorded and cards()[name].install


async def test_a_command_that_nobody_knows_is_not_run_to_look_at_it(tmp_path: Path) -> None:
    assert (await agent(tmp_path, []).probe()).version == ""


def test_keys_of_other_services_are_not_passed_on() -> None:
    for name in NAMED:
        assert "AWS_SECRET_ACCESS_KEY" not in cards()[name].environment
        assert not any(variable == "*" for variable in cards()[name].environment)


async def test_the_sessions_that_it_keeps_are_listed_without_opening_one(tmp_path: Path) -> None:
    kept = [{"sessionId": "a", "cwd": "/w", "title": "T"}]
    lines = [*greeting(sessionCapabilities={"list": {}}), heard("session/list", "l"), returns("l", {"sessions": kept})]
    assert [one.id for one in await agent(tmp_path, lines).stored_sessions(str(tmp_path))] == ["a"]
    assert await agent(tmp_path, greeting()).stored_sessions(str(tmp_path)) == []


async def test_a_demanded_sandbox_holds_the_agent_itself(tmp_path: Path) -> None:
    need("bwrap")
    work = tmp_path / "work"
    work.mkdir()
    program = work / "outside.sh"
    program.write_text(f"touch {tmp_path}/escaped\nexit 7\n")
    launch = Launch(argv=("/bin/sh", str(program)))
    driven = AcpAgent(cards()["acp"], launch)
    with pytest.raises(PeerExited, match="code 7"):
        await driven.open(SessionSpec.of(cwd=str(work), confinement=Confinement(use="on")))
    assert not (tmp_path / "escaped").exists()
    assert all(cards()[name].writes for name in NAMED), "they could not keep their state"
    with pytest.raises(PeerExited, match="code 7"):
        await driven.open(SessionSpec.of(cwd=str(work)))
    assert (tmp_path / "escaped").exists()


def readers() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("what ")]


@pytest.mark.parametrize(
    ("card", "word"), [("gemini", "--include-directories=/x"), ("acp", None), ("copilot", "--add-dir=/x")]
)
async def test_further_directories_and_servers_are_on_its_command_line_where_its_card_says(
    tmp_path: Path, card: str, word: str | None
) -> None:
    argv = (
        "sh",
        "-c",
        'printf "%s\\n" "$@" > args; touch kept; for word; do cat "${word#*@}" >> kept 2> none; done; exit 3',
        "it",
    )
    spec = SessionSpec(cwd=str(tmp_path), add_dirs=("/x",), routine=("add_dirs",))
    spec = replace(spec, tools=Toolset(servers={"near": {"command": "x"}}))
    with pytest.raises(PeerExited, match="code 3"):
        await AcpAgent(cards()[card], Launch(argv=argv)).open(spec)
    words = (tmp_path / "args").read_text().split()
    assert [one for one in words if "mcp" not in one] == ([word] if word else [])
    given = [one for one in words if one.startswith("--additional-mcp-config=@")]
    assert len(given) == (card == "copilot") and ("near" in (tmp_path / "kept").read_text()) is (card == "copilot")
    assert not [one for one in given if Path(one.partition("@")[2]).exists()] and readers() == []


async def test_one_that_greets_is_looked_at_and_ended(tmp_path: Path) -> None:
    driven = agent(tmp_path, greeting())
    async with driven.greeted(str(tmp_path)) as session:
        assert session.info.version == "9.9" and session.spec.cwd == str(tmp_path) and readers()
        assert session.peer.enclosed is session._confining and session._confining._mode == "suggest"
        assert session._confining._session == f"acp-{os.getpid()}"
    assert readers() == [] and session.peer.gone


async def test_a_program_of_a_known_name_is_asked_for_its_version(tmp_path: Path) -> None:
    (tmp_path / "it").write_text("#!/bin/sh\necho 1.2.3\n")
    (tmp_path / "it").chmod(0o755)
    info = await AcpAgent(cards()["gemini"], Launch(argv=(str(tmp_path / "it"),))).probe()
    assert (info.name, info.version) == ("gemini", "1.2.3")
    found = await agent(tmp_path, []).probe()
    assert found.name.startswith("acp:") and found.capabilities == cards()["acp"].capabilities


class Kept(AcpAgent):
    async def _started(self, spec: SessionSpec, env: dict[str, str], words: Sequence[str] = ()) -> AcpSession:
        self.made = await super()._started(spec, env, words)
        return self.made


async def test_a_session_that_could_not_be_opened_is_closed(tmp_path: Path) -> None:
    driven = Kept(cards()["acp"], Launch(argv=("false",)))
    with pytest.raises(PeerExited):
        await driven.open(SessionSpec(cwd=str(tmp_path)))
    assert driven.made._confining._closed and driven.made._log.closed
