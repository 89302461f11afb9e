"""The page, as a person uses it: a real browser on a real server, with real runners."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from playwright.async_api import Page, expect

from tests.fleet.conftest import Start, give, spec, until_offers, until_state
from tests.fleet.repositories import edits, git, work
from tests.landing.test_conductor import driving
from tests.serve.web.conftest import WAIT, Open, StartWeb, Web, click_twice, press_until
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.settings import trust

pytestmark = pytest.mark.slow

SLOW = "null:600:600"


async def test_a_link_signs_in_once_and_leaves_no_code_in_the_address(web: Web, open_page: Open) -> None:
    page = await open_page(web)
    await expect(page.locator("#pill")).to_have_text("live")
    assert web.token not in await page.content()
    other = await page.context.browser.new_context()
    try:
        code = web.server.site.tokens.link("", "all")
        first = await other.new_page()
        await first.goto(f"{web.address}/#{code}")
        await expect(first.locator("#pill")).to_have_text("live")
        assert code not in first.url and code not in await first.evaluate("document.cookie + location.href")
        await other.clear_cookies()
        again = await other.new_page()
        await again.goto(f"{web.address}/#{code}")
        await expect(again.get_by_role("heading", name="Not signed in")).to_be_visible()
        await expect(again.get_by_text("used before")).to_be_visible()
        await expect(again.locator("#band")).to_contain_text("treadle serve --link")
    finally:
        await other.close()


async def test_an_order_is_handed_over_to_an_agent_of_the_list(
    bus: Bus, start_node: Start, web: Web, open_page: Open
) -> None:
    await start_node()
    await until_offers(bus, "n1")
    (order,) = await give(bus, spec(SLOW))
    await until_state(bus, order, "running")
    page = await open_page(web, path=f"order/{order}")
    page.on("dialog", lambda dialog: asyncio.create_task(dialog.accept()))
    choice = page.get_by_label("Hand over to")
    await choice.focus()
    await expect(choice.locator("option[value=native]")).to_have_count(1)
    await choice.select_option("native")
    await expect(page.get_by_text(re.compile(r"^native replaced null:600:600 \(.*person\)"))).to_be_visible()


async def test_what_the_page_of_another_port_is_sent_does_not_open_this_one(web: Web, open_page: Open) -> None:
    """As the preview of an agent's work on the same machine would."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def preview(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard.put(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    other = await asyncio.start_server(preview, "127.0.0.1")
    page = await open_page(web)
    try:
        there = await page.context.new_page()
        await there.goto(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/")
        sent = (await asyncio.wait_for(heard.get(), WAIT)).decode()
        assert await there.evaluate("Object.keys(localStorage).length") == 0
    finally:
        other.close()
    (cookie,) = re.findall(rf"{web.server.gate.cookie}=([\w-]+)", sent)
    assert "x-treadle-proof" not in sent.lower()
    for headers in ({"authorization": f"Bearer {cookie}"}, {"cookie": f"{web.server.gate.cookie}={cookie}"}):
        answer = await web.http.get("/api/v1/orders", headers={"authorization": "", **headers})
        assert answer.status_code == 401


async def test_an_order_is_given_watched_and_cancelled(web: Web, start_node: Start, open_page: Open) -> None:
    await start_node()
    page = await open_page(web, "new")
    await page.get_by_label("Task").fill("weave a blue cloth")
    await pick(page, "Agent", "another…")
    await page.get_by_label("Agent: another").fill(SLOW)
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_role("heading", name="weave a blue cloth")).to_be_visible()
    await expect(page.locator(".order-head .badge")).to_contain_text("working")
    await expect(page.locator(".part.working .row")).to_contain_text("weave a blue cloth")
    await expect(page.get_by_text(re.compile(r"^\d+ of 600$")).first).to_be_visible()
    await click_twice(page, "Cancel")
    await expect(page.locator(".order-head .badge")).to_contain_text("cancelled")
    await expect(page.locator(".part.done .row")).to_contain_text("cancelled")


async def pick(page: Page, field: str, option: str) -> None:
    await page.get_by_role("combobox", name=field, exact=True).select_option(option)


