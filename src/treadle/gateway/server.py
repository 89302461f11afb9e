"""The gateway of one run: HTTP/1.1 between an agent and its model service, streamed both ways.

The reply is passed on as it comes. A connection upstream that breaks in the middle of a reply breaks the agent's, too:
a client can tell half a reply from a whole one, and ours must look like the service's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import re
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import h11
import msgspec

from treadle.confinement import PortGrant
from treadle.errors import BudgetExceeded, StorageError
from treadle.events import Retrying, Usage
from treadle.gateway import recording
from treadle.gateway.governor import PATIENCE, STATUSES, AccountGovernor, waiting
from treadle.gateway.recording import CallRecorder, CallReplay
from treadle.gateway.spending import ComingCall, Spending
from treadle.io.http import HttpClient, HttpError, Response
from treadle.io.sandbox.proxy import Passage
from treadle.wire.models import families
from treadle.wire.models.families import AskedCall, Family, ReplyMeter, letters, retry_after, with_output_limit

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)
HOST, SECOND_HOST = "127.0.0.1", "127.0.0.2"
"""The second where the sandbox's proxy has all that goes to the first."""
PORT = 3129
"""Where it is inside a sandbox without a network, unless that port is taken there."""
LARGEST_HEAD = 64 * 1024
LARGEST_REQUEST = 64 * 1024 * 1024
"""Bytes of a request's body; the services themselves take 20 to 32 MB."""
LARGEST_ERROR = 1024 * 1024
MOST_CONNECTIONS = 128
CHUNK = 64 * 1024
LETTERS = 4
"""Letters of a request for one token, about."""
CONNECT_SECONDS = 30.0
IDLE_SECONDS = 3600.0
"""The agent's client has a limit of its own, which is shorter: this one is for a client that is gone."""
PLACEHOLDER = "treadle-run-"
_VERSION = re.compile(r"v\d\w*")
_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"}
_HOP |= {"transfer-encoding", "upgrade", "expect"}
_OURS = {"host", "content-length", "accept-encoding"}
_KEYS = {"authorization", "x-api-key", "api-key", "x-goog-api-key"}
"""Headers in which services take a key; it stands nowhere else, so that no service can be made to repeat it."""


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """The service that the agent would use by itself."""

    base_url: str
    secrets: dict[str, str]
    """Each placeholder, and the key that it stands for."""
    headers: tuple[str, ...] = ()
    """Further headers in which this service takes a key."""
    authorities: str = ""
    """A file of certificates that count besides the system's."""

    def __repr__(self) -> str:
        return f"Upstream({urlsplit(self.base_url).hostname})"


class Refusal(Exception):
    def __init__(self, status: int, message: str, form: Family = "chat") -> None:
        super().__init__(message)
        self.status = status
        self.form = form


