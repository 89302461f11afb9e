import asyncio

from treadle.testing.clock import ManualClock


async def test_sleeping_moves_the_time_and_takes_none() -> None:
    clock = ManualClock()
    ran: list[str] = []
    asyncio.get_running_loop().call_soon(ran.append, "another")
    await clock.sleep(3600)
    assert ran == ["another"], "it gives way"
    await clock.sleep(0.5)
    assert (clock.now(), clock.slept) == (3600.5, [3600, 0.5])
