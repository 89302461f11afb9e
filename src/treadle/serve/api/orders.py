"""Orders: submit, list, look at, change; their events, receipts, questions and messages; what can be chosen for a new
one.
"""

import asyncio
import os
import time
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace
from starlette.responses import Response

from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.fleet import client, results, sample
from treadle.fleet.client import Given
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import EVENTS, Bus
from treadle.fleet.orders import begun
from treadle.fleet.results import Comment
from treadle.fleet.schedule import liveness
from treadle.fleet.submission import completed, described, made
from treadle.goals import commands, foreman, views
from treadle.goals.check import check
from treadle.goals.views import GoalLine, GoalView
from treadle.goals.waves import PlanWave
from treadle.landing import views as train_views
from treadle.landing.views import TrainView
from treadle.receipts.evidence import screen
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.colours import ShownChanges, shown
from treadle.serve.envelope import answer
from treadle.serve.order_index import OrderIndex
from treadle.serve.order_rows import Listed, OrderFilter
from treadle.serve.site import Site
from treadle.wire.fleet.messages import LimitName, Why
from treadle.wire.fleet.orders import OrderRequest, Spec
from treadle.wire.fleet.records import AnswerRecord, AskRecord, Order, OrderReceipt, SayRecord
from treadle.wire.goal.plan import Mistake
from treadle.wire.sidecar.repair import read_receipt
from treadle.workspace import checkouts

# An order's events in pages, read from the end. Long texts are cut, and pieces of a text are joined.

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


Count = Annotated[int, Meta(ge=1, le=1000)]
Text = Annotated[str, Meta(min_length=1, max_length=100_000)]
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


@call("GET", "/orders/{id}/evidence", returns=list[str])
async def show_evidence(asking: Asking) -> list[str]:
    """What is known about whether the work of an order is good, as lines of one screen."""
    return list(screen(read_receipt(await results.run_receipt(asking.bus, await asking.order()), [])))


@call("GET", "/orders/{id}/race", returns=list[dict[str, Any]])
async def show_race(asking: Asking) -> list[dict[str, Any]]:
    """The orders of this order's race, the best first."""
    return await results.standings(asking.bus, await asking.order())


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


# Changing an order.


class Reason(RequestBody, frozen=True, kw_only=True):
    why: Annotated[str, Meta(max_length=2000)] = ""


@call("POST", "/orders/{id}/cancel", right="all", body=Reason, optional_body=True)
async def cancel_order(asking: Asking) -> None:
    """End an order: one that waits leaves the queue, one that runs is stopped with everything it has started."""
    await client.cancel(asking.bus, await asking.order(), why=asking.body.why, by=asking.by)


class NextAgent(Reason, frozen=True, kw_only=True):
    to: Annotated[str, Meta(min_length=1, max_length=1000)]


@call("POST", "/orders/{id}/hand", right="all", body=NextAgent)
async def hand_order(asking: Asking) -> None:
    """Hand an order over to another agent, which continues the work. The current agent is stopped first."""
    await client.hand(asking.bus, await asking.order(), asking.body.to, why=asking.body.why, by=asking.by)


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


# What agents ask, and what people say to them.


@call("GET", "/approvals", returns=list[AskRecord])
async def list_approvals(asking: Asking) -> list[AskRecord]:
    """What waits for an answer now, the nearest deadline first."""
    return await client.approvals(asking.bus)


class NewAnswer(RequestBody, frozen=True, kw_only=True):
    decision: Literal["allow", "deny"]
    number: Annotated[int, Meta(ge=1, le=1 << 31)] | None = None
    """The question of the order that was read; a newer one is then not answered by mistake."""
    text: Annotated[str, Meta(max_length=20_000)] = ""
    scope: Literal["once", "session", "always"] = "once"


@call("POST", "/orders/{id}/answer", right="answer", body=NewAnswer)
async def answer_order(asking: Asking) -> None:
    """Answer what an order asks. A second answer is refused (409), with who gave the first."""
    given: NewAnswer = asking.body
    await client.answer(
        asking.bus,
        await asking.order(),
        given.decision,
        number=given.number,
        text=given.text,
        scope=given.scope,
        by=asking.by,
    )


class AnswerNumber(RequestBody, frozen=True, kw_only=True):
    number: Annotated[int, Meta(ge=1, le=1 << 31)]


@call("POST", "/orders/{id}/withdraw", right="answer", body=AnswerNumber)
async def withdraw_answer(asking: Asking) -> None:
    """Take back an answer that the runner has not picked up yet."""
    await client.withdraw(asking.bus, await asking.order(), asking.body.number)