class HttpAsk(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class GatewayListener(Protocol):
    """Who is told what passes: the session of the agent."""

    def wire_used(self, usage: Usage) -> None:
        """A call has ended, as the service counted it."""
        ...

    def wire_noted(self, message: str, code: str) -> None:
        """What a person should know."""
        ...

    def wire_waits(self, wait: Retrying) -> None:
        """The service limits the account: no call is made before its time."""
        ...

    def wire_refused(self, error: BudgetExceeded) -> None:
        """A call was not made."""
        ...


class ModelGateway(Passage):
    def __init__(
        self,
        upstream: Upstream,
        spending: Spending,
        governor: AccountGovernor,
        *,
        apart: bool,
        host: str = HOST,
        recorder: CallRecorder | None = None,
        replay: CallReplay | None = None,
    ) -> None:
        """`apart`: the agent has no network, so that a Unix socket is bound into its sandbox."""
        super().__init__("", "model")
        self._listener: GatewayListener | None = None
        self._pending: list[Callable[[GatewayListener], None]] = []
        """What was to be told before there was anyone to tell."""
        self.spending = spending
        self.calls = 0
        self._upstream = upstream
        self._base = urlsplit(upstream.base_url)
        before, _, last = self._base.path.rstrip("/").rpartition("/")
        self._hidden, self._shown = (before, f"/{last}") if _VERSION.fullmatch(last) else (f"{before}/{last}", "")
        self._hidden = self._hidden.rstrip("/")
        """The path of the base URL: what only we see of it, as some have a key there, and what the agent sees."""
        self._key_headers = _KEYS | {name.lower() for name in upstream.headers}
        self._governor = governor
        self._apart = apart
        self.recorder = recorder
        self._replay = replay
        self._host = host
        self._port = PORT
        self._client = HttpClient({}, connect_seconds=CONNECT_SECONDS, idle_seconds=IDLE_SECONDS, tls=self._tls())
        self._unmetered: set[str] = set()
        self._waiting_until = 0.0

    def _tls(self) -> ssl.SSLContext | None:
        if not self._upstream.authorities or self._base.scheme != "https":
            return None
        import ssl

        import truststore

        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self._upstream.authorities)
        except OSError as error:
            self._note(f"the certificates in {self._upstream.authorities} cannot be read: {error.strerror}", "gateway")
        return context

    @property
    def url(self) -> str:
        """The base URL of the service as the agent is to use it."""
        return f"http://{self._host}:{self._port}{self._shown}"

    @property
    def ports(self) -> tuple[PortGrant, ...]:
        """What its sandbox must offer."""
        return (PortGrant(self._port, self.path, self._host),) if self._apart else ()

    def report_to(self, listener: GatewayListener) -> None:
        self._listener, pending, self._pending = listener, self._pending, []
        for call in pending:
            call(listener)

    def _tell(self, call: Callable[[GatewayListener], None]) -> None:
        if self._listener is None:
            self._pending.append(call)
        else:
            call(self._listener)

    async def start(self) -> None:
        if self._apart:
            await super().start()
            return
        self._server = await asyncio.start_server(self._visit, self._host, 0)
        self._port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        super().close()
        self._client.abort()

    # One connection of the agent

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)
        try:
            if len(self._visits) > MOST_CONNECTIONS:
                raise Refusal(503, f"treadle: there are {MOST_CONNECTIONS} connections already")
            while (asked := await self._next(http, reader, writer)) is not None:
                if not await _unless_gone(self._answer(asked, http, writer), http, reader):
                    return
                if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                    return
                http.start_next_cycle()
        except Refusal as why:
            await _say(http, writer, why.status, families.refusal(why.form, why.status, str(why)))
        except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            log.info("the agent does not speak HTTP here: %s", error)
        except OSError:
            pass  # the agent has left

    async def _next(
        self, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> HttpAsk | None:
        """The next request, whole; None when there is none any more."""
        head: HttpAsk | None = None
        body = bytearray()
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                if http.they_are_waiting_for_100_continue:
                    writer.write(http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                http.receive_data(await reader.read(CHUNK))
            elif isinstance(event, h11.Request):
                head = _head(event)
                if not self._has_key(head):  # before its body takes memory
                    message = "treadle: this request does not carry the key that this run was given"
                    raise Refusal(401, message, families.form_of(head.path))
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > LARGEST_REQUEST:
                    raise Refusal(413, f"treadle: the request is larger than {LARGEST_REQUEST >> 20} MB")
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return head._replace(body=bytes(body))
            else:
                return None

    async def _answer(self, asked: HttpAsk, http: h11.Connection, writer: asyncio.StreamWriter) -> None:
        form = families.form_of(asked.path)
        try:
            self._check(asked)
            await self._forward(asked, http, writer)
        except Refusal as why:
            await _say(http, writer, why.status, families.refusal(form, why.status, str(why)))
        except BudgetExceeded as error:
            log.info("a call was refused: %s", error)
            await _say(http, writer, 400, families.refusal(form, 400, f"treadle: {error.message}"))
            self._refused(error)
        except HttpError as error:
            log.info("%s %s failed: %s", asked.method, asked.path, error)
            if http.our_state is h11.SEND_BODY:
                raise ConnectionAbortedError from error
            message = self._without_keys(f"treadle: no answer from {self._base.hostname}: {error}")
            await _say(http, writer, 502, families.refusal(form, 502, message))
        except OSError:
            raise  # the agent has left
        except Exception as error:
            log.error("%s %s failed: %s", asked.method, asked.path, type(error).__name__)  # its text may hold a key
            if http.our_state is h11.SEND_BODY:
                raise ConnectionAbortedError from None
            message = f"treadle: this call failed: {type(error).__name__}"
            await _say(http, writer, 502, families.refusal(form, 502, message))

    def _check(self, asked: HttpAsk) -> None:
        if "upgrade" in asked.headers.get("connection", "").lower():
            raise Refusal(426, "treadle: this gateway speaks plain HTTP only")
        if not asked.target.startswith(f"{self._shown}/") or _climbs(asked.path) or "#" in asked.target:
            raise Refusal(404, f"treadle: the model's service is at {self._shown or '/'}, not at {asked.path[:200]}")

    # One call

    async def _forward(self, asked: HttpAsk, http: h11.Connection, writer: asyncio.StreamWriter) -> None:
        family = families.family_of(asked.path) if asked.method == "POST" else None
        call = families.asked_call(family, asked.path, asked.body) if family is not None else None
        if call is None:
            if family is not None and self.spending.limited:
                raise Refusal(400, "treadle: this request is no JSON object, so that it cannot be measured")
            if not families.is_free(asked.method, asked.path):
                self.spending.check()
            await self._exchange(asked, asked.body, None, http, writer)
            return
        tokens = letters(call.body) // LETTERS
        coming = ComingCall(model=call.model, tokens=tokens, output_limit=call.output_limit)
        async with self.spending.call(coming) as reserved:
            lowered = None
            if reserved.output is not None:
                lowered = with_output_limit(call, reserved.output)
                if lowered is None:
                    most = f"{reserved.output} tokens of thought and reply"
                    raise BudgetExceeded(f"the rest of the budget allows only {most}")
                self._note(reserved.note, "budget")
            await self._exchange(asked, asked.body if lowered is None else lowered, call, http, writer)

    async def _exchange(
        self,
        asked: HttpAsk,
        body: bytes,
        call: AskedCall | None,
        http: h11.Connection,
        writer: asyncio.StreamWriter,
    ) -> None:
        if self._replay is not None:
            await self._repeat(self._replay, asked, http, writer)
            return
        url = f"{self._base.scheme}://{self._base.netloc}{self._hidden}{self._target(asked)}"
        began, waited = time.monotonic(), 0.0
        while True:
            async for until in self._governor.turn():
                self._announce_wait(until)
            asked_at = time.time()
            async with self._client.request(asked.method, url, body, self._headers(asked.headers)) as response:
                log.info("%s %s: %d", asked.method, asked.path, response.status)
                if response.status < 400:
                    if call is not None:
                        self._governor.succeeded(asked_at)
                    await self._stream(response, asked, call, began, http, writer)
                    return
                error = await response.beginning(LARGEST_ERROR)
                again = None
                if call is not None:
                    again = self._governor.refused(response.status, response.headers, error, waited, asked_at)
                if again is None:
                    limited = retry_after(response.headers, asked_at) if call and response.status in STATUSES else None
                    if limited is not None and limited > PATIENCE:
                        self._announce_wait(asked_at + limited)
                    self._record(asked, response, error, whole=True, unpacked=True)
                    await self._fail(response, error, http, writer)
                    return
            waited += again

    def _announce_wait(self, until: float) -> None:
        if until > self._waiting_until + 1:
            self._waiting_until = until
            self._tell(lambda to: to.wire_waits(waiting(until)))

    async def _stream(
        self,
        response: Response,
        asked: HttpAsk,
        call: AskedCall | None,
        began: float,
        http: h11.Connection,
        writer: asyncio.StreamWriter,
    ) -> None:
        kind, packed = (response.headers.get(name, "") for name in ("content-type", "content-encoding"))
        count = CountedReply(self, call, ReplyMeter(call.family, call.model, kind) if call else None, packed, began)
        fields = self._passed(response, _HOP)
        writer.write(http.send(h11.Response(status_code=response.status, headers=fields)) or b"")
        parts: list[bytes] | None = [] if self.recorder is not None else None
        size, ended = 0, False
        try:
            async for chunk in response.raw():
                count.feed(chunk)
                if parts is not None and size <= recording.LARGEST:  # with more than that it is not stored
                    parts.append(chunk)
                    size += len(chunk)
                writer.write(http.send(h11.Data(data=chunk)) or b"")
                await writer.drain()
            count.end()
            ended = True
        finally:
            count.settle()
            if parts is not None:
                self._record(asked, response, b"".join(parts), whole=ended)
        if call is None and not families.is_free(asked.method, asked.path):
            self.note_unmetered(f"calls of {asked.path[:100]} are not metered: what they cost is unknown")
        writer.write(http.send(h11.EndOfMessage()) or b"")
        await writer.drain()

    def _record(self, asked: HttpAsk, response: Response, reply: bytes, *, whole: bool, unpacked: bool = False) -> None:
        if self.recorder is None:
            return
        dropped = "content-encoding" if unpacked else ""
        headers = {name: text for name, text in response.headers.items() if name != dropped}
        path = self._without_keys(asked.path)
        try:
            note = self.recorder.call(asked.method, path, asked.body, response.status, headers, reply, whole)
        except StorageError as error:
            note, self.recorder = f"the recording ends here: {error.message}", None
        if note:
            self._note(note, "recording")

    async def _repeat(
        self, replay: CallReplay, asked: HttpAsk, http: h11.Connection, writer: asyncio.StreamWriter
    ) -> None:
        """Answer from a record."""
        known = len(replay.differences)
        found = replay.answer(asked.path, asked.body)
        for difference in replay.differences[known:]:
            self._note(difference, "replay")
        if found is None:
            raise Refusal(400, "treadle: the record has no further reply for this path")
        call, reply = found
        fields = [(name.encode(), text.encode()) for name, text in call.headers.items()]
        if call.whole:
            await _say(http, writer, call.status, reply, fields)
            return
        writer.write(http.send(h11.Response(status_code=call.status, headers=fields)) or b"")
        writer.write(http.send(h11.Data(data=reply)) or b"")
        await writer.drain()
        raise ConnectionAbortedError

    async def _fail(self, response: Response, body: bytes, http: h11.Connection, writer: asyncio.StreamWriter) -> None:
        """Pass on an error, unpacked and without the key, which some services repeat in theirs."""
        plain = self._without_keys(body.decode("latin-1")).encode("latin-1")
        fields = self._passed(response, {*_HOP, "content-length", "content-encoding"})
        await _say(http, writer, response.status, plain, fields)

    def _passed(self, response: Response, dropped: set[str]) -> list[tuple[bytes, bytes]]:
        """The headers of a reply, without keys."""
        passed = [(name, value) for name, value in response.fields if name.decode("ascii") not in dropped]
        return [(name, self._without_keys(value.decode("latin-1")).encode("latin-1")) for name, value in passed]

    def observed(self, usage: Usage) -> None:
        self.calls += 1
        priced = self.spending.add(usage)
        if priced.cost_usd is None and self.spending.limits.max_cost_usd is not None:
            self.note_unmetered(f"the price of {usage.model} is not known, so its cost is not limited")
        self._tell(lambda to: to.wire_used(priced))

    def note_unmetered(self, message: str) -> None:
        if message not in self._unmetered:
            self._unmetered.add(message)
            self._note(message, "unmetered")

    def _note(self, message: str, code: str) -> None:
        self._tell(lambda to: to.wire_noted(message, code))

    def _refused(self, error: BudgetExceeded) -> None:
        self._tell(lambda to: to.wire_refused(error))

    # Keys

    def _headers(self, given: Mapping[str, str]) -> dict[str, str]:
        sent = {name: text for name, text in given.items() if name not in _HOP | _OURS}
        sent |= {name: self._with_keys(text) for name, text in sent.items() if name in self._key_headers}
        # Only what the meter can unpack: a client takes a reply that is packed less.
        sent["accept-encoding"] = "gzip" if "gzip" in given.get("accept-encoding", "") else "identity"
        return sent

    def _target(self, asked: HttpAsk) -> str:
        fields = asked.target.partition("?")[2].split("&")
        query = "&".join(self._with_keys(field) if field.startswith("key=") else field for field in fields)
        return f"{asked.path}?{query}" if query else asked.path

    def _has_key(self, asked: HttpAsk) -> bool:
        given = [text for name, text in asked.headers.items() if name in self._key_headers]
        given += [field for field in asked.target.partition("?")[2].split("&") if field.startswith("key=")]
        return any(_holds("\n".join(given), placeholder) for placeholder in self._upstream.secrets)

    def _with_keys(self, text: str) -> str:
        for placeholder, key in self._upstream.secrets.items():
            text = text.replace(placeholder, key)
        return text

    def _without_keys(self, text: str) -> str:
        for placeholder, key in self._upstream.secrets.items():
            text = text.replace(key, placeholder) if key else text
        return text


class CountedReply:
    """Counts one reply while it passes; the call is settled once, before the agent sees the reply's end."""

    def __init__(
        self, gateway: ModelGateway, call: AskedCall | None, meter: ReplyMeter | None, packed: str, began: float
    ) -> None:
        self._gateway = gateway
        self._call = call
        self._meter = meter
        self._began = began
        self._packed = packed.strip().lower() not in ("", "identity")
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if self._packed and "gzip" in packed.lower() else None
        self._settled = False
        self._passed = 0

    def feed(self, chunk: bytes) -> None:
        self._passed += len(chunk)
        if self._meter is None or self._packed and self._unpack is None:
            return
        try:
            while self._unpack is not None and chunk:
                self._meter.feed(self._unpack.decompress(chunk, 1024 * 1024))
                chunk = self._unpack.unconsumed_tail
            if self._unpack is None:
                self._meter.feed(chunk)
        except zlib.error:
            self._unpack = None
        if self._meter.done:
            self.settle()

    def end(self) -> None:
        if self._meter is not None:
            self._meter.end()

    def settle(self) -> None:
        """Report what was used. A reply that broke off was charged all the same: what it did not count is estimated."""
        if self._settled or self._meter is None or self._call is None:
            return
        self._settled = True
        usage = self._meter.usage()
        if not self._meter.done:
            usage = usage or Usage(model=self._call.model, input_tokens=letters(self._call.body) // LETTERS)
            passed = max(usage.output_tokens, self._passed // LETTERS)
            usage = msgspec.structs.replace(usage, output_tokens=passed)
        if usage is None:
            family: Family = self._call.family
            self._gateway.note_unmetered(f"replies of {self._call.model or family} have no token counts: not metered")
            return
        took = round((time.monotonic() - self._began) * 1000)
        source = usage.source if self._meter.done else "estimate"
        self._gateway.observed(msgspec.structs.replace(usage, duration_ms=took, source=source))


async def _unless_gone(
    answering: Coroutine[Any, Any, None], http: h11.Connection, reader: asyncio.StreamReader
) -> bool:
    """Answer; stop when the agent leaves, so that no one pays for what no one reads. False when it has left."""
    answer = asyncio.ensure_future(answering)
    leaving = asyncio.ensure_future(_left(http, reader))
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            answer.result()
            return True
        return False
    finally:
        for task in (answer, leaving):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asyncio.gather(answer, leaving, return_exceptions=True)


async def _left(http: h11.Connection, reader: asyncio.StreamReader) -> None:
    """Return when the connection ends; what comes meanwhile is the next request."""
    most = LARGEST_HEAD
    while most > 0:
        data = await reader.read(CHUNK)
        if not data:
            return
        http.receive_data(data)
        most -= len(data)
    await asyncio.Event().wait()


async def _say(
    http: h11.Connection,
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    fields: list[tuple[bytes, bytes]] | None = None,
) -> None:
    """Answer with a whole body, if nothing was said yet."""
    if http.our_state not in (h11.SEND_RESPONSE, h11.IDLE):
        return
    headers = fields if fields is not None else [(b"content-type", b"application/json")]
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    writer.write(http.send(h11.Response(status_code=status, headers=headers)) or b"")
    with contextlib.suppress(h11.LocalProtocolError):  # the answer to a HEAD has no body
        writer.write((http.send(h11.Data(data=body)) or b"") + (http.send(h11.EndOfMessage()) or b""))
    await writer.drain()


def _head(request: h11.Request) -> HttpAsk:
    headers: dict[str, str] = {}
    for name, value in request.headers:
        key, text = name.decode("ascii"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return HttpAsk(request.method.decode(), request.target.decode("latin-1"), headers, b"")


def _holds(given: str, placeholder: str) -> bool:
    """Whether the placeholder is in this text, compared without telling by the time how much of it is right."""
    start = given.find(PLACEHOLDER)
    while start >= 0:
        if hmac.compare_digest(given[start : start + len(placeholder)].encode(), placeholder.encode()):
            return True
        start = given.find(PLACEHOLDER, start + 1)
    return False


def _climbs(path: str) -> bool:
    """Whether a path leads out of the service's own, as it stands or unquoted."""
    plain = path.lower().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace("\\", "/")
    return ".." in plain.split("/")


def placeholder(number: int) -> str:
    """A key that is worth nothing outside of this run."""
    return f"{PLACEHOLDER}{os.urandom(16).hex()}{number:02d}"
