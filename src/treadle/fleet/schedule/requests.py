"""What people want of the fleet. Each request is a message to the scheduler, kept until it is done."""

from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from treadle.fleet.control import Budget, scopes, with_entry
from treadle.fleet.schedule.book import Book
from treadle.fleet.schedule.cleaning import Cleaning
from treadle.wire.fleet.messages import (
    AnyRequest,
    BudgetRequest,
    CancelOrder,
    CleanRequest,
    DrainRequest,
    GoOn,
    Hold,
    KeepRequest,
    LimitRequest,
    NoteRequest,
    PauseRequest,
    ResumeRequest,
    SetRequest,
    UndrainRequest,
    UnparkRequest,
    WeightRequest,
)
from treadle.wire.fleet.records import Note


async def apply(book: Book, cleaning: Cleaning, request: AnyRequest) -> None:
    """What is wanted of the fleet; for what is wanted of an order, the scheduler has to find it first."""
    note = Note(at=book.wall(), by=request.by, what=request.why)
    control = book.control
    match request:
        case PauseRequest():
            _pause(book, request.scope, note, request.now)
        case ResumeRequest():
            _pause(book, request.scope, None, False)
        case DrainRequest():
            book.change_control(drained=with_entry(control.drained, request.node, note))
        case UndrainRequest():
            book.change_control(drained=with_entry(control.drained, request.node, None))
        case BudgetRequest():
            old = control.budgets.get(request.scope, Budget())
            given = {name: getattr(request, name) for name in ("usd", "tokens", "share")}
            new = replace(old, **{name: value for name, value in given.items() if value is not UNSET})
            book.change_control(budgets=with_entry(control.budgets, request.scope, new))
        case LimitRequest():
            book.change_control(limits=with_entry(control.limits, request.scope, request.most))
        case WeightRequest():
            weight = None if request.weight == 1.0 else request.weight
            book.change_control(weights=with_entry(control.weights, request.project, weight))
        case CleanRequest():
            await cleaning.remove(request.orders)
        case KeepRequest():
            given = {"keep_seconds": request.keep_seconds, "keep_bytes": request.keep_bytes}
            book.change_control(**{name: value for name, value in given.items() if value is not UNSET})
            cleaning.next = 0.0
        case UnparkRequest():
            book.change_control(parks=with_entry(control.parks, request.account, None))
            book.back_at.pop(request.account, None)
        case CancelOrder() | SetRequest() | NoteRequest():
            raise AssertionError("this is about an order")
        case _:
            assert_never(request)


def _pause(book: Book, scope: str, note: Note | None, now: bool) -> None:
    book.change_control(pauses=with_entry(book.control.pauses, scope, note))
    if note is not None and not now:
        return
    for row in book.at_work():
        if row.order.node and (scope in scopes(row.spec, row.order) or scope == f"node:{row.order.node}"):
            book.tell(row, Hold() if note is not None else GoOn())
