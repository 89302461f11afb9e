"""For people who see, hear or move differently: measured in the browser, in every view, dark and light."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.fleet.conftest import give, spec
from tests.serve.web.conftest import Open, Web
from treadle.fleet.engine.bus import Bus

pytestmark = pytest.mark.slow

VIEWS = ("", "orders", "terminals", "nodes", "money", "claims", "trains", "goals", "search?q=it", "new", "settings")

FAINT = r"""() => {
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const found = rgb(getComputedStyle(node).backgroundColor);
      if ((found[3] ?? 1) === 1) return found;
    }
    return [255, 255, 255];
  };
  const apart = "script, style, .unseen, :disabled, svg, option";
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), wrong = [];
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement, style = getComputedStyle(node);
    if (!texts.currentNode.data.trim() || !node.checkVisibility() || node.closest(apart)) continue;
    const [one, other] = [light(rgb(style.color)), light(ground(node))].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < (large ? 3 : 4.5)) wrong.push(`${texts.currentNode.data.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return wrong;
}"""

NAMELESS = r"""() => [
    ...document.querySelectorAll("a[href], button, input, select, textarea, summary, th, [tabindex='0'], [role='img']")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !(each.ariaLabel || each.textContent.trim() || each.labels?.length || each.title))
  .map((each) => each.outerHTML.slice(0, 120))"""

SMALL = r"""() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
  .filter((each) => each.checkVisibility() && !each.closest("p, li, td, pre") && !each.matches(".diff .number"))
  .map((each) => [each, (each.matches("[type=checkbox]") ? each.closest("label") : each).getBoundingClientRect()])
  .filter(([, box]) => box.height < 43.5 || box.width < 43.5)
  .map(([each, box]) => `${each.outerHTML.slice(0, 100)} ${box.width.toFixed(0)} x ${box.height.toFixed(0)}`)"""

MOVING = """() => [...document.querySelectorAll("*")].filter((each) => each.checkVisibility())
  .map((each) => getComputedStyle(each))
  .filter((style) => parseFloat(style.transitionDuration) || style.animationName !== "none").length"""


async def looked_at(page: Page, web: Web, view: str) -> None:
    await page.goto(f"{web.address}/#/{view}")
    await expect(page.locator("#pill")).to_have_text("live")
    await expect(page.get_by_text("…", exact=True)).to_have_count(0)


async def test_every_text_stands_out_and_every_control_has_a_name(web: Web, bus: Bus, open_page: Open) -> None:
    (name,) = await give(bus, spec(title="weave", project="p"))
    for looks in ("dark", "light"):
        page = await open_page(web, color_scheme=looks)
        for view in (*VIEWS, f"order/{name}", f"order/{name}/why", f"order/{name}/terminal"):
            await looked_at(page, web, view)
            assert await page.evaluate(FAINT) == [], (looks, view)
            assert await page.evaluate(NAMELESS) == [], (looks, view)


async def test_on_a_phone_targets_are_large_and_at_twice_the_size_nothing_is_cut(
    web: Web, bus: Bus, open_page: Open
) -> None:
    (name,) = await give(bus, spec(title="weave"))
    page = await open_page(web, viewport={"width": 390, "height": 844}, has_touch=True)
    found: dict[str, Any] = {}
    for view in (*VIEWS, f"order/{name}", f"order/{name}/why"):
        await looked_at(page, web, view)
        if small := await page.evaluate(SMALL):
            found[view] = small
    assert found == {}
    page = await open_page(web, viewport={"width": 640, "height": 400}, reduced_motion="reduce")
    for view in (*VIEWS, f"order/{name}"):
        await looked_at(page, web, view)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 640, view
        assert await page.evaluate(MOVING) == 0, "nothing moves for who wants that"


async def test_focus_stays_where_it_is_and_a_new_question_is_told(web: Web, bus: Bus, open_page: Open) -> None:
    (name,) = await give(bus, spec(title="weave"))
    page = await open_page(web)
    row = page.locator(f'.row[data-id="{name}"]')
    await row.focus()
    await give(bus, spec(title="another"))
    await expect(page.locator(".part.waiting .count")).to_have_text("2")
    await expect(row).to_be_focused()
    await expect(page.locator("#said")).to_have_attribute("aria-live", "polite")
    await page.evaluate(
        """async () => {
          const { board, takeBoard } = await import("/store.js");
          const ask = { number: 1, command: "make test" };
          const row = { ...board.rows.values().next().value, id: "abc", title: "mend", ask };
          takeBoard({ ...board, full: false, rows: { abc: row }, sections: { ...board.sections, needs: ["abc"] } });
        }"""
    )
    await expect(page.locator("#said")).to_have_text("mend asks: make test")
