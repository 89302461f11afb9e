"""Which order goes to which node, and why an order waits. The same function decides and explains."""

import time

from treadle.fleet import control
from treadle.fleet.control import budget_scopes, scopes, with_entry
from treadle.fleet.engine.bus import Write
from treadle.fleet.orders import encode
from treadle.fleet.schedule.book import BACK_SECONDS, Book, NodeView, OpenOrder
from treadle.wire.fleet import keys
from treadle.wire.fleet.messages import Wait, Why
from treadle.wire.fleet.records import Attempt, Budget, Park, WorkRecord

LOOKED_AT = 2000
"""How many orders one round looks at: the rest of a longer queue have their turn once these have moved on."""


def why_waiting(book: Book, row: OpenOrder) -> Wait | None:
    """What keeps a queued order from being placed, other than a free slot; None when nothing does."""
    return (
        _paused(book, row)
        or _time(book, row)
        or _dependency(book, row)
        or _rate(book, row)
        or _budget(book, row)
        or _claim(book, row)
        or _limit(book, row)
    )


def _paused(book: Book, row: OpenOrder) -> Wait | None:
    if not book.control.pauses:
        return None
    for scope in scopes(row.spec):
        if note := book.control.pauses.get(scope):
            return Wait(kind="paused", text=f"{scope} is paused by {note.by}: {note.what}", holder=note.by)
    return None


def _time(book: Book, row: OpenOrder) -> Wait | None:
    if row.order.not_before > book.wall():
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.order.not_before))
        return Wait(kind="time", text=f"not before {when}", until=row.order.not_before)
    return None


def _dependency(book: Book, row: OpenOrder) -> Wait | None:
    for parent in row.order.after:
        fate = book.fate.get(parent)
        if fate is None:
            known = book.rows.get(parent)
            text = f"after {parent}, which is {known.order.state}" if known else f"after {parent}, which no one knows"
            return Wait(kind="dependency", text=text, holder=parent)
        if fate != "done" and row.spec.if_failed == "block":
            return Wait(kind="dependency", text=f"after {parent}, which ended as {fate}: retry that", holder=parent)
        if parent in book.unlanded and row.spec.land:
            return Wait(kind="dependency", text=f"after {parent}, which is done and has not landed yet", holder=parent)
    return None


def _rate(book: Book, row: OpenOrder) -> Wait | None:
    account = row.spec.account
    park = book.control.parks.get(account)
    wall = book.wall()
    if park is not None and park.until > wall:
        when = time.strftime("%H:%M:%S", time.localtime(park.until))
        return Wait(kind="rate", text=f"{account} is at its rate limit until {when}: {park.why}", until=park.until)
    if book.back_at.get(account, 0.0) > wall:
        return Wait(kind="rate", text=f"{account} was at its rate limit: orders come back one by one")
    return None


def over_budget(book: Book, row: OpenOrder) -> str:
    """The spent budget that holds this running order until someone raises it."""
    for scope in budget_scopes(row.spec):
        budget = book.control.budgets.get(scope)
        if budget is None:
            continue
        if spent := control.overspent(budget):
            return f"the budget of {scope} is spent: {spent}"
        limits, counted = row.order.limits, row.order.counted
        unbounded = budget.tokens is None and limits.tokens is None and limits.usd is None
        if budget.usd is not None and unbounded and counted.usd is None and counted.tokens:
            do = f"`treadle fleet set {row.spec.id} --max-tokens N`"
            return f"the budget of {scope} is in money, and no one knows the price of what this order uses: {do}"
    return ""


def _budget(book: Book, row: OpenOrder) -> Wait | None:
    for scope in budget_scopes(row.spec):
        budget = book.control.budgets.get(scope)
        if budget is None or budget.usd is None and budget.tokens is None:
            continue
        if text := control.unfit(budget, row.spec, row.order, *reserved(book, scope)):
            return Wait(kind="budget", text=f"the budget of {scope}: {text}")
    return None


def _claim(book: Book, row: OpenOrder) -> Wait | None:
    if not row.surfaces:
        return None
    for other in book.at_work():
        if other is row or other.spec.place != row.spec.place or row.shares_claims_with(other):
            continue
        for mine in row.surfaces:
            for theirs in other.surfaces:
                if mine.overlaps(theirs):
                    where = f"on {other.order.node}" if other.order.node else "which waits for an answer"
                    text = f"{mine.text} overlaps {theirs.text}, held by {other.spec.id} {where}"
                    return Wait(kind="claim", text=text, holder=other.spec.id)
    return None


def _limit(book: Book, row: OpenOrder) -> Wait | None:
    for scope in _counted(row):
        most = book.control.limits.get(scope)
        if most is not None and sum(_working(book, scope, view) for view in book.nodes.values()) >= most:
            return Wait(kind="limit", text=f"{most} at once for {scope}")
    return None


def _counted(row: OpenOrder) -> list[str]:
    return [f"agent:{row.spec.agent}", f"credential:{row.spec.account}", f"repo:{row.spec.place}"]


def _working(book: Book, scope: str, view: NodeView) -> int:
    return sum(1 for name in view.at_work if name in book.rows and scope in _counted(book.rows[name]))


