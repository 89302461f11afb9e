"""A client's requests that wait for their turn. A client that writes ahead without end is refused."""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from treadle.errors import RemoteProtocolError
from treadle.wire.worker.messages import AnswerRequest, Init, Send, Shutdown, StatusRequest, Steer

ROOM, ROOM_BYTES = 10_000, 64 * 1024 * 1024
"""How many requests, and bytes, may wait."""


class End:
    """The client will ask nothing more."""


Item: TypeAlias = Init | Send | StatusRequest | AnswerRequest | Steer | Shutdown | RemoteProtocolError | End


class Pending:
    """Iterate to look at what waits, without taking it."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._cancelled: set[int] = set()
        self._arrived = asyncio.Event()

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @property
    def idle(self) -> bool:
        """Whether someone waits in `take` for something to do."""
        return not self._arrived.is_set()

    def put(self, item: Item) -> None:
        self._items.append(item)
        self._bytes += _weight(item)
        self._arrived.set()

    async def take(self) -> Item:
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        item = self._items.popleft()
        self._bytes -= _weight(item)
        return item

    @property
    def full(self) -> bool:
        """Whether too many requests wait."""
        return len(self._items) >= ROOM or self._bytes >= ROOM_BYTES

    def take_statuses(self) -> list[StatusRequest]:
        found = [item for item in self._items if isinstance(item, StatusRequest)]
        for item in found:
            self._items.remove(item)
        return found

    def cancel(self, target: str) -> None:
        """Cancel the waiting sends of that id."""
        self._cancelled |= {id(item) for item in self._items if isinstance(item, Send) and item.id == target}

    def was_cancelled(self, send: Send) -> bool:
        """Whether this send was cancelled before it was taken. Ask once for each."""
        found = id(send) in self._cancelled
        self._cancelled.discard(id(send))
        return found


def _weight(item: Item) -> int:
    return len(item.message) if isinstance(item, Send) else 0
