"""Which identity a connected client acts under. Two live clients of one name are two identities.

A seat is a lock file that the server holds while its client is connected. When the server dies, in whatever way, the
kernel frees the seat, so that the same client gets the same identity, and its claims, when it comes back.
"""

from __future__ import annotations

from treadle.coordination.identity import root_of, slug
from treadle.coordination.planning import Planning
from treadle.errors import Busy, LimitReached
from treadle.io.files import locked

MAX_SEATS = 256


class Seats:
    """The seats of one connection, by the name that the client gave."""

    def __init__(self, planning: Planning, root: str) -> None:
        self.planning = planning
        self.root = root_of(root)
        self._taken: dict[str, tuple[str, locked]] = {}

    def haid(self, client: str) -> str:
        """The identity for this name: `{root}/cursor`, or `{root}/cursor-2` while another live client has that."""
        name = slug(client) or "mcp-client"
        if name not in self._taken:
            self._taken[name] = self._take(name)
        return self._taken[name][0]

    def leave(self) -> None:
        """The client is gone; its identities are free for the next one of its name."""
        for _, seat in self._taken.values():
            seat.__exit__(None, None, None)
        self._taken.clear()

    def _take(self, name: str) -> tuple[str, locked]:
        directory = self.planning.lock("seats").path
        for number in range(1, MAX_SEATS + 1):
            role = name if number == 1 else f"{name}-{number}"
            haid = f"{self.root}/{role}"
            seat = locked(f"{directory}-{haid.replace(':', '_').replace('/', '_')}", 0)
            try:
                seat.__enter__()
            except Busy:
                continue
            return haid, seat
        raise LimitReached(f"{MAX_SEATS} clients named {name} are connected already")
