"""After a 429 or 529, no run that uses the same account asks again before its time."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.gateway.wired import KEY, PATHS, ask, asking, before
from tests.waiting import until
from treadle.agent.providers.script import ErrorLine, Script, ScriptedReply, UsageLine
from treadle.gateway.governor import FIRST, AccountGovernor
from treadle.testing.server import ModelServer

HELLO = Script(reply=(ScriptedReply(text="hello", usage=UsageLine(input=1, output=1), times="always"),))
BODY = asking("anthropic", stream=True)


def limited(seconds: float, message: str = "slow down", status: int = 429) -> ErrorLine:
    return ErrorLine(status=status, message=message, retry_after=seconds)


async def test_a_call_that_the_service_limits_is_made_again_when_its_time_has_come(tmp_path: Path) -> None:
    async with ModelServer(HELLO, faults=[limited(1.5), limited(0, status=529)]) as server:
        async with before(server, tmp_path) as wiring:
            began = time.monotonic()
            assert (await ask(wiring.url, PATHS["anthropic"], BODY)).status == 200
            assert time.monotonic() - began >= 1.5 and len(server.asked) == 3
            assert wiring.reports.waits[0].startswith("waiting for the model until ")


async def test_every_run_of_the_account_waits_and_they_are_to_go_on_one_after_the_other(tmp_path: Path) -> None:
    """Without a governor, each of the ten would ask at once and be refused."""
    other, waits = AccountGovernor("service", KEY, place=str(tmp_path)), list[float]()
    async with ModelServer(HELLO, faults=[limited(100.0)]) as server, before(server, tmp_path) as wiring:
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(ask(wiring.url, PATHS["anthropic"], BODY))]
        await until(lambda: wiring.reports.waits)
        waiting += [asyncio.create_task(collect(other, waits)) for _ in range(9)]
        await until(lambda: len(waits) == 9)
        assert len(server.asked) == 1 and not any(task.done() for task in waiting)
        assert len(set(waits)) == 9 and 0 < max(waits) - until_of(tmp_path) < 1
        for task in waiting:
            task.cancel()


async def test_what_no_wait_helps_against_is_passed_on(tmp_path: Path) -> None:
    broke = limited(1.0, "insufficient_quota: check your billing")
    async with ModelServer(HELLO, faults=[broke, limited(100_000)]) as server, before(server, tmp_path) as wiring:
        assert (await ask(wiring.url, PATHS["anthropic"], BODY)).status == 429
        assert wiring.reports.waits == []
        late = await ask(wiring.url, PATHS["anthropic"], BODY)
        assert (late.status, late.headers["retry-after"], len(server.asked)) == (429, "100000", 2)
        assert wiring.reports.waits == ["its service limits this account"], "and it is told, so that another goes on"
        async with asyncio.timeout(60):  # no client waits that long, so the service itself is asked
            assert (await ask(wiring.url, PATHS["anthropic"], BODY)).status == 200
            assert (await ask(wiring.url, PATHS["anthropic"], BODY)).status == 200


async def test_what_cannot_be_noted_ends_no_run(tmp_path: Path) -> None:
    governor = AccountGovernor("service", KEY, place=str(tmp_path / "full"))
    (tmp_path / "full").write_text("a file in place of the folder")
    assert governor.refused(429, {"retry-after": "7"}, b"", 0.0, time.time()) == 7
    governor.succeeded(time.time())
    waits: list[float] = []
    await collect(governor, waits)
    assert waits == []


async def test_a_limit_on_a_list_of_models_makes_no_call_wait(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 429 No\r\nRetry-After: 100\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with before(url, tmp_path) as wiring:
            assert (await ask(wiring.url, "/v1/models")).status == 429
            assert wiring.reports.waits == [] and not list(tmp_path.glob("*.json")), "nothing is noted for the account"
            calling = asyncio.create_task(ask(wiring.url, PATHS["anthropic"], BODY))
            await until(lambda: list(tmp_path.glob("*.json")))
            calling.cancel()


def test_calls_that_were_under_way_together_are_one_refusal(tmp_path: Path) -> None:
    """Twenty of them would double the wait twenty times, where the service does not say how long it is."""
    governor, asked_at = AccountGovernor("service", KEY, place=str(tmp_path)), time.time()
    waits = [governor.refused(529, {}, b"", 0.0, asked_at) for _ in range(20)]
    assert waits[0] == FIRST and until_of(tmp_path) < time.time() + 2 * FIRST
    assert governor.refused(529, {}, b"", 0.0, time.time() + 1) == 2 * FIRST


def test_a_call_that_succeeds_ends_only_a_wait_that_began_before_it(tmp_path: Path) -> None:
    governor = AccountGovernor("service", KEY, place=str(tmp_path))
    governor.refused(429, {"retry-after": "100"}, b"", 0.0, time.time())
    governor.succeeded(time.time() - 1)
    assert until_of(tmp_path) > time.time() + 90
    governor.succeeded(time.time() + 1)
    assert until_of(tmp_path) < time.time() + 2


@pytest.mark.parametrize("jump", [-86400.0, -50.0, 86400.0])
async def test_a_clock_that_jumps_makes_no_one_wait(
    jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    governor = AccountGovernor("service", KEY, place=str(tmp_path))
    governor.refused(429, {"retry-after": "100"}, b"", 0.0, time.time())
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + jump)
    async with asyncio.timeout(60):
        await collect(governor, [])
    governor.refused(429, {"retry-after": "40"}, b"", 0.0, time.time())
    waits: list[float] = []
    waiting = asyncio.create_task(collect(governor, waits))
    await until(lambda: waits or waiting.done())
    assert not waiting.done() and waits[0] < time.time() + 45, "the next one who is refused says how long"
    waiting.cancel()


async def collect(governor: AccountGovernor, waits: list[float]) -> None:
    async for wait in governor.turn():
        waits.append(wait)


def until_of(place: Path) -> float:
    (noted,) = place.glob("*.json")
    return float(msgspec.json.decode(noted.read_bytes())["until"])
