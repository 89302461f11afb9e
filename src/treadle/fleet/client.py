"""Everything that can be asked of a fleet, as plain functions for commands, HTTP handlers and other programs.

    async with connected("submit") as bus:
        (given,) = await submit(bus, [Spec(id=new_id(), task="fix the test", root="/src/shop")])
        order = await wait(bus, given.id)

Everything that changes something returns when that is stored. An order is named by its id or the beginning of it.
"""

import asyncio
import contextlib
import getpass
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from treadle.errors import (
    ConfigError,
    Denied,
    LocalError,
    NotFound,
    RemoteProtocolError,
    StorageError,
    TimedOut,
    Unsupported,
)
from treadle.fleet.engine import places
from treadle.fleet.engine import streams as event_log
from treadle.fleet.engine.bus import STATE, Bus, Entry, Stale, Unreachable
from treadle.fleet.engine.streams import Pull, Seen
from treadle.fleet.orders import PERSON, begun, encode, is_id, new_id, read_answer, read_order, read_spec
from treadle.fleet.submission import Given as Given
from treadle.fleet.submission import submit as submit
from treadle.sessions.abilities import ABILITIES, can
from treadle.wire.common.records import Damaged, Newer, T
from treadle.wire.fleet import keys
from treadle.wire.fleet.messages import (
    AnyRequest,
    BudgetRequest,
    CancelOrder,
    CleanRequest,
    DrainRequest,
    HandRequest,
    KeepRequest,
    LimitName,
    LimitRequest,
    MachineSeen,
    NodeAnswer,
    NoteRequest,
    PauseRequest,
    ResumeRequest,
    SetRequest,
    UndrainRequest,
    Wait,
    Why,
)
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import (
    AnswerRecord,
    AskRecord,
    Control,
    NodeRecord,
    Order,
    OrderReceipt,
    SayRecord,
    TakenRecord,
)
from treadle.wire.fleet.states import QUESTION, IllegalMove, moved

# Lists orders as they are stored, latest change first, a page at a time.

log = logging.getLogger(__name__)

PAGE = 200
PAGES = 50
HANDED_SECONDS = 5.0
"""How long is waited for the scheduler to say to whom an order is handed. What it was asked is stored all the same."""


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
    helpers: bool = True,
    before: int | None = None,
) -> list[tuple[Order, int]]:
    """The orders that changed last, latest first, each with a position to continue from (`before`). Without `helpers`,
    those are left out that a train has made and that ask nothing."""
    wanted = set(states)
    chosen = fitting(wanted, agent=agent, label=label, project=project, place=place)

    def fits(order: Order) -> bool:
        asks = bool(order.open_ask) and order.agent != PERSON  # what a person is asked is in the row of the task itself
        return chosen(order) and (helpers or not order.helps or asks)

    if active:
        names = [keys.ACTIVE.name(key) for key in await bus.keys(keys.ACTIVE())]
        entries = await bus.named([keys.ORDER(name) for name in names])
        orders = [(order, entry.revision) for entry in entries.values() if fits(order := read_order(entry))]
        return sorted(orders, key=lambda each: -each[1])[:count]
    found: list[tuple[Order, int]] = []
    filtered, seen, first = bool(wanted or agent or label or project or place), set[str](), before is None
    size = PAGE if filtered or not helpers else count
    for _ in range(PAGES):
        page = [(read_order(entry), entry.revision) for entry in await bus.newest(keys.ORDER(), size, before=before)]
        seen |= {order.id for order, _ in page}
        found += [(order, revision) for order, revision in page if fits(order)]
        if len(found) >= count or len(page) < size:
            break
        before = page[-1][1]
    if not filtered and first and len(found) < count:
        found += [each for each in await _not_taken_in(bus, count, seen) if fits(each[0])]
    return found[:count]


async def _not_taken_in(bus: Bus, count: int, known: set[str]) -> list[tuple[Order, int]]:
    """Stored orders that no scheduler has seen yet."""
    return [
        (begun(read_spec(entry.value), time.time()), entry.revision)
        for entry in await bus.newest(keys.SPEC(), count)
        if keys.SPEC.name(entry.key) not in known
    ]


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
        return "someone"


