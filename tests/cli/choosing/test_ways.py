"""What this machine could work with: found, and named when it is nearly there."""

import socket

import pytest

from tests.cli.choosing.conftest import once
from treadle.agent.providers.names import PREFIXES, VENDORS, ModelSettings
from treadle.cli import choice, options
from treadle.cli.choice import ListedModels, _keys, ask


def test_an_agent_that_does_not_say_whether_it_is_signed_in_is_used_only_if_someone_chose_it(
    bare: dict[str, str], agent: str
) -> None:
    done = once(bare)
    assert (done.returncode, done.stdout) == (2, "") and f"{agent} does not report whether it is" in done.stderr
    assert f"`treadle models use {agent}` uses it anyway" in done.stderr
    done = once(bare, "--agent", agent)
    assert (done.returncode, done.stdout) == (0, "I heard.\n"), done.stderr


def test_every_service_with_a_key_has_a_default_model() -> None:
    assert all(vendor.default for vendor in VENDORS.values() if vendor.key)
    assert options.PREFIXES == PREFIXES


def test_a_key_or_an_address_is_a_way_unless_every_model_is_asked_for_elsewhere() -> None:
    env = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b", "OPENAI_BASE_URL": "http://x", "OLLAMA_HOST": "y"}
    found = [(way.kind, way.name, way.because) for way in _keys(env, ModelSettings())]
    assert found == [
        ("key", f"anthropic:{VENDORS['anthropic'].default}", "ANTHROPIC_API_KEY is set"),
        ("key", f"openai:{VENDORS['openai'].default}", "OPENAI_API_KEY and OPENAI_BASE_URL are set"),
    ]
    assert _keys({**env, "TREADLE_BASE_URL": "http://z"}, ModelSettings()) == []
    assert _keys(env, ModelSettings(base_url="http://z")) == [] and _keys({}, ModelSettings()) == []


async def test_why_a_service_gives_no_models_is_told_and_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = await ask("chat", ModelSettings(base_url="http://127.0.0.1:9/v1"))
    assert refused is not None and refused.name == "chat" and refused.models == [] and refused.error
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(choice, "SECONDS", 0.1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        assert await ask("chat", ModelSettings(base_url=url)) == ListedModels(
            name="chat", error="no answer within 0.1 s"
        )
