"""What this machine could work with: found, and named when it is nearly there."""

from tests.cli.choosing.chosen import once
from treadle.agent.providers.names import PREFIXES, VENDORS
from treadle.cli import options


def test_in_a_pipe_an_agent_that_is_installed_is_used_when_there_is_nothing_else(
    bare: dict[str, str], agent: str
) -> None:
    done = once(bare)
    assert (done.returncode, done.stdout) == (0, "I heard.\n"), done.stderr
    assert f"using {agent}" in done.stderr


def test_in_a_pipe_several_are_named_and_none_is_taken(bare: dict[str, str]) -> None:
    done = once({**bare, "ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b"})
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert "anthropic:claude" in line and "openai:gpt" in line and "treadle models use NAME" in line


def test_a_server_that_is_set_but_does_not_answer_is_named(bare: dict[str, str]) -> None:
    done = once({**bare, "TREADLE_BASE_URL": "http://127.0.0.1:9/v1"})
    assert done.returncode == 2 and "the server at http://127.0.0.1:9/v1" in done.stderr


def test_every_service_with_a_key_has_a_default_model() -> None:
    assert all(vendor.default for vendor in VENDORS.values() if vendor.key)
    assert options.PREFIXES == PREFIXES
