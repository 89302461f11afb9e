import asyncio
import os

import pytest

from tests.streams import pair
from treadle.doors.outbox import Outbox
from treadle.io.streams import FdStream


async def test_what_is_there_goes_out_in_one_piece() -> None:
    ours, theirs = pair()
    outbox = Outbox(ours, str)
    writing = asyncio.create_task(outbox.run())
    outbox.put(b"one ")
    outbox.put(b"two")
    assert await theirs.read() == b"one two"
    await outbox.flushed()
    assert outbox.empty
    writing.cancel()


async def test_a_client_that_is_gone_lets_nobody_wait() -> None:
    ours, theirs = pair()
    outbox = Outbox(ours, str, room=10)
    theirs.close()
    outbox.put(b"x" * 100)
    waiting = asyncio.gather(outbox.room(), outbox.flushed())
    await asyncio.wait_for(outbox.run(), 60)
    await asyncio.wait_for(waiting, 60)
    assert not outbox.empty


async def test_a_client_that_leaves_while_there_is_nothing_to_say_is_noticed() -> None:
    ours, theirs = pair()
    outbox = Outbox(ours, str)
    running = asyncio.create_task(outbox.run())
    outbox.put(b"x")
    assert await theirs.read() == b"x"
    theirs.close()
    await asyncio.wait_for(running, 60)


async def test_a_client_that_takes_nothing_is_given_up_with_a_word() -> None:
    ours, _ = pair()
    said: list[str] = []
    outbox = Outbox(ours, said.append, stalled=0.05)
    outbox.put(b"x" * 200_000)
    await asyncio.wait_for(outbox.run(), 60)
    assert len(said) == 1 and "0.05 s" in said[0]


async def test_a_disk_that_is_full_is_told_and_nobody_waits() -> None:
    said: list[str] = []
    outbox = Outbox(FdStream(-1, os.open("/dev/full", os.O_WRONLY)), said.append)
    outbox.put(b"x")
    await asyncio.wait_for(outbox.run(), 60)
    await outbox.flushed()
    assert len(said) == 1 and "No space left" in said[0]


async def test_who_says_much_waits_for_room() -> None:
    ours, theirs = pair()
    outbox = Outbox(ours, str, room=1000)
    writing = asyncio.create_task(outbox.run())
    outbox.put(b"x" * 200_000)
    waiting = asyncio.create_task(outbox.room())
    got = 0
    while not waiting.done():
        got += len(await theirs.read())
        for _ in range(5):
            await asyncio.sleep(0)
    assert got > 100_000
    writing.cancel()


async def test_room_is_what_may_wait_exactly_and_more_times_as_much() -> None:
    ours, _ = pair()
    outbox = Outbox(ours, str, room=10)
    assert outbox.empty
    await asyncio.wait_for(outbox.flushed(), 60)
    outbox.put(b"x" * 10)
    assert not outbox.empty
    await asyncio.wait_for(outbox.room(), 60)
    outbox.put(b"x")
    held = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    assert not held.done()
    await asyncio.wait_for(outbox.room(2), 60)
    held.cancel()


async def test_an_error_that_no_one_expected_is_not_swallowed_and_lets_nobody_wait() -> None:
    ours, _ = pair()
    outbox = Outbox(ours, str)
    outbox.put("not bytes")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await asyncio.wait_for(outbox.run(), 60)
    await asyncio.wait_for(outbox.flushed(), 60)