# Looking...


async def resolve(bus: Bus, name: str) -> str:
    """The id that begins with `name`. NotFound when there is none, or more than one."""
    possible = is_id(name)  # else it is no key of the engine, or a pattern of them
    if possible and await bus.get(keys.SPEC(name)) is not None:
        return name
    fitting = [key for key in await bus.keys(keys.SPEC()) if possible and key.startswith(keys.SPEC(name))]
    # A removed order leaves its key behind, so keys without a value do not count.
    found = [keys.SPEC.name(key) for key in (await bus.named(fitting) if fitting and name else ())]
    if not found:
        raise NotFound(f"there is no order {name!r}", hint=_LISTED)
    if len(found) > 1:
        words = f"{len(found)} orders begin with {name!r}: {', '.join(sorted(found)[:5])}"
        raise NotFound(words, hint="use more characters of it")
    return found[0]


async def get_spec(bus: Bus, name: str) -> Spec:
    entry = await bus.get(keys.SPEC(name))
    if entry is None:
        raise NotFound(f"there is no order {name!r}", hint=_LISTED)
    return read_spec(entry.value)


async def get_order(bus: Bus, name: str) -> Order:
    """Where an order stands; one that no scheduler has seen yet is queued."""
    entry = await bus.get(keys.ORDER(name))
    if entry is not None:
        return read_order(entry)
    try:
        return begun(await get_spec(bus, name), time.time())
    except StorageError:  # the scheduler will report it
        return Order(id=name, state="queued", changed=time.time())


async def get_receipt(bus: Bus, name: str) -> OrderReceipt | None:
    entry = await bus.get(keys.RECEIPT(name))
    return None if entry is None else keys.RECEIPT.read(entry.value, entry.key)


async def show(bus: Bus, name: str) -> dict[str, Any]:
    """An order with everything that belongs to it."""
    spec, order, receipt = await get_spec(bus, name), await get_order(bus, name), await get_receipt(bus, name)
    return {
        "spec": msgspec.to_builtins(spec),
        "order": msgspec.to_builtins(order),
        "receipt": None if receipt is None else msgspec.to_builtins(receipt),
        "messages": [msgspec.to_builtins(message) for _, message in await messages(bus, name)],
        "why": {} if order.ended else msgspec.to_builtins(await why(bus, name)),
    }


async def why(bus: Bus, name: str) -> Why:
    """Why an order waits, or what its runner does now, from the scheduler's memory."""
    order = await get_order(bus, name)
    if order.ended:
        return Why(state=order.state, why=order.why, reason=order.reason)
    try:
        found = await bus.ask(f"fleet.ask.why.{name}", Why, timeout=2.0)
    except Unreachable:
        return Why(state=order.state, waits=Wait(kind="scheduler", text="no scheduler is up: `treadle fleet up`"))
    unseen = Why(state=order.state, waits=Wait(kind="order", text="the scheduler has not seen it yet"))
    return found if found != Why() else unseen


async def whys(bus: Bus) -> dict[str, Why]:
    """The same for all orders that have not ended, as many as fit: those at work first, then in queue order."""
    try:
        return await bus.ask("fleet.ask.all", dict[str, Why], timeout=2.0)
    except (Unreachable, RemoteProtocolError):  # an older scheduler does not answer it
        return {}


def events(bus: Bus, name: str, *, start: int = 1, follow: bool = False) -> AsyncIterator[Seen]:
    """The order's events from a position on. Any number of readers; none costs another anything."""
    return event_log.read(bus, name, start=start, follow=follow)


async def changes(bus: Bus, *, pattern: str = keys.ORDER(), start: int | None = None) -> AsyncGenerator[Entry]:
    """Every change of the matching keys, as it happens."""
    first = await bus.last_revision() + 1 if start is None else start
    pull = Pull(bus, STATE, filters=(keys.BUCKET + pattern,), start=first)
    try:
        while True:
            for message in await pull.next(30.0):
                if not (message.headers or {}).get("KV-Operation"):
                    key = message.subject.removeprefix(keys.BUCKET)
                    yield Entry(key, message.data, message.metadata.sequence.stream)
    finally:
        await pull.close()


