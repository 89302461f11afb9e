"""A real browser, and pages that are signed in to a real server."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect
from playwright.async_api import TimeoutError as TooLate

from tests.conftest import need
from tests.serve.conftest import WAIT, Follow, Follower, StartWeb, Web, alone, follow, serving, web
from treadle.serve.tokens import Right

__all__ = ["Follow", "Follower", "StartWeb", "Web", "alone", "follow", "serving", "web"]

expect.set_options(timeout=WAIT * 1000)

# Nothing that the tests do not look at: no extensions, no look for updates, no process held in reserve.
QUIET = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-features=SpareRendererForSitePerProcess,OptimizationHints,Translate,PaintHolding",
    "--disable-field-trial-config",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a browser that all tests share; each has a profile of its own in it."""
    home = tmp_path_factory.mktemp("chromium")
    # Chromium's own sandbox does not start as root.
    arguments = ["--headless=new", *(["--no-sandbox"] if os.geteuid() == 0 else []), *QUIET]
    started = subprocess.Popen(
        [need("chromium"), *arguments, "--remote-debugging-port=0", f"--user-data-dir={home}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(home)},
    )
    try:
        port = home / "DevToolsActivePort"
        deadline = time.monotonic() + WAIT
        while not (port.exists() and len(port.read_text().split()) == 2):
            assert time.monotonic() < deadline and started.poll() is None
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port.read_text().split()[0]}"
    finally:
        started.kill()
        started.wait()


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        made = await playwright.chromium.connect_over_cdp(chromium, timeout=WAIT * 1000)
        yield made
        await made.close()


Open = Callable[..., Awaitable[Any]]


@pytest.fixture
async def open_page(browser: Browser) -> AsyncIterator[Open]:
    """Pages that are signed in; a script that fails, or a request to another host, fails the test."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    async def start(web: Web, path: str = "", *, right: Right = "all", context: Any = None, **options: Any) -> Page:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        signed_in = context is not None
        if not signed_in:
            context = await browser.new_context(**options)
            context.set_default_timeout(WAIT * 1000)
            contexts.append(context)
        page = await context.new_page()
        page.on("pageerror", lambda error: problems.append(f"{error}"))
        page.on("request", lambda request: problems.append(request.url) if web.address not in request.url else None)
        if not signed_in:
            await page.goto(f"{web.address}/#{web.server.site.tokens.link('', right)}")
            await expect(page.locator("#pill")).to_have_class("pill live")
        await page.goto(f"{web.address}/#/{path}")
        return page

    yield start
    for context in contexts:
        await context.close()
    assert [problem for problem in problems if not problem.startswith(("data:", "ws:"))] == []


async def press_until(page: Page, key: str, done: Callable[[], Awaitable[bool]]) -> None:
    """Also again: a key answers only what was on screen for a while, on a page that is live."""
    async with asyncio.timeout(WAIT):
        while not await done():
            await page.keyboard.press(key)
            await page.wait_for_timeout(100)


async def click_twice(page: Page, name: str) -> None:
    """A button that asks whether one is sure, and stops asking after four seconds: on a busy machine, once more. By
    the keyboard, since the page may move while an order works."""
    async with asyncio.timeout(WAIT):
        while True:
            await page.get_by_role("button", name=name, exact=True).press("Enter")
            try:
                return await page.get_by_role("button", name=f"{name}: sure?").press("Enter", timeout=3000)
            except TooLate:
                continue
