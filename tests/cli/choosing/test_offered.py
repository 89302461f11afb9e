"""Which models a service offers: its answer, its error, or nothing where it is not set up."""

import socket
from pathlib import Path

import msgspec
import pytest

from treadle.agent.providers.local.catalog import ModelRecord, file_of, record_of
from treadle.agent.providers.names import ModelSettings
from treadle.agent.providers.script import parse
from treadle.cli import choice
from treadle.cli.choice import ListedModels, ask
from treadle.testing.server import ModelServer


async def test_a_service_that_is_set_up_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(parse('[[reply]]\ntext = "hi"\n')) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        found = await ask("openai")
    assert found is not None and found.models and found.error is None


async def test_one_that_is_not_set_up_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert await ask("openai") is None and await ask("local") is None


async def test_one_that_refuses_or_is_silent_is_an_error_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-key-s3cret-key")
    monkeypatch.setattr(choice, "SECONDS", 0.0)
    silent = await ask("openai")
    assert silent is not None and silent.models == [] and silent.error is not None
    assert "s3cret" not in silent.error


async def test_the_models_of_this_machine_need_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(file_of("small")).write_bytes(b"x")
    Path(record_of("small")).write_bytes(msgspec.json.encode(ModelRecord(name="small", sha256="0", size=1)))
    assert await ask("local") == ListedModels(name="local", models=["small"])


async def test_why_a_service_gives_no_models_is_told_and_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = await ask("chat", ModelSettings(base_url="http://127.0.0.1:9/v1"))
    assert refused is not None and refused.name == "chat" and refused.models == [] and refused.error
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(choice, "SECONDS", 0.1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        assert await ask("chat", ModelSettings(base_url=url)) == ListedModels(
            name="chat", error="no answer within 0.1 s"
        )