Asking = Callable[[AskRecord], None]


async def wait(
    bus: Bus, name: str, timeout: float | None = None, asking: Asking | None = None, *, or_asks: bool = False
) -> Order:
    """Wait until the order has ended, or asks; also while the engine is away. `asking` is called with each question."""
    announced: set[str] = set()
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return await _ended(bus, name, asking, announced, or_asks)
                except Unreachable:
                    await asyncio.sleep(0.5)
    except TimeoutError:
        raise TimedOut(f"the order {name} has not ended within {timeout:g} s") from None


async def _ended(bus: Bus, name: str, asking: Asking | None, announced: set[str], or_asks: bool) -> Order:
    start = await bus.last_revision() + 1
    order = await get_order(bus, name)
    stored = changes(bus, pattern=keys.ORDER(name), start=start)
    while not order.ended:
        if asking is not None and order.state == "asking" and order.open_ask not in announced:
            entry = await bus.get(keys.ASK(order.open_ask))
            if entry is not None:
                announced.add(order.open_ask)
                asking(keys.ASK.read(entry.value, entry.key))
        if or_asks and order.state == "asking":
            break
        order = read_order(await anext(stored))
    await stored.aclose()
    return order


class NodeRow(NodeRecord, frozen=True, kw_only=True):
    """A node as it described itself last, and as the scheduler sees it now."""

    at_work: list[str] = []
    alive: bool = False
    heard_seconds_ago: float | None = None
    says: str = ""
    machine: MachineSeen | None = None


async def nodes(bus: Bus) -> list[NodeRow]:
    """All nodes that were ever heard of, also those that are gone, with why each takes nothing."""
    stored = (await bus.named([keys.NODE()])).values()
    known = {keys.NODE.name(entry.key): keys.NODE.read(entry.value, entry.key) for entry in stored}
    try:
        live = {view.name: view for view in await bus.ask("fleet.ask.nodes", list[NodeAnswer], timeout=2.0)}
    except Unreachable:
        live = {}
    gone = "not heard by this scheduler" if live else "no scheduler is up"
    rows = []
    for name in sorted({*known, *live}):
        record = msgspec.structs.asdict(known.get(name) or NodeRecord(name=name))
        now = msgspec.structs.asdict(live[name]) if name in live else {"says": gone}
        rows.append(msgspec.convert({**record, **now}, NodeRow))
    return rows


async def control(bus: Bus) -> Control:
    entry = await bus.get(keys.CONTROL())
    return Control() if entry is None else keys.CONTROL.read(entry.value, entry.key)


# Steering...


async def _want(bus: Bus, request: AnyRequest) -> None:
    request = replace(request, by=request.by or me())
    do = type(request).__struct_config__.tag
    await bus.publish(f"fleet.in.wish.{do}", encode(request), {"Nats-Msg-Id": new_id()})


async def cancel(bus: Bus, name: str, *, why: str = "", by: str = "") -> None:
    """Cancel the order. It is stored on return; the runner is told at once, and again with its next beat."""
    order = await get_order(bus, name)
    if order.ended:
        raise LocalError(f"the order {name} has ended already: {order.state}")
    await _want(bus, CancelOrder(order=name, why=why, by=by))


