"""A fleet with its page, and a browser that is signed in to it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from treadle.fleet import client, up
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id
from treadle.serve import background
from treadle.serve.tokens import Tokens
from treadle.wire.fleet.orders import Spec


def size(name: str, usual: int) -> int:
    return int(os.environ.get(f"BENCH_PAGE_{name}", usual))


class Bench:
    def __init__(self, bus: Bus, note: Any, browser: Any) -> None:
        self.bus = bus
        self.note = note
        self.address: str = note.address
        self.browser = browser

    async def signed_in(self, **options: Any) -> Any:
        """A browser profile that may do everything."""
        options.setdefault("viewport", {"width": 1440, "height": 900})
        context = await self.browser.new_context(**options)
        page = await context.new_page()
        await page.goto(f"{self.address}/#{Tokens().link('', 'all')}")
        await page.wait_for_selector("#pill.live", timeout=60_000)
        await page.close()
        return context

    async def nobody_runs(self, task: str) -> str:
        """An order that no node takes, so that only the benchmark writes its events."""
        name = new_id()
        await client.submit(self.bus, [Spec(id=name, task=task, agent="null", labels=("nowhere",))])
        return name


class Busy:
    """How busy a page's main thread is between two moments, by its own clock, so that other load matters little."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    async def of(cls, page: Any) -> Busy:
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable", {"timeDomain": "threadTicks"})
        return cls(session)

    async def now(self) -> dict[str, float]:
        found = await self._session.send("Performance.getMetrics")
        return {each["name"]: each["value"] for each in found["metrics"]}


@asynccontextmanager
async def fleet_with_page(*, browser: bool = True, slots: int = 1, lease: float = 30.0) -> AsyncIterator[Bench]:
    from playwright.async_api import async_playwright

    await up.up(name="bench", slots=slots, lease=lease)
    try:
        async with client.connected("admin") as bus:
            note = background.start()
            if not browser:
                yield Bench(bus, note, None)
                return
            async with async_playwright() as playwright:
                arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
                chromium = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
                yield Bench(bus, note, chromium)
                await chromium.close()
    finally:
        await up.down()
        background.stop()


def run(part: Callable[[], Awaitable[None]]) -> None:
    """Run a part in its own state directory, which is removed afterwards."""
    if shutil.which("chromium") is None:
        print("there is no chromium here")
        return
    with tempfile.TemporaryDirectory(prefix="treadle-bench-", ignore_cleanup_errors=True) as home:
        before = os.environ.get("TREADLE_HOME")
        os.environ["TREADLE_HOME"] = home
        try:
            asyncio.run(part())  # type: ignore[arg-type]
        finally:
            if before is None:
                del os.environ["TREADLE_HOME"]
            else:
                os.environ["TREADLE_HOME"] = before


def rss(pid: int) -> float:
    """Resident memory in megabytes."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processors until now."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
