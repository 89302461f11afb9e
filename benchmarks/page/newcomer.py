"""From nothing to watching the first order in the page: installing, starting, the demo order, its question."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.page._fleet import run

SOURCE = Path(__file__).parents[2]


async def newcomer() -> None:
    import shutil

    from playwright.async_api import async_playwright

    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as directory:
        began = time.perf_counter()

        def say(words: str) -> None:
            print(f"{time.perf_counter() - began:5.1f} s  {words}", flush=True)

        subprocess.run([sys.executable, "-m", "venv", f"{directory}/env"], check=True)
        pip = [f"{directory}/env/bin/pip", "install", "--quiet", "--disable-pip-version-check", f"{SOURCE}[fleet]"]
        subprocess.run(pip, check=True)
        say("installed")
        treadle = f"{directory}/env/bin/treadle"
        try:
            subprocess.run([treadle, "fleet", "up"], check=True, capture_output=True, cwd=directory)
            told = subprocess.run(
                [treadle, "serve", "--link"], check=True, capture_output=True, text=True, cwd=directory
            )
            link = next(word for word in told.stdout.split() if word.startswith("http"))
            say("the fleet is up")
            async with async_playwright() as playwright:
                arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
                page = await browser.new_page()
                await page.goto(link)
                await page.get_by_role("button", name="Run the demo order").click()
                await page.locator(".events .tool").nth(0).wait_for(timeout=60_000)
                say("the demo order is watched (goal 90 s)")
                await page.locator(".question .allow:enabled").click(timeout=60_000)
                await page.locator(".order-head .badge.good").wait_for(timeout=60_000)
                say("its question is answered and it is done")
                await browser.close()
        finally:
            await asyncio.to_thread(subprocess.run, [treadle, "fleet", "down"], check=True, capture_output=True)


def main() -> None:
    run(newcomer)
