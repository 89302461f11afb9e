"""The agents that speak the protocol, and what is known of them."""

from pathlib import Path

import pytest

from tests.conftest import need
from tests.drivers.acp.played import agent, greeting, heard, returns
from treadle.agents import find_agent
from treadle.drivers.acp.driver import AcpAgent
from treadle.drivers.acp.traits import TRAITS, UNKNOWN, traits_of
from treadle.drivers.card import cards
from treadle.drivers.launch import Launch
from treadle.errors import PeerExited
from treadle.session import Confinement, SessionSpec

NAMED = ("gemini", "opencode", "qwen", "copilot", "kimi")


def test_any_command_is_an_agent_and_five_are_known_by_name() -> None:
    found = find_agent("acp:my-agent --flag 'a b'")
    assert isinstance(found, AcpAgent) and found.name == "acp:my-agent --flag 'a b'"
    for name in NAMED:
        named = find_agent(name)
        assert isinstance(named, AcpAgent) and named.name == name
        assert cards()[name].recorded and cards()[name].install


async def test_a_command_that_nobody_knows_is_not_run_to_look_at_it(tmp_path: Path) -> None:
    assert (await agent(tmp_path, []).probe()).version == ""


def test_every_agent_that_is_known_has_a_mode_in_which_it_asks() -> None:
    assert all(traits.asking_mode for traits in TRAITS.values())
    assert traits_of("nobody") is UNKNOWN and not UNKNOWN.known


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
