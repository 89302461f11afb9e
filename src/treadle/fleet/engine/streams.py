"""The streams of the engine as readers and writers: pulled messages, the events of runs, and large results."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.errors import NotFound, StorageError, TreadleError
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import EVENTS, Bus, EngineRefused, Stale, Unreachable
from treadle.fleet.engine.layout import OBJECTS
from treadle.io.files import appending, opened, storage_error

if TYPE_CHECKING:
    from nats.aio.msg import Msg


# Pulls the messages of a stream: a slow reader costs no one anything and loses nothing.
#
# A pull requests a bounded number of messages. It is repeated when a lost connection is back, since the server has
# then forgotten it, and a reader without a durable name continues after the last message that it returned.

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


# Events of runs in the engine: written by the single runner of an attempt, read by anybody from any position.
#
# A message on `fleet.ev.ORDER.ATTEMPT.NODE` holds some events in order, `{"n": FIRST, "events": [...]}`; each event's
# number is its position in the attempt, from 1. The writer sends a message once the one before is stored, on
# condition that this is still the last: so there are no gaps or repeats, and once the scheduler has closed an attempt
# with `{"end": ...}`, its old runner can write no more.

CHUNK = 256 * 1024
"""The most bytes of events in one message, unless a single event is larger."""
LINE_MAX = 4 * 1024 * 1024


class AttemptLog:
    """The events of an attempt: first in a file, then in the engine. The file buffers them while the engine is away."""

    def __init__(self, path: str, bus: Bus, subject: str) -> None:
        self.path = path
        self.bus = bus
        self.subject = subject
        self.written = 0
        self.sent = 0
        self.closed_by_another = False
        """Whether the scheduler has ended the attempt: nothing more of it counts."""
        self._sent_bytes = 0
        self._last: int | None = None
        self._more = asyncio.Event()
        try:
            self._file = appending(path)
        except OSError as error:
            raise storage_error(error, path, "write") from error
        self._sending = asyncio.create_task(self._send())

    def append(self, event: bytes) -> None:
        """Keep one event, in JSON, and send it soon."""
        if len(event) > LINE_MAX:
            event = msgspec.json.encode({"type": "warned", "code": "too_long", "message": "an event was too long"})
        try:
            self._file.write(event + b"\n")
        except OSError as error:
            raise storage_error(error, self.path, "append to") from error
        self.written += 1
        self._more.set()

    async def finish(self, timeout: float, enough: Callable[[], bool] = lambda: False) -> bool:
        """Wait until everything is sent, or it is enough. False when that was not possible in time."""
        self._more.set()
        try:
            async with asyncio.timeout(timeout):
                while self.sent < self.written and not self.closed_by_another:
                    if enough():
                        return False
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return False
        finally:
            await tasks.end([self._sending])
            self._file.close()
        return not self.closed_by_another

    async def _send(self) -> None:
        while not self.closed_by_another:
            await self._more.wait()
            self._more.clear()
            while self.sent < self.written and not self.closed_by_another:
                try:
                    await self._send_some()
                except Unreachable:
                    self._last = None
                    await asyncio.sleep(0.2)

    async def _send_some(self) -> None:
        if self._last is None:
            await self._find_place()
            if self.closed_by_another:
                return
        lines = self._read()
        body = b'{"n":%d,"events":[%s]}' % (self.sent + 1, b",".join(lines))
        try:
            expect = {"Nats-Expected-Last-Subject-Sequence": str(self._last)}
            self._last = await self.bus.publish(self.subject, body, expect)
        except Stale:
            self._last = None  # either ours, stored before its answer was lost, or the scheduler's end of the attempt
            return
        self._advance(lines)

    async def _find_place(self) -> None:
        """Find where the stream stands: after an outage, what was sent last may be stored or not."""
        message = await self.bus.look(f"$JS.API.DIRECT.GET.{EVENTS}.{self.subject}")
        headers = message.headers or {}
        if headers.get("Status"):
            self._last = 0
            return
        self._last = int(headers["Nats-Sequence"])
        found = msgspec.json.decode(message.data)
        if "end" in found:
            self.closed_by_another = True
            return
        stored = found["n"] + len(found["events"]) - 1
        while self.sent < stored:
            self._advance(self._read(stored - self.sent))

    def _read(self, most: int = 1_000_000) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        with opened(self.path) as file:
            file.seek(self._sent_bytes)
            for line in file:
                if not line.endswith(b"\n") or lines and (size + len(line) > CHUNK or len(lines) >= most):
                    break
                lines.append(line[:-1])
                size += len(line)
        return lines

    def _advance(self, lines: list[bytes]) -> None:
        self.sent += len(lines)
        self._sent_bytes += sum(len(line) + 1 for line in lines)


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event as a reader gets it. `at` is the position to continue from: the next reader's `start`."""

    at: int
    attempt: int
    n: int
    event: Any = None
    end: str = ""
    gap: int = 0
    """How many events are missing before this one."""


