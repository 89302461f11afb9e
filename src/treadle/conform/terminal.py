"""Clauses for a supervisor of terminals: frames on a Unix socket. It is started as `COMMAND run --id ID ...`."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator

import msgspec

from treadle.conform.kit import Broken, Candidate, Kit, expect
from treadle.errors import RemoteProtocolError
from treadle.io import scratch
from treadle.io.process.child import Child, start
from treadle.io.tasks import within

KIT = Kit(protocol="terminal", specification="terminal supervisor, binary framing (mode 0x00)", clauses=[])

CONNECTION, STATUS_, SUBSCRIBED, ACTING = "connection", "STATUS", "SUBSCRIBE", "INPUT, RESIZE and KILL"
INPUT, SUBSCRIBE, STATUS, RESIZE, KILL = range(1, 6)
OUTPUT, STATUS_RESP, EXIT = 0x81, 0x82, 0x83
LONGEST = 16 * 1024 * 1024
STATES = {0x00: "Idle", 0x04: "Active"}
"""Those of the classifier `simple`."""
QUIET = "exec sleep 600"
ECHO = "stty -echo; echo READY; exec cat"


class StatusResponse(msgspec.Struct, frozen=True):
    pid: int
    idle_ms: int
    alive: int
    state: int
    state_ms: int
    reserved: int


class TerminalClient:
    """One connection, which trusts nothing it reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float) -> None:
        self._reader, self._writer, self._patience = reader, writer, patience
        self.output = b""
        """All output so far."""
        self.exited: int | None = None

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise RemoteProtocolError("it closed the connection and accepts nothing more") from error

    async def send(self, kind: int, payload: bytes = b"") -> None:
        await self.write(bytes([kind]) + len(payload).to_bytes(4, "big") + payload)

    async def mode(self) -> int:
        return (await self._exactly(1, "the mode byte"))[0]

    async def frame(self, waiting_for: str) -> tuple[int, bytes]:
        head = await self._exactly(5, waiting_for)
        length = int.from_bytes(head[1:], "big")
        if head[0] not in (OUTPUT, STATUS_RESP, EXIT) or length > LONGEST:
            raise RemoteProtocolError(f"there is no frame that begins with {head.hex(' ')} (waiting for {waiting_for})")
        payload = await self._exactly(length, waiting_for)
        if head[0] == OUTPUT:
            self.output += payload
        elif head[0] == EXIT:
            if length != 4:
                raise RemoteProtocolError(f"EXIT has {length} bytes, not 4")
            self.exited = int.from_bytes(payload, "big", signed=True)
        return head[0], payload

    async def until(self, wanted: bytes, times: int = 1) -> None:
        """Read until the output has this."""
        while self.output.count(wanted) < times:
            await self.frame(f"{wanted!r} in the output, which is {self.output[-200:]!r}")

    async def exit_code(self) -> int:
        while self.exited is None:
            await self.frame("EXIT")
        return self.exited

    async def status(self) -> StatusResponse:
        await self.send(STATUS)
        while (found := await self.frame("STATUS_RESP"))[0] != STATUS_RESP:
            pass
        return read_status(found[1])

    async def _exactly(self, count: int, waiting_for: str) -> bytes:
        try:
            async with within(self._patience):
                return await self._reader.readexactly(count)
        except TimeoutError as error:
            why = f"nothing came within {self._patience:g} s (waiting for {waiting_for})"
            raise RemoteProtocolError(why) from error
        except (asyncio.IncompleteReadError, OSError) as error:
            raise RemoteProtocolError(f"it closed the connection (waiting for {waiting_for})") from error

    def close(self) -> None:
        self._writer.close()


def read_status(payload: bytes) -> StatusResponse:
    if len(payload) != 15:
        raise Broken(f"STATUS_RESP has {len(payload)} bytes, not 15")
    at = [(0, 4), (4, 8), (8, 9), (9, 10), (10, 14), (14, 15)]
    return StatusResponse(*(int.from_bytes(payload[first:last], "big") for first, last in at))


