"""Orders: submit, list, look at, change; their events, receipts and messages."""

import asyncio
import time
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace

from treadle.errors import ConfigError, NotFound
from treadle.fleet import client, sample
from treadle.fleet.client import Given
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.find.order_rows import Listed, OrderFilter
from treadle.fleet.intake.project_defaults import completed
from treadle.fleet.intake.submitting import made
from treadle.fleet.orders import begun
from treadle.fleet.review import races
from treadle.fleet.schedule import liveness
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.api.event_pages import EventPage, event_page, one_event
from treadle.serve.envelope import answer
from treadle.serve.site import Site
from treadle.wire.fleet.messages import LimitName, Why
from treadle.wire.fleet.orders import OrderRequest, Spec
from treadle.wire.fleet.records import AnswerRecord, AskRecord, Order, OrderReceipt, SayRecord

Count = Annotated[int, Meta(ge=1, le=1000)]
Text = Annotated[str, Meta(min_length=1, max_length=100_000)]
Name = Annotated[str, Meta(max_length=200)]
State = Annotated[str, Meta(pattern="^(queued|placed|running|asking|done|failed|cancelled|skipped)$")]


class OrdersQuery(OrderFilter, frozen=True, kw_only=True, rename={"states": "state"}):
    states: tuple[State, ...] = ()
    count: Count = 50
    cursor: Annotated[int, Meta(ge=1, le=1 << 62)] | None = None
    facets: bool = False


@call("GET", "/orders", query=OrdersQuery, returns=Listed)
async def list_orders(asking: Asking) -> Listed:
    """List orders, most recently changed first; filtered before the list is cut, with the number of those left out."""
    given: OrdersQuery = asking.query
    index = asking.site.fleet.require_index()
    return await asyncio.to_thread(index.orders, given, count=given.count, before=given.cursor, facets=given.facets)


@call("POST", "/orders", right="all", body=OrderRequest, returns=Given, status=201)
async def submit_order(asking: Asking) -> Any:
    """Submit an order. The same request with the same `Idempotency-Key` returns the same order, another one is 409."""
    tree = msgspec.json.decode(await asking.request.body())
    ignored: list[str] = []
    request = await asyncio.to_thread(completed, tree, "the body", ignored.append)
    key = asking.request.headers.get("idempotency-key", "")
    if key and request.key and key != request.key:
        raise ConfigError("the header Idempotency-Key and the field `key` differ - at `$.key`")
    spec = await asyncio.to_thread(made, replace(request, key=key or request.key), by=asking.by)
    (given,) = await client.submit(asking.bus, [spec])
    return answer(replace(given, ignored=tuple(ignored)), 201 if given.new else 200)


@call("POST", "/demo", right="all", returns=Given, status=201)
async def submit_demo(asking: Asking) -> Given:
    """Submit an order that needs no key: a scripted model fixes a small repository of its own, and asks once."""
    spec = await asyncio.to_thread(sample.first_order, places.inside("demo"), by=asking.by)
    (given,) = await client.submit(asking.bus, [spec])
    return given


class MessageShown(SayRecord, frozen=True, kw_only=True):
    """A message to an agent, with the key under which it can be changed."""

    key: str


async def messages_shown(bus: Bus, name: str) -> list[MessageShown]:
    return [MessageShown(**asdict(record), key=key) for key, record in await client.messages(bus, name)]


class OrderDetail(msgspec.Struct, frozen=True, kw_only=True):
    spec: Spec
    order: Order
    receipt: OrderReceipt | None
    messages: list[MessageShown]
    deaf: bool
    """Whether its agent can be told nothing while it works, but only between two turns."""
    ask: AskRecord | None
    answer: AnswerRecord | None
    why: Why
    events: int
    first_error: tuple[int, int] | None