class NewMessage(RequestBody, frozen=True, kw_only=True):
    text: Text
    when: Literal["", "now", "turn"] = ""
    """`now` ends the running turn for the message, `turn` waits for its end; empty waits for the agent's next step."""


class MessageKey(msgspec.Struct, frozen=True):
    key: str


@call("POST", "/orders/{id}/messages", right="answer", body=NewMessage, returns=MessageKey, status=201)
async def say_to_order(asking: Asking) -> MessageKey:
    """Leave a message for the agent, given to it at its next step."""
    given: NewMessage = asking.body
    return MessageKey(await client.say(asking.bus, await asking.order(), given.text, when=given.when, by=asking.by))


@call("GET", "/orders/{id}/messages", returns=list[MessageShown])
async def list_messages(asking: Asking) -> list[MessageShown]:
    """The messages to an order: queued, delivered, in turn, or taken back."""
    return await messages_shown(asking.bus, await asking.order())


class EditedMessage(RequestBody, frozen=True, kw_only=True):
    text: Annotated[str, Meta(max_length=100_000)] = ""
    """An empty text takes the message back."""


@call("PUT", "/orders/{id}/messages/{number}", right="answer", body=EditedMessage)
async def edit_message(asking: Asking) -> None:
    """Change or take back a message that was not delivered yet."""
    await client.edit_message(asking.bus, f"{await asking.order()}.{asking.path('number')}", asking.body.text)


# What can be chosen for a new order: agents and models of the nodes, repositories, branches, what a project says.

SHOWN = 100
"""How many repositories, projects and branches are named."""


