"""What applies to the whole fleet: pauses, parked accounts, budgets, drained nodes. One record, `control`."""

import math
from typing import Any

from msgspec.structs import replace

from treadle.fleet.orders import PERSON
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import Budget, Order, Used


def scopes(spec: Spec) -> list[str]:
    """Every scope of an order, except its node."""
    found = ["fleet", f"order:{spec.id}", f"agent:{spec.agent}", f"credential:{spec.account}"]
    found += [f"label:{label}" for label in spec.labels]
    if spec.project:
        found.append(f"project:{spec.project}")
    return found


def budget_scopes(spec: Spec) -> list[str]:
    if spec.agent == PERSON:
        return []  # no model is asked, so nothing is reserved
    found = ["fleet", f"agent:{spec.agent}"]
    return [*found, f"project:{spec.project}"] if spec.project else found


def with_entry(table: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The table with one entry set, or removed when the value is None."""
    rest = {key: old for key, old in table.items() if key != name}
    return rest if value is None else {**rest, name: value}


# Money and tokens: what was spent, and whether an order may spend more.


def charged(budgets: dict[str, Budget], spec: Spec, before: Used, used: Used) -> dict[str, Budget] | None:
    """The budgets with what an attempt has used since it was last counted; None when that is nothing."""
    new_tokens = max(0, used.tokens - before.tokens)
    new_usd = max(0.0, (used.usd or 0.0) - (before.usd or 0.0))
    if not new_tokens and not new_usd:
        return None
    made = dict(budgets)
    for scope in budget_scopes(spec):
        if scope.startswith("agent:") and scope not in budgets:
            continue
        old = made.get(scope, Budget())
        made[scope] = replace(
            old,
            spent_usd=old.spent_usd + new_usd,
            spent_tokens=old.spent_tokens + new_tokens,
            unpriced_tokens=old.unpriced_tokens + (new_tokens if used.usd is None else 0),
        )
    return made


def of_day(budgets: dict[str, Budget], day: str) -> dict[str, Budget]:
    """The budgets; those that are for a day begin anew when it is another."""
    anew = {"day": day, "spent_usd": 0.0, "spent_tokens": 0, "unpriced_tokens": 0}
    return {name: replace(one, **anew) if one.daily and one.day != day else one for name, one in budgets.items()}


def needs(budget: Budget, limits: OrderLimits, used: Used) -> tuple[float, int]:
    """The money and tokens that an order is taken to need: what is left of its own limits; where it has none and the
    budget has, of the budget's default share."""
    usd = (budget.usd or 0.0) * budget.share if limits.usd is None else limits.usd
    tokens = math.ceil((budget.tokens or 0) * budget.share) if limits.tokens is None else limits.tokens
    return max(0.0, usd - (used.usd or 0.0)), max(0, tokens - used.tokens)


def unfit(budget: Budget, spec: Spec, order: Order, usd: float = 0.0, tokens: int = 0) -> str:
    """Why an order cannot be placed within the budget while so much of it is reserved; empty when it can. One whose
    limits are only a share of a budget goes on with less."""
    need_usd, need_tokens = needs(budget, order.limits, order.used)
    if budget.usd is not None:
        left = budget.usd - budget.spent_usd - usd
        if left <= 0 if order.limits.usd is None or spec.shares else need_usd > left:
            return f"{budget.spent_usd:.2f} USD spent and {usd:.2f} reserved of {budget.usd:.2f}"
    if budget.tokens is not None:
        free = budget.tokens - budget.spent_tokens - tokens
        if free <= 0 if order.limits.tokens is None or spec.shares else need_tokens > free:
            return f"{budget.spent_tokens} tokens spent and {tokens} reserved of {budget.tokens}"
    return ""


def shared(budget: Budget, spec: Spec, order: Order, usd: float, tokens: int) -> OrderLimits:
    """The limits of an order that is placed now: its share of the budget once more, or all that is left unreserved."""
    limits, share, used = order.limits, spec.limits, order.used
    if share.usd is not None and budget.usd is not None:
        limits = replace(limits, usd=(used.usd or 0.0) + min(share.usd, budget.usd - budget.spent_usd - usd))
    if share.tokens is not None and budget.tokens is not None:
        free = budget.tokens - budget.spent_tokens - tokens
        limits = replace(limits, tokens=used.tokens + min(share.tokens, free))
    return limits


def overspent(budget: Budget) -> str:
    """How much more than the budget was spent, so that what runs is held; empty when it was not."""
    if budget.usd is not None and budget.spent_usd > budget.usd:
        return f"{budget.spent_usd:.2f} of {budget.usd:.2f} USD"
    if budget.tokens is not None and budget.spent_tokens > budget.tokens:
        return f"{budget.spent_tokens} of {budget.tokens} tokens"
    return ""


def beyond(limits: OrderLimits, used: Used, next_call: Used) -> str:
    """Why an order may not go on: what it has used, plus what its next call may take, reaches its limits."""
    tokens, usd = used.tokens, used.usd or 0.0
    if limits.tokens is not None and tokens >= limits.tokens:
        return f"it has used {tokens} of {limits.tokens} tokens"
    if limits.usd is not None and usd >= limits.usd:
        return f"it has used {usd:.4f} of {limits.usd:g} USD"
    if limits.usd is not None and limits.tokens is None and used.usd is None and tokens:
        return f"it has a limit in money, and no one knows the price of its {tokens} tokens: it needs --max-tokens"
    if limits.tokens is not None and tokens + next_call.tokens > limits.tokens:
        return f"it has used {tokens} of {limits.tokens} tokens, and its last call took {next_call.tokens}"
    if limits.usd is not None and usd + (next_call.usd or 0.0) > limits.usd:
        return f"it has used {usd:.4f} of {limits.usd:g} USD, and its last call took {next_call.usd:.4f}"
    return ""


def raised(limits: OrderLimits, given: OrderLimits) -> OrderLimits:
    """The limits, raised by as much as the order was given at first."""
    return replace(
        limits,
        usd=None if limits.usd is None else limits.usd + (given.usd or limits.usd),
        tokens=None if limits.tokens is None else limits.tokens + (given.tokens or limits.tokens),
    )


def amount(limits: OrderLimits) -> str:
    parts = [f"{limits.tokens} tokens"] if limits.tokens is not None else []
    return ", ".join([*parts, *([f"{limits.usd:g} USD"] if limits.usd is not None else [])]) or "none"
