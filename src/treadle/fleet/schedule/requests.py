"""What people want of the fleet. Each request is a message to the scheduler, kept until it is done."""

from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from treadle.fleet.control import Budget, scopes, with_entry
from treadle.fleet.schedule.book import Book
from treadle.fleet.schedule.cleaning import Cleaning
from treadle.wire.fleet import messages
from treadle.wire.fleet.records import Note


async def apply(book: Book, cleaning: Cleaning, request: messages.AnyRequest) -> None:
    """What is wanted of the fleet; for what is wanted of an order, the scheduler has to find it first."""
    note = Note(at=book.wall(), by=request.by, what=request.why)
    control = book.control
    match request:
        case messages.PauseRequest():
            _pause(book, request.scope, note, request.now)
        case messages.ResumeRequest():
            _pause(book, request.scope, None, False)
        case messages.DrainRequest():
            book.change_control(drained=with_entry(control.drained, request.node, note))
        case messages.UndrainRequest():
            book.change_control(drained=with_entry(control.drained, request.node, None))
        case messages.BudgetRequest():
            old = control.budgets.get(request.scope, Budget())
            given = {name: getattr(request, name) for name in ("usd", "tokens", "share")}
            new = replace(old, **{name: value for name, value in given.items() if value is not UNSET})
            book.change_control(budgets=with_entry(control.budgets, request.scope, new))
        case messages.LimitRequest():
            book.change_control(limits=with_entry(control.limits, request.scope, request.most))
        case messages.WeightRequest():
            weight = None if request.weight == 1.0 else request.weight
            book.change_control(weights=with_entry(control.weights, request.project, weight))
        case messages.CleanRequest():
            await cleaning.remove(request.orders)
        case messages.KeepRequest():
            given = {"keep_seconds": request.keep_seconds, "keep_bytes": request.keep_bytes}
            book.change_control(**{name: value for name, value in given.items() if value is not UNSET})
            cleaning.next = 0.0
        case messages.UnparkRequest():
            book.change_control(parks=with_entry(control.parks, request.account, None))
            book.back_at.pop(request.account, None)
        case messages.CancelOrder() | messages.SetRequest() | messages.NoteRequest():
            raise AssertionError("this is about an order")
        case _:
            assert_never(request)


def _pause(book: Book, scope: str, note: Note | None, now: bool) -> None:
    book.change_control(pauses=with_entry(book.control.pauses, scope, note))
    if note is not None and not now:
        return
    for row in book.at_work():
        if row.order.node and (scope in scopes(row.spec) or scope == f"node:{row.order.node}"):
            book.tell(row, messages.Hold() if note is not None else messages.GoOn())
