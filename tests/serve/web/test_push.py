"""Notifications while the page is closed: the real browser's own service worker hears them, one for each cause."""

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import expect

from tests.serve.web.conftest import WAIT, Open, Web

pytestmark = pytest.mark.slow

SHOWN = """async () => (await (await navigator.serviceWorker.ready).getNotifications())
  .map(({ tag, title, body, actions }) => ({ tag, title, body, actions: actions.map((each) => each.action) }))"""


async def test_a_question_is_one_notification_until_it_was_answered_elsewhere(alone: Web, open_page: Open) -> None:
    page = await open_page(alone, "settings", permissions=["notifications"])
    await expect(page.get_by_role("heading", name="Notifications")).to_be_visible()
    await expect(page.get_by_role("button", name="Notify this device")).to_be_visible()
    await page.evaluate("async () => { await navigator.serviceWorker.register('/sw.js'); }")
    session = await page.context.new_cdp_session(page)
    registered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_registration(event: Any) -> None:
        for each in event["registrations"]:
            if each["scopeURL"].startswith(alone.address) and not each["isDeleted"] and not registered.done():
                registered.set_result(each["registrationId"])

    session.on("ServiceWorker.workerRegistrationUpdated", on_registration)
    await session.send("ServiceWorker.enable")
    async with asyncio.timeout(WAIT):
        registration = await registered
    await page.goto("about:blank")  # no one looks at the page

    async def push(**told: Any) -> list[dict[str, Any]]:
        words = {"origin": alone.address, "registrationId": registration, "data": json.dumps(told)}
        await session.send("ServiceWorker.deliverPushMessage", words)
        looking = await open_page(alone, "settings", context=page.context)
        try:
            async with asyncio.timeout(WAIT):
                wanted = not told.get("over")
                while bool(found := await looking.evaluate(SHOWN)) != wanted:
                    await asyncio.sleep(0.1)
            return list(found)
        finally:
            await looking.close()

    asked = {"tag": "abc.1", "order": "abc", "title": "mend", "body": "native asks: rm -r build", "number": 1}
    expected = {"tag": "abc.1", "title": "mend", "body": asked["body"], "actions": ["allow", "deny"]}
    assert await push(**asked) == [expected]
    assert await push(**asked) == [expected], "the same cause is one notification"
    assert await push(tag="abc.1", order="abc", title="mend", body="Ana answered: deny", over=True) == []