async def detail(site: Site, name: str) -> OrderDetail:
    bus, index = site.fleet.require_bus(), site.fleet.require_index()
    spec = await client.get_spec(bus, name)
    order = await client.get_order(bus, name)
    receipt = await client.get_receipt(bus, name) if order.ended else None
    found = index.ask(order.open_ask) if order.open_ask else None
    why = Why(state=order.state, why=order.why, reason=order.reason)
    if not order.ended:
        why = liveness.judged(site.board.whys.get(name) or await client.why(bus, name))
    return OrderDetail(
        spec=spec,
        order=order if order.title else begun(spec, time.time()),
        receipt=receipt,
        messages=await messages_shown(bus, name),
        deaf=bool(await client.deaf_agent(bus, name)),
        ask=found[0] if found else None,
        answer=found[1] if found else None,
        why=why,
        events=index.event_count(name),
        first_error=index.first_error(name),
    )


@call("GET", "/orders/{id}", returns=OrderDetail)
async def show_order(asking: Asking) -> OrderDetail:
    """An order with everything that belongs to it: task, state, attempts, messages, question, receipt."""
    return await detail(asking.site, await asking.order())


@call("GET", "/orders/{id}/why", returns=Why)
async def explain_order(asking: Asking) -> Why:
    """Say why an order waits, or what it does now, on what evidence, and what happens next."""
    return liveness.judged(await client.why(asking.bus, await asking.order()))


@call("GET", "/orders/{id}/receipt", returns=OrderReceipt)
async def show_receipt(asking: Asking) -> OrderReceipt:
    """The receipt of an order that has ended."""
    found = await client.get_receipt(asking.bus, await asking.order())
    if found is None:
        raise NotFound("this order has no receipt yet")
    return found


@call("GET", "/orders/{id}/race", returns=list[dict[str, Any]])
async def show_race(asking: Asking) -> list[dict[str, Any]]:
    """The orders of this order's race, the best first."""
    return await races.standings(asking.bus, await asking.order())


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    before: Annotated[int, Meta(ge=1, le=1 << 62)] | None = None
    after: Annotated[int, Meta(ge=1, le=1 << 62)] | None = None
    count: Count = 200


@call("GET", "/orders/{id}/events", query=EventsQuery, returns=EventPage)
async def list_events(asking: Asking) -> EventPage:
    """A page of an order's events: the newest, or those before or after a position. Long texts are cut and marked."""
    given: EventsQuery = asking.query
    name = await asking.order()
    return await event_page(
        asking.bus, asking.site.fleet.require_index(), name, before=given.before, after=given.after, count=given.count
    )


class EventQuery(msgspec.Struct, frozen=True, kw_only=True):
    seq: Annotated[int, Meta(ge=1, le=1 << 62)] = 1
    n: Annotated[int, Meta(ge=1, le=1 << 62)] = 1


@call("GET", "/orders/{id}/event", query=EventQuery, returns=dict[str, Any])
async def show_event(asking: Asking) -> dict[str, Any]:
    """One whole event, by the position and number given in a page."""
    return await one_event(asking.bus, await asking.order(), asking.query.seq, asking.query.n)


# Changing it...


class Reason(RequestBody, frozen=True, kw_only=True):
    why: Annotated[str, Meta(max_length=2000)] = ""


@call("POST", "/orders/{id}/cancel", right="all", body=Reason, optional_body=True)
async def cancel_order(asking: Asking) -> None:
    """End an order: one that waits leaves the queue, one that runs is stopped with everything it has started."""
    await client.cancel(asking.bus, await asking.order(), why=asking.body.why, by=asking.by)


@call("POST", "/orders/{id}/retry", right="all", returns=Given)
async def retry_order(asking: Asking) -> Given:
    """Submit an order that has ended again, as a new one."""
    return await client.retry(asking.bus, await asking.order(), by=asking.by)


class NewFields(RequestBody, frozen=True, kw_only=True):
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    seconds: float | None = None
    turns: int | None = None
    tokens: int | None = None
    usd: float | None = None
    why: Annotated[str, Meta(max_length=2000)] = ""


@call("POST", "/orders/{id}/set", right="all", body=NewFields)
async def change_order(asking: Asking) -> None:
    """Change the priority or the limits of an order; who, why, old and new are kept with it."""
    given: NewFields = asking.body
    limits = {name: value for name in get_args(LimitName) if (value := getattr(given, name)) is not None}
    await client.set_fields(
        asking.bus, await asking.order(), priority=given.priority, limits=limits, why=given.why, by=asking.by
    )
