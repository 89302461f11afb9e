"""Events of an attempt: in order, without gap or double, and none after its end."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.engine.test_bus import restart
from treadle.fleet.engine import places, server, streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.engine.streams import AttemptLog, _unpack

SUBJECT = "fleet.ev.o.1.n1"


async def seen(bus: Bus) -> list[int]:
    return [each.n for each in [one async for one in streams.read(bus, "o")] if not each.end]


async def test_many_events_at_once_arrive_in_order_in_few_messages(bus: Bus, tmp_path: Path) -> None:
    log = AttemptLog(str(tmp_path / "events"), bus, SUBJECT)
    for number in range(5000):
        log.append(b'{"text":"%d"}' % number)
    assert await log.finish(60)
    assert await seen(bus) == list(range(1, 5001))
    info = await bus.api("STREAM.INFO.FLEET_EV")
    assert info["state"]["messages"] < 100


@pytest.mark.slow
async def test_an_outage_in_between_costs_and_doubles_nothing(fleet: places.Fleet, bus: Bus, tmp_path: Path) -> None:
    log = AttemptLog(str(tmp_path / "events"), bus, SUBJECT)
    for number in range(300):
        log.append(b'{"text":"%d"}' % number)
        if number in (100, 200):
            restart(fleet)
        await asyncio.sleep(0.001)
    assert await log.finish(60)
    assert await seen(bus) == list(range(1, 301))


async def test_after_its_end_an_attempt_writes_no_more(bus: Bus, tmp_path: Path) -> None:
    log = AttemptLog(str(tmp_path / "events"), bus, SUBJECT)
    log.append(b'{"text":"1"}')
    async with asyncio.timeout(60):
        while log.sent < 1:
            await asyncio.sleep(0.01)
    await bus.publish(SUBJECT, b'{"end":"superseded","why":"gone"}')
    log.append(b'{"text":"2"}')
    assert not await log.finish(60) and log.closed_by_another
    found = [each async for each in streams.read(bus, "o")]
    assert [(each.n, bool(each.end)) for each in found] == [(1, False), (2, True)]


async def test_an_event_too_long_for_the_engine_is_replaced_by_a_word(bus: Bus, tmp_path: Path) -> None:
    log = AttemptLog(str(tmp_path / "events"), bus, SUBJECT)
    log.append(b'{"text":"%s"}' % (b"x" * (streams.LINE_MAX + 1)))
    log.append(b'{"text":"next"}')
    assert await log.finish(60)
    found = [each.event async for each in streams.read(bus, "o")]
    assert found[0]["code"] == "too_long" and found[1] == {"text": "next"}


async def test_a_reader_that_follows_gets_what_comes(bus: Bus, tmp_path: Path) -> None:
    log = AttemptLog(str(tmp_path / "events"), bus, SUBJECT)

    async def first_two() -> list[int]:
        found = []
        async for each in streams.read(bus, "o", follow=True):
            found.append(each.n)
            if len(found) == 2:
                break
        return found

    reading = asyncio.create_task(first_two())
    log.append(b"{}")
    log.append(b"{}")
    async with asyncio.timeout(60):
        assert await reading == [1, 2]
    await log.finish(60)


async def test_an_order_without_events_has_none(bus: Bus) -> None:
    assert await seen(bus) == []


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(1, 5)), max_size=20))
def test_a_gap_is_marked_with_its_size(pieces: list[tuple[int, int, int]]) -> None:
    expected: dict[int, int] = {}
    position: dict[int, int] = {}
    for attempt, missing, count in pieces:
        first = position.get(attempt, 1) + missing
        found = _unpack(attempt, 1, {"n": first, "events": [{}] * count}, expected, True)
        assert [each.n for each in found] == list(range(first, first + count))
        assert [each.gap for each in found] == [missing] + [0] * (count - 1)
        position[attempt] = first + count


async def test_a_full_disk_is_told(bus: Bus) -> None:
    from treadle.errors import StorageError

    log = AttemptLog("/dev/full", bus, SUBJECT)
    with pytest.raises(StorageError, match="append"):
        log.append(b"{}")
    await log.finish(10)


async def test_what_is_not_sent_in_time_or_is_enough_is_told(fleet: places.Fleet, bus: Bus, tmp_path: Path) -> None:
    server.stop()
    for enough, timeout in ((lambda: True, 60.0), (lambda: False, 0.05)):
        log = AttemptLog(str(tmp_path / f"events{timeout}"), bus, SUBJECT)
        log.append(b"{}")
        assert await log.finish(timeout, enough) is False and log.written == 1 and log.sent == 0
        assert log._file.closed and log._sending.done()
    server.start(fleet)
    async with asyncio.timeout(60):
        while not bus.connected:
            await asyncio.sleep(0.02)


async def test_a_line_longer_than_a_message_goes_alone_and_readers_begin_where_they_ask(
    bus: Bus, tmp_path: Path
) -> None:
    log = AttemptLog(str(tmp_path / "events"), bus, SUBJECT)
    long = b'{"text":"%s"}' % (b"x" * streams.CHUNK)
    for line in (b'{"a":1}', long, b'{"a":2}'):
        log.append(line)
    assert await log.finish(60)
    found = [each async for each in streams.read(bus, "o")]
    assert [each.n for each in found] == [1, 2, 3] and len({each.at for each in found}) == 3
    assert [each.n async for each in streams.read(bus, "o", start=found[0].at)] == [2, 3]
    assert [each.n async for each in streams.read(bus, "o", start=found[-1].at)] == []
