"""What this machine could work with: found, and named when it is nearly there."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.cli.choosing.conftest import once
from treadle.agent.providers.names import PREFIXES, VENDORS, ModelSettings
from treadle.agent.providers.script import parse
from treadle.cli import choice, options
from treadle.cli.choice import Found, ListedModels, _keys, _servers, ask, look
from treadle.io.paths import config_file
from treadle.testing.server import ModelServer


def test_an_agent_that_does_not_say_whether_it_is_signed_in_is_used_only_if_someone_chose_it(
    bare: dict[str, str], agent: str
) -> None:
    done = once(bare)
    assert (done.returncode, done.stdout) == (2, "") and f"{agent} does not say whether it is signed in" in done.stderr
    assert f"`treadle models use {agent}` uses it nevertheless" in done.stderr
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


@asynccontextmanager
async def serving(*models: str) -> AsyncIterator[str]:
    """A server of the person's own with these models."""
    body = json.dumps({"data": [{"id": model} for model in models]})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_the_models_of_a_server_are_ways_and_a_server_without_one_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(*(f"m{number}" for number in range(10, 31))) as url:
        monkeypatch.setenv("TREADLE_BASE_URL", url)
        found = await _servers({"TREADLE_BASE_URL": url}, ModelSettings())
    assert [way.name for way in found.ways] == [f"chat:m{number}" for number in range(10, 30)] and found.not_yet == ()
    assert {(way.kind, way.because) for way in found.ways} == {("server", f"the server at {url} has it")}
    async with serving() as url:
        monkeypatch.setenv("TREADLE_BASE_URL", url)
        found = await _servers({"TREADLE_BASE_URL": url}, ModelSettings())
        assert found == Found(not_yet=(f"the server at {url} has no model: load one there",))
        monkeypatch.delenv("TREADLE_BASE_URL")
        monkeypatch.setenv("OLLAMA_HOST", url.removesuffix("/v1"))
        found = await _servers({"OLLAMA_HOST": url.removesuffix("/v1")}, ModelSettings())
        assert found.ways == () and found.not_yet[0].endswith(" has no model: `ollama pull MODEL` fetches one")


async def test_only_a_server_that_someone_has_set_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = "http://127.0.0.1:9/v1"
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    (missed,) = (await _servers({"OLLAMA_HOST": "127.0.0.1:9"}, ModelSettings())).not_yet
    assert missed.startswith("the server at http://127.0.0.1:9/v1: ")
    monkeypatch.setitem(VENDORS, "ollama", msgspec.structs.replace(VENDORS["ollama"], base_url=gone))
    monkeypatch.delenv("OLLAMA_HOST")
    assert await _servers({}, ModelSettings()) == Found()
    (missed,) = (await _servers({}, ModelSettings(base_url=gone))).not_yet
    assert missed.startswith(f"the server at {gone}: ")
    monkeypatch.setattr(choice, "SERVER", 0.0)
    assert (await _servers({}, ModelSettings())).not_yet == (f"the server at {gone} gave no answer within 0 s",)


async def test_all_that_is_found_is_put_together_and_agents_are_told_apart(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nothing / "silent").write_text("#!/bin/sh\nexit 3\n")
    (nothing / "silent").chmod(0o755)
    Path(config_file()).parent.mkdir(parents=True, exist_ok=True)
    Path(config_file()).write_text('[agents.mine]\nspeaks = "acp"\ncommand = "silent"\n')
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    found = await look()
    assert [way.kind for way in found.ways] == ["key"] and len(found.not_yet) == 2
    assert found.not_yet[0].startswith("the server at ")
    assert found.not_yet[1].startswith("mine is installed, but does not answer: ")
    assert (await look({"OPENAI_API_KEY": "b"})).ways[0].name.startswith("openai:")


async def test_a_service_that_is_set_up_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(parse('[[reply]]\ntext = "hi"\n')) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        found = await ask("openai")
    assert found is not None and found.models and found.error is None


async def test_one_that_is_not_set_up_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert await ask("openai") is None


async def test_one_that_refuses_or_is_silent_is_an_error_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-key-s3cret-key")
    monkeypatch.setattr(choice, "SECONDS", 0.0)
    silent = await ask("openai")
    assert silent is not None and silent.models == [] and silent.error is not None
    assert "s3cret" not in silent.error


async def test_why_a_service_gives_no_models_is_told_and_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = await ask("chat", ModelSettings(base_url="http://127.0.0.1:9/v1"))
    assert refused is not None and refused.name == "chat" and refused.models == [] and refused.error
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(choice, "SECONDS", 0.1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        assert await ask("chat", ModelSettings(base_url=url)) == ListedModels(
            name="chat", error="no answer within 0.1 s"
        )
