"""The agents that speak the protocol, and what is known of them."""

from pathlib import Path

from tests.drivers.acp.played import agent
from treadle.agents import find_agent
from treadle.drivers.acp.driver import AcpAgent
from treadle.drivers.acp.traits import TRAITS, UNKNOWN, traits_of
from treadle.drivers.card import cards

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