async def test_an_order_is_put_together_from_what_nodes_earlier_orders_and_the_repository_have(
    web: Web, bus: Bus, start_node: Start, repository: Path, open_page: Open
) -> None:
    """The agents that nodes have, repositories of before, branches, the project's own check, what it waits for."""
    await start_node(labels=("gpu",))
    (repository / ".treadle").mkdir()
    (repository / ".treadle" / "fleet.toml").write_text(
        '[project]\nverify = "make check"\n[templates.fix]\nattempts = 2\nverify = "make fix"\n'
    )
    trust.trust(str(repository))
    await until_offers(bus, "n1")
    before = work(repository, "null", claims=("a.txt",), labels=("nowhere",), title="comes first", project="shop")
    await give(bus, before)
    page = await open_page(web, "new")
    await page.get_by_label("Task").fill("and then this")
    await pick(page, "Repository or directory, on the node", str(repository))
    check = page.get_by_label("Check that must pass")
    await expect(check).to_have_attribute("placeholder", "project setting: make check")
    await pick(page, "Template", "fix")
    await expect(check).to_have_attribute("placeholder", "project setting: make fix")
    await pick(page, "Agent", "native")
    await pick(page, "Permission mode", "full-auto")
    await page.get_by_text("More: landing").click()
    await pick(page, "Start from", "main")
    await pick(page, "Project", "shop")
    await pick(page, "Node label", "gpu")
    await page.get_by_label("Priority").fill("7")
    await page.get_by_label("Token limit").fill("5000")
    await page.get_by_label("Not before").fill("2099-01-01T06:00")
    await page.get_by_label("comes first").check()
    await pick(page, "If one of those fails", "run")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_role("heading", name="and then this")).to_be_visible()
    given = await client.get_spec(bus, page.url.rpartition("/")[2])
    tip = git(repository, "rev-parse", "main")
    assert (given.root, given.base, given.agent, given.mode) == (str(repository), tip, "native", "full-auto")
    assert (given.verify, given.attempts, given.project, given.labels) == ("make fix", 2, "shop", ("gpu",))
    assert (given.priority, given.limits.tokens, given.after, given.if_failed) == (7, 5000, (before.id,), "run")
    assert given.not_before > 4e9
    await client.cancel(bus, before.id, by="test")


