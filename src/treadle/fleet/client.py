"""Everything that can be asked of a fleet, as plain functions for commands, HTTP handlers and other programs.

    async with connected("submit") as bus:
        (given,) = await submit(bus, [Spec(id=new_id(), task="mend the test", root="/src/shop")])
        order = await wait(bus, given.id)

Everything that changes something returns when that is stored. An order is named by its id or the beginning of it.
"""

import asyncio
import getpass
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, Denied, LocalError, NotFound, StorageError, TimedOut, Unsupported
from treadle.fleet.control import Control
from treadle.fleet.engine import events as event_log
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import STATE, Bus, Entry, Stale, Unreachable
from treadle.fleet.engine.events import Seen
from treadle.fleet.engine.pull import Pull
from treadle.fleet.orders import begun, encode, new_id, read_order, read_spec
from treadle.fleet.submitting import Given as Given
from treadle.fleet.submitting import submit as submit
from treadle.sessions.abilities import ABILITIES, can
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order, OrderReceipt

PAGE = 200
PAGES = 50
_LISTED = "`treadle fleet ls` lists them; those that ended long ago are removed"


@asynccontextmanager
async def connected(role: str = "") -> AsyncIterator[Bus]:
    """Connect to this machine's fleet, in this role or the one with the most rights that it has."""
    fleet = places.load()
    bus = await Bus.connect(fleet.address(role or fleet.widest()), name="treadle fleet")
    try:
        yield bus
    finally:
        await bus.close()


def me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


# Looking...


async def resolve(bus: Bus, name: str) -> str:
    """The id that begins with `name`. NotFound when there is none, or more than one."""
    if await bus.get(f"spec.{name}") is not None:
        return name
    keys = [key for key in await bus.keys("spec.*") if key.startswith(f"spec.{name}")]
    # A removed order leaves its key behind, so keys without a value do not count.
    found = [key.partition(".")[2] for key in (await bus.named(keys) if keys and name else ())]
    if not found:
        raise NotFound(f"there is no order {name!r}", hint=_LISTED)
    if len(found) > 1:
        raise NotFound(
            f"{len(found)} orders begin with {name!r}: {', '.join(sorted(found)[:5])}", hint="write more of it"
        )
    return found[0]


def fitting(
    states: Iterable[str] = (), *, agent: str = "", label: str = "", project: str = "", place: str = ""
) -> Callable[[Order], bool]:
    """Whether an order matches the filter; an empty field does not filter."""
    wanted = set(states)
    return lambda order: (
        (not wanted or order.state in wanted)
        and (not agent or order.agent == agent)
        and (not label or label in order.labels)
        and (not project or order.project == project)
        and (not place or order.place == place)
    )


async def list_orders(
    bus: Bus,
    *,
    count: int = 50,
    states: Iterable[str] = (),
    agent: str = "",
    label: str = "",
    project: str = "",
    place: str = "",
    active: bool = False,
    before: int | None = None,
) -> list[tuple[Order, int]]:
    """The orders that changed last, latest first, each with a position to continue from (`before`)."""
    wanted = set(states)
    fits = fitting(wanted, agent=agent, label=label, project=project, place=place)
    if active:
        names = [key.partition(".")[2] for key in await bus.keys("active.*")]
        entries = await bus.named([f"order.{name}" for name in names])
        orders = [(order, entry.revision) for entry in entries.values() if fits(order := read_order(entry))]
        return sorted(orders, key=lambda each: -each[1])[:count]
    found: list[tuple[Order, int]] = []
    filtered = bool(wanted or agent or label or project or place)
    for _ in range(PAGES):
        page = await bus.newest("order.*", PAGE if filtered else count, before=before)
        found += [(order, entry.revision) for entry in page if fits(order := read_order(entry))]
        if len(found) >= count or len(page) < (PAGE if filtered else count):
            break
        before = page[-1].revision
    if not filtered and before is None and len(found) < count:
        known = {order.id for order, _ in found}
        found += [each for each in await _not_taken_in(bus, count) if each[0].id not in known]
    return found[:count]


