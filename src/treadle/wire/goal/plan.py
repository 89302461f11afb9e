"""The plan of a goal as data. `reading.py` makes it from a text; waves, briefs and costs are worked out in `goals`."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

FORMAT = 1
Gate: TypeAlias = Literal["plan", "wave", "order", "land", "none"]
Size: TypeAlias = Literal["s", "m", "l"]
OnRed: TypeAlias = Literal["author", "reconciler", "person", "drop"]
ROLES = ("planner", "worker", "reviewer", "reconciler", "judge")


class GoalBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At any of these limits the goal pauses and asks. None means no limit of this kind."""

    tokens: int | None = None
    usd: float | None = None
    hours: float | None = None
    orders: int | None = None


class PlannedOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    """Short and unique in the plan; the fleet's id is made from it, so submitting twice changes nothing."""
    task: str
    title: str = ""
    after: tuple[str, ...] = ()
    """Starts when these have landed."""
    wave: int = 0
    """Starts no earlier than in this wave. Waves are computed; this can only delay."""
    claims: tuple[str, ...] = ()
    """The files that it expects to change."""
    symbols: tuple[str, ...] = ()
    """Names of the repository's symbol table that its brief explains."""
    accept: tuple[str, ...] = ()
    """Commands that must fail before the work and pass after it."""
    already: bool = False
    """The commands in `accept` may pass before the work, as in a pure rewrite."""
    verify: str = ""
    """A narrower check before the plan's own."""
    size: Size = "m"
    on_red: OnRed = "author"
    """Who fixes it when it fails its checks or conflicts."""
    land: bool = True
    """False for research, whose result is only its answer."""
    gates: tuple[str, ...] = ()
    agent: str = ""
    """Instead of the worker that `roles` names."""
    model: str = ""
    discovered_from: str = ""
    """The order during which it was found to be needed."""


class GoalPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    goal: str
    order: tuple[PlannedOrder, ...]
    format: int = FORMAT
    done: str = ""
    """One command that proves the whole."""
    branch: str = "main"
    verify: str = ""
    setup: str = ""
    invariants: str = ""
    """FILE or FILE#heading, with which every brief begins."""
    budget: GoalBudget | None = None
    gates: tuple[str, ...] = ("plan",)
    """Where a person agrees: plan, wave, order, land or none; or agent:reviewer, where another agent does."""
    roles: Mapping[str, str] = {}
    mode: str = ""
    """What workers may do without a question: suggest, auto-edit or full-auto. Empty: the fleet's default."""
    source: str = ""
    """Where the plan came from, if not from a person's own hand. Such a plan always stops at the gate `plan`."""

    @property
    def gated(self) -> tuple[str, ...]:
        """The gates that apply: text from outside is never carried out before a person has read the plan."""
        return ("plan", *(gate for gate in self.gates if gate not in ("plan", "none"))) if self.source else self.gates
