from treadle.testing.clock import ManualClock


async def test_sleeping_moves_the_time_and_takes_none() -> None:
    clock = ManualClock()
    await clock.sleep(3600)
    await clock.sleep(0.5)
    assert (clock.now(), clock.slept) == (3600.5, [3600, 0.5])