async def _not_taken_in(bus: Bus, count: int) -> list[tuple[Order, int]]:
    """Stored orders that no scheduler has seen yet."""
    specs = await bus.newest("spec.*", count)
    have = await bus.named([entry.key.replace("spec.", "order.", 1) for entry in specs]) if specs else {}
    return [
        (begun(read_spec(entry.value)), entry.revision)
        for entry in specs
        if entry.key.replace("spec.", "order.", 1) not in have
    ]


async def get_spec(bus: Bus, name: str) -> Spec:
    entry = await bus.get(f"spec.{name}")
    if entry is None:
        raise NotFound(f"there is no order {name!r}", hint=_LISTED)
    return read_spec(entry.value)


async def get_order(bus: Bus, name: str) -> Order:
    """Where an order stands; one that no scheduler has seen yet is queued."""
    entry = await bus.get(f"order.{name}")
    if entry is not None:
        return read_order(entry)
    try:
        return begun(await get_spec(bus, name))
    except StorageError:  # the scheduler will report it
        return Order(id=name, state="queued", changed=time.time())


async def get_receipt(bus: Bus, name: str) -> OrderReceipt | None:
    entry = await bus.get(f"receipt.{name}")
    return None if entry is None else msgspec.json.decode(entry.value, type=OrderReceipt)


async def show(bus: Bus, name: str) -> dict[str, Any]:
    """An order with everything that belongs to it."""
    spec, order, receipt = await get_spec(bus, name), await get_order(bus, name), await get_receipt(bus, name)
    return {
        "spec": msgspec.to_builtins(spec),
        "order": msgspec.to_builtins(order),
        "receipt": None if receipt is None else msgspec.to_builtins(receipt),
        "messages": [message for _, message in await messages(bus, name)],
        "why": {} if order.ended else await why(bus, name),
    }


async def why(bus: Bus, name: str) -> dict[str, Any]:
    """Why an order waits, or what its runner does now, from the scheduler's memory."""
    order = await get_order(bus, name)
    if order.ended:
        return {"state": order.state, "why": order.why}
    try:
        found: dict[str, Any] = await bus.ask(f"fleet.ask.why.{name}", timeout=2.0)
    except Unreachable:
        text = "no scheduler is up: `treadle fleet up`"
        return {"state": order.state, "waits": {"kind": "scheduler", "text": text}}
    return found or {"state": order.state, "waits": {"kind": "order", "text": "the scheduler has not seen it yet"}}


def asked_words(ask: dict[str, Any]) -> str:
    """A question as one text: the whole command, or what must be decided."""
    return str(ask.get("command") or ask.get("headline") or ask.get("text") or "")


async def whys(bus: Bus) -> dict[str, dict[str, Any]]:
    """The same for all orders that have not ended, as many as fit: those at work first, then in queue order."""
    try:
        found: dict[str, dict[str, Any]] = await bus.ask("fleet.ask.all", timeout=2.0)
        return found if isinstance(found, dict) and "error" not in found else {}
    except Unreachable:
        return {}


def events(bus: Bus, name: str, *, start: int = 1, follow: bool = False) -> AsyncIterator[Seen]:
    """The order's events from a position on. Any number of readers; none costs another anything."""
    return event_log.read(bus, name, start=start, follow=follow)


async def changes(bus: Bus, *, pattern: str = "order.*", start: int | None = None) -> AsyncIterator[Entry]:
    """Every change of the matching keys, as it happens."""
    first = await bus.last_revision() + 1 if start is None else start
    pull = Pull(bus, STATE, filters=(f"$KV.fleet.{pattern}",), start=first)
    try:
        while True:
            for message in await pull.next(30.0):
                if not (message.headers or {}).get("KV-Operation"):
                    key = message.subject.removeprefix("$KV.fleet.")
                    yield Entry(key, message.data, message.metadata.sequence.stream)
    finally:
        await pull.close()


