"""What rides along with the scheduler: work that goes on wherever it is, handed in by the one who starts the node.

So what stands above the fleet, such as the trains that land finished work, can work with it without being known here.
"""

from typing import Protocol

from treadle.fleet.engine.bus import Bus


class RidesAlong(Protocol):
    async def ride(self, bus: Bus) -> None:
        """Work until cancelled, which happens when this node is the scheduler no more. May run twice for a moment."""
