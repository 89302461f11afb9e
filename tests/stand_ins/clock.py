"""A clock that moves only when someone sleeps on it."""

import asyncio


class ManualClock:
    """Sleeping returns at once and moves the time forward; `slept` lists every wait, in order."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)
