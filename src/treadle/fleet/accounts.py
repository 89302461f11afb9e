"""Money, tokens and the accounts at providers: what was spent, what is reserved, and who has to wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from treadle.fleet.control import Budget, Park, budget_scopes, with_entry
from treadle.fleet.orders import OrderLimits, Used

if TYPE_CHECKING:
    from treadle.fleet.book import Book, OpenOrder


def spend(book: Book, row: OpenOrder, used: Used) -> None:
    """Count in what an attempt has used so far, beyond what was counted before."""
    before = row.order.counted
    new_tokens = max(0, used.tokens - before.tokens)
    new_usd = max(0.0, (used.usd or 0.0) - (before.usd or 0.0))
    if not new_tokens and not new_usd:
        return
    # Stored with the budgets in one stroke: the next scheduler counts nothing twice.
    book.change(row, counted=used)
    budgets = dict(book.control.budgets)
    for scope in budget_scopes(row.spec):
        old = budgets.get(scope, Budget())
        budgets[scope] = replace(
            old,
            spent_usd=old.spent_usd + new_usd,
            spent_tokens=old.spent_tokens + new_tokens,
            unpriced_tokens=old.unpriced_tokens + (new_tokens if used.usd is None else 0),
        )
    book.change_control(budgets=budgets)


def reserved(book: Book, scope: str) -> tuple[float, int]:
    """Money and tokens that orders at work may still use, by their limits."""
    usd, tokens = 0.0, 0
    for row in book.at_work():
        if scope in budget_scopes(row.spec):
            used, now = row.order.used, row.order.counted
            spent_usd, spent_tokens = (used.usd or 0.0) + (now.usd or 0.0), used.tokens + now.tokens
            usd += max(0.0, (row.order.limits.usd or 0.0) - spent_usd)
            tokens += max(0, (row.order.limits.tokens or 0) - spent_tokens)
    return usd, tokens


def beyond(limits: OrderLimits, used: Used, next_call: Used) -> str:
    """Why an order may not go on: what it has used, with what its next call may take, is at or beyond its limits."""
    tokens, usd = used.tokens, used.usd or 0.0
    if limits.tokens is not None and tokens >= limits.tokens:
        return f"it has used {tokens} of {limits.tokens} tokens"
    if limits.usd is not None and usd >= limits.usd:
        return f"it has used {usd:.4f} of {limits.usd:g} USD"
    if limits.usd is not None and limits.tokens is None and used.usd is None and tokens:
        return f"it has a limit in money, and nobody knows the price of its {tokens} tokens: it needs --max-tokens"
    if limits.tokens is not None and tokens + next_call.tokens > limits.tokens:
        return f"it has used {tokens} of {limits.tokens} tokens, and its last call took {next_call.tokens}"
    if limits.usd is not None and usd + (next_call.usd or 0.0) > limits.usd:
        return f"it has used {usd:.4f} of {limits.usd:g} USD, and its last call took {next_call.usd:.4f}"
    return ""


def raised(limits: OrderLimits, given: OrderLimits) -> OrderLimits:
    """The limits with as much again as the order was given at first."""
    return replace(
        limits,
        usd=None if limits.usd is None else limits.usd + (given.usd or limits.usd),
        tokens=None if limits.tokens is None else limits.tokens + (given.tokens or limits.tokens),
    )


def amount(limits: OrderLimits) -> str:
    told = [f"{limits.tokens} tokens"] if limits.tokens is not None else []
    return ", ".join([*told, *([f"{limits.usd:g} USD"] if limits.usd is not None else [])]) or "none"


def rate_limited(book: Book, account: str, until: float, why: str) -> None:
    """A provider has said to wait: everybody on that account does."""
    old = book.control.parks.get(account)
    if old is not None and old.until >= until:
        return
    park = Park(until=until, why=why, since=time.time())
    book.change_control(parks=with_entry(book.control.parks, account, park))
    book.back_at[account] = until