async def test_the_oldest_question_is_open_and_answered_with_one_key(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path, open_page: Open
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt"), claims=("a.txt",))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    page = await open_page(web)
    question = page.locator(".question")
    await expect(question.locator(".command")).to_have_text("install /dev/null asked.txt")
    await expect(question.get_by_role("heading")).to_have_text("Run this command?")
    await expect(question).to_contain_text("without one: deny")
    await expect(page.locator("#count")).to_have_text("1")
    await expect(page).to_have_title("(1) Treadle")
    await press_until(page, "y", lambda: question.locator(".allow:enabled").is_hidden())
    assert (await client.wait(bus, order.id, 90)).state == "done"
    receipt = await client.get_receipt(bus, order.id)
    assert receipt is not None and receipt.approvals[0]["decision"] == "allow"
    await expect(page.locator(".part.needs .row")).to_contain_text("to review")


async def test_an_answer_that_came_second_says_who_was_first(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path, open_page: Open
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt"))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    page = await open_page(web, f"order/{order.id}")
    await expect(page.locator(".question")).to_be_visible()
    await page.route("**/answer", lambda route: held.append(route))
    held: list[object] = []
    await page.get_by_role("button", name="Deny").click()
    async with asyncio.timeout(WAIT):
        while not held:
            await asyncio.sleep(0.02)
    await client.answer(bus, order.id, "allow", by="Ana on phone", number=1)
    fulfilled = await web.http.post(f"/api/v1/orders/{order.id}/answer", json={"decision": "deny", "number": 1})
    await held[0].fulfill(status=fulfilled.status_code, body=fulfilled.text, content_type="application/json")  # type: ignore[attr-defined]
    await expect(page.locator("#refused")).to_contain_text("answered by Ana on phone")
    assert (await client.wait(bus, order.id, 90)).state == "done"
    await expect(page.locator(".question")).to_have_count(0)
    await expect(page.locator("#refused")).to_be_visible()
    await page.goto(f"{page.url.partition('#')[0]}#/orders")
    await expect(page.locator("#refused")).to_be_hidden()


async def test_a_message_is_sent_changed_and_taken_back_and_a_draft_stays(web: Web, bus: Bus, open_page: Open) -> None:
    (name,) = await give(bus, spec())  # no one runs it, so that nothing is delivered
    page = await open_page(web, f"order/{name}")
    await page.get_by_label("Message to the agent").fill("be quick")
    await page.get_by_role("button", name="Send", exact=True).click()
    bubble = page.locator(".bubble")
    await expect(bubble).to_contain_text("queued")
    await bubble.get_by_role("button", name="Edit").click()
    await bubble.locator("textarea").fill("be careful")
    await bubble.get_by_role("button", name="Change").click()
    await expect(bubble).to_contain_text("be careful")
    await bubble.get_by_role("button", name="Withdraw").click()
    await expect(bubble).to_contain_text("withdrawn")
    field = page.get_by_label("Message to the agent")
    await field.fill("half a thought")
    await client.say(bus, name, "something else")
    await expect(page.locator(".bubble")).to_have_count(2)
    await expect(field).to_have_value("half a thought")
    await expect(field).to_be_focused()
    await page.reload()
    await expect(page.get_by_label("Message to the agent")).to_have_value("half a thought")


async def test_comments_on_lines_are_sent_back_together_and_the_next_try_lands(
    web: Web, bus: Bus, start_node: Start, repository: Path, tmp_path: Path, open_page: Open
) -> None:
    await start_node()
    order = work(repository, edits(tmp_path, "x", "a.txt", "two"))
    await give(bus, order)
    await client.wait(bus, order.id, 90)
    page = await open_page(web)
    await expect(page.locator(".diff .add code")).to_have_text("two")
    await expect(page.locator(".diff .hunk")).to_have_count(1)
    await expect(page.locator(".diff .hunk button")).to_have_count(0)  # there is nothing to comment on
    await page.get_by_role("button", name="Side by side").click()
    await expect(page.locator(".diff.beside .half.del code")).to_have_text("one")
    await expect(page.locator(".diff.beside .half.add code")).to_have_text("two")
    await page.locator(".diff button.number[tabindex='0']").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.type("rather three")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator(".comment")).to_contain_text("rather three")
    await page.get_by_role("button", name="Side by side").click()
    await expect(page.locator(".diff:not(.beside) .add code")).to_have_text("two")
    edits(tmp_path, "x", "a.txt", "three")
    await page.get_by_role("button", name="Send 1 comment back").click()
    await expect(page).to_have_url(re.compile("#/order/"))
    again = page.url.rpartition("/")[2]
    assert (await client.wait(bus, again, 90)).state == "done"
    await expect(page.locator(".order-head")).to_contain_text(again)
    await expect(page.locator(".order-head .badge")).to_contain_text("done")
    assert "a.txt:1" in (await client.get_spec(bus, again)).comments
    await page.get_by_role("link", name="Changes").click()
    await expect(page.locator(".diff .add code")).to_have_text("three")
    await page.get_by_label("Check of this work, in addition to the branch's").fill("test -e b.txt")
    async with driving(bus):
        await page.locator(".review-bar").get_by_role("button", name="Land").click()
        await expect(page).to_have_url(re.compile("#/trains"))
        await expect(page.locator(".train")).to_contain_text(again)
        async with asyncio.timeout(90):
            while (repository / "a.txt").read_text() != "three":
                await asyncio.sleep(0.05)
    await expect(page.locator(".part.needs .row")).to_have_count(0)


async def test_more_tabs_than_a_browser_has_connections_for_are_all_live(web: Web, bus: Bus, open_page: Open) -> None:
    """A browser opens six to a host at a time: a page that held one for itself would leave the seventh waiting."""
    first = await open_page(web)
    tabs = [first] + [await open_page(web, context=first.context) for _ in range(6)]
    await give(bus, spec(id="abcdefghjkmn"))
    for tab in tabs:
        await expect(tab.locator(".part.waiting .row")).to_have_count(1)


async def test_after_a_restart_of_the_server_the_page_is_live_again_by_itself(
    fleet: places.Fleet, bus: Bus, serving: StartWeb, open_page: Open, tmp_path: Path
) -> None:
    first = await serving(terminals=str(tmp_path))
    await first.until_up()
    (name,) = await give(bus, spec())
    page = await open_page(first, f"order/{name}")
    await page.get_by_label("Message to the agent").fill("stay")
    await first.stop()
    await expect(page.locator("#pill")).to_contain_text("not live since")
    await expect(page.locator("#band")).to_contain_text("Not live since")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    (other,) = await give(bus, spec())
    second = await serving(terminals=str(tmp_path), listening={"port": first.listening.port})
    await second.until_up()
    await expect(page.locator("#pill")).to_have_text("live")
    await expect(page.locator("#band")).to_be_hidden()
    await expect(page.locator(f'.row[data-id="{other}"]')).to_be_visible()
    await expect(page.get_by_label("Message to the agent")).to_have_value("stay")


async def test_everything_is_reached_with_the_keyboard_alone(web: Web, bus: Bus, open_page: Open) -> None:
    first, second = await give(bus, spec(), spec())
    page = await open_page(web)
    await expect(page.locator(".part.waiting .row")).to_have_count(2)
    await page.keyboard.press("j")
    await expect(page.locator(".row.selected")).to_have_count(1)
    selected = await page.locator(".row.selected").get_attribute("data-id")
    await page.keyboard.press("j")
    await expect(page.locator(".row.selected")).not_to_have_attribute("data-id", str(selected))
    await page.keyboard.press("k")
    await expect(page.locator(".row.selected")).to_have_attribute("data-id", str(selected))
    await expect(page.locator(".composer textarea")).to_be_visible()
    await page.keyboard.press("m")
    await expect(page.get_by_label("Message to the agent")).to_be_focused()
    await page.keyboard.type("jkyn")
    await expect(page.get_by_label("Message to the agent")).to_have_value("jkyn")
    await page.keyboard.press("Escape")
    await page.keyboard.press("o")
    await expect(page.locator(".cells:not(.head)")).to_have_count(2)
    await page.keyboard.press("/")
    await page.keyboard.type("money")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Money", exact=True)).to_be_visible()
    await page.keyboard.press("?")
    await page.get_by_label("single-key shortcuts").uncheck()
    await expect(page.locator("#keys")).to_have_text("Keys are off (Settings)")
    await page.locator("body").press("o")
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    assert {first, second}


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "javascript:alert(3)",
    "\u202etxt.exe\u202c",
    "zero\u200bwidth",
    "\x1b]0;title\x07\x1b[31mred\x1b[0m",
    "&lt;b&gt;",
    "{{constructor.constructor('alert(4)')()}}",
    "https://good.example@evil.example/<b>",
)