async def wait(bus: Bus, name: str, timeout: float | None = None) -> Order:
    """Wait until the order has ended, also while the engine is away. Returns the order."""
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return await _ended(bus, name)
                except Unreachable:
                    await asyncio.sleep(0.5)
    except TimeoutError:
        raise TimedOut(f"the order {name} has not ended within {timeout:g} s") from None


async def _ended(bus: Bus, name: str) -> Order:
    start = await bus.last_revision() + 1
    order = await get_order(bus, name)
    if order.ended:
        return order
    async for entry in changes(bus, pattern=f"order.{name}", start=start):
        order = read_order(entry)
        if order.ended:
            return order
    raise AssertionError("changes never end")


async def nodes(bus: Bus) -> list[dict[str, Any]]:
    """All nodes that were ever heard of, also those that are gone, with why each takes nothing."""
    known = {
        entry.key.partition(".")[2]: msgspec.json.decode(entry.value)
        for entry in (await bus.named(["node.*"])).values()
    }
    try:
        live = {view["name"]: view for view in await bus.ask("fleet.ask.nodes", timeout=2.0)}
    except Unreachable:
        live = {}
    rows = []
    for name in sorted({*known, *live}):
        row = {**known.get(name, {"name": name}), **live.get(name, {})}
        if name not in live:
            row |= {"alive": False, "says": "not heard by this scheduler" if live else "no scheduler is up"}
        rows.append(row)
    return rows


async def control(bus: Bus) -> Control:
    entry = await bus.get("control")
    return Control() if entry is None else msgspec.json.decode(entry.value, type=Control)


# Steering...


async def _wish(bus: Bus, do: str, **content: Any) -> None:
    body = encode({"do": do, "by": content.pop("by", "") or me(), **content})
    await bus.publish(f"fleet.in.wish.{do}", body, {"Nats-Msg-Id": new_id()})


async def cancel(bus: Bus, name: str, *, why: str = "", by: str = "") -> None:
    """Cancel the order. It is stored on return; the runner is told at once, and again with its next beat."""
    order = await get_order(bus, name)
    if order.ended:
        raise LocalError(f"the order {name} has ended already: {order.state}")
    await _wish(bus, "cancel", order=name, why=why, by=by)


async def set_fields(
    bus: Bus,
    name: str,
    *,
    priority: int | None = None,
    limits: dict[str, Any] | None = None,
    why: str = "",
    by: str = "",
) -> None:
    """Change the priority or limits of an order; who, why, old and new are kept with it."""
    if priority is not None and not 0 <= priority <= 9:
        raise ConfigError(f"the priority {priority} is not between 0 and 9")
    await _wish(bus, "set", order=name, priority=priority, limits=limits or {}, why=why, by=by)


async def pause(bus: Bus, scope: str, *, why: str = "", by: str = "", now: bool = False) -> None:
    """Start nothing more in this scope; with `now`, also hold what runs at its next step."""
    await _wish(bus, "pause", scope=checked_scope(scope), why=why, by=by, now=now)


async def resume(bus: Bus, scope: str, *, by: str = "") -> None:
    await _wish(bus, "resume", scope=checked_scope(scope), by=by)


def checked_scope(scope: str) -> str:
    kinds = ("order", "label", "agent", "credential", "node", "project")
    if scope != "fleet" and (scope.partition(":")[0] not in kinds or not scope.partition(":")[2]):
        raise ConfigError(f"{scope!r} is no scope", hint=f"fleet, or KIND:NAME with KIND one of {', '.join(kinds)}")
    return scope


async def drain(bus: Bus, node: str, *, why: str = "", by: str = "", undo: bool = False) -> None:
    """Let a node finish what it has and take nothing more."""
    await _wish(bus, "undrain" if undo else "drain", node=node, why=why, by=by)