class AgentChoice(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    models: tuple[str, ...] = ()
    """Those that its nodes know without asking any service; it may take others."""
    nodes: tuple[str, ...] = ()


class OrderChoices(msgspec.Struct, frozen=True, kw_only=True):
    agents: list[AgentChoice]
    places: list[str]
    """Directories and repositories of earlier orders."""
    projects: list[str]
    labels: list[str]
    """Labels of the nodes that are up."""


@call("GET", "/choices", returns=OrderChoices)
async def list_choices(asking: Asking) -> OrderChoices:
    """What can be chosen for a new order: agents and models of the nodes that are up, and what orders had before."""
    rows = [row for row in await client.nodes(asking.bus) if row.alive]
    index = asking.site.fleet.require_index()
    offered: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in rows:
        for agent in row.agents if row.agents is not None else row.offers:
            offered.setdefault(agent, {})[row.name] = row.offers.get(agent, ())
    return OrderChoices(
        agents=[
            AgentChoice(name=name, models=tuple(dict.fromkeys(sum(on.values(), ()))), nodes=tuple(on))
            for name, on in offered.items()
        ],
        places=await asyncio.to_thread(index.values, "place", SHOWN),
        projects=await asyncio.to_thread(index.values, "project", SHOWN),
        labels=sorted({label for row in rows for label in row.labels}),
    )


class RepositoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    root: Annotated[str, Meta(min_length=1, max_length=4096)]


class RepositoryChoices(msgspec.Struct, frozen=True, kw_only=True):
    top: str = ""
    """The checkout; empty where the machine of this page has none at that path: another node may."""
    head: str = ""
    """The branch that is checked out."""
    branches: tuple[str, ...] = ()
    project: dict[str, Any] = {}
    """What an order about it gets where it says nothing, from the repository's own file."""
    templates: dict[str, dict[str, Any]] = {}
    ignored: tuple[str, ...] = ()
    """What that file asks for and is not given, and why."""


@call("GET", "/repository", right="all", query=RepositoryQuery, returns=RepositoryChoices)
async def show_repository(asking: Asking) -> RepositoryChoices:
    """The branches of a repository on this machine, and what its own file says of orders about it."""
    return await asyncio.to_thread(repository_at, asking.query.root)


def repository_at(path: str) -> RepositoryChoices:
    root = os.path.abspath(os.path.expanduser(path))
    try:
        user = checkouts.repository(root) if os.path.isdir(root) else None
    except TreadleError:
        user = None
    if user is None:
        return RepositoryChoices()
    names = [ref.removeprefix("refs/heads/") for ref in user.refs() if ref.startswith("refs/heads/")]
    head = user.head().removeprefix("refs/heads/")
    names.sort(key=lambda name: (name != head, name))
    ignored: list[str] = []
    project, templates = ({}, {}) if user.is_bare else described(user.top, ignored.append)
    return RepositoryChoices(
        top=user.top,
        head=head if head in names else "",
        branches=tuple(names[:SHOWN]),
        project=project,
        templates=templates,
        ignored=tuple(ignored),
    )


# What an order has left: read as a diff, sent back with comments, or thrown away.


@call("GET", "/orders/{id}/diff", returns=bytes)
async def show_diff(asking: Asking) -> Response:
    """What an order changed, as a patch in plain text."""
    data = await results.diff(asking.bus, await asking.order())
    return Response(data, media_type="text/plain; charset=utf-8")


@call("GET", "/orders/{id}/changes", returns=ShownChanges)
async def show_changes(asking: Asking) -> ShownChanges:
    """What an order changed, file by file and line by line, with the words of each language marked."""
    data = await results.diff(asking.bus, await asking.order())
    return await asyncio.to_thread(shown, data.decode("utf-8", "replace"))


class SentBack(RequestBody, frozen=True, kw_only=True):
    comments: Annotated[tuple[Comment, ...], Meta(max_length=500)] = ()
    """On lines of the new files, or, without a path, on the whole work."""


@call("POST", "/orders/{id}/send-back", right="all", body=SentBack, returns=Given, status=201)
async def send_back(asking: Asking) -> Given:
    """Have finished work redone by the same agent, starting from what it left, with all comments at once."""
    return await results.send(asking.bus, await asking.order(), asking.body.comments, by=asking.by)


@call("POST", "/orders/{id}/reviewed", right="answer")
async def mark_reviewed(asking: Asking) -> None:
    """Note that a person has seen the result of the order; then it needs no one."""
    name = await asking.order()
    await client.note_result(asking.bus, name, "seen", {"reviewed": asking.by}, by=asking.by)


@call("POST", "/orders/{id}/discard", right="all")
async def discard_order(asking: Asking) -> None:
    """Throw the work of an order away: its branch goes, receipt and patch stay."""
    await results.discard(asking.bus, await asking.order(), by=asking.by)


# The goals: which there are, one of them with its waves, and what people do about it; and the trains.


@call("GET", "/goals", returns=list[GoalLine])
async def list_goals(asking: Asking) -> list[GoalLine]:
    """The latest goals: where each stands, how many of its orders are there, what it asks and what it has used."""
    return await views.lines(asking.bus)


@call("GET", "/goals/{id}", returns=GoalView)
async def show_goal(asking: Asking) -> GoalView:
    """One goal with its waves: where each order stands, what it waits for, what the judge said, tokens by role."""
    return await views.view(asking.bus, asking.path("id"))


class GoalText(msgspec.Struct, frozen=True, kw_only=True):
    text: str


@call("GET", "/goals/{id}/report", returns=GoalText)
async def report_goal(asking: Asking) -> GoalText:
    """What became of a goal so far, in Markdown: what landed, by whom, tokens by role, what was dropped and why."""
    return GoalText(text=(await commands.report(asking.bus, asking.path("id"))).text)


@call("GET", "/goals/{id}/plan", returns=GoalText)
async def plan_of_goal(asking: Asking) -> GoalText:
    """A goal's plan as it is now, as `goal.toml`."""
    return GoalText(text=await views.plan_text(asking.bus, asking.path("id")))


# A plan that is written elsewhere begins here, in a repository of this machine...

PlanText = Annotated[str, Meta(min_length=1, max_length=300_000)]


class GivenPlan(RequestBody, frozen=True, kw_only=True):
    root: Annotated[str, Meta(min_length=1, max_length=4096)]
    """The repository, on the machine of this page."""
    text: PlanText
    """The whole plan, as `goal.toml`."""
    no_budget: bool = False


class PlanResult(msgspec.Struct, frozen=True, kw_only=True):
    mistakes: tuple[Mistake, ...]
    notes: tuple[Mistake, ...]
    """What is allowed and may still be an oversight."""
    waves: tuple[PlanWave, ...]


@call("POST", "/goals/check", right="all", body=GivenPlan, returns=PlanResult)
async def check_plan(asking: Asking) -> PlanResult:
    """Every mistake of a plan with its line, and its waves. Nothing is stored and nothing runs."""
    given: GivenPlan = asking.body
    user = await asyncio.to_thread(checkouts.around, given.root)
    found = await asyncio.to_thread(check, given.text, user.top, budget_required=not given.no_budget)
    return PlanResult(mistakes=found.mistakes, notes=found.notes, waves=found.waves)


class BegunGoal(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    """What it is called as soon as it begins, within seconds."""
    new: bool
    """False when this plan is under way already: it is not begun twice."""


@call("POST", "/goals", right="all", body=GivenPlan, returns=BegunGoal, status=202)
async def begin_goal(asking: Asking) -> BegunGoal:
    """Begin a plan. Where its gates say so, a person is asked before anything is placed."""
    given: GivenPlan = asking.body
    id, new = await foreman.leave_plan(
        asking.bus, given.text, given.root, by=asking.by, budget_required=not given.no_budget
    )
    return BegunGoal(id=id, new=new)


# What changes a goal is stored at once and done within seconds by the machine that has its repository...

WhyGiven = Annotated[str, Meta(max_length=1000)]


class PauseGoal(RequestBody, frozen=True, kw_only=True):
    why: WhyGiven = ""
    now: bool = False
    """Also pause running orders at their next step."""


@call("POST", "/goals/{id}/pause", right="all", body=PauseGoal, optional_body=True, status=202)
async def pause_goal(asking: Asking) -> None:
    """Place nothing more of a goal until it is resumed."""
    given: PauseGoal = asking.body
    await foreman.leave(asking.bus, asking.path("id"), "pause", by=asking.by, text=given.why, now=given.now)


@call("POST", "/goals/{id}/resume", right="all", status=202)
async def resume_goal(asking: Asking) -> None:
    """Let a goal go on that was paused. What no one answered in time is asked again."""
    await foreman.leave(asking.bus, asking.path("id"), "resume", by=asking.by)


class StopGoal(RequestBody, frozen=True, kw_only=True):
    why: WhyGiven = ""


@call("POST", "/goals/{id}/stop", right="all", body=StopGoal, optional_body=True, status=202)
async def stop_goal(asking: Asking) -> None:
    """End a goal: what is at work is cancelled, what has landed stays."""
    await foreman.leave(asking.bus, asking.path("id"), "stop", by=asking.by, text=asking.body.why)


class SayGoal(RequestBody, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=20_000)]


@call("POST", "/goals/{id}/say", right="all", body=SayGoal, status=202)
async def say_goal(asking: Asking) -> None:
    """Tell all agents of a goal: those at work now, and those that begin later."""
    await foreman.leave(asking.bus, asking.path("id"), "say", by=asking.by, text=asking.body.text)


class ChangeGoal(RequestBody, frozen=True, kw_only=True):
    text: PlanText
    """The whole plan, as `goal.toml`."""


@call("POST", "/goals/{id}/change", right="all", body=ChangeGoal, status=202)
async def change_goal(asking: Asking) -> None:
    """Replace the plan of a goal that runs. Orders that were placed must be in it as they were."""
    await foreman.leave(asking.bus, asking.path("id"), "change", by=asking.by, text=asking.body.text)


class RetryStep(RequestBody, frozen=True, kw_only=True):
    step: Annotated[str, Meta(min_length=1, max_length=100)]
    """The order of the plan that was dropped."""


@call("POST", "/goals/{id}/retry", right="all", body=RetryStep, status=202)
async def retry_step(asking: Asking) -> None:
    """Try an order of the plan again that was dropped, from the branch as it is now."""
    await foreman.leave(asking.bus, asking.path("id"), "retry", by=asking.by, step=asking.body.step)


# The trains: what waits to land, what is being checked, what landed; landed by a button, paused and resumed.


@call("GET", "/trains", returns=list[TrainView])
async def list_trains(asking: Asking) -> list[TrainView]:
    """Every train: what is built on what, verdicts, what was left out and why, what landed and what it cost."""
    return await train_views.views(asking.bus)


class LandOrder(RequestBody, frozen=True, kw_only=True):
    branch: Annotated[str, Meta(max_length=400)] = ""
    """Empty: the branch that the order names, or the one that is checked out in its repository."""
    verify: Annotated[str, Meta(max_length=10_000)] = ""
    """Its check beside the branch's. Empty: the order's own."""
    anyway: bool = False
    """Also work that changes the files that its check is made of, or files that other programs obey."""


@call("POST", "/orders/{id}/land", right="all", body=LandOrder, optional_body=True, status=202)
async def land_order(asking: Asking) -> None:
    """Let the work of a finished order land; the train of its branch says what becomes of it."""
    given: LandOrder = asking.body
    order = await asking.order()
    await train_views.ask_to_land(asking.bus, order, **msgspec.structs.asdict(given), by=asking.by)


class PauseTrain(RequestBody, frozen=True, kw_only=True):
    why: Annotated[str, Meta(max_length=1000)] = ""


@call("POST", "/trains/{id}/pause", right="all", body=PauseTrain, optional_body=True)
async def pause_train(asking: Asking) -> None:
    """Stop a train: nothing more is built, checked or landed until it is resumed."""
    await train_views.request_pause(asking.bus, asking.path("id"), asking.body.why or "paused", asking.by)


@call("POST", "/trains/{id}/resume", right="all")
async def resume_train(asking: Asking) -> None:
    """Let a train go on that was paused, or that stopped by itself."""
    await train_views.request_pause(asking.bus, asking.path("id"), "", asking.by)
