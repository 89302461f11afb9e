"""An order's events in pages, read from the end. Long texts are cut, and pieces of a text are joined."""

import asyncio
from typing import Any

import msgspec

from treadle.errors import NotFound
from treadle.fleet.engine.bus import EVENTS, Bus
from treadle.fleet.find.index import OrderIndex

CUT = 4096
"""How many characters of a text a page holds; `cut` has the full length."""
DELTAS = ("text_delta", "thinking_delta")


class Shown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event. `seq` and `n` identify it, so that the whole of it can be requested."""

    seq: int
    attempt: int
    n: int
    event: dict[str, Any] = {}
    end: str = ""
    cut: dict[str, int] = {}
    """Field -> its full length, for fields that are cut here."""
    gap: int = 0


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    events: list[Shown]
    before: int | None = None
    """Pass this as `before` to get the page before; None when this is the first."""
    after: int = 0
    """Pass this as `after` to get what comes later."""
    total: int = 0


async def event_page(
    bus: Bus, index: OrderIndex, order: str, *, before: int | None = None, after: int | None = None, count: int = 200
) -> EventPage:
    forward = after is not None and before is None
    chunks = await asyncio.to_thread(index.chunks, order, before=before, after=after or 0, most=count)
    chosen, number = [], 0
    for chunk in chunks if forward else reversed(chunks):
        chosen.append(chunk)
        number += max(1, chunk.count)
        if number >= count:
            break
    chosen.sort(key=lambda chunk: chunk.seq)
    total = await asyncio.to_thread(index.event_count, order)
    if not chosen:
        return EventPage(events=[], before=None, after=after or 0, total=total)
    bodies = await asyncio.gather(*(_body(bus, chunk.seq) for chunk in chosen))
    shown: list[Shown] = []
    for chunk, body in zip(chosen, bodies, strict=True):
        shown += unpacked(chunk.seq, chunk.attempt, body)
    earlier = await asyncio.to_thread(index.chunks, order, before=chosen[0].seq, most=1)
    return EventPage(
        events=condensed(shown), before=chosen[0].seq if earlier else None, after=chosen[-1].seq, total=total
    )


async def one_event(bus: Bus, order: str, seq: int, n: int) -> dict[str, Any]:
    message = await bus.look(f"$JS.API.DIRECT.GET.{EVENTS}", {"seq": seq})
    headers = message.headers or {}
    subject = headers.get("Nats-Subject", "").split(".")
    if headers.get("Status") or subject[:3] != ["fleet", "ev", order]:
        raise NotFound(f"the order {order} has no event at {seq}")
    body = msgspec.json.decode(message.data)
    events = body.get("events", [])
    if not 0 <= n - body.get("n", 1) < len(events):
        raise NotFound(f"there is no event {n} at {seq}")
    found: dict[str, Any] = events[n - body["n"]]
    return found


async def _body(bus: Bus, seq: int) -> dict[str, Any]:
    message = await bus.look(f"$JS.API.DIRECT.GET.{EVENTS}", {"seq": seq})
    if (message.headers or {}).get("Status"):
        return {"end": "missing", "why": "these events are not kept any more"}
    found: dict[str, Any] = msgspec.json.decode(message.data)
    return found


def unpacked(seq: int, attempt: int, body: dict[str, Any]) -> list[Shown]:
    if "end" in body:
        return [Shown(seq=seq, attempt=attempt, n=0, end=f"{body['end']}: {body.get('why', '')}")]
    found = []
    for number, event in enumerate(body.get("events", ()), body.get("n", 1)):
        cut: dict[str, int] = {}
        short = event
        if not all(map(_is_short, event.values())) or "raw" in event:
            short = {name: _shortened(value, name, cut) for name, value in event.items() if name != "raw"}
        found.append(Shown(seq=seq, attempt=attempt, n=number, event=short, cut=cut))
    return found


def _is_short(value: Any) -> bool:
    """Whether there is nothing to cut, as in nearly all values of a run with very many events."""
    return len(value) <= CUT if isinstance(value, str) else not isinstance(value, dict | list)


def _shortened(value: Any, name: str, cut: dict[str, int], depth: int = 0) -> Any:
    if isinstance(value, str) and len(value) > CUT:
        cut[name] = len(value)
        return value[:CUT]
    if isinstance(value, dict) and depth < 4:
        return {key: _shortened(each, f"{name}.{key}", cut, depth + 1) for key, each in value.items()}
    if isinstance(value, list) and depth < 4:
        return [_shortened(each, f"{name}.{place}", cut, depth + 1) for place, each in enumerate(value[:200])]
    return value


def condensed(events: list[Shown]) -> list[Shown]:
    """The events without pieces of texts that follow whole, and with neighbouring pieces joined."""
    rows: list[Shown] = []
    whole: set[tuple[int, str, str]] = set()
    for each in reversed(events):
        kind = each.event.get("type", "")
        key = (each.attempt, str(each.event.get("turn", "")), "thinking" if "thinking" in kind else "text")
        if kind == "message":
            whole.add((key[0], key[1], str(each.event.get("kind", "text"))))
        elif kind in DELTAS and key in whole:
            continue
        elif kind not in (*DELTAS, "usage"):
            whole.discard((key[0], key[1], "text"))
            whole.discard((key[0], key[1], "thinking"))
        rows.append(each)
    return joined(rows[::-1])


def joined(events: list[Shown]) -> list[Shown]:
    made: list[Shown] = []
    for each in events:
        kind = each.event.get("type")
        last = made[-1].event if made else {}
        if kind in DELTAS and last.get("type") == kind and last.get("turn") == each.event.get("turn"):
            made[-1] = msgspec.structs.replace(
                made[-1], n=each.n, seq=each.seq, event={**last, "text": f"{last['text']}{each.event['text']}"}
            )
        else:
            made.append(each)
    return made