async def set_budget(bus: Bus, scope: str, *, usd: float | None, tokens: int | None, by: str = "") -> None:
    if scope != "fleet" and not scope.startswith("project:"):
        raise ConfigError(f"{scope!r} has no budget", hint="fleet, or project:NAME")
    await _wish(bus, "budget", scope=scope, usd=usd, tokens=tokens, by=by)


async def set_limit(bus: Bus, scope: str, most: int | None, *, by: str = "") -> None:
    """Set how many orders may run at once across the fleet for `agent:A`, `credential:C` or `repo:PATH`."""
    await _wish(bus, "limit", scope=scope, most=most, by=by)


async def clean(bus: Bus, names: Sequence[str], *, by: str = "") -> None:
    """Remove what is stored of these orders, if they have ended."""
    for start in range(0, len(names), PAGE):
        await _wish(bus, "clean", orders=list(names[start : start + PAGE]), by=by)


async def keep(bus: Bus, *, seconds: float | None = None, size: int | None = None, by: str = "") -> None:
    """Set how long ended orders are kept, and how large the state may be; 0 is unlimited."""
    said = {"keep_seconds": seconds, "keep_bytes": size}
    await _wish(bus, "keep", **{name: value for name, value in said.items() if value is not None}, by=by)


async def send_back(bus: Bus, name: str, comments: str, *, by: str = "") -> Given:
    """Have an order's work redone: a new order starts from what the old one left, with these comments.

    An agent that can resume sessions continues the one in which it did the work.
    """
    order, spec = await get_order(bus, name), await get_spec(bus, name)
    if not comments.strip():
        raise ConfigError("there is nothing to send back", hint="say what is to be different")
    base = str(order.result.get("commit", "")) or spec.base
    return await retry(bus, name, by=by, comments=comments.strip(), base=base)


async def retry(bus: Bus, name: str, *, by: str = "", comments: str = "", base: str = "") -> Given:
    """Submit the same order again as a new one. Orders that come after the old one then come after the new one."""
    order = await get_order(bus, name)
    if not order.ended:
        raise LocalError(f"the order {name} has not ended: it is {order.state}")
    if order.retried_as:
        return Given(id=order.retried_as, new=False)
    spec = await get_spec(bus, name)
    again = replace(
        spec,
        id=new_id(f"retry of {name}"),
        retry_of=name,
        by=by or me(),
        created=time.time(),
        not_before=0.0,
        every=0.0,  # the series goes on without it
        cron="",
        comments=comments or spec.comments,
        base=base or spec.base,
        continues=name if comments else spec.continues,
    )
    return (await submit(bus, [again]))[0]


# Questions and messages...


async def approvals(bus: Bus) -> list[dict[str, Any]]:
    """What waits for an answer now, the nearest deadline first."""
    names = [key.partition(".")[2] for key in await bus.keys("active.*")]
    orders = await bus.named([f"order.{name}" for name in names])
    keys = [f"ask.{order.open_ask}" for entry in orders.values() if (order := read_order(entry)).open_ask]
    asks = [msgspec.json.decode(entry.value) for entry in (await bus.named(keys) if keys else {}).values()]
    return sorted(asks, key=lambda ask: float(ask["deadline"]))


async def answer(
    bus: Bus, name: str, decision: str, *, number: int | None = None, text: str = "", scope: str = "once", by: str = ""
) -> None:
    """Answer what an order asks. A second answer is refused and told who gave the first."""
    order = await get_order(bus, name)
    key = f"{name}.{number}" if number is not None else order.open_ask
    if not key:
        raise NotFound(f"the order {name} asks nothing now", hint="`treadle fleet approvals` lists what does")
    if decision not in ("allow", "deny"):
        raise ConfigError(f"{decision!r} is no answer", hint="allow or deny")
    given = {"decision": decision, "text": text, "scope": scope, "by": by or me(), "at": time.time()}
    before = await bus.get(f"answer.{key}")
    first = msgspec.json.decode(before.value) if before else {"withdrawn": 0}
    try:
        if "withdrawn" not in first:
            raise Stale
        await bus.put(f"answer.{key}", encode(given), expect=before.revision if before else 0)
    except Stale:
        entry = await bus.get(f"answer.{key}")
        first = msgspec.json.decode(entry.value) if entry else {}
        ago = time.time() - float(first.get("at", time.time()))
        said = f"{first.get('by', 'somebody')} {ago:.0f} s ago: {first.get('decision', '?')}"
        raise Denied(f"{key} was answered by {said}") from None


