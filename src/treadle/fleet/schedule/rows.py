"""What the scheduler's book holds: orders that have not ended, nodes, and what must be written and sent."""

from typing import NamedTuple

from treadle.coordination.surfaces import Surface
from treadle.fleet.engine.bus import Write
from treadle.wire.fleet.messages import MachineSeen, RunActivity
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import AskRecord, Order


class OpenOrder:
    """An order that has not ended."""

    __slots__ = ("spec", "order", "revision", "heard", "seen", "surfaces", "asks", "activity", "escalated")

    def __init__(self, spec: Spec, order: Order, revision: int, heard: float) -> None:
        self.spec = spec
        self.order = order
        self.revision = revision
        self.heard = heard
        self.seen = 0.0
        """When its node last saw the runner's process alive."""
        self.surfaces = [Surface(text) for text in spec.claims]
        self.asks: dict[str, AskRecord] = {}
        self.activity = RunActivity()
        self.escalated = (0, False)
        """The last attempt that was found to be stuck, and whether its agent had begun."""

    def shares_claims_with(self, other: "OpenOrder") -> bool:
        """Whether what both claim is open to both: where they land on one branch, the train brings them together."""
        mine, theirs = self.spec, other.spec
        by_train = bool(mine.land) and (mine.place, mine.land) == (theirs.place, theirs.land)
        return by_train and "wait" not in (mine.overlap, theirs.overlap)

    def closed_to(self, other: "OpenOrder") -> list[str]:
        """What it claims and the other may not write."""
        shared = other.surfaces if self.shares_claims_with(other) else []
        return [each.text for each in self.surfaces if not any(each.overlaps(theirs) for theirs in shared)]


class NodeView:
    """A node as the scheduler sees it."""

    def __init__(self, name: str, heard: float) -> None:
        self.name = name
        self.heard = heard
        self.slots = 0
        self.labels: frozenset[str] = frozenset()
        self.agents: frozenset[str] | None = None
        """None means any."""
        self.limits: dict[str, int] = {}
        self.at_work: set[str] = set()
        self.machine: MachineSeen | None = None
        self.leaving = ""
        """Why it takes nothing more, as it says itself."""

    @property
    def free(self) -> int:
        return self.slots - len(self.at_work)

    def serves(self, spec: Spec) -> bool:
        return self.agents is None or spec.agent.partition(":")[0] in self.agents


class Unit(NamedTuple):
    """Changes that belong together: all of them are written, or none."""

    writes: list[Write]
    row: OpenOrder | None


class Say(NamedTuple):
    """A message to send once the change that led to it is stored. `stored` says whether it goes to a stream."""

    subject: str
    data: bytes
    stored: bool = False


def is_unlanded(order: Order) -> bool:
    """Whether finished work is not on a branch yet, as far as its order says."""
    return order.state == "done" and "commit" in order.result and not order.result.get("merged")