async def hand(bus: Bus, name: str, to: str, *, why: str = "", by: str = "") -> None:
    """Let another agent go on with the order, from where it stands. The one at work is ended first. Of two at once the
    first counts, and the other is told."""
    order, spec = await get_order(bus, name), await get_spec(bus, name)
    if order.ended:
        raise LocalError(f"the order {name} has ended already: {order.state}", hint="`treadle fleet again`")
    from treadle.agents import declared

    if declared(to) is None or spec.agent == PERSON:
        raise ConfigError(f"there is no agent {to!r} that could continue it", hint="`treadle agents` lists them")
    if order.handing is None and order.agent == to:
        raise LocalError(f"{to} has the order {name} already")
    known = len(order.handed)
    await _want(bus, HandRequest(order=name, to=to, why=why, by=by))
    deadline = time.monotonic() + HANDED_SECONDS
    while time.monotonic() < deadline and not any(each.to == to for each in order.handed[known:]):
        if (now := order.handing) is not None and now.reason == "person":
            if now.to == to:
                return
            raise LocalError(f"{now.by} is handing the order {name} to {now.to} already")
        await asyncio.sleep(0.1)
        order = await get_order(bus, name)


async def set_fields(
    bus: Bus,
    name: str,
    *,
    priority: int | None = None,
    limits: Mapping[LimitName, int | float | None] | None = None,
    why: str = "",
    by: str = "",
) -> None:
    """Change the priority or limits of an order; who, why, old and new are kept with it."""
    if priority is not None and not 0 <= priority <= 9:
        raise ConfigError(f"the priority {priority} is not between 0 and 9")
    await _want(bus, SetRequest(order=name, priority=priority, limits=dict(limits or {}), why=why, by=by))


async def pause(bus: Bus, scope: str, *, why: str = "", by: str = "", now: bool = False) -> None:
    """Start nothing more in this scope; with `now`, also hold what runs at its next step."""
    await _want(bus, PauseRequest(scope=checked_scope(scope), why=why, by=by, now=now))


async def resume(bus: Bus, scope: str, *, by: str = "") -> None:
    await _want(bus, ResumeRequest(scope=checked_scope(scope), by=by))


def checked_scope(scope: str) -> str:
    kinds = ("order", "label", "agent", "credential", "node", "project")
    if scope != "fleet" and (scope.partition(":")[0] not in kinds or not scope.partition(":")[2]):
        raise ConfigError(f"{scope!r} is not a scope", hint=f"fleet, or KIND:NAME with KIND one of {', '.join(kinds)}")
    return scope


async def drain(bus: Bus, node: str, *, why: str = "", by: str = "", undo: bool = False) -> None:
    """Let a node finish what it has and take nothing more."""
    kind = UndrainRequest if undo else DrainRequest
    await _want(bus, kind(node=node, why=why, by=by))


async def set_budget(
    bus: Bus,
    scope: str,
    *,
    usd: float | None | UnsetType = UNSET,
    tokens: int | None | UnsetType = UNSET,
    share: float | UnsetType = UNSET,
    daily: bool | UnsetType = UNSET,
    by: str = "",
) -> None:
    """Set what is given; None removes a limit."""
    if scope != "fleet" and not scope.startswith(("project:", "agent:")):
        raise ConfigError(f"{scope!r} has no budget", hint="fleet, project:NAME or agent:NAME")
    await _want(bus, BudgetRequest(scope=scope, usd=usd, tokens=tokens, share=share, daily=daily, by=by))


async def set_limit(bus: Bus, scope: str, most: int | None, *, by: str = "") -> None:
    """Set how many orders may run at once across the fleet for `agent:A`, `credential:C` or `repo:PATH`."""
    await _want(bus, LimitRequest(scope=scope, most=most, by=by))


async def clean(bus: Bus, names: Sequence[str], *, by: str = "") -> None:
    """Remove what is stored of these orders, if they have ended."""
    for start in range(0, len(names), PAGE):
        await _want(bus, CleanRequest(orders=tuple(names[start : start + PAGE]), by=by))


async def keep(bus: Bus, *, seconds: float | None = None, size: int | None = None, by: str = "") -> None:
    """Set how long ended orders are kept, and how large the state may be; 0 is unlimited."""
    keep_seconds = UNSET if seconds is None else seconds
    await _want(bus, KeepRequest(keep_seconds=keep_seconds, keep_bytes=UNSET if size is None else size, by=by))


