"""What orders leave for each other, so that nothing is found out twice: capsules, symbols and the ledger.

Each finished order leaves a capsule in its result: what was done, where, and what the agent said about it. An order
that builds on others gets their capsules, oldest first, and never their whole conversations.
"""

import contextlib
import os
from typing import Any

from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Ledger
from treadle.coordination.planning import Planning
from treadle.coordination.table import Symbols
from treadle.errors import NotFound, TreadleError
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import read_order, read_spec
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order, Used

FOLLOWED = 30
"""The most capsules in a brief."""
PLACES = 8
ROLES = {"plan": "planner", "review": "reviewer", "judgement": "judge"}
"""In the ledger, by what an order answers with."""
DECISION_MAX = 400


def capsule(spec: Spec, title: str, result: dict[str, Any]) -> dict[str, str]:
    """The parts of an order's capsule."""
    changed = [str(path) for path in result.get("changed") or ()]
    more = f" and {len(changed) - PLACES} more" if len(changed) > PLACES else ""
    return {
        "what": title,
        "where": ", ".join(changed[:PLACES]) + more,
        "decision": " ".join(str(result.get("says") or "").split())[:DECISION_MAX],
        "depends": ",".join(spec.after),
    }


async def brief(bus: Bus, spec: Spec, source: str) -> str:
    """What an order is told besides its task: what it builds on, and the symbols it names."""
    parts = []
    found = await _closure(bus, spec.after)
    if found:
        parts.append("What this builds on, oldest first:\n" + "\n".join(_shown(*each) for each in found))
    if spec.symbols:
        known = Symbols(Planning(project=source))
        rows = {name: known.find(name) for name in spec.symbols}
        if missing := [name for name, value in rows.items() if value is None]:
            raise NotFound(f"there is no symbol {missing[0]!r} in {source}", hint="`heimdall-resolve` lists them")
        parts.append("Symbols:\n" + "\n".join(f"{name} = {value}" for name, value in rows.items()))
    return "\n\n".join(parts)


async def _closure(bus: Bus, parents: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
    """The capsules of these orders and of all that they build on, prerequisites first."""
    found: dict[str, dict[str, str]] = {}
    waiting = list(parents)
    while waiting and len(found) < FOLLOWED:
        name = waiting.pop(0)
        order, spec = await bus.get(f"order.{name}"), await bus.get(f"spec.{name}")
        if name in found or order is None or spec is None:
            continue
        entry = _capsule_of(read_order(order))
        if entry:
            found[name] = entry
        waiting += read_spec(spec.value).after
    return list(reversed(found.items()))


def _capsule_of(order: Order) -> dict[str, str]:
    stored = order.result.get("capsule")
    return stored if isinstance(stored, dict) else {}


def _shown(name: str, parts: dict[str, str]) -> str:
    rows = [f"  {label}: {parts[label]}" for label in ("where", "decision") if parts.get(label)]
    return "\n".join([f"- {name}: {parts.get('what', '')}", *rows])


def leave(spec: Spec, source: str, parts: dict[str, str], used: Used) -> None:
    """Write the capsule and the measurements into the repository, if it keeps such records. Blocks; never fails."""
    with contextlib.suppress(TreadleError, OSError):
        planning = Planning(project=source)
        if os.path.isdir(planning.root):
            role = f"goal/{ROLES[spec.answer]}" if spec.answer else f"fleet/{spec.agent}"
            Ledger(planning).log(role, "order", used.tokens, source="measured", run=spec.id)
            if spec.answer:
                return  # a plan, a review or a judgement is a message, not work that others build on
            known = set(Capsules(planning).ids())
            depends = ",".join(each for each in spec.after if each in known)
            Capsules(planning).write(spec.id, **{**parts, "depends": depends})
