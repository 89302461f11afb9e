"""What a gateway records answers the same calls later without the service, and names the first that differs."""

import asyncio
import gzip
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.gateway.wired import KEY, PATHS, TOKEN, ask, asking, before
from treadle.agent.providers.script import Script, ScriptedReply, UsageLine
from treadle.errors import ConfigError, NotFound
from treadle.gateway import recording
from treadle.gateway.recording import CallRecorder, CallReplay, RecordedRun, recordings
from treadle.session import Limits
from treadle.testing.server import ModelServer

HELLO = ScriptedReply(text="hello", usage=UsageLine(input=1, output=1))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def recorder(id: str = "one") -> CallRecorder:
    made = CallRecorder(RecordedRun(id=id, agent="claude", cwd="/w", at=1.0), [KEY])
    made.prompt("go", "1.0")
    return made


def talk(said: str, **more: Any) -> bytes:
    return asking("anthropic", stream=True, said=said, **more)


async def recorded(place: Path, *bodies: bytes) -> list[bytes]:
    """The replies of the service to these calls, which are recorded."""
    replies = tuple(msgspec.structs.replace(HELLO, text=f"reply {number}") for number in range(len(bodies)))
    async with ModelServer(Script(reply=replies)) as server, before(server, place) as wiring:
        wiring.gateway.recorder = recorder()
        return [(await ask(wiring.url, PATHS["anthropic"], body)).body for body in bodies]


async def replayed(place: Path, *bodies: bytes) -> tuple[list[bytes], CallReplay, list[tuple[str, str]]]:
    record = CallReplay("one")
    async with before("http://127.0.0.1:9", place, replay=record) as wiring:
        return [(await ask(wiring.url, PATHS["anthropic"], body)).body for body in bodies], record, wiring.reports.notes


async def test_the_same_calls_get_the_same_replies_in_any_order(tmp_path: Path) -> None:
    one, two = talk("first"), talk("second")
    replies = await recorded(tmp_path, one, two)
    again, record, notes = await replayed(tmp_path, two, one)
    assert again == replies[::-1] and (record.differences, record.unasked, notes) == ([], 0, [])
    assert [run.prompts for run in recordings()] == [("go",)]


@pytest.mark.parametrize(
    ("then", "now", "says"),
    [
        (
            {"tools": [{"name": "a"}]},
            {"tools": [{"name": "b"}]},
            'call 1: the tools list differs at 1: \'{"name":"b"}\'',
        ),
        ({"tools": [{"name": "a"}]}, {"tools": []}, "call 1: tools has 0 entries in place of 1"),
        ({"system": "be kind"}, {"system": "be quick"}, "call 1: system differs: '\"be quick\"'"),
        ({"system": "it is 2026-11-18"}, {"system": "it is 2027-01-01"}, ""),
        ({"user": '{"a":1,"at":1795123361060}'}, {"user": '{"at":1795123330920,"a":1}'}, ""),
        ({"user": '{"a":1}'}, {"user": '{"a":2}'}, "call 1: user differs"),
        (
            {"system": "id 0b7c3b1c-1d8e-4f5a-9c3e-111111111111"},
            {"system": "id 0b7c3b1c-1d8e-4f5a-9c3e-222222222222"},
            "",
        ),
    ],
)
async def test_what_differs_is_named_and_dates_and_ids_do_not_count(
    then: dict[str, Any], now: dict[str, Any], says: str, tmp_path: Path
) -> None:
    replies = await recorded(tmp_path, talk("go", **then))
    again, record, notes = await replayed(tmp_path, talk("go", **now))
    assert again == replies, "it goes on with list orders"
    assert [text.startswith(says) for text in record.differences] == ([True] if says else [])
    assert [code for code, _ in notes] == (["replay"] if says else []) and (says or record.normalised)