async def read(bus: Bus, order: str, *, start: int = 1, follow: bool = False) -> AsyncIterator[Seen]:
    """The events of an order from a position on: all there are now, or with `follow` also later ones."""
    pull = Pull(bus, EVENTS, filters=(f"fleet.ev.{order}.>",), start=start)
    expected: dict[int, int] = {}
    try:
        if not follow and not await _any(bus, order, start):
            return
        while True:
            messages = await pull.next(5.0)
            for message in messages:
                attempt = int(message.subject.split(".")[3])
                at = message.metadata.sequence.stream + 1
                for seen in _unpack(attempt, at, msgspec.json.decode(message.data), expected, start == 1):
                    yield seen
            if messages and not follow and messages[-1].metadata.num_pending == 0:
                return
    finally:
        await pull.close()


def _unpack(attempt: int, at: int, body: dict[str, Any], expected: dict[int, int], from_start: bool) -> list[Seen]:
    if "end" in body:
        return [Seen(at=at, attempt=attempt, n=expected.get(attempt, 1), end=f"{body['end']}: {body.get('why', '')}")]
    first = body["n"]
    due = expected.get(attempt, 1 if from_start else first)
    gap = max(0, first - due)
    found = []
    for number, event in enumerate(body["events"], first):
        found.append(Seen(at=at, attempt=attempt, n=number, event=event, gap=gap))
        gap = 0
    expected[attempt] = first + len(body["events"])
    return found


async def _any(bus: Bus, order: str, start: int) -> bool:
    info = await bus.api(f"STREAM.INFO.{EVENTS}", {"subjects_filter": f"fleet.ev.{order}.>"})
    if not info["state"].get("subjects"):
        return False
    for subject in info["state"]["subjects"]:
        message = await bus.look(f"$JS.API.DIRECT.GET.{EVENTS}.{subject}")
        headers = message.headers or {}
        if not headers.get("Status") and int(headers["Nats-Sequence"]) >= start:
            return True
    return False


# Large results in the engine's object store: patches, bundles, transcripts. Read by pull, checked by digest.
#
# An object `NODE/NAME` belongs to a node: its parts are on subjects with the node's name, and no other worker may
# write there. What submitters send has no owner, and any NATS object store client can read it.

OBJECT_CHUNK = 128 * 1024
WAIT_SECONDS = 10.0
"""How long the engine may take for the next part."""


async def put(bus: Bus, name: str, data: bytes, *, slot: str = "") -> dict[str, Any]:
    """Store an object under a name, replacing what was there.

    The old chunks expire with the stream's age. An object that is written often alternates between two slots: its
    chunks replace those of the write before last, so the last one stays whole until the new one is complete.
    """
    nuid = hashlib.sha256(f"{name} {slot}".encode()).hexdigest()[:22] if slot else secrets.token_hex(11)
    chunks = 0
    for start in range(0, len(data), OBJECT_CHUNK):
        first = {"Nats-Rollup": "sub"} if slot and not chunks else None
        await bus.publish(_chunks(name, nuid), data[start : start + OBJECT_CHUNK], first)
        chunks += 1
    digest = "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    info = {
        "name": name,
        "bucket": "fleet",
        "nuid": nuid,
        "size": len(data),
        "chunks": chunks,
        "digest": digest,
        "options": {"max_chunk_size": OBJECT_CHUNK},
    }
    await bus.publish(_meta(name), msgspec.json.encode(info), {"Nats-Rollup": "sub"})
    return info


async def get(bus: Bus, name: str) -> bytes:
    message = await bus.look(f"$JS.API.DIRECT.GET.{OBJECTS}.{_meta(name)}")
    if (message.headers or {}).get("Status"):
        raise NotFound(f"there is no object {name!r}", hint="results are stored for 30 days")
    info = msgspec.json.decode(message.data)
    parts: list[bytes] = []
    if info["chunks"]:
        pull = Pull(bus, OBJECTS, filters=(_chunks(name, info["nuid"]),))
        try:
            while len(parts) < info["chunks"]:
                some = await pull.next(WAIT_SECONDS)
                if not some:
                    raise StorageError(f"the object {name!r} has only {len(parts)} of its {info['chunks']} parts")
                parts += [each.data for each in some]
        finally:
            await pull.close()
    data = b"".join(parts)
    digest = "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    if len(data) != info["size"] or digest != info["digest"]:
        raise StorageError(f"the object {name!r} is damaged: its digest does not match")
    return data


def owned(node: str, name: str) -> str:
    """The name of an object that belongs to a node."""
    return f"{node}/{name}"


def _meta(name: str) -> str:
    owner, _, rest = name.rpartition("/")
    return _at("M", owner, base64.urlsafe_b64encode(rest.encode()).decode())


def _chunks(name: str, nuid: str) -> str:
    return _at("C", name.rpartition("/")[0], nuid)


def _at(kind: str, owner: str, last: str) -> str:
    return ".".join(filter(None, ("$O.fleet", kind, owner, last)))
