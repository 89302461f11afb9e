"""The page lists the goals and shows one as it moves: waves, what is asked, what landed."""

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.fleet.conftest import Start
from tests.goals.test_foreman import carried
from tests.serve.web.conftest import Open, Web
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.goals import commands, foreman, store

pytestmark = pytest.mark.slow

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


async def test_a_person_checks_a_plan_on_the_page_and_begins_it(
    web: Web, bus: Bus, repository: Path, open_page: Open
) -> None:
    page = await open_page(web, "goals")
    await page.get_by_text("Start a goal").click()
    await page.get_by_label("Repository, on the machine of this page").fill(str(repository))
    plan = page.get_by_label("Plan (goal.toml)")
    await plan.fill(PLAN.replace('"writer", "flag"', '"writter"'))
    await page.get_by_role("button", name="Check").click()
    await expect(page.get_by_role("status").filter(has_text="writter")).to_be_visible()
    await page.get_by_role("button", name="Begin", exact=True).click()
    await expect(page.get_by_role("alert").filter(has_text="writter")).to_be_visible()
    await plan.fill(PLAN)
    await page.get_by_role("button", name="Check").click()
    await expect(page.get_by_role("status").filter(has_text="Wave 3: docs")).to_be_visible()
    assert await commands.goals(bus) == {}
    await page.get_by_role("button", name="Begin", exact=True).click()
    await expect(page.get_by_role("status").filter(has_text="The goal starts")).to_be_visible()
    await foreman.take_up(bus)
    [(name, record)] = (await commands.goals(bus)).items()
    assert (record.root, record.branch) == (str(repository), "main")
    await expect(page.get_by_role("row", name="Orders can be exported")).to_contain_text("0 of 4")
    await page.get_by_role("link", name=name).click()
    await expect(page.get_by_role("list", name="Waves")).to_contain_text("Wave 3")
    again = await web.post("/goals", {"root": str(repository), "text": PLAN}, status=202)
    assert again == {"id": name, "new": False}


async def test_a_person_agrees_tells_pauses_resumes_tries_again_and_stops_on_the_page(
    web: Web, bus: Bus, start_node: Start, repository: Path, open_page: Open
) -> None:
    head = 'goal = "A file"\ndone = "false"\nverify = "true"\nbudget = { orders = 20 }\nroles = { judge = "none" }\n'
    plan = f'{head}[[order]]\nid = "one"\ntask = "t"\nagent = "null:600:600"\nland = false\n'
    await start_node()
    async with carried(bus):
        name, _ = await commands.begin(bus, plan, str(repository), by="ana")
        page = await open_page(web, f"goals/{name}")
        asked = page.get_by_role("region", name="Question plan")
        await expect(asked).to_contain_text("Carry out this plan?")
        await expect(asked).to_contain_text("done: false")
        await asked.get_by_role("button", name="Yes").click()
        step = page.get_by_role("listitem").filter(has_text="one").last
        await expect(step).to_contain_text("working")
        words, status = page.get_by_label("Message or reason"), page.get_by_role("status")
        await words.fill("lunch")
        await page.get_by_role("button", name="Pause").click()
        await expect(status.filter(has_text="paused: lunch")).to_be_visible()
        await page.get_by_role("button", name="Resume").click()
        await expect(status.filter(has_text="▶ running")).to_be_visible()
        await words.fill("be careful")
        await page.get_by_role("button", name="Message all agents").click()
        await expect(words).to_have_value("")
        async with asyncio.timeout(60):
            while not (await store.load(bus, name))[0].comments:
                await asyncio.sleep(0.02)
        await client.cancel(bus, f"{name}-one", by="ana")
        await expect(step).to_contain_text("dropped")
        await page.get_by_role("button", name="Try again").click()
        await expect(step).to_contain_text("working")
        await page.get_by_text("Plan", exact=True).click()
        plan = page.get_by_label("The plan")
        await expect(plan).to_have_value(re.compile('id = "one"'))
        await plan.fill(
            f'{await plan.input_value()}\n[[order]]\nid = "two"\ntask = "t"\nafter = ["one"]\nland = false\n'
        )
        await page.get_by_role("button", name="Change the plan").click()
        await expect(page.get_by_role("list", name="Waves")).to_contain_text("waits for one")
        await page.get_by_text("Report", exact=True).click()
        await expect(page.get_by_text("# A file")).to_be_visible()
        await words.fill("enough")
        await page.get_by_role("button", name="Stop").click()
        await expect(status.filter(has_text="■ stopped")).to_contain_text("enough")
        await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    record, _ = await store.load(bus, name)
    assert record.comments == ("be careful",) and record.answers["plan"].allow
    refused = await web.http.post(f"/api/v1/goals/{name}/pause", json={})
    assert refused.status_code == 409 and "has ended" in refused.text
    looks = await web.http.post(f"/api/v1/goals/{name}/stop", json={}, headers=web.headers("answer"))
    assert looks.status_code == 403