def refuses(book: Book, view: NodeView, row: OpenOrder, now: float) -> Wait | None:
    """Why this node does not take this order now."""
    if now - view.heard > book.lease:
        return Wait(kind="node", text=f"{view.name} was not heard for {now - view.heard:.0f} s")
    if note := book.control.drained.get(view.name):
        return Wait(kind="node", text=f"{view.name} is drained by {note.by}")
    if note := book.control.pauses.get(f"node:{view.name}"):
        return Wait(kind="paused", text=f"{view.name} is paused by {note.by}")
    if view.leaving:
        return Wait(kind="node", text=f"{view.name} takes nothing more: {view.leaving}")
    missing = [label for label in row.spec.labels if label not in view.labels]
    if missing:
        return Wait(kind="label", text=f"{view.name} has no label {', '.join(missing)}")
    if not view.serves(row.spec):
        return Wait(kind="agent", text=f"{view.name} has no agent {row.spec.agent}")
    if lacks := row.order.turned_down.get(view.name):
        return Wait(kind="node", text=f"{view.name} turned it down: {lacks}")
    for scope in _counted(row):
        kind = scope.partition(":")[0]
        most = view.limits.get(scope, view.limits.get(kind))
        if most is not None and _working(book, scope, view) >= most:
            return Wait(kind="limit", text=f"{view.name} takes {most} at once for {scope}")
    if view.free <= 0:
        return Wait(kind="slot", text=f"all {view.slots} slots of {view.name} are taken")
    return None


def place_all(book: Book, now: float) -> int:
    """Place everything that can be placed now, most urgent first, then by turns (`book.FairLine`). Returns how many."""
    alive = [view for view in book.nodes.values() if now - view.heard <= book.lease and view.free > 0]
    if not alive:
        return 0
    placed = looked = 0
    for row in book.queued(LOOKED_AT):
        looked += 1
        if looked > LOOKED_AT or not any(view.free > 0 for view in alive):
            break
        willing = [view for view in alive if view.free > 0 and refuses(book, view, row, now) is None]
        if willing and why_waiting(book, row) is None:
            _place(book, row, max(willing, key=lambda view: view.free), now)
            placed += 1
    return placed


def _place(book: Book, row: OpenOrder, view: NodeView, now: float) -> None:
    book._dequeue(row)
    book.queue[row.order.priority].placed(row.spec)
    view.at_work.add(row.spec.id)
    row.heard = now
    number = row.order.attempt + 1
    attempt = Attempt(number=number, node=view.name, agent=row.spec.agent, placed=book.wall())
    if row.spec.account in book.back_at:
        book.back_at[row.spec.account] = book.wall() + BACK_SECONDS
        if book.back_at[row.spec.account] > book.control.parks[row.spec.account].until + 5 * BACK_SECONDS:
            del book.back_at[row.spec.account]
    budget, limits = book.shared_budget(row), row.order.limits
    if budget is not None:
        limits = control.shared(budget, row.spec, row.order, *reserved(book, f"project:{row.spec.project}"))
    commands = bool(row.spec.setup or row.spec.verify)
    work = encode(WorkRecord(order=row.spec.id, attempt=number, agent=row.spec.agent, commands=commands))
    book.move(
        row,
        "place",
        Write(keys.WORK(view.name, row.spec.id), work),
        node=view.name,
        attempt=number,
        attempts=(*row.order.attempts, attempt),
        limits=limits,
    )


def explain_wait(book: Book, row: OpenOrder, now: float) -> Why:
    """Why a queued order waits, with its place in the queue and what each node says."""
    waits = why_waiting(book, row)
    says = [refused for view in book.nodes.values() if (refused := refuses(book, view, row, now))]
    if waits is None and len(says) == len(book.nodes):
        if not says:
            waits = Wait(kind="node", text="there is no node: `treadle fleet node` starts one")
        else:
            waits = min(says, key=lambda one: one.kind != "slot")
    place = next((number for number, other in enumerate(book.queued(), 1) if other is row), 0)
    return Why(
        state=row.order.state,
        waits=waits or Wait(kind="order", text="it is being placed"),
        place=place,
        nodes=[one.text for one in says],
    )


def reserved(book: Book, scope: str) -> tuple[float, int]:
    """The money and tokens that orders at work may still use, by their limits or their share of the budget."""
    usd, tokens = 0.0, 0
    budget = book.control.budgets.get(scope, Budget())
    for row in book.at_work():
        if scope in budget_scopes(row.spec):
            more_usd, more_tokens = control.needs(budget, row.order.limits, row.order.used.plus(row.order.counted))
            usd, tokens = usd + more_usd, tokens + more_tokens
    return usd, tokens


def rate_limited(book: Book, account: str, until: float, why: str) -> None:
    """A provider said to wait, so every order on that account waits."""
    old = book.control.parks.get(account)
    if old is not None and old.until >= until:
        return
    park = Park(until=until, why=why, since=book.wall())
    book.change_control(parks=with_entry(book.control.parks, account, park))
    book.back_at[account] = until
