"""The page shows a train as it is, and lands a finished order by a button."""

import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from tests.fleet.repositories import git
from tests.landing.finished import Finished
from tests.landing.finished import finished as finished
from tests.landing.test_conductor import driving
from tests.serve.web.conftest import Open, Web, click_twice
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import train
from treadle.wire.fleet.records import Note, Used
from treadle.wire.fleet.train import Car, LeftOut, QueuedChange

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "IDLE_SECONDS", 0.05)


async def test_a_button_lands_a_finished_order_and_the_page_shows_the_train(
    web: Web, bus: Bus, finished: Finished, repository: Path, open_page: Open
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"}, verify="test -e a.txt")
    order = await client.get_order(bus, one)
    used = Used(input_tokens=18200, output_tokens=900, usd=0.25)
    made = replace(order, used=used, agent="codex", project="checkout", title="Round the discount to cents")
    await bus.put(f"order.{one}", encode(made))
    page = await open_page(web, f"order/{one}")
    async with driving(bus):
        await click_twice(page, "Land")
        await expect(page.get_by_role("heading", name="Landed")).to_be_visible()
    landed = page.get_by_role("row", name="Round the discount to cents")
    await expect(landed).to_contain_text("19k tok · $0.25")
    await expect(landed).to_contain_text("checkout")
    await expect(landed).to_contain_text(git(repository, "rev-parse", "main")[:10])

    name = train.name_of(str(repository / ".git"), "main")
    tip, now = git(repository, "rev-parse", "main"), time.time()
    waits = [QueuedChange(order=f"o{n}", commit="c" * 40, title=f"Order {n}", agent="native", at=now) for n in range(4)]
    cars = (
        Car(orders=("o0", "o1"), on=tip, commit="a" * 40, tree="t" * 40, verdict="green"),
        Car(orders=("o2",), on="a" * 40, commit="b" * 40, tree="t" * 40, verdict="red", output="1 failed"),
    )
    out = LeftOut(order=one, kind="conflict", why="it conflicts with the branch in a.txt", at=now)
    note = Note(at=now, by="train", what="<b>main</b> was forced back")
    await train.change(
        bus, name, lambda found: replace(found, queue=tuple(waits), row=cars, left_out=(out,), paused=note)
    )
    shown = page.get_by_role("list", name="Changes, each built on the one before")
    await expect(shown).to_contain_text("✓ green")
    await expect(shown).to_contain_text("✕ red")
    await expect(page.get_by_role("status").filter(has_text="paused since")).to_contain_text("<b>main</b> was forced")
    await expect(page.get_by_text("it conflicts with the branch in a.txt")).to_be_visible()
    if picture := os.environ.get("PICTURES"):
        await page.screenshot(path=f"{picture}/trains-wide.png", full_page=True)
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.screenshot(path=f"{picture}/trains-phone.png")
        await page.set_viewport_size({"width": 1280, "height": 800})
    await train.change(bus, name, lambda found: replace(found, queue=(), row=()))
    async with driving(bus):
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_text("paused since")).to_have_count(0)
