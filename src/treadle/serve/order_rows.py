"""Orders as lists show them: the row of an order, the filter that selects them."""

import msgspec

from treadle.wire.fleet.records import Order, OrderHead


class OrderRow(OrderHead, frozen=True, kw_only=True, omit_defaults=True):
    """An order as lists show it."""

    revision: int
    tokens: int = 0
    usd: float | None = None
    files: int = 0
    stat: str = ""
    verified: bool | None = None
    denied: int = 0
    """Tool calls that were refused."""
    merged: bool = False
    discarded: bool = False
    reviewed: bool = False
    started: float = 0.0
    """When it was first placed."""
    lost: int = 0
    """Attempts whose node was gone and that were taken over."""
    runs: int = 0
    """Attempts that have ended."""
    ran: float = 0.0
    """Seconds that those took together."""
    needs: str = ""
    """Why a person should look: asks, failed, review; empty when no one needs to."""


class OrderFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which orders are wanted; an empty field does not filter."""

    states: tuple[str, ...] = ()
    agent: str = ""
    project: str = ""
    place: str = ""
    node: str = ""
    label: str = ""
    needs: str = ""
    text: str = ""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the matching orders, latest change first."""

    orders: list[OrderRow]
    total: int
    left_out: int
    """How many more there are after these."""
    next: int | None = None
    """Pass this as `before` to continue; None when these are the last."""
    facets: dict[str, dict[str, int]] = {}


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the event stream: where it is, and which events of which attempt it holds."""

    seq: int
    attempt: int
    first: int
    count: int


def row_of(order: Order, revision: int) -> OrderRow:
    result = order.result
    reviewed = bool(result.get("reviewed") or result.get("merged") or result.get("discarded") or order.retried_as)
    needs = ""
    if order.open_ask:
        needs = "asks"
    elif order.state == "failed" and not reviewed:
        needs = "failed"
    elif order.state == "done" and result.get("patch") and not reviewed:
        needs = "review"
    return OrderRow(
        **{name: getattr(order, name) for name in OrderHead.__struct_fields__},
        revision=revision,
        tokens=order.used.tokens,
        usd=order.used.usd,
        files=int(result.get("files") or 0),
        stat=str(result.get("stat") or ""),
        verified=result.get("verified"),
        denied=int(result.get("denied") or 0),
        merged=bool(result.get("merged")),
        discarded=bool(result.get("discarded")),
        reviewed=reviewed,
        started=order.attempts[0].placed if order.attempts else 0.0,
        lost=sum(attempt.outcome == "lost" for attempt in order.attempts),
        runs=sum(bool(attempt.ended) for attempt in order.attempts),
        ran=sum(attempt.ended - attempt.placed for attempt in order.attempts if attempt.ended),
        needs=needs,
    )
