"""What this machine could work with: found, and named when it is nearly there."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.cli.choosing.chosen import once
from treadle import installation
from treadle.agent.providers.local.catalog import DEFAULT, ModelRecord, file_of, record_of
from treadle.agent.providers.names import PREFIXES, VENDORS, ModelSettings
from treadle.cli import choice, options
from treadle.cli.choice import Found, Way, _keys, _local, _servers, local_words, look
from treadle.io.paths import config_file


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


def test_a_key_or_an_address_is_a_way_unless_every_model_is_asked_for_elsewhere() -> None:
    env = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b", "OPENAI_BASE_URL": "http://x", "OLLAMA_HOST": "y"}
    found = [(way.kind, way.name, way.because) for way in _keys(env, ModelSettings())]
    assert found == [
        ("key", f"anthropic:{VENDORS['anthropic'].default}", "ANTHROPIC_API_KEY is set"),
        ("key", f"openai:{VENDORS['openai'].default}", "OPENAI_API_KEY and OPENAI_BASE_URL are set"),
    ]
    assert _keys({**env, "TREADLE_BASE_URL": "http://z"}, ModelSettings()) == []
    assert _keys(env, ModelSettings(base_url="http://z")) == [] and _keys({}, ModelSettings()) == []


def test_an_agent_is_used_by_its_name_and_a_model_by_our_own() -> None:
    agent, model = (Way(kind=kind, name="n", because="") for kind in ("agent", "key"))  # type: ignore[arg-type]
    assert (agent.agent, agent.model, model.agent, model.model) == ("n", None, "native", "n")


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


def test_a_model_of_this_machine_is_a_way_once_it_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(installation.PROVIDES, "local", "json")
    assert _local() == Found()
    for name in (DEFAULT, "other"):
        Path(file_of(name)).write_bytes(b"x")
        Path(record_of(name)).write_bytes(msgspec.json.encode(ModelRecord(name=name, sha256="0", size=1)))
    assert sorted(way.name for way in _local().ways) == ["local", "local:other"]
    assert {way.kind for way in _local().ways} == {"local"} and _local().not_yet == ()
    monkeypatch.setitem(installation.PROVIDES, "local", "absent_part")
    (missing,) = _local().not_yet
    assert "is on this machine, but not what runs it: " in missing and _local().ways == ()


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


def test_what_the_local_model_takes_is_said() -> None:
    assert local_words().startswith("1.1 GB to fetch, ") and "GB of memory; it answers slowly" in local_words()