class Supervised:
    def __init__(self, path: str, patience: float) -> None:
        self._path, self._patience = path, patience
        self._clients: list[TerminalClient] = []

    async def raw(self) -> TerminalClient:
        """A connection whose mode byte has not been read."""
        try:
            streams = await asyncio.open_unix_connection(self._path)
        except OSError as error:
            raise RemoteProtocolError(f"its socket accepts no connection: {error.strerror}") from error
        client = TerminalClient(*streams, self._patience)
        self._clients.append(client)
        return client

    async def connect(self) -> TerminalClient:
        client = await self.raw()
        mode = await client.mode()
        expect(mode == 0, mode, "the mode byte is not 0x00")
        return client

    async def subscribe(self, wanted: bytes) -> TerminalClient:
        """A client that is shown the output, and has seen this."""
        client = await self.connect()
        await client.send(SUBSCRIBE)
        await client.until(wanted)
        return client

    async def there(self, child: Child) -> None:
        """Wait for the socket. The program may go to the background, but may not fail."""
        with contextlib.suppress(TimeoutError):
            async with within(self._patience):
                while not child.exit_code:
                    with contextlib.suppress(RemoteProtocolError):
                        return (await self.raw()).close()
                    await asyncio.sleep(0.02)
        last = (await child.last_words()).strip()[-300:]
        ended = f"it exited with {child.exit_code}" if child.exit_code else f"none in {self._patience:g} s"
        raise Broken(f"the socket t.sock did not come, {ended}: {last}")

    async def end(self) -> None:
        """The supervisor may be a process that we did not start: its program is ended over the wire."""
        with contextlib.suppress(RemoteProtocolError, TimeoutError):
            client = await self.raw()
            await client.mode()
            await client.send(SUBSCRIBE)
            await client.send(KILL)
            async with within(5.0):
                await client.exit_code()
        for client in self._clients:
            client.close()


@contextlib.asynccontextmanager
async def supervised(candidate: Candidate, script: str, *options: str) -> AsyncIterator[Supervised]:
    """A shell that runs this script, in a terminal of the candidate."""
    with scratch.directory("c") as directory:
        words = ["run", "--id", "t", "--socket-dir", directory, "--detach", "--classifier", "simple", *options]
        command = [*candidate.command, *words, "--", "sh", "-c", script]
        async with await start(command, env={**os.environ, **candidate.env}, cwd=directory) as child:
            found = Supervised(os.path.join(directory, "t.sock"), candidate.patience)
            await found.there(child)
            try:
                yield found
            finally:
                await found.end()


clause = KIT.opening(supervised)
whole_clause = KIT.clause


@clause(CONNECTION, "the first byte of a connection is the mode, 0x00, without a frame", QUIET)
async def _(terminal: Supervised) -> str:
    mode = await (await terminal.raw()).mode()
    expect(mode == 0, mode, "it is another")
    return "0x00"


@clause(CONNECTION, "after the mode byte there is nothing until the client asks", "echo HELLO; exec sleep 600")
async def _(terminal: Supervised) -> str:
    await terminal.subscribe(b"HELLO")
    client = await terminal.connect()
    await client.send(STATUS)
    kind, _payload = await client.frame("STATUS_RESP")
    expect(kind == STATUS_RESP, kind, "something else came first")
    return "the first frame answers the first question"


@clause(CONNECTION, "several frames in one write are each answered", QUIET)
async def _(terminal: Supervised) -> str:
    client = await terminal.connect()
    await client.write(bytes([STATUS, 0, 0, 0, 0]) * 3)
    for _ in range(3):
        kind, payload = await client.frame("STATUS_RESP")
        expect(kind == STATUS_RESP, kind, "another frame came")
        read_status(payload)
    return "3 answers"


@clause(CONNECTION, "a frame that comes byte by byte is understood", ECHO)
async def _(terminal: Supervised) -> str:
    client = await terminal.subscribe(b"READY")
    for byte in bytes([INPUT, 0, 0, 0, 5]) + b"slow\n":
        await client.write(bytes([byte]))
        await asyncio.sleep(0.01)
    await client.until(b"slow")
    return "understood"


