"""Answers 20 questions with the keyboard: how many keys, and how long."""

import tempfile
import time
from pathlib import Path

from benchmarks.page._asking import asking, make_repository
from benchmarks.page._fleet import fleet_with_page, run
from treadle.fleet import client

QUESTIONS = 20


async def keys() -> None:
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as directory:
        repository = make_repository(Path(directory, "repo"))
        async with fleet_with_page(slots=QUESTIONS) as bench:
            await client.submit(bench.bus, [asking(repository, 1) for _ in range(QUESTIONS)])
            context = await bench.signed_in()
            page = await context.new_page()
            await page.goto(f"{bench.address}/#/")
            await page.wait_for_function(f"document.title === '({QUESTIONS}) Treadle'", timeout=120_000)
            pressed, began = 0, time.perf_counter()
            while await client.approvals(bench.bus):
                # A person presses the key when they see a question, and again when nothing happened.
                await page.wait_for_timeout(450)
                if await page.locator(".question .allow:enabled").count():
                    await page.keyboard.press("y")
                    pressed += 1
            took = time.perf_counter() - began
            print(f"{QUESTIONS} questions answered with {pressed} keys (goal 25) in {took:.0f} s (goal 40)")


def main() -> None:
    run(keys)
