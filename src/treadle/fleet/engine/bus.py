"""One connection to the engine, with those parts of JetStream that the client library does not offer.

    bus = await Bus.connect(Address(url="nats://127.0.0.1:4222", user="node", password="..."), name="node n1")
    revision = await bus.put("order.o1", data, expect=0)     # Stale when it is there already
    last = await bus.batch([Write("order.o1", data, revision), Write("active.o1", purge=True)])

Everything here is either stored when it returns, or raises: `Stale` when another was first, `Unreachable` when
the outcome is unknown, as when the answer to a request was lost. See docs/reference/fleet.md for keys and subjects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from treadle.errors import Denied, PeerClosed, StorageError, TreadleError
from treadle.fleet.engine import places
from treadle.wire.fleet.connection import read_as
from treadle.wire.fleet.keys import BUCKET as PREFIX

T = TypeVar("T")

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

log = logging.getLogger(__name__)

STATE, INBOX, EVENTS = "KV_fleet", "FLEET_IN", "FLEET_EV"
TIMEOUT = 5.0
"""Seconds after which a request counts as lost; one to a server that was just killed takes all of them."""
LOOK_SECONDS = (1.0, 2.0, 5.0)
"""How long each try of a read waits for its answer, or for the next part of a long one, and together, how long a read
is tried: in a cluster, a stream has no leader for some seconds after a server died.
"""
BATCH_MAX = 1000
"""Messages of one atomic batch: the engine refuses a larger one."""
_AT_ONCE = 4
"""How many long reads are under way at a time: the engine finds the next ones while we take in the last."""
ANSWER_MAX = 1024
"""How many keys the engine reads for one request; of more that match it reads none."""
_NONE = "No Results"
"""The status text of an empty result. Any other text means that a key vanished during the read, and that the reply is
incomplete."""
_STALE = (10071, 10164)
_FULL = (10023, 10047, 10077)
_TOMBSTONE_SECONDS = 2


class Stale(Exception):
    """What was to be changed is not in the expected state; nothing was written."""


class Unreachable(PeerClosed):
    """The engine did not answer. The request may have taken effect or not."""

    retryable = True


class _BrokenOff(StorageError):
    """The engine did not send all that it had found."""


class _TooMany(StorageError):
    """More keys match than one answer can hold."""


class Entry(NamedTuple):
    key: str
    value: bytes
    revision: int
    removed: bool = False


class Write(NamedTuple):
    """One change of a batch. `expect` is the revision that it replaces: 0 for none, None for any.

    The marker of a purged key expires soon, unless its `ttl` is negative: then the key can never be created again.

    Whatever replaces or purges a value is a rollup: the engine then stores that the older values are gone. A value that
    only its limit (`layout.VALUES`) removed is remembered as gone in memory alone, and an engine that was killed would
    show it again once nothing newer of its key is left.
    """

    key: str
    value: bytes = b""
    expect: int | None = None
    ttl: int = 0
    purge: bool = False

    def headers(self) -> dict[str, str]:
        made = {"Nats-Rollup": "sub"} if self.expect != 0 else {}
        if self.purge:
            made["KV-Operation"] = "PURGE"
            if self.ttl >= 0:
                made["Nats-TTL"] = str(_TOMBSTONE_SECONDS)
        if self.expect is not None:
            made["Nats-Expected-Last-Subject-Sequence"] = str(self.expect)
        if self.ttl > 0:
            made["Nats-TTL"] = str(self.ttl)
        return made


class Bus:
    def __init__(self, client: Client, url: str) -> None:
        self.client = client
        self.url = places.shown(url)
        self.returned: list[Callable[[], None]] = []
        """Called when a lost connection is back: what listens on the server must be set up again."""
        self._refused: dict[str, float] = {}
        self._waiting: dict[str, set[asyncio.Timeout]] = {}
        """The open requests by subject: a forbidden one gets no answer, the server only reports it."""

    @classmethod
    async def connect(
        cls, address: places.Address, *, name: str = "treadle", patience: float = 2.0, lasting: bool = True
    ) -> Bus:
        """A connection that reconnects when lost, if `lasting`. First checks within `patience` that the server is
        there and accepts us.
        """
        nats = places.library()
        options = places.options(address)
        deadline = time.monotonic() + patience
        while places.hung_up(wrong := await places.probed(options, patience)) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        if wrong is not None:
            raise _no_connection(address, wrong)
        client = nats.NATS()
        bus = cls(client, address.url)
        options |= {"error_cb": bus._on_error, "reconnected_cb": bus._on_return}
        options |= {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.2} if lasting else {"allow_reconnect": False}
        try:
            await client.connect(**options, name=name, disconnected_cb=_nothing, closed_cb=_nothing, ping_interval=5)
        except (OSError, TimeoutError, nats.errors.Error) as error:
            await places.close(client)
            raise _no_connection(address, error) from None
        return bus

    async def close(self) -> None:
        await self.client.close()

    @property
    def connected(self) -> bool:
        return bool(self.client.is_connected)

    # A callback that raises would end the client's read loop and leave it deaf, so none does.

    async def _on_error(self, error: Exception) -> None:
        text = str(error)
        if "ermissions" in text and '"' in text:
            subject = text.split('"')[1].lower()
            self._refused[subject] = time.monotonic()
            for limit in self._waiting.get(subject, ()):
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time())
        elif text:
            log.debug("the engine's client: %s", text)

    async def _on_return(self) -> None:
        for call in list(self.returned):
            try:
                call()
            except Exception:
                log.exception("what listens on the engine could not be set up again")

    # Requests...

    async def request(
        self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None, timeout: float = TIMEOUT
    ) -> Msg:
        nats = places.library()
        began, key = time.monotonic(), subject.lower()
        waiting = self._waiting.setdefault(key, set())
        # The client waits for ever to write while it reconnects, so we set the limit.
        limit = asyncio.timeout(timeout + 0.5)
        try:
            async with limit:
                waiting.add(limit)
                return await self.client.request(subject, data, timeout=timeout, headers=headers)
        except (TimeoutError, OSError, nats.errors.Error) as error:
            if self._refused.get(key, 0.0) >= began:
                hint = "`treadle fleet invite NODE --may submit` lets people on a machine do more than look"
                raise Denied(f"these credentials may not write {subject}", hint=hint) from None
            kind = type(error).__name__
            raise Unreachable(f"the engine at {self.url} does not answer ({kind})", hint=_UP) from None
        finally:
            waiting.discard(limit)
            if not waiting:
                self._waiting.pop(key, None)

    async def ask(self, subject: str, kind: type[T], value: Any = None, timeout: float = TIMEOUT) -> T:
        """Send a request in JSON; the answer is JSON of this type."""
        reply = await self.request(subject, b"" if value is None else msgspec.json.encode(value), timeout=timeout)
        found: T = read_as(kind, reply.data, f"the answer on {subject}")
        return found

    async def look(self, subject: str, value: Any = None) -> Msg:
        """Send a request that changes nothing, and repeat it when the answer was lost with a server."""
        data = b"" if value is None else msgspec.json.encode(value)
        deadline = time.monotonic() + sum(LOOK_SECONDS)
        for patience in chain(LOOK_SECONDS, repeat(LOOK_SECONDS[-1])):
            try:
                return await self.request(subject, data, timeout=patience)
            except Unreachable:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)  # it failed at once: the stream may have no leader just now
        raise AssertionError("the last try returns or raises")

    async def api(self, subject: str, value: Any = None) -> dict[str, Any]:
        """Send a request to JetStream itself, such as STREAM.INFO.KV_fleet; a refusal is raised.

        Every request may be repeated: creating a stream or consumer that exists already is not an error.
        """
        reply = await self.look(f"$JS.API.{subject}", value)
        return _checked(msgspec.json.decode(reply.data), subject)

    async def publish(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> int:
        """Store a message in the stream that has this subject. Returns its sequence number."""
        reply = await self.request(subject, data, headers)
        return int(_checked(msgspec.json.decode(reply.data), subject)["seq"])

    async def tell(self, subject: str, data: bytes = b"") -> None:
        """Send a message that is not stored to the one who listens now."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self.client.publish(subject, data)
        except (TimeoutError, OSError, places.library().errors.Error) as error:
            raise Unreachable(f"the engine at {self.url} is away ({type(error).__name__})", hint=_UP) from None

    async def serve(self, subject: str, answer: Callable[[str, bytes], Awaitable[bytes | None]]) -> Any:
        """Answer requests on `subject`, one at a time. Returns the subscription."""

        async def on_message(message: Msg) -> None:
            if is_relayed(message):
                return log.warning("a client had the engine send something on %s: refused", message.subject)
            try:
                reply = await answer(message.subject, message.data)
                if reply is not None and message.reply:
                    await message.respond(reply)
            except Exception:
                log.exception("a request on %s failed", message.subject)

        return await self.client.subscribe(subject, cb=on_message)

    # Keys...

    async def put(self, key: str, value: bytes, *, expect: int | None = None, ttl: int = 0) -> int:
        """Write one key and return its new revision. With `expect`, only if that is its revision (0: it is new)."""
        return await self._write(Write(key, value, expect, ttl))

    async def purge(self, key: str, *, expect: int | None = None) -> None:
        await self._write(Write(key, expect=expect, purge=True))

    async def _write(self, write: Write) -> int:
        return await self.publish(PREFIX + write.key, write.value, write.headers())

    async def get(self, key: str, *, latest: bool = False) -> Entry | None:
        """What a key holds. In a cluster, `latest` asks the leader of the stream."""
        if latest:
            found = await self.last(key)
            return None if found is None or found.removed else found
        message = await self.look(f"$JS.API.DIRECT.GET.{STATE}.{PREFIX}{key}")
        headers = message.headers or {}
        if headers.get("Status") or headers.get("KV-Operation") or headers.get("Nats-Marker-Reason"):
            return None
        return Entry(key, message.data, int(headers["Nats-Sequence"]))

    async def last(self, key: str) -> Entry | None:
        """What was written last under a key, from the leader of the stream: also that it was `removed`."""
        import base64

        reply = await self.look(f"$JS.API.STREAM.MSG.GET.{STATE}", {"last_by_subj": PREFIX + key})
        answer = msgspec.json.decode(reply.data)
        if (answer.get("error") or {}).get("err_code") == 10037:
            return None
        found = _checked(answer, key)["message"]
        headers = base64.b64decode(found.get("hdrs", "")).decode()
        removed = "KV-Operation" in headers or "Nats-Marker-Reason" in headers
        return Entry(key, base64.b64decode(found.get("data", "")), found["seq"], removed)

    async def batch(self, writes: Sequence[Write]) -> int:
        """Make all of these changes or none. Returns the revision of the last; the others precede it by one each."""
        if len(writes) > BATCH_MAX:
            raise ValueError(f"{len(writes)} writes are more than fit into one batch")
        if len(writes) == 1:
            return await self._write(writes[0])
        name = places.library().NATS().new_inbox()[-22:]
        for number, write in enumerate(writes, 1):
            headers = {**write.headers(), "Nats-Batch-Id": name, "Nats-Batch-Sequence": str(number)}
            if number == len(writes):
                return await self.publish(PREFIX + write.key, write.value, {**headers, "Nats-Batch-Commit": "1"})
            try:
                async with asyncio.timeout(TIMEOUT):
                    await self.client.publish(PREFIX + write.key, write.value, headers=headers)
            except (TimeoutError, OSError, places.library().errors.Error):
                raise Unreachable(f"the engine at {self.url} is away", hint=_UP) from None
        return 0

    # Looking at many...

    async def named(self, keys: Sequence[str]) -> dict[str, Entry]:
        """What these keys hold; empty keys are left out. A key with a `*` stands for all that match it."""
        parts = [keys[start : start + 500] for start in range(0, len(keys), 500)]
        found: dict[str, Entry] = {}
        for start in range(0, len(parts), _AT_ONCE):
            for some in await asyncio.gather(*(self._named(part) for part in parts[start : start + _AT_ONCE])):
                found |= some
        return found

    async def _named(self, keys: Sequence[str]) -> dict[str, Entry]:
        try:
            entries = await self._collect({"multi_last": [PREFIX + key for key in keys], "batch": ANSWER_MAX})
        except _TooMany:
            every = [name for key in keys for name in (await self.keys(key) if "*" in key else [key])]
            return await self.named(every)
        return {entry.key: entry for entry in entries}

    async def newest(self, pattern: str, count: int, *, before: int | None = None) -> list[Entry]:
        """The `count` matching keys that changed last, latest first; `before` continues an earlier list."""
        end = before if before is not None else (await self.last_revision()) + 1
        found: list[Entry] = []
        span = max(4 * count, 64)
        while end > 1 and len(found) < count:
            start = max(1, end - span)
            request = {"seq": start, "next_by_subj": PREFIX + pattern, "batch": min(span, 1000)}
            chunk = [entry for entry in await self._collect(request) if entry.revision < end]
            if len(chunk) == 1000 and chunk[-1].revision < end - 1:
                span = 1000  # more than one answer can hold: look at less
                start = max(1, end - span)
                request["seq"] = start
                chunk = [entry for entry in await self._collect(request) if entry.revision < end]
            found += reversed(chunk)
            end = start
            # Look back as far as the missing entries should need, judging by how many were found so far.
            span = min(8 * span, max(64, 2 * span * (count - len(found)) // max(1, len(chunk))))
        return found[:count]

    async def oldest(self, pattern: str, count: int, *, start: int = 1) -> list[Entry]:
        """Up to `count` matching keys from a revision on, earliest change first."""
        return await self._collect({"seq": start, "next_by_subj": PREFIX + pattern, "batch": count})

    async def last_revision(self) -> int:
        info = await self.api(f"STREAM.INFO.{STATE}")
        return int(info["state"]["last_seq"])

    async def keys(self, pattern: str) -> list[str]:
        """The names of all matching keys, however many; keys purged in the last seconds may be included."""
        names: list[str] = []
        while True:
            request = {"subjects_filter": PREFIX + pattern, "offset": len(names)}
            info = await self.api(f"STREAM.INFO.{STATE}", request)
            page = list(info["state"].get("subjects") or {})
            names += page
            if not page or len(names) >= info.get("total", 0):
                return [name.removeprefix(PREFIX) for name in names]

    async def _collect(self, request: dict[str, Any]) -> list[Entry]:
        for patience in LOOK_SECONDS[:-1]:
            try:
                return await self._collect_once(request, patience)
            except (Unreachable, _BrokenOff):
                await asyncio.sleep(0.1)
        return await self._collect_once(request, LOOK_SECONDS[-1])

    async def _collect_once(self, request: dict[str, Any], patience: float) -> list[Entry]:
        inbox, loop = self.client.new_inbox(), asyncio.get_running_loop()
        done = loop.create_future()
        found: list[Entry] = []
        limit = asyncio.timeout(patience)

        async def on_message(message: Msg) -> None:
            headers = message.headers or {}
            status = headers.get("Status")
            if done.done() or limit.expired():
                return
            limit.reschedule(loop.time() + patience)  # a part of the answer: it is only slow
            description = headers.get("Description", "")
            if status == "404" and "multi_last" in request and description != _NONE:
                done.set_exception(_BrokenOff(f"the engine could not read what it had found: {description}"))
            elif status in ("204", "404"):
                done.set_result(None)
            elif status == "413":
                done.set_exception(_TooMany("more keys match than the engine reads at once"))
            elif status:
                done.set_exception(StorageError(f"the engine refused to read: {description or status}"))
            elif not headers.get("KV-Operation") and not headers.get("Nats-Marker-Reason"):
                key = headers["Nats-Subject"].removeprefix(PREFIX)
                found.append(Entry(key, message.data, int(headers["Nats-Sequence"])))

        listening = await self.client.subscribe(inbox, cb=on_message)
        try:
            async with limit:
                await self.client.publish(f"$JS.API.DIRECT.GET.{STATE}", msgspec.json.encode(request), reply=inbox)
                await done
        except (TimeoutError, OSError, places.library().errors.Error):
            raise Unreachable(f"the engine at {self.url} does not answer", hint=_UP) from None
        finally:
            done.cancel()
            try:
                await listening.unsubscribe()
            except places.library().errors.Error:
                pass  # the connection is gone, and the subscription with it
        return found


_UP = "`treadle fleet status` says what is up"


def _checked(answer: dict[str, Any], what: str) -> dict[str, Any]:
    error = answer.get("error")
    if not error:
        return answer
    code, text = error.get("err_code", 0), error.get("description", "")
    if code in _STALE:
        raise Stale(what)
    if code in _FULL:
        raise StorageError(f"the engine's store is full: {text}", hint="raise its limit or remove old events")
    if error.get("code") == 503:
        raise Unreachable(f"the engine cannot store now: {text}", hint=_UP)
    raise EngineRefused(f"the engine refused {what}: {text}", code)


class EngineRefused(TreadleError):
    """JetStream refused, with a code of its own."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


def _no_connection(address: places.Address, error: BaseException) -> TreadleError:
    text = str(error) or type(error).__name__
    if "uthorization" in text or "uthentication" in text:
        return Denied(f"the engine at {places.shown(address.url)} does not accept these credentials")
    return Unreachable(
        f"no one answers at {places.shown(address.url)}: {text}", hint="`treadle fleet up` starts an engine"
    )


async def _nothing() -> None:
    pass


def is_relayed(message: Msg) -> bool:
    """Whether the engine itself sent this message, out of a stream or as its own answer, and no client.

    The engine checks what each role may publish, but not where it delivers what someone asks it to read: a request to
    read a stream may name any subject for the answer. So the one who may read a stream, and write anything to it, could
    have the engine send any instruction. What comes from a stream is marked as such by the engine.
    """
    headers = message.headers or {}
    own = ("Nats-Stream", "Nats-Sequence", "Nats-Msg-Size", "Status", "Nats-Pending-Messages")
    return message.reply.startswith("$JS.") or any(name in headers for name in own)
