"""50 terminals of 80x24 that each change four rows ten times a second, all on screen at once."""

import asyncio
import os
import sys

from benchmarks.page._fleet import Busy, fleet_with_page, run, size
from treadle.terminal.client import Client
from treadle.terminal.launch import launch
from treadle.terminal.places import default_directory
from treadle.terminal.settings import TerminalSettings

TERMINALS = size("TERMINALS", 50)
SECONDS = 10
PROGRAM = r"""
import sys, time
number = 0
while True:
    for row in range(3, 7):
        sys.stdout.write(f"\x1b[{row};1Hrow {row} \x1b[32mchange {number + row}\x1b[0m of a program at work")
    sys.stdout.flush()
    number += 1
    time.sleep(0.1)
"""


SHOWN = """(many) => [...document.querySelectorAll(".screen-card canvas")]
  .filter((each) => each.ariaLabel?.includes("at work")).length === many"""


async def wall() -> None:
    async with fleet_with_page() as bench:
        os.makedirs(default_directory(), mode=0o700, exist_ok=True)
        places = []
        try:
            for number in range(TERMINALS):
                settings = TerminalSettings()
                settings.id, settings.command = f"t{number}", (sys.executable, "-S", "-c", PROGRAM)
                settings.directory, settings.cols, settings.rows = default_directory(), 80, 24
                places.append(launch(settings))
            # Large enough for all of them: what is not on screen costs nothing.
            context = await bench.signed_in(viewport={"width": 2560, "height": 60 + 260 * (TERMINALS // 8 + 1)})
            page = await context.new_page()
            session = await context.new_cdp_session(page)
            await session.send("Network.enable")
            bytes_in: list[int] = []
            session.on(
                "Network.webSocketFrameReceived", lambda event: bytes_in.append(len(event["response"]["payloadData"]))
            )
            await page.goto(f"{bench.address}/#/terminals")
            await page.wait_for_function(SHOWN, arg=TERMINALS, timeout=120_000)
            busy = await Busy.of(page)
            before, first = await busy.now(), sum(bytes_in)
            await asyncio.sleep(SECONDS)
            after, last = await busy.now(), sum(bytes_in)
            share = (after["TaskDuration"] - before["TaskDuration"]) / SECONDS
            print(
                f"{TERMINALS} terminals: {share:.1%} of the main thread (goal 5 %), "
                f"heap {after['JSHeapUsedSize'] / 1e6:.1f} MB (goal 5), "
                f"{(last - first) / SECONDS / 1000:.0f} KB a second (goal 100)"
            )
        finally:
            for place in places:
                with Client(place.sock, timeout=60) as client:
                    client.stop(grace=0.0)


def main() -> None:
    run(wall)
