"""Orders that several agents, or one agent several times, were given, compared by what they left."""

from typing import Any

from treadle.errors import NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import read_spec

LOOKED_AT = 5000
"""How many of the newest orders are searched for the others of a race."""


async def standings(bus: Bus, name: str) -> list[dict[str, Any]]:
    """The orders of this order's race, best first: verified, then smallest change, then lowest cost."""
    race = (await client.get_spec(bus, name)).race
    if not race:
        raise NotFound(f"the order {name} is in no race", hint="submit with --race A,B or --best-of N")
    rows = []
    for entry in await bus.newest("spec.*", LOOKED_AT):
        spec = read_spec(entry.value)
        if spec.race != race:
            continue
        order = await client.get_order(bus, spec.id)
        rows.append(
            {
                "order": spec.id,
                "agent": spec.agent,
                "state": order.state,
                "verified": order.result.get("verified"),
                "files": order.result.get("files", 0),
                "stat": order.result.get("stat", ""),
                "tokens": order.used.tokens,
                "usd": order.used.usd,
            }
        )
    return sorted(rows, key=_place)


def _place(row: dict[str, Any]) -> tuple[bool, bool, bool, int, float]:
    usd = float("inf") if row["usd"] is None else row["usd"]
    return (row["state"] != "done", row["verified"] is not True, not row["files"], row["files"], usd)
