"""Wishes: what people want of orders and of the fleet. Each is a message to the scheduler, kept until it is done.

{"do": "cancel", "order": ID, "by": WHO, "why": TEXT}
{"do": "pause", "scope": "agent:claude", "by": WHO, "why": TEXT, "now": false}
"""

import time
from typing import Any

from msgspec.structs import replace

from treadle.fleet.control import Budget, scopes, with_entry
from treadle.fleet.orders import encode
from treadle.fleet.schedule.book import Book, Say
from treadle.fleet.schedule.cleaning import Cleaning
from treadle.wire.fleet.records import Note

OF_ORDERS = ("cancel", "set", "result")


async def apply(book: Book, cleaning: Cleaning, said: dict[str, Any]) -> None:
    """What is wished of the fleet; of an order (`OF_ORDERS`), the scheduler has to find it first."""
    do = str(said["do"])
    note = Note(at=time.time(), by=str(said.get("by", "somebody")), what=str(said.get("why", "")))
    if do in ("pause", "resume"):
        _pause(book, str(said["scope"]), note if do == "pause" else None, bool(said.get("now")))
    elif do in ("drain", "undrain"):
        node = str(said["node"])
        book.change_control(drained=with_entry(book.control.drained, node, note if do == "drain" else None))
    elif do == "budget":
        scope = str(said["scope"])
        old = book.control.budgets.get(scope, Budget())
        new = replace(old, **{name: said[name] for name in ("usd", "tokens") if name in said})
        book.change_control(budgets=with_entry(book.control.budgets, scope, new))
    elif do == "limit":
        book.change_control(limits=with_entry(book.control.limits, str(said["scope"]), said.get("most")))
    elif do == "clean":
        await cleaning.remove([str(name) for name in said["orders"]])
    elif do == "keep":
        book.change_control(**{name: said[name] for name in ("keep_seconds", "keep_bytes") if name in said})
        cleaning.next = 0.0
    elif do == "unpark":
        book.change_control(parks=with_entry(book.control.parks, str(said["account"]), None))
        book.back_at.pop(str(said["account"]), None)


def _pause(book: Book, scope: str, note: Note | None, now: bool) -> None:
    book.change_control(pauses=with_entry(book.control.pauses, scope, note))
    if note is not None and not now:
        return
    for row in book.at_work():
        if row.order.node and (scope in scopes(row.spec, row.order) or scope == f"node:{row.order.node}"):
            do = "hold" if note is not None else "go_on"
            book.says.append(Say(f"fleet.tell.{row.order.node}.{row.spec.id}", encode({"do": do})))
