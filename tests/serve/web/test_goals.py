"""The page lists the goals and shows one as it moves: waves, what is asked, what landed."""

import time
from pathlib import Path

from playwright.async_api import expect

from tests.serve.web.conftest import Open, Web
from treadle.fleet.engine.bus import Bus
from treadle.goals import commands, store
from treadle.wire.fleet.records import Used
from treadle.wire.goal.records import (
    GoalOver,
    QuestionPut,
    ReviewPlaced,
    StepBoarded,
    StepEnded,
    StepLanded,
    StepPlaced,
)

PLAN = """goal = "Orders can be exported as <b>CSV</b>"
done = "make test"
verify = "true"
budget = { tokens = 500000, orders = 20 }
gates = ["agent:reviewer"]
roles = { worker = "codex", judge = "none" }
[[order]]
id = "model"
task = "A type for an export row, with a test for each field."
claims = ["rows.py"]
[[order]]
id = "flag"
task = "A setting export.enabled, off by default."
claims = ["settings.py"]
[[order]]
id = "writer"
task = "Write rows as CSV."
after = ["model"]
claims = ["export.py"]
[[order]]
id = "docs"
task = "How to export."
after = ["writer", "flag"]
claims = ["docs/**"]
"""


async def test_goals_are_listed_and_one_shows_its_waves_as_it_moves(
    web: Web, bus: Bus, repository: Path, open_page: Open
) -> None:
    name, _ = await commands.begin(bus, PLAN, str(repository), by="ana")
    now = time.time()
    used = Used(input_tokens=18200, output_tokens=900, cache_read_tokens=4000, calls=3)
    events = [
        StepPlaced(at=now, step="model", order=f"{name}-model"),
        StepEnded(at=now, step="model", ok=True, used=used),
        ReviewPlaced(at=now, step="model", order="r1"),
        StepPlaced(at=now, step="flag", order=f"{name}-flag"),
        QuestionPut(at=now, about="budget:0", order="q1", title="More?", text="More?"),
    ]
    await store.happen(bus, name, lambda record: events if record.events == 1 else [])
    page = await open_page(web, "goals")
    row = page.get_by_role("row", name="Orders can be exported as <b>CSV</b>")
    await expect(row).to_contain_text("? asks")
    await expect(row).to_contain_text("0 of 4")
    await page.get_by_role("link", name="Orders can be exported").click()
    waves = page.get_by_role("list", name="Waves")
    await expect(waves).to_contain_text("Wave 3")
    await expect(waves.get_by_role("listitem").filter(has_text="▶ model").last).to_contain_text("reviewing")
    await expect(waves).to_contain_text("waits for writer, flag to land")
    await expect(page.get_by_role("link", name="budget:0")).to_have_attribute("href", "#/order/q1")
    await expect(page.get_by_role("row", name="worker")).to_contain_text("18k")
    landed = [
        StepEnded(at=now, step="flag", ok=False, why="it does not work"),
        StepPlaced(at=now, step="flag", order=f"{name}-flag2", fresh=False),
        StepEnded(at=now, step="flag", ok=True),
        StepBoarded(at=now, step="flag"),
        StepLanded(at=now, step="flag", commit="c" * 40),
    ]
    await store.happen(bus, name, lambda record: landed if record.steps["flag"].state == "working" else [])
    await expect(waves).to_contain_text("✓ flag")
    await expect(waves).to_contain_text("landed as cccccccccc · sent back once")
    await store.happen(bus, name, lambda _: [GoalOver(at=now, met=False, why="stopped by ana")])
    await expect(page.get_by_role("status").filter(has_text="stopped by ana")).to_contain_text("■ stopped")
    found = await web.get(f"/goals/{name}")
    assert [len(wave["orders"]) for wave in found["waves"]] == [2, 1, 1] and found["line"]["state"] == "stopped"
    assert [each["id"] for each in await web.get("/goals")] == [name]
