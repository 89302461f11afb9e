"""Which addresses are called for a client, and what they are sent."""

import asyncio
import logging

import pytest

from treadle.doors.a2a.push import WAITING, Allowed, Webhook
from treadle.wire.a2a.records import A2aStatus, PushTarget, StatusUpdate
from treadle.wire.a2a.versions import Malformed

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