async def test_a_call_too_many_is_refused_and_one_too_few_is_counted(tmp_path: Path) -> None:
    await recorded(tmp_path, talk("one"), talk("two"))
    _, record, _ = await replayed(tmp_path, talk("one"))
    assert record.unasked == 1
    again, record, _ = await replayed(tmp_path, talk("one"), talk("two"), talk("three"))
    assert b"no further reply" in again[2] and len(record.differences) == 1


async def test_no_key_is_stored_and_only_its_user_can_read_it(home: Path, tmp_path: Path) -> None:
    await recorded(tmp_path, talk(f"my key is {KEY}"))
    stored = [path for path in (home / "recordings").rglob("*") if path.is_file()]
    assert len(stored) == 4 and not [path for path in stored if KEY.encode() in path.read_bytes()]
    assert {path.stat().st_mode & 0o077 for path in stored} == {0}


async def test_what_is_packed_is_stored_unpacked_and_without_the_key(home: Path, tmp_path: Path) -> None:
    made = recorder()
    made.prompt(f"use {KEY}", "1.0")
    packed = {"content-type": "text/plain", "content-encoding": "gzip"}
    made.call("POST", PATHS["anthropic"], b"{}", 200, packed, gzip.compress(f"it is {KEY}".encode()), True)
    made.call("POST", PATHS["anthropic"], b"{}", 200, packed | {"content-encoding": "br"}, KEY.encode(), True)
    again, record, _ = await replayed(tmp_path, b"{}", b"{}")
    assert again == [b"it is [redacted]", b""] and KEY not in str(record.run.prompts)


async def test_a_packed_error_is_replayed_as_the_agent_saw_it(tmp_path: Path) -> None:
    packed = gzip.compress(b"too long")
    head = b"HTTP/1.1 400 Bad\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)

    async def service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(head + packed)
        writer.close()

    async with await asyncio.start_server(service, "127.0.0.1", 0) as listening:
        async with before(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", tmp_path) as wiring:
            wiring.gateway.recorder = recorder()
            assert (await ask(wiring.url, PATHS["anthropic"], b"{}")).body == b"too long"
    async with before("http://127.0.0.1:9", tmp_path, replay=CallReplay("one")) as wiring:
        again = await ask(wiring.url, PATHS["anthropic"], b"{}")
    assert (again.status, again.body, "content-encoding" in again.headers) == (400, b"too long", False)


async def test_the_record_has_the_request_as_the_agent_made_it(tmp_path: Path) -> None:
    body = talk("go", max_tokens=50_000)
    async with ModelServer(Script(reply=(HELLO,))) as server:
        async with before(server, tmp_path, Limits(max_tokens=1000)) as wiring:
            wiring.gateway.recorder = recorder()
            await ask(wiring.url, PATHS["anthropic"], body)
    assert (await replayed(tmp_path, body))[1].differences == []


async def test_a_record_that_cannot_be_written_ends_and_the_call_does_not(home: Path, tmp_path: Path) -> None:
    async with ModelServer(Script(reply=(HELLO,))) as server, before(server, tmp_path) as wiring:
        wiring.gateway.recorder = recorder()
        shutil.rmtree(home / "recordings")
        answer = await ask(wiring.url, PATHS["anthropic"], talk("go"))
        assert answer.status == 200 and not answer.broken and wiring.gateway.recorder is None
        assert [code for code, _ in wiring.reports.notes] == ["recording"]


async def test_a_recording_has_a_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LARGEST", 3000)
    async with ModelServer(Script(reply=(msgspec.structs.replace(HELLO, times="always"),))) as server:
        async with before(server, tmp_path) as wiring:
            wiring.gateway.recorder = recorder()
            for _ in range(9):
                assert (await ask(wiring.url, PATHS["anthropic"], talk("x" * 900), key=TOKEN)).status == 200
            assert [code for code, _ in wiring.reports.notes] == ["recording"]


def test_what_is_not_there_says_so(home: Path) -> None:
    for id in ("none", "../../etc"):
        with pytest.raises(NotFound):
            CallReplay(id)
    recorder("empty")
    with pytest.raises(ConfigError, match="no calls"):
        CallReplay("empty")
