"""Runs that are followed."""

from typing import Any

import msgspec

from treadle.fleet.engine.bus import Bus


async def write(bus: Bus, order: str, first: int, count: int, text: str = "") -> None:
    """Events as a runner writes them, without a runner."""
    said = [{"type": "message", "text": text or f"{first + number}", "seq": first + number} for number in range(count)]
    await bus.publish(f"fleet.ev.{order}.1.n1", msgspec.json.encode({"n": first, "events": said}))


def numbers(messages: list[dict[str, Any]], topic: str) -> list[int]:
    return [each["n"] for message in messages if message["t"] == topic for each in message.get("events", ())]