async def test_what_an_agent_says_can_only_be_read_and_widens_nothing(web: Web, bus: Bus, open_page: Open) -> None:
    text = "\n".join(HOSTILE)
    order = spec(title=text[:200], project=HOSTILE[0], labels=(HOSTILE[1],))
    await give(bus, order)
    said = [
        {"type": "turn_started", "prompt": text},
        {"type": "message", "text": text},
        {"type": "tool_started", "call": "1", "name": HOSTILE[0], "command": text, "paths": [HOSTILE[1]]},
        {"type": "tool_ended", "call": "1", "name": HOSTILE[0], "result": text, "ok": False},
        {"type": "asked", "request": "r", "kind": "permission", "text": text},
        {"type": "failed", "error": {"code": "x", "message": text}},
        {"type": "model_routed", "model": text},
        {"type": "context_pruned", "messages_pruned": 1, "tokens_before": 9, "tokens_after": 1},
        {"type": "context_compacted", "tokens_before": 9, "tokens_after": 1},
        {"type": "context_handoff"},
        {"type": "context_handoff", "to": text, "reason": "person"},
        {"type": "task_changed", "change": "created", "task_id": "1", "task": {"id": "1", "label": text}},
        {"type": "task_changed", "change": "text", "task_id": "1"},
        {"type": HOSTILE[0], "unknown": text},
    ]
    await bus.publish(f"fleet.ev.{order.id}.1.n1", msgspec.json.encode({"n": 1, "events": said}))
    await client.say(bus, order.id, text, by=HOSTILE[0])
    width = 360
    long = spec(title="x" * 300, project="p" * 200)
    await give(bus, long)
    page = await open_page(web, viewport={"width": width, "height": 740})
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    orders = [f"order/{name}{part}" for name in (order.id, long.id) for part in ("", "/why")]
    for view in (
        *orders,
        "orders",
        "search?q=evil",
        "claims",
        "trains",
        "goals",
        "",
        "terminals",
        "nodes",
        "money",
        "new",
        "settings",
    ):
        await page.goto(f"{web.address}/#/{view}")
        await expect(page.locator("#pill")).to_have_text("live")
        if view.endswith(order.id):
            await expect(page.locator(".events .unknown")).to_contain_text("unknown event")
            await page.locator(".tool summary").click()
            await expect(page.locator(".tool .output")).to_contain_text("<script>alert(2)</script>")
            assert "⟨U+202E⟩txt.exe⟨U+202C⟩" in await page.locator(".block.text").inner_text()
            assert "\x1b" not in await page.locator("#view").inner_text()
            link = page.locator("a.away").first
            assert await link.inner_text() == await link.get_attribute("href")
        found = await page.evaluate("document.querySelectorAll('main img, main script, main iframe, main b b').length")
        assert found == 0, view
        await expect(page.get_by_text("…", exact=True)).to_have_count(0)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, view
        assert not await page.evaluate("[...document.links].some((each) => each.protocol === 'javascript:')")
    assert dialogs == []