async def send_back(
    bus: Bus, name: str, comments: str, *, by: str = "", more: Mapping[str, Any] | None = None
) -> Given:
    """Have an order's work redone: a new order starts from what the old one left, with these comments.

    An agent that can resume sessions continues the one in which it did the work.
    """
    order, spec = await get_order(bus, name), await get_spec(bus, name)
    if not comments.strip():
        raise ConfigError("there is nothing to send back", hint="describe what should change")
    base = str(order.result.get("commit", "")) or spec.base
    who = spec.by_agent(order.agent)  # another may have gone on with it, and it is that one's session
    more = {"agent": who.agent, "model": who.model, "credential": who.credential, **(more or {})}
    return await retry(bus, name, by=by, comments=comments.strip(), base=base, more=more)


async def retry(
    bus: Bus, name: str, *, by: str = "", comments: str = "", base: str = "", more: Mapping[str, Any] | None = None
) -> Given:
    """Submit the same order again as a new one, with `more` fields changed. Orders that come after the old one then
    come after the new one."""
    order = await get_order(bus, name)
    if not order.ended:
        raise LocalError(f"the order {name} has not ended: it is {order.state}")
    if order.retried_as:
        return Given(id=order.retried_as, new=False)
    spec = await get_spec(bus, name)
    changed = {
        "id": new_id(f"retry of {name}"),
        "retry_of": name,
        "by": by or me(),
        "created": time.time(),
        "not_before": 0.0,
        "every": 0.0,  # the series goes on without it
        "cron": "",
        "comments": comments or spec.comments,
        "base": base or spec.base,
        "continues": name if comments else spec.continues,
        **(more or {}),
    }
    return (await submit(bus, [replace(spec, **changed)]))[0]


# Questions and messages...


async def approvals(bus: Bus) -> list[AskRecord]:
    """What waits for an answer now, the nearest deadline first."""
    names = [keys.ACTIVE.name(key) for key in await bus.keys(keys.ACTIVE())]
    orders = await bus.named([keys.ORDER(name) for name in names])
    open_asks = [keys.ASK(order.open_ask) for entry in orders.values() if (order := read_order(entry)).open_ask]
    found = await bus.named(open_asks) if open_asks else {}
    asks = [keys.ASK.read(entry.value, key) for key, entry in found.items()]
    return sorted(asks, key=lambda ask: ask.deadline)


async def answer(
    bus: Bus, name: str, decision: str, *, number: int | None = None, text: str = "", scope: str = "once", by: str = ""
) -> None:
    """Answer what an order asks. A second answer is refused, with who gave the first."""
    order = await get_order(bus, name)
    key = f"{name}.{number}" if number is not None else order.open_ask
    if not key:
        raise NotFound(f"the order {name} has no open question", hint="`treadle fleet approvals` lists them")
    if decision not in ("allow", "deny"):
        raise ConfigError(f"{decision!r} is not an answer", hint="allow or deny")
    given = {"decision": decision, "text": text, "scope": scope, "by": by or me(), "at": time.time()}
    before = await bus.get(keys.ANSWER(key))
    try:
        moved(QUESTION, _answer(before).state if before else "open", "answer")
        record = msgspec.convert(given, AnswerRecord)
        await bus.put(keys.ANSWER(key), encode(record), expect=before.revision if before else 0)
    except (Stale, IllegalMove):
        entry = await bus.get(keys.ANSWER(key))
        if entry is None:
            raise Denied(f"{key} was removed") from None
        first = _answer(entry)
        earlier = f"{first.by} {time.time() - first.at:.0f} s ago: {first.decision}"
        raise Denied(f"{key} was answered by {earlier}") from None


def _answer(entry: Entry) -> AnswerRecord:
    return read_answer(entry.value, entry.key)