@clause(CONNECTION, "a frame of length zero is valid", ECHO)
async def _(terminal: Supervised) -> str:
    client = await terminal.subscribe(b"READY")
    await client.send(INPUT)
    await client.send(INPUT, b"more\n")
    await client.until(b"more")
    return "the next is understood"


@clause(CONNECTION, "a client that leaves, also within a frame, harms neither the program nor others", ECHO)
async def _(terminal: Supervised) -> str:
    stays = await terminal.subscribe(b"READY")
    leaves = await terminal.connect()
    await leaves.write(bytes([INPUT, 0, 0, 0, 9]) + b"hal")
    leaves.close()
    await stays.send(INPUT, b"whole\n")
    await stays.until(b"whole")
    expect((await stays.status()).alive == 1, 0, "the program is gone")
    return "both go on"


@clause(CONNECTION, "a second client is served while the first is silent", QUIET)
async def _(terminal: Supervised) -> str:
    await terminal.raw()
    return f"pid {(await (await terminal.connect()).status()).pid}"


@clause(STATUS_, "STATUS is answered with 15 bytes, and the last is 0x00", QUIET)
async def _(terminal: Supervised) -> str:
    found = await (await terminal.connect()).status()
    expect(found.reserved == 0, found.reserved, "the reserved byte is another")
    return str(found)


@clause(STATUS_, "pid is that of the program", "echo pid=$$=; exec sleep 600")
async def _(terminal: Supervised) -> str:
    client = await terminal.subscribe(b"=\r")
    printed = re.search(rb"pid=(\d+)=", client.output)
    found = await client.status()
    expect(printed is not None and int(printed[1]) == found.pid, found.pid, f"the program says {client.output!r}")
    return str(found.pid)


@clause(STATUS_, "alive is 1 while the program runs", QUIET)
async def _(terminal: Supervised) -> str:
    found = await (await terminal.connect()).status()
    expect(found.alive == 1, found.alive, "it is another")
    return "1"


@whole_clause(STATUS_, "idle_ms counts from the last output, and state_ms from the last change of state")
async def _(candidate: Candidate) -> str:
    async with supervised(candidate, "echo one; exec sleep 600", "--idle-threshold-ms", "200") as terminal:
        client = await terminal.connect()
        async with within(candidate.patience):
            while (first := await client.status()).state != 0:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.4)
        second = await client.status()
        for name in ("idle_ms", "state_ms"):
            passed = getattr(second, name) - getattr(first, name)
            expect(passed >= 300, passed, f"{name} did not count")
        return f"idle {first.idle_ms}, then {second.idle_ms} ms"


@whole_clause(STATUS_, "output makes the state Active, silence makes it Idle")
async def _(candidate: Candidate) -> str:
    noisy = "read x; while :; do echo .; sleep 0.02; done"
    async with supervised(candidate, noisy, "--idle-threshold-ms", "1000") as terminal:
        client = await terminal.connect()
        for wanted, name in STATES.items():
            try:
                async with within(candidate.patience):
                    while (found := (await client.status()).state) != wanted:
                        expect(found in STATES, found, "it is no state of the classifier")
                        await asyncio.sleep(0.02)
            except TimeoutError as error:
                raise Broken(f"it did not become {name}") from error
            await client.send(INPUT, b"\n")
        return "Idle, then Active"


@clause(
    SUBSCRIBED,
    "who comes late is shown the scrollback as OUTPUT frames",
    "for n in 1 2 3; do echo line-$n; done; exec sleep 600",
)
async def _(terminal: Supervised) -> str:
    await terminal.subscribe(b"line-3")
    late = await terminal.subscribe(b"line-3")
    expect(b"line-1" in late.output, late.output.decode(errors="replace"), "the beginning is missing")
    return f"{len(late.output)} bytes"


