"""Every item that begins ends."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from tests.wire.common.test_losses import SAMPLES
from treadle.events import Asked, Event, TurnEnded
from treadle.wire.codex.translation import AppServerOutgoing, Notification

OVER = TurnEnded(outcome="completed")


def out() -> AppServerOutgoing:
    return AppServerOutgoing("thread", "turn", "/w", lambda args: [{"path": "/w/a"}])


def played(*events: Event) -> list[Notification]:
    writer = out()
    found: list[Notification] = []
    for event in events:
        found += writer.end(event) if isinstance(event, TurnEnded) else writer.notifications(event)
    return found


def items(told: list[Notification]) -> list[dict[str, Any]]:
    return [params["item"] for method, params in told if method == "item/completed"]


@given(some.lists(some.sampled_from([event for event in SAMPLES if not isinstance(event, Asked)]), unique_by=id))
def test_whatever_happens_every_item_that_starts_completes_once(events: list[Event]) -> None:
    told = played(*events, OVER)
    started = [params["item"]["id"] for method, params in told if method == "item/started"]
    assert sorted(started) == sorted(item["id"] for item in items(told)) and len(set(started)) == len(started)