async def withdraw(bus: Bus, name: str, number: int) -> None:
    """Take back an answer that the runner has not picked up yet: the question is open again."""
    key = f"{name}.{number}"
    entry = await bus.get(keys.ANSWER(key))
    if entry is None or not _answer(entry).stands:
        raise NotFound(f"{key} has no answer to withdraw")
    try:
        # The one who writes this first has the answer: the runner, or the one who takes it back.
        await bus.put(keys.TAKEN(key, entry.revision), encode(TakenRecord(withdrawn=True)), expect=0)
        gone = replace(_answer(entry), withdrawn=time.time())
        await bus.put(keys.ANSWER(key), encode(gone), expect=entry.revision)
    except Stale:
        raise LocalError(
            f"the runner already has the answer to {key}", hint="send it a message, or cancel the order"
        ) from None


async def say(bus: Bus, name: str, text: str, *, when: str = "", by: str = "") -> str:
    """Leave a message for the agent. Returns the key under which it can be changed until it is delivered.

    The agent gets it at its next step; `when="now"` ends the running turn for it, "turn" waits for the turn's end.
    """
    if when not in ("", "now", "turn"):
        raise ConfigError(f"{when!r} is not a time for a message", hint="now, turn, or nothing for the next step")
    order = await get_order(bus, name)
    if order.ended:
        raise LocalError(f"the order {name} has ended: {order.state}", hint="`treadle fleet again` continues it")
    if not when and (agent := await deaf_agent(bus, name)):
        hint = "say it after its turn, or now, which ends the turn (--after-turn, --now)"
        raise Unsupported(f"{agent} {ABILITIES['steer'].refusal}", hint=hint, details={"ability": "steer"})
    fields = {"format": 1, "text": text, "by": by or me(), "at": time.time(), "when": when}
    body = msgspec.convert(fields, SayRecord)
    for number in range(1, 1000):
        try:
            await bus.put(keys.SAY(name, number), encode(body), expect=0)
            return f"{name}.{number}"
        except Stale:
            continue
    raise LocalError(f"the order {name} has too many messages waiting")


async def deaf_agent(bus: Bus, name: str) -> str:
    """The agent of an order, if it cannot be told anything while it works; else, or when that is unknown, nothing."""
    from treadle.agents import declared

    try:
        spec = (await get_spec(bus, name)).by_agent((await get_order(bus, name)).agent)
    except StorageError:
        return ""
    levels = None if spec.terminal else declared(spec.agent)
    return spec.agent if levels is not None and not can(levels, "steer") else ""


async def edit_message(bus: Bus, key: str, text: str) -> None:
    """Change a message that was not delivered yet; an empty text takes it back."""
    entry = await bus.get(keys.SAY(key))
    if entry is None:
        raise LocalError(f"there is no message {key}")
    message = keys.SAY.read(entry.value, entry.key)
    if message.state != "queued":
        raise LocalError(f"the message {key} was delivered already")
    body = replace(message, text=text) if text else replace(message, state="taken back")
    try:
        await bus.put(keys.SAY(key), encode(body), expect=entry.revision)
    except Stale:
        raise LocalError(f"the message {key} was delivered just now") from None


async def messages(bus: Bus, name: str) -> list[tuple[str, SayRecord]]:
    found = await bus.named([keys.SAY(name)])
    return [(keys.SAY.name(key), keys.SAY.read(entry.value, key)) for key, entry in sorted(found.items())]


async def note_result(bus: Bus, name: str, what: str, result: dict[str, Any], *, by: str = "") -> None:
    """Note with an order what was done with its work: merged or thrown away."""
    await _want(bus, NoteRequest(order=name, what=what, result=result, by=by))


async def read_left(bus: Bus, entry: Entry, kind: keys.Key[T]) -> T | None:
    """What someone left for the scheduler's machine. Anyone who submits may write it, so what is damaged must not keep
    others waiting: it is removed. What is newer waits for a newer scheduler.
    """
    try:
        return kind.read(entry.value, entry.key)
    except Newer as error:
        log.warning("%s", error)
    except Damaged as error:
        log.warning("%s; it is removed", error)
        await done_with(bus, entry)
    return None


async def done_with(bus: Bus, entry: Entry) -> None:
    """Remove what was read, and not what someone has left in its place meanwhile."""
    with contextlib.suppress(Stale):
        await bus.purge(entry.key, expect=entry.revision)
