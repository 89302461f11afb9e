"""The fleet at a glance, for a terminal: the four sections of the page's board, from one look."""

import msgspec

from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.find.order_rows import row_of
from treadle.fleet.schedule import liveness
from treadle.wire.fleet.messages import Why
from treadle.wire.fleet.records import AskRecord, Order
from treadle.wire.fleet.states import AT_WORK

NEWEST = 200
DONE_SHOWN = 10
WORDS = {"asks": "asks", "failed": "failed", "review": "to review"}


class GlanceRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    word: str
    title: str
    changed: float
    now: str
    ask: AskRecord | None = None


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    head: str
    sections: list[tuple[str, list[GlanceRow]]]


async def look(bus: Bus) -> Glance:
    listed = await client.list_orders(bus, count=NEWEST)
    known = {order.id for order, _ in listed}
    listed += [each for each in await client.list_orders(bus, count=NEWEST, active=True) if each[0].id not in known]
    asks = {ask.order: ask for ask in await client.approvals(bus)}
    whys, nodes = await client.whys(bus), await client.nodes(bus)
    parts: dict[str, list[GlanceRow]] = {"Needs you": [], "Working": [], "Waiting": [], "Done": []}
    for order, revision in listed:
        row = row_of(order, revision)
        why = liveness.judged(whys.get(order.id, Why()))
        ask = asks.get(order.id)
        word = WORDS.get(row.needs, order.state)
        stuck = why.verdict in ("stalled", "lost") or (why.waits is not None and why.waits.kind == "budget")
        made = GlanceRow(
            id=order.id, word=word, title=order.title, changed=order.changed, now=_now(order, why, ask), ask=ask
        )
        if row.needs or stuck:
            parts["Needs you"].append(made)
        elif order.ended:
            parts["Done"].append(made)
        else:
            parts["Working" if order.state in AT_WORK else "Waiting"].append(made)
    parts["Needs you"].sort(key=lambda row: (row.ask is None, row.ask.deadline if row.ask else row.changed))
    parts["Done"] = parts["Done"][:DONE_SHOWN]
    up = sum(node.alive for node in nodes)
    head = f"treadle: {len(parts['Needs you'])} need you, nodes {up} of {len(nodes)}"
    return Glance(head=head, sections=[*parts.items()])


def _now(order: Order, why: Why, ask: AskRecord | None) -> str:
    if ask is not None:
        return ask.words
    if why.waits is not None:
        return why.waits.text
    doing = why.activity.doing if why.activity is not None else ""
    return str(doing or order.why or order.result.get("stat") or "")
