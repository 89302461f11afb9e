"""What waits to be served by a worker: in order, bounded, and cancelled by its id."""

import asyncio

import pytest

from treadle.doors.worker import door
from treadle.doors.worker.door import End, Pending
from treadle.wire.worker.messages import Send, StatusRequest


def send(id: str, message: str = "") -> Send:
    return Send(id=id, message=message)


async def test_items_are_taken_in_the_order_they_came_and_waited_for() -> None:
    waiting = Pending()
    taking = asyncio.create_task(waiting.take())
    await asyncio.sleep(0)
    assert waiting.idle
    first, second = send("1"), send("2")
    waiting.put(first)
    waiting.put(second)
    assert await taking is first and not waiting.idle
    assert list(waiting) == [second]
    assert await waiting.take() is second


@pytest.mark.parametrize(("count", "weight"), [(door.ROOM, 0), (1, door.ROOM_BYTES)])
async def test_it_is_full_until_enough_was_taken(count: int, weight: int) -> None:
    waiting = Pending()
    for number in range(count):
        assert not waiting.full
        waiting.put(send(str(number), "x" * weight))
    assert waiting.full
    await waiting.take()
    assert not waiting.full


async def test_a_cancel_meets_each_send_of_that_id_that_still_waits_and_no_later_one() -> None:
    waiting = Pending()
    items = [send("1"), send("2"), send("1")]
    for item in items:
        waiting.put(item)
    waiting.cancel("1")
    later = send("1")
    waiting.put(later)
    assert [waiting.was_cancelled(item) for item in (*items, later)] == [True, False, True, False]
    assert not waiting.was_cancelled(items[0]), "asked once for each"


async def test_statuses_can_be_taken_before_their_turn() -> None:
    waiting = Pending()
    status, end = StatusRequest(id="2"), End()
    for item in (send("1"), status, end):
        waiting.put(item)
    assert waiting.take_statuses() == [status]
    assert list(waiting)[1:] == [end]


async def test_one_that_was_never_asked_is_idle_and_only_sends_have_weight_and_can_be_cancelled() -> None:
    waiting = Pending()
    assert waiting.idle and not waiting.full
    status = StatusRequest(id="1")
    waiting.put(status)
    waiting.put(send("1", "abc"))
    assert not waiting.idle and waiting._bytes == 3
    waiting.cancel("1")
    assert len(waiting._cancelled) == 1
    assert waiting.take_statuses() == [status] and waiting.take_statuses() == []
    await waiting.take()
    assert waiting._bytes == 0 and not waiting.idle
