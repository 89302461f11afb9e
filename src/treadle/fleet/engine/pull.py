"""Pulls the messages of a stream: a slow reader costs no one anything and loses nothing.

A pull requests a bounded number of messages. It is repeated when a lost connection is back, since the server has then
forgotten it, and a reader without a durable name continues after the last message that it returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.errors import TreadleError
from treadle.fleet.engine.bus import Bus, EngineRefused, Unreachable

if TYPE_CHECKING:
    from nats.aio.msg import Msg

EXPIRES = 5.0
"""Seconds that one pull stays open on the server."""
SLACK = 2.0
"""Further seconds of silence after which the pull counts as lost."""


async def give_back(messages: Sequence[Msg]) -> None:
    """Let the next reader of a durable consumer have these at once, and not when their time is up."""
    with contextlib.suppress(Exception):  # the connection is gone: then they come again by time
        for message in messages:
            await message.nak()


class Pull:
    """`durable` names an existing consumer; else one is made for `filters` and `start`, and removed with this
    reader.
    """

    def __init__(
        self,
        bus: Bus,
        stream: str,
        *,
        durable: str = "",
        filters: tuple[str, ...] = (),
        start: int = 1,
        batch: int = 256,
        arrived: asyncio.Event | None = None,
    ) -> None:
        self.bus = bus
        self.stream = stream
        self.position = start
        """The sequence from which a reader without a durable name continues."""
        self._durable = durable
        self._filters = filters
        self._batch = batch
        self._consumer = durable
        self._held: deque[Msg] = deque()
        self._arrived = arrived or asyncio.Event()
        self._outstanding = 0
        self._asked = 0.0
        self._listening: Any = None
        self._inbox = ""
        bus.returned.append(self._start_again)

    async def next(self, timeout: float) -> list[Msg]:
        """Everything that is there, at least one message, or nothing when none came in time."""
        deadline = time.monotonic() + timeout
        while not self._held:
            await self._keep_asking()
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._arrived.clear()
            try:
                async with asyncio.timeout(min(left, 1.0)):
                    await self._arrived.wait()
            except TimeoutError:
                continue
        return self._take()

    async def ready(self) -> list[Msg]:
        """What is there now, perhaps nothing, and ask for more. `arrived`, if given, is called when more comes."""
        await self._keep_asking()
        return self._take()

    def _take(self) -> list[Msg]:
        given = list(self._held)
        self._held.clear()
        if given and not self._durable:
            self.position = given[-1].metadata.sequence.stream + 1
        return given

    async def close(self) -> None:
        if self._start_again in self.bus.returned:
            self.bus.returned.remove(self._start_again)
        try:
            if self._listening is not None:
                await self._listening.unsubscribe()
            if self._durable:
                await give_back(self._take())
            if self._consumer and not self._durable:
                await self.bus.api(f"CONSUMER.DELETE.{self.stream}.{self._consumer}")
        except Exception:  # it ends by itself, as every consumer that no one pulls from
            pass

    def _start_again(self) -> None:
        if not self._durable:
            self._consumer = ""
            self._held.clear()  # the next reader gets them again
        self._outstanding = 0
        self._arrived.set()

    async def _keep_asking(self) -> None:
        if self._outstanding > 0:
            if time.monotonic() - self._asked < EXPIRES + SLACK:
                return
            self._start_again()
        try:
            if not self._consumer:
                await self._make()
            if self._listening is None:
                self._inbox = self.bus.client.new_inbox()
                self._listening = await self.bus.client.subscribe(self._inbox, cb=self._on_message)
            request = {"batch": self._batch, "expires": int(EXPIRES * 1e9)}
            self._outstanding, self._asked = self._batch, time.monotonic()
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{self._consumer}"
            await self.bus.client.publish(subject, msgspec.json.encode(request), reply=self._inbox)
        except (Unreachable, EngineRefused):
            self._outstanding = 0
            await asyncio.sleep(0.1)
        except TreadleError:
            raise
        except Exception:  # the client's own error: not connected now
            self._outstanding = 0
            await asyncio.sleep(0.1)

    async def _make(self) -> None:
        name = f"r{secrets.token_hex(8)}"
        config: dict[str, Any] = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(1, self.position),
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": int(60e9),
            "mem_storage": True,
            "num_replicas": 1,
        }
        if len(self._filters) == 1:
            config["filter_subject"] = self._filters[0]
        elif self._filters:
            config["filter_subjects"] = list(self._filters)
        request = {"stream_name": self.stream, "config": config}
        await self.bus.api(f"CONSUMER.CREATE.{self.stream}.{name}", request)
        self._consumer = name

    async def _on_message(self, message: Msg) -> None:
        headers = message.headers or {}
        status = headers.get("Status")
        if status is None:
            # Messages that an earlier consumer of ours still sends come again from its replacement.
            if self._durable or message.metadata.consumer == self._consumer:
                self._held.append(message)
                self._outstanding -= 1
        elif status == "100":
            return
        else:
            self._outstanding = 0
            if status == "409" and "Consumer Deleted" in headers.get("Description", "") and not self._durable:
                self._consumer = ""
        self._arrived.set()
