"""A scripted model behind real HTTP, in four wire formats, with faults on request.

    python -m treadle.testing.server SCRIPT [--port N] [--fault NAME ...]

For our own provider tests, and for outside agents: point their base URL here.
"""

import asyncio
import itertools
import re
import signal
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Self, get_args

import h11
import msgspec

from treadle.agent.providers.script import Cue, ErrorLine, Fault, Player, Script, ScriptedReply, load
from treadle.errors import ConfigError, ProviderError
from treadle.io.tasks import end_tasks, start_held
from treadle.testing.formats import Play, ReplyFormat, anthropic, chat, encode, gemini, responses

# Ways in which a model service breaks, performed on a real socket.


GIANT = 64 * 1024 * 1024
HARMLESS = frozenset({"slow", "split", "giant"})
"""After these faults the reply is complete, so the script goes on; after any other the same reply is given again."""

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
CHUNKED = STREAM + b"transfer-encoding: chunked\r\n\r\n"
HTML = b"<!doctype html><title>Sign in</title><h1>Sign in to the hotel network</h1>"


def parse(text: str) -> Fault | ErrorLine | None:
    """A fault as written on a command line: a name, a status such as `500` or `429:2` (seconds to wait), or `ok`."""
    if text == "ok":
        return None
    if status := re.fullmatch(r"([45]\d\d)(?::([\d.]+))?", text):
        wait = float(status[2]) if status[2] else None
        return ErrorLine(status=int(status[1]), message="a fault was asked for", retry_after=wait)
    try:
        fault: Fault = msgspec.convert(text, Fault)
        return fault
    except msgspec.ValidationError:
        known = ", ".join(get_args(Fault))
        raise ConfigError(f"unknown fault {text!r}", hint=f"one of: ok, 429:SECONDS, 500, {known}") from None


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def perform(
    fault: Fault, events: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answer with `events`, with this fault. True if the connection can serve another request."""
    half = events[: len(events) // 2]
    body = b"".join(events)
    if fault == "hang":
        await _until_gone(reader)
    elif fault == "html":
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(HTML) + HTML)
        return True
    elif fault == "short_length":
        writer.write(STREAM + b"content-length: %d\r\n\r\n" % (len(body) // 2) + body)
    elif fault == "long_length":
        writer.write(STREAM + b"content-length: %d\r\n\r\n" % (len(body) * 2) + body[: len(body) // 2])
    else:
        writer.write(CHUNKED)
        return await _streamed(fault, half, events, reader, writer)
    return False


async def _streamed(
    fault: Fault,
    half: list[bytes],
    events: list[bytes],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> bool:
    rest = events[len(half) :]
    if fault in ("cut", "reset", "stall"):
        writer.write(chunk(b"".join(half) + rest[0][: len(rest[0]) // 2]))
        await writer.drain()
        if fault == "stall":
            await _until_gone(reader)
        if fault == "reset":
            _reset(writer)
        return False
    if fault == "early_end":
        writer.write(chunk(b"".join(half)))
    elif fault == "garbage":
        writer.write(chunk(b"".join(half) + b"data: {\x00\xff not json\n\n" + b"".join(rest)))
    elif fault == "giant":
        writer.write(chunk(b"".join(half) + b'data: {"type":"ping","choices":[],"padding":"'))
        for _ in range(GIANT >> 20):
            writer.write(chunk(b"x" * (1 << 20)))
            await writer.drain()
        writer.write(chunk(b'"}\n\n' + b"".join(rest)))
    else:
        await _dribble(b"".join(events), writer, pause=0.001 if fault == "slow" else 0.0)
    writer.write(b"0\r\n\r\n")
    return True


async def _dribble(body: bytes, writer: asyncio.StreamWriter, pause: float) -> None:
    """Send a few bytes at a time, and single bytes inside a character that has several."""
    for piece in re.findall(rb"[\x80-\xff]|[\x00-\x7f]{1,7}", body):
        writer.write(chunk(piece))
        await writer.drain()
        await asyncio.sleep(pause)


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


FORMATS: dict[str, ReplyFormat] = {
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": anthropic,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}
PIECE = 65536
LARGEST_REQUEST = 256 * 1024 * 1024


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any = None


class ModelServer:
    """`async with ModelServer(script) as server:` serves it on `server.url` until the block ends.

    `faults` are used up one per model request, in order; None means no fault. `batch` sends as many events per HTTP
    chunk as fit, which is fast; without it each event is a chunk of its own, as most services send them. `socket` is
    the path of a Unix socket to serve at in place of a port.
    """

    def __init__(
        self,
        script: Script,
        *,
        faults: Iterable[Fault | ErrorLine | None] = (),
        port: int = 0,
        batch: bool = True,
        socket: str = "",
    ) -> None:
        self.player = Player(script)
        self.requests: list[Recorded] = []
        self.connections = 0
        self._faults = list(faults)
        self._port = port
        self._batch = batch
        self._socket = socket
        self._ids = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def asked(self) -> list[Recorded]:
        """The requests for a reply, without listings and token counts."""
        return [request for request in self.requests if _format(request) is not None]

    async def __aenter__(self) -> Self:
        if self._socket:
            self._server = await asyncio.start_unix_server(self._connected, self._socket)
            return self
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await end_tasks(*self._open)
        await self._server.wait_closed()

    async def arrived(self, number: int) -> None:
        """Wait until this many requests for a reply have come."""
        while len(self.asked) < number:
            self._news.clear()
            await self._news.wait()

    async def all_gone(self) -> None:
        """Wait until every connection is closed."""
        if self._open:
            await asyncio.wait(self._open)

    async def serve_forever(self) -> None:
        assert self._server is not None
        await self._server.serve_forever()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        start_held(self._open, self._converse(reader, writer))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for request in _requests(reader, writer):
                self.requests.append(request)
                self._news.set()
                if not await self._answer(request, reader, writer):
                    break
                await writer.drain()
            with suppress(OSError):
                await writer.drain()
        except (OSError, h11.RemoteProtocolError):
            pass  # the client went away or does not speak HTTP: no one is left to answer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, request: Recorded, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        form = _format(request)
        if form is None:
            writer.write(_json(*self._other(request)))
            return True
        if not isinstance(request.body, dict):
            writer.write(_json(400, form.failure(400, "the body is not a JSON object")))
            return True
        fault = self._faults.pop(0) if self._faults else None
        if isinstance(fault, ErrorLine):
            writer.write(_error(form, fault))
            return True
        asked: Cue = form.asked(request.body)
        try:
            reply = self.player.peek(asked) if fault and fault not in HARMLESS else self.player.next(asked)
        except ProviderError as error:
            writer.write(_json(400, form.failure(400, str(error))))
            return True
        named = request.path.rpartition("/")[2].partition(":")[0] if form is gemini else ""
        model = str(request.body.get("model") or named or self.player.script.model)
        streams = bool(request.body.get("stream")) or request.path.endswith(":streamGenerateContent")
        play = Play(reply=reply, model=model, turn=asked.turn, id=f"{next(self._ids)}")
        return await self._play(form, play, fault or reply.fault, streams, reader, writer)

    async def _play(
        self,
        form: ReplyFormat,
        play: Play,
        fault: Fault | None,
        stream: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        reply = play.reply
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.error is not None:
            writer.write(_error(form, reply.error))
        elif fault is not None:
            return await perform(fault, form.events(play), reader, writer)
        elif not stream:
            writer.write(_json(200, form.whole(play)))
        else:
            writer.write(CHUNKED)
            await self._send(form.events(play), reply, writer)
            writer.write(b"0\r\n\r\n")
        return True

    async def _send(self, events: list[bytes], reply: ScriptedReply, writer: asyncio.StreamWriter) -> None:
        if self._batch and not reply.pace:
            body = b"".join(events)
            for at in range(0, len(body), PIECE):
                writer.write(chunk(body[at : at + PIECE]))
                await writer.drain()
            return
        for event in events:
            if reply.pace:
                await asyncio.sleep(reply.pace)
            writer.write(chunk(event))
            await writer.drain()

    def _other(self, request: Recorded) -> tuple[int, dict[str, Any]]:
        if request.path.endswith("/models"):
            name = self.player.script.model
            entry = {"id": name, "object": "model", "created": 0, "owned_by": "treadle", "type": "model"}
            return 200, {"object": "list", "data": [{**entry, "display_name": name}], "has_more": False}
        if request.path.endswith(":countTokens"):
            return 200, {"totalTokens": len(encode(request.body)) // 4}
        if request.path.endswith("/count_tokens"):
            return 200, {"input_tokens": len(encode(request.body)) // 4}
        return 404, {"error": {"message": f"nothing is served at {request.path}", "type": "not_found_error"}}


def _format(request: Recorded) -> ReplyFormat | None:
    if request.method != "POST":
        return None
    return next((form for path, form in FORMATS.items() if request.path.endswith(path)), None)


async def _requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[Recorded]:
    """The requests of one connection, read with a fresh h11 connection each, because answers are written without it."""
    rest = b""
    while True:
        wire = h11.Connection(h11.SERVER)
        if rest:
            wire.receive_data(rest)
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = wire.next_event()
            if event is h11.NEED_DATA:
                if wire.they_are_waiting_for_100_continue:
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                wire.receive_data(await reader.read(PIECE))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > LARGEST_REQUEST:
                    return
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return
        assert head is not None
        yield _recorded(head, bytes(body))
        rest = wire.trailing_data[0]


def _recorded(head: h11.Request, body: bytes) -> Recorded:
    headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
    try:
        decoded = msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, RecursionError):
        decoded = body
    path = head.target.decode("latin-1").partition("?")[0]
    return Recorded(method=head.method.decode(), path=path, headers=headers, body=decoded)


def _json(status: int, body: dict[str, Any], headers: str = "") -> bytes:
    data = encode(body)
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def _error(form: ReplyFormat, line: ErrorLine) -> bytes:
    wait = "" if line.retry_after is None else f"retry-after: {line.retry_after:g}\r\n"
    return _json(line.status, form.failure(line.status, line.message), wait)


def main(argv: list[str] | None = None) -> None:
    import argparse

    from treadle.errors import TreadleError
    from treadle.io.process.loop import run_async

    parser = argparse.ArgumentParser(
        prog="python -m treadle.testing.server", description="Serve a scripted model over HTTP."
    )
    parser.add_argument("script", help="a TOML file of replies (docs/reference/scripted-model.md)")
    parser.add_argument("--port", type=int, default=0, help="default: any free one, printed on the first line")
    parser.add_argument(
        "--fault", action="append", default=[], help="spent one per request: cut, stall, 500, 429:2, ok, ..."
    )
    parser.add_argument("--unbatched", action="store_true", help="one HTTP chunk per event, as most services send them")
    args = parser.parse_args(argv)
    try:
        script, faults = load(args.script), [parse(fault) for fault in args.fault]
        run_async(_serve(ModelServer(script, faults=faults, port=args.port, batch=not args.unbatched)))
    except (TreadleError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


async def _serve(server: ModelServer) -> None:
    task = asyncio.current_task()
    assert task is not None
    for signum in (signal.SIGINT, signal.SIGTERM):  # also when a shell started us with SIGINT ignored
        asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
    with suppress(asyncio.CancelledError):
        async with server:
            print(f"serving on {server.url}/v1", flush=True)
            await server.serve_forever()


if __name__ == "__main__":
    main()
