"""Which addresses are called for a client, and what they are sent."""

import asyncio
import logging

import msgspec
import pytest

from tests.serve.receiver import receiving
from treadle.doors.a2a import door
from treadle.doors.a2a.door import WAITING, Allowed, Webhook
from treadle.wire.a2a.messages import A2aStatus, Malformed, PushTarget, StatusUpdate

ALLOWED = Allowed(("Hooks.example", "one.example:8443", "127.0.0.1", "[::1]"))


def target(url: str, **more: str) -> PushTarget:
    return PushTarget(id="p", url=url, **more)


@pytest.mark.parametrize(
    "url",
    [
        *("https://hooks.example/a", "https://HOOKS.example:99/a", "https://one.example:8443/"),
        *("http://127.0.0.1:9/x", "http://[::1]:9/x"),
    ],
)
def test_a_host_that_the_owner_named_is_called(url: str) -> None:
    ALLOWED.check(target(url))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://other.example/", "does not call other.example:443"),
        ("https://one.example/", "does not call one.example:443"),
        ("https://hooks.example.evil.example/", "does not call"),
        ("http://hooks.example/", "by https only"),
        ("https://hooks.example@evil.example/", "without a name"),
        ("https://@hooks.example/", "without a name"),
        ("https://hooks.example/#f", "fragment"),
        ("file:///etc/passwd", "http or https"),
        ("ftp://hooks.example/", "http or https"),
        ("https:///x", "http or https"),
        ("https://hooks.example:port/", "url"),
        ("https://[::1", "url"),
    ],
)
def test_any_other_address_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        ALLOWED.check(target(url))


@pytest.mark.parametrize("field", ["token", "scheme", "credentials"])
@pytest.mark.parametrize("value", ["a\r\nx: y", "caf\u00e9"])
def test_what_goes_into_a_header_is_plain_text(field: str, value: str) -> None:
    with pytest.raises(Malformed, match="plain text"):
        ALLOWED.check(target("https://hooks.example/", **{field: value}))


def test_with_no_hosts_named_there_are_no_webhooks() -> None:
    assert ALLOWED and not Allowed(())


async def test_an_address_that_takes_nothing_costs_a_bounded_memory(caplog: pytest.LogCaptureFixture) -> None:
    hook = Webhook(target("http://127.0.0.1:9/"), "1.0")
    event = StatusUpdate(task="t", context="c", status=A2aStatus(state="working", timestamp="2026-01-01T00:00:00Z"))
    with caplog.at_level(logging.WARNING):
        for _ in range(WAITING):
            hook.tell(event)
        assert not caplog.records
        hook.tell(event)
    assert "too slow" in caplog.text
    hook.finish()  # there is no room for the end either, and that is no error
    await asyncio.wait_for(hook.close(), 60)


def update(state: str) -> StatusUpdate:
    status = A2aStatus(state=state, timestamp="2026-01-01T00:00:00Z")  # type: ignore[arg-type]
    return StatusUpdate(task="t", context="c", status=status)


async def test_changes_are_posted_in_their_order_and_it_ends_when_all_were_delivered() -> None:
    async with receiving() as place:
        hook = Webhook(target(f"{place.url}/x", token="t", scheme="Bearer", credentials="c"), "1.0")
        for state in ("working", "completed"):
            hook.tell(update(state))
        hook.finish()
        await asyncio.wait_for(hook._work, 60)
        states = [msgspec.json.decode(each.body)["statusUpdate"]["status"]["state"] for each in place.heard]
        assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
        headers = place.heard[0].headers
        assert (headers["authorization"], headers["x-a2a-notification-token"]) == ("Bearer c", "t")
        assert headers["content-type"] == "application/a2a+json" and place.heard[0].path == "/x"
        old = Webhook(target(place.url, scheme="Bearer"), "0.3")
        old.tell(update("working"))
        old.finish()
        await asyncio.wait_for(old._work, 60)
        bare = place.heard[-1].headers
        assert bare["content-type"] == "application/json" and "authorization" not in bare
        assert "x-a2a-notification-token" not in bare


@pytest.mark.parametrize(("status", "given_up"), [("299 Odd", False), ("300 Elsewhere", True), ("500 Broken", True)])
async def test_what_is_not_taken_is_given_up_with_a_word(
    status: str, given_up: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "TRIES", 1)
    caplog.set_level(logging.INFO)
    async with receiving() as place:
        place.status = status
        hook = Webhook(target(place.url), "1.0")
        hook.tell(update("working"))
        hook.finish()
        await asyncio.wait_for(hook._work, 60)
    assert ("was given up for one change after 1 tries" in caplog.text) is given_up
    assert (f"it answered {status[:3]}" in caplog.text) is given_up
