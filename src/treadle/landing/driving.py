"""Who works on a train: one process at a time, so that nothing is checked twice. The others watch.

Only for the sake of work: whatever goes wrong here, two trains at once do no harm, because the branch and the record
change by compare-and-set.
"""

import contextlib
import os
import secrets
import socket
import time

import msgspec

from treadle.errors import TreadleError
from treadle.fleet.engine.bus import Bus, Stale
from treadle.fleet.orders import encode
from treadle.io.process import table
from treadle.wire.fleet.train import TrainRecord

HELD_SECONDS = 6
RENEWED_SECONDS = 1.5
OVERDUE_SECONDS = 4.0 * HELD_SECONDS
"""So long unchanged, it is no one's any more, even if the engine has not ended it. A held one is renewed."""


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`drives.TRAIN`: expires unless it is renewed."""

    host: str
    pid: int
    start: int
    token: str


class DriverLease:
    def __init__(self, bus: Bus, train: str) -> None:
        self._bus, self._key = bus, f"drives.{train}"
        self._revision, self._renewed = 0, 0.0
        self._seen, self._since = 0, 0.0
        """The revision that another holds it by, and since when it has not changed."""
        found = table.look(os.getpid())
        self._mine = DriverRecord(
            host=socket.gethostname(),
            pid=os.getpid(),
            start=found.start if found is not None else 0,
            token=secrets.token_hex(8),
        )

    async def taken(self) -> bool:
        """Whether we drive: taken now, renewed, or held long enough."""
        if self._revision and time.monotonic() - self._renewed < RENEWED_SECONDS:
            return True
        if await self._put(self._revision):
            return True
        entry = await self._bus.get(self._key, latest=True)
        if entry is None or not entry.value:
            return False
        if entry.revision != self._seen:
            self._seen, self._since = entry.revision, time.monotonic()
        overdue = time.monotonic() - self._since > OVERDUE_SECONDS
        known = msgspec.json.decode(entry.value, type=DriverRecord)
        return (overdue or self._is_gone(known)) and await self._put(entry.revision)

    async def _put(self, expect: int) -> bool:
        try:
            self._revision = await self._bus.put(self._key, encode(self._mine), expect=expect, ttl=HELD_SECONDS)
        except Stale:
            self._revision = 0
            return False
        self._renewed = time.monotonic()
        return True

    def _is_gone(self, holder: DriverRecord) -> bool:
        """Whether it was given up, or who holds it was killed on this machine: then no one waits until it expires."""
        if not holder.pid:
            return True
        if holder.host != self._mine.host:
            return False
        found = table.look(holder.pid)
        return found is None or found.start != holder.start or found.state == "Z"

    async def leave(self) -> None:
        if self._revision:
            with contextlib.suppress(Stale, TreadleError):
                empty = encode(DriverRecord(host="", pid=0, start=0, token=""))
                await self._bus.put(self._key, empty, expect=self._revision, ttl=1)
            self._revision = 0


def happened_between(before: TrainRecord, after: TrainRecord) -> list[str]:
    """What another process has done in between, in words."""
    out = {each.order for each in after.left_out}
    here = {each.order for each in after.queue}
    lines = [f"landed   {each.order}" for each in before.queue if each.order not in out and each.order not in here]
    lines += [f"left out {each.order}: {each.why}" for each in after.left_out if each not in before.left_out]
    known = {each.by for each in before.back}
    return lines + [
        f"back     {each.first} as {each.by}: {each.why}" for each in after.back if each.by and each.by not in known
    ]