async def withdraw(bus: Bus, name: str, number: int) -> None:
    """Take back an answer that the runner has not picked up yet: the question is open again."""
    key = f"{name}.{number}"
    entry = await bus.get(f"answer.{key}")
    if entry is None or "withdrawn" in msgspec.json.decode(entry.value):
        raise NotFound(f"{key} has no answer that could be taken back")
    try:
        # Whoever writes this first has the answer: the runner, or whoever takes it back.
        await bus.put(f"taken.{key}.{entry.revision}", encode({"withdrawn": True}), expect=0)
        gone = {"withdrawn": time.time(), **msgspec.json.decode(entry.value)}
        await bus.put(f"answer.{key}", encode(gone), expect=entry.revision)
    except Stale:
        raise LocalError(
            f"the answer to {key} was taken by the runner", hint="say something to it, or cancel"
        ) from None


async def say(bus: Bus, name: str, text: str, *, when: str = "", by: str = "") -> str:
    """Leave a message for the agent. Returns the key under which it can be changed until it is delivered.

    The agent gets it at its next step; `when="now"` ends the running turn for it, "turn" waits for the turn's end.
    """
    if when not in ("", "now", "turn"):
        raise ConfigError(f"{when!r} is no time for a message", hint="now, turn, or nothing for the next step")
    order = await get_order(bus, name)
    if order.ended:
        raise LocalError(f"the order {name} has ended: {order.state}", hint="`treadle fleet send-back` tries it again")
    if not when and (agent := await deaf_agent(bus, name)):
        hint = "say it after its turn, or now, which ends the turn (--after-turn, --now)"
        raise Unsupported(f"{agent} {ABILITIES['steer'].refusal}", hint=hint, details={"ability": "steer"})
    body = {"format": 1, "text": text, "by": by or me(), "at": time.time(), "state": "queued", "when": when}
    for number in range(1, 1000):
        try:
            await bus.put(f"say.{name}.{number}", encode(body), expect=0)
            return f"{name}.{number}"
        except Stale:
            continue
    raise LocalError(f"the order {name} has been told too much")


async def deaf_agent(bus: Bus, name: str) -> str:
    """The agent of an order, if it cannot be told anything while it works; else, or when that is unknown, nothing."""
    from treadle.agents import declared

    try:
        spec = await get_spec(bus, name)
    except StorageError:
        return ""
    levels = None if spec.terminal else declared(spec.agent)
    return spec.agent if levels is not None and not can(levels, "steer") else ""


async def edit_message(bus: Bus, key: str, text: str) -> None:
    """Change a message that was not delivered yet; an empty text takes it back."""
    entry = await bus.get(f"say.{key}")
    said = msgspec.json.decode(entry.value) if entry else {}
    if entry is None or said["state"] != "queued":
        raise LocalError(f"the message {key} was delivered already" if entry else f"there is no message {key}")
    body = {**said, "text": text} if text else {**said, "state": "taken back"}
    try:
        await bus.put(f"say.{key}", encode(body), expect=entry.revision)
    except Stale:
        raise LocalError(f"the message {key} was delivered just now") from None


async def messages(bus: Bus, name: str) -> list[tuple[str, dict[str, Any]]]:
    found = await bus.named([f"say.{name}.*"])
    return [(key.partition(".")[2], msgspec.json.decode(entry.value)) for key, entry in sorted(found.items())]


async def note_result(bus: Bus, name: str, what: str, result: dict[str, Any], *, by: str = "") -> None:
    """Note with an order what was done with its work: merged or thrown away."""
    await _wish(bus, "result", order=name, what=what, result=result, by=by)
