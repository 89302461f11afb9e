"""What applies to the whole fleet: pauses, parked accounts, budgets, drained nodes. One record, `control`."""

from typing import Any

import msgspec

from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Note

FORMAT = 1


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of `fleet` or `project:NAME`, and what was used; tokens of unknown price are counted separately."""

    usd: float | None = None
    tokens: int | None = None
    share: float = 0.1
    """What an order without limits of its own is taken to need, as a part of the budget: so much is reserved for it."""
    spent_usd: float = 0.0
    spent_tokens: int = 0
    unpriced_tokens: int = 0


class Park(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An account whose provider said to wait."""

    until: float
    why: str = ""
    since: float = 0.0


class Control(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = FORMAT
    pauses: dict[str, Note] = {}
    """Scope -> who paused it and why: `fleet`, `order:ID`, `label:L`, `agent:A`, `credential:C`, `node:N`,
    `project:P`
    """
    drained: dict[str, Note] = {}
    parks: dict[str, Park] = {}
    budgets: dict[str, Budget] = {}
    limits: dict[str, int] = {}
    """How many may run at once, across all nodes: `agent:A`, `credential:C`, `repo:PATH`."""
    weights: dict[str, float] = {}
    """Project -> how many turns it gets where another gets one."""
    keep_seconds: float = 90 * 86400.0
    """How long an order that has ended stays stored; 0 is for ever."""
    keep_bytes: int = 8 * 1024**3
    """If the state is larger than this, the oldest orders are removed earlier; 0 is no bound."""


def scopes(spec: Spec) -> list[str]:
    """Every scope of an order, except its node."""
    found = ["fleet", f"order:{spec.id}", f"agent:{spec.agent}", f"credential:{spec.account}"]
    found += [f"label:{label}" for label in spec.labels]
    if spec.project:
        found.append(f"project:{spec.project}")
    return found


def budget_scopes(spec: Spec) -> list[str]:
    return ["fleet", f"project:{spec.project}"] if spec.project else ["fleet"]


def with_entry(table: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The table with one entry set, or removed when the value is None."""
    rest = {key: old for key, old in table.items() if key != name}
    return rest if value is None else {**rest, name: value}