@whole_clause(SUBSCRIBED, "live output reaches every subscriber, in order and unchanged")
async def _(candidate: Candidate) -> str:
    shown = r"printf 'A\000\001\377\033[0m'; seq 1 2000 | tr '\n' ,; echo END"
    script = f"stty raw -echo; echo READY; read x; {shown}; exec sleep 600"
    async with supervised(candidate, script) as terminal:
        both = [await terminal.subscribe(b"READY"), await terminal.subscribe(b"READY")]
        await both[0].send(INPUT, b"\n")
        wanted = b"A\0\1\xff\x1b[0m" + b"".join(b"%d," % number for number in range(1, 2001)) + b"END"
        for client in both:
            await client.until(b"END")
            expect(wanted in client.output, client.output[-200:].decode(errors="replace"), "it is not what was written")
        return f"{len(wanted)} bytes, twice"


@clause(SUBSCRIBED, "a subscriber may still ask for the STATUS and send INPUT", ECHO)
async def _(terminal: Supervised) -> str:
    client = await terminal.subscribe(b"READY")
    await client.status()
    await client.send(INPUT, b"typed\n")
    await client.until(b"typed")
    return "both"


@clause(SUBSCRIBED, "when the program exits, every subscriber gets EXIT with its code", "echo READY; read x; exit 7")
async def _(terminal: Supervised) -> str:
    both = [await terminal.subscribe(b"READY"), await terminal.subscribe(b"READY")]
    await both[0].send(INPUT, b"\n")
    codes = [await client.exit_code() for client in both]
    expect(codes == [7, 7], codes, "the code is not 7")
    return "7"


@clause(SUBSCRIBED, "the last output comes before EXIT", "echo READY; read x; echo LAST; exit 0")
async def _(terminal: Supervised) -> str:
    client = await terminal.subscribe(b"READY")
    await client.send(INPUT, b"\n")
    await client.exit_code()
    expect(b"LAST" in client.output, client.output.decode(errors="replace"), "it did not come")
    return "LAST, then EXIT"


@whole_clause(ACTING, "INPUT reaches the program as it is, every byte")
async def _(candidate: Candidate) -> str:
    script = "stty raw -echo; echo READY; head -c 6 | od -An -tx1; echo END; exec sleep 600"
    async with supervised(candidate, script) as terminal:
        client = await terminal.subscribe(b"READY")
        await client.send(INPUT, b"\0\x03\xff\r\x1c\n")
        await client.until(b"END")
        expect(b"00 03 ff 0d 1c 0a" in client.output, client.output.decode(errors="replace"), "it got something else")
        return "00 03 ff 0d 1c 0a"


@clause(ACTING, "RESIZE gives the terminal these columns and rows", "echo READY; while read x; do stty size; done")
async def _(terminal: Supervised) -> str:
    client = await terminal.subscribe(b"READY")
    await client.send(RESIZE, (101).to_bytes(2, "big") + (42).to_bytes(2, "big"))
    await client.send(INPUT, b"\n")
    await client.until(b"42 101")
    return "42 rows, 101 columns"


@whole_clause(ACTING, "KILL sends SIGTERM to the process group")
async def _(candidate: Candidate) -> str:
    inner = "trap 'echo CHILD' TERM; echo BOTH; while :; do sleep 0.1; done"
    script = f'trap "echo PARENT; sleep 0.5; exit 3" TERM; sh -c "{inner}" & while :; do sleep 0.1; done'
    async with supervised(candidate, script) as terminal:
        client = await terminal.subscribe(b"BOTH")
        await client.send(KILL)
        await client.until(b"PARENT")
        await client.until(b"CHILD")
        return "the program and its child were told"


@clause(ACTING, "after KILL subscribers get EXIT", "trap 'exit 3' TERM; echo READY; while :; do sleep 0.1; done")
async def _(terminal: Supervised) -> str:
    client = await terminal.subscribe(b"READY")
    await client.send(KILL)
    return f"code {await client.exit_code()}"
