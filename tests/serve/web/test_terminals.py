"""Terminals in the page: a wall to look at, one to type into, from a keyboard and from a phone."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from tests.serve.web.conftest import Open, StartWeb
from tests.terminal.conftest import stage
from tests.terminal.support import Stage

pytestmark = pytest.mark.slow

__all__ = ["stage"]

ECHO = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"


async def test_a_terminal_of_the_wall_is_opened_and_typed_into(
    stage: Stage, serving: StartWeb, open_page: Open
) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    page = await open_page(web, "terminals")
    card = page.locator(".screen-card canvas")
    await expect(card).to_have_attribute("aria-label", re.compile("ready"))
    await card.click()
    canvas = page.locator(".terminal canvas")
    await expect(page.locator(".keyboard")).to_be_focused()
    await page.keyboard.type("jkyn o/")
    await page.keyboard.press("Enter")
    await expect(canvas).to_have_attribute("aria-label", re.compile("heard jkyn o/"))
    assert place.id in page.url, "a key that is typed into a terminal does nothing else"
    await page.keyboard.press("Shift+Escape")
    await expect(page.locator(".keyboard")).not_to_be_focused()


async def test_a_shared_terminal_is_watched_without_signing_in(
    stage: Stage, serving: StartWeb, open_page: Open
) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    page = await open_page(web, f"terminal/{place.id}")
    await page.get_by_role("button", name="Share").click()
    url = await page.locator(".problem code").inner_text()
    browser = page.context.browser
    assert browser is not None
    stranger = await (await browser.new_context()).new_page()
    await stranger.goto(url)
    canvas = stranger.locator("canvas")
    await expect(canvas).to_have_attribute("aria-label", re.compile("ready"))
    await expect(stranger.locator("h1")).to_have_text(place.id)
    await page.locator(".keyboard").focus()
    await page.keyboard.type("seen")
    await page.keyboard.press("Enter")
    await expect(canvas).to_have_attribute("aria-label", re.compile("heard seen"))
    await expect(stranger.locator("#until")).to_contain_text("You watch only")
    (made,) = await web.get("/shares")
    await web.http.delete(f"/api/v1/shares/{made['id']}")
    await expect(stranger.locator("#problem")).to_contain_text("revoked")
    await stranger.context.close()


async def test_on_a_phone_a_field_sends_lines_and_a_row_of_keys_the_rest(
    stage: Stage, serving: StartWeb, open_page: Open
) -> None:
    web = await serving(terminals=str(stage.directory))
    place = await asyncio.to_thread(stage.python, ECHO)
    page = await open_page(web, f"terminal/{place.id}", viewport={"width": 390, "height": 844}, has_touch=True)
    canvas = page.locator(".terminal canvas")
    await expect(canvas).to_have_attribute("aria-label", re.compile("ready"))
    field = page.get_by_label("A line to type")
    await field.fill("from a phone")
    await page.get_by_role("button", name="Send").click()
    await expect(canvas).to_have_attribute("aria-label", re.compile("heard from a phone"))
    await expect(field).to_have_value("")
    for word in ("Esc", "Tab", "←", "↑", "↓", "→", "Ctrl-C", "Enter"):
        box = await page.get_by_role("button", name=word, exact=True).bounding_box()
        assert box is not None and box["width"] >= 44 and box["height"] >= 44, word
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390, "a wide screen moves inside its box"
    shown = await page.locator(".terminal .keyboard").bounding_box()
    assert shown is not None and shown["width"] <= 390
    await page.get_by_role("button", name="Ctrl-C").click()
    await expect(page.locator(".terminal [role=status]")).to_contain_text("ended")
