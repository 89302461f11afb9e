"""Orders that run in a terminal: reached from any machine, their questions as questions of the order."""

import asyncio
import contextlib
import logging
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from treadle.errors import LocalError, NotFound, TreadleError
from treadle.fleet.engine.bus import Bus, Unreachable, is_relayed
from treadle.fleet.orders import encode
from treadle.fleet.run import runs
from treadle.fleet.run.attempt import OUTPUT_MAX, VERIFY, Ended, RunningAttempt, not_verified
from treadle.fleet.run.questions import Questions
from treadle.fleet.run.resumption import read_state
from treadle.io import sockets
from treadle.io.process import child
from treadle.io.process.programs import run_program
from treadle.io.tasks import end_tasks, start_held
from treadle.receipts.trace import Check
from treadle.session import Answer
from treadle.terminal.client import Client
from treadle.terminal.places import Place, default_directory
from treadle.wire.fleet.connection import read as read_message
from treadle.wire.fleet.messages import (
    AnyTerminalRequest,
    RunReport,
    TerminalAnswer,
    TerminalClose,
    TerminalOpen,
    TerminalRead,
    TerminalWrite,
    WorktreeTouched,
)
from treadle.wire.fleet.records import AgentQuestion

# Terminals of orders, reached from any machine: the socket of a terminal's supervisor is forwarded over the engine.
#
# On the node, `fleet.term.NODE.ORDER` is asked to open a connection to the order's own terminal (`agent`) or to a
# shell in its worktree (`shell`), to write to it, and to read what came after a position. A read waits a while for
# something to come. Nothing is stored, a slow reader costs no one anything, and one that is gone is forgotten.

log = logging.getLogger(__name__)

What: TypeAlias = Literal["agent", "shell"]
WAIT_SECONDS = 10.0
"""How long a read waits for something to come."""
FORGET_SECONDS = 40.0
HELD_MAX = 256 * 1024
"""How many bytes may wait for a reader; at this many, nothing more is read from the terminal."""
CHUNK = 64 * 1024
START_SECONDS = 30.0


def treadle(*words: str) -> list[str]:
    """The command that starts this very program, whatever is on PATH."""
    return [sys.executable, "-P", "-c", "import sys; from treadle.cli import main; sys.exit(main())", *words]


def place_of(order: str, what: What) -> Place:
    return Place(default_directory(), f"fleet-{order}" + ("-shell" if what == "shell" else ""))


class TerminalStream:
    """One connection to a terminal's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.asked = time.monotonic()
        self._reader = reader
        self._held = b""
        self._ended = False
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._task = asyncio.create_task(self._fill())

    async def _fill(self) -> None:
        while data := await self._reader.read(CHUNK):
            self._held += data
            self._more.set()
            while len(self._held) > HELD_MAX:
                self._room.clear()
                await self._room.wait()
        self._ended = True
        self._more.set()

    async def read(self) -> tuple[bytes, bool]:
        """What has come, and whether it has ended."""
        self.asked = time.monotonic()
        if not self._held and not self._ended:
            self._more.clear()
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._more.wait()
            except TimeoutError:
                pass
        data, self._held = self._held[:CHUNK], self._held[CHUNK:]
        self._room.set()
        return data, self._ended and not self._held

    async def write(self, data: bytes) -> None:
        self.asked = time.monotonic()
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self._task.cancel()
        self.writer.close()


class OrderTerminals:
    """What a node offers of its orders' terminals."""

    def __init__(self, node: str, report: Callable[[RunReport, str], Awaitable[None]]) -> None:
        self.node = node
        self._report = report
        self._streams: dict[str, TerminalStream] = {}
        self._shells: dict[str, child.Child] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def serve(self, bus: Bus) -> Any:
        async def on_message(message: Any) -> None:
            # In a task of its own: a read may wait, and the next write must not wait behind it.
            start_held(self._answering, self._answer(message))

        return await bus.client.subscribe(f"fleet.term.{self.node}.*", cb=on_message)

    async def close(self) -> None:
        for task in self._answering:
            task.cancel()
        for stream in self._streams.values():
            stream.close()
        for shell in self._shells.values():
            await shell.stop()

    async def _answer(self, message: Any) -> None:
        if is_relayed(message):
            return log.warning("a client had the engine send something on %s: refused", message.subject)
        try:
            order = message.subject.rpartition(".")[2]
            answer = await self._do(order, read_message(message.subject, message.data))
        except (TreadleError, OSError, ValueError) as error:
            answer = TerminalAnswer(error=str(error) or "it failed")
        try:
            await message.respond(encode(answer))
        except Exception:  # the one who asked is gone, or the engine is
            log.debug("no one hears the answer about a terminal")

    async def _do(self, order: str, request: AnyTerminalRequest) -> TerminalAnswer:
        self._forget()
        if isinstance(request, TerminalOpen):
            return TerminalAnswer(id=await self._open(order, request))
        stream = self._streams.get(request.id)
        if stream is None:
            raise NotFound("this connection to the terminal no longer exists")
        if isinstance(request, TerminalWrite):
            await stream.write(request.data)
            return TerminalAnswer()
        if isinstance(request, TerminalRead):
            data, ended = await stream.read()
            return TerminalAnswer(data=data, ended=ended)
        stream.close()
        del self._streams[request.id]
        return TerminalAnswer()

    def _forget(self) -> None:
        for name, stream in list(self._streams.items()):
            if time.monotonic() - stream.asked > FORGET_SECONDS:
                stream.close()
                del self._streams[name]

    async def _open(self, order: str, request: TerminalOpen) -> str:
        place = place_of(order, request.what)
        if request.what == "shell":
            await self._shell(order, place, request.by)
        try:
            reader, writer = await asyncio.open_unix_connection(place.sock)
        except OSError:
            raise NotFound(
                f"the order {order} has no terminal here", hint="only orders with --terminal have one"
            ) from None
        name = secrets.token_hex(8)
        self._streams[name] = TerminalStream(reader, writer)
        return name

    async def _shell(self, order: str, place: Place, by: str) -> None:
        """A shell in the order's worktree, started unless there is one; the order's history will say so."""
        running = self._shells.get(order)
        if running is not None and running.exit_code is None and os.path.exists(place.sock):
            return
        attempt, tree = _worktree(order)
        await self._report(WorktreeTouched(order=order, attempt=attempt, by=by), secrets.token_hex(4))
        shell = os.environ.get("SHELL") or "/bin/sh"
        argv = treadle("run", "--foreground", "--id", place.id, "--workdir", tree, "--linger", "0", "--", shell)
        self._shells[order] = await start(argv, place)


def _worktree(order: str) -> tuple[int, str]:
    """The latest attempt at an order on this machine whose worktree still exists."""
    for name, attempt, directory in sorted(runs.all_here(), key=lambda each: -each[1]):
        state = read_state(directory) if name == order else None
        if state is not None and os.path.isdir(state.tree.root):
            return attempt, state.tree.root
    raise NotFound(
        f"there is no worktree of the order {order} on this machine", hint="its result: `treadle fleet diff`"
    )


async def start(argv: list[str], place: Place) -> child.Child:
    """Start a terminal that ends with this process. Returns when its socket answers."""
    made = await child.start(argv, stdout=None)
    deadline = time.monotonic() + START_SECONDS
    while not sockets.is_served(place.sock):
        if made.exit_code is not None or time.monotonic() > deadline:
            await made.stop()
            output = (await made.last_words()).strip()[-300:]
            raise LocalError(f"the terminal did not start: {output or 'no output'}")
        await asyncio.sleep(0.02)
    return made


# Reaching such a terminal from another machine.


class Carried:
    """A local socket that leads to an order's terminal on another machine: `treadle attach` sees no difference."""

    def __init__(self, bus: Bus, node: str, order: str, what: What, by: str) -> None:
        self.subject = f"fleet.term.{node}.{order}"
        self.bus = bus
        self.what = what
        self.by = by
        self.problem = ""

    async def ask(self, request: AnyTerminalRequest) -> TerminalAnswer:
        answer = await self.bus.ask(self.subject, TerminalAnswer, request, timeout=WAIT_SECONDS + 5)
        if answer.error:
            raise LocalError(answer.error)
        return answer

    async def open(self) -> str:
        try:
            return (await self.ask(TerminalOpen(what=self.what, by=self.by))).id
        except Unreachable:
            raise Unreachable("the node of this order does not answer", hint="`treadle fleet nodes`") from None

    async def try_once(self) -> None:
        """Open and close a connection, so that an error is reported before anything depends on it."""
        await self.ask(TerminalClose(id=await self.open()))

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until either side has ended it."""
        try:
            name = await self.open()
            up = asyncio.create_task(self._forward_input(name, reader))
            down = asyncio.create_task(self._down(name, writer))
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            await end_tasks(up, down)
            await self.ask(TerminalClose(id=name))
        except TreadleError as error:
            self.problem = str(error)
        finally:
            writer.close()

    async def _forward_input(self, name: str, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            await self.ask(TerminalWrite(id=name, data=data))

    async def _down(self, name: str, writer: asyncio.StreamWriter) -> None:
        while True:
            answer = await self.ask(TerminalRead(id=name))
            writer.write(answer.data)
            await writer.drain()
            if answer.ended:
                return


# What the program in an order's terminal asks becomes a question of the order, which can be answered from anywhere.
#
# The answer is typed: `allow` is Enter, which takes what is marked on the screen, or the single key that comes with
# it; `deny` is Escape. A longer text is typed, with Enter, where the program asks for words. Where a person answers
# in the terminal itself, the question is over.

SCREEN_MAX = 4000
AGAIN_SECONDS = 3.0
"""How long a program has to leave its dialog once the answer was typed, before it counts as asking again."""
HOW = {
    "permission": "allow is Enter, which takes what is marked, or the key that you give with it (1, y); deny is Escape",
    "question": "allow is Enter, which takes what is marked, or the words that you give with it; deny is Escape",
}
ENTER, ESCAPE = b"\r", b"\x1b"


class TerminalQuestions:
    """One program's questions, one at a time."""

    def __init__(self, questions: Questions, path: str) -> None:
        self._questions = questions
        self._path = path
        self._task: asyncio.Task[None] | None = None
        self._count = 0
        self._typed = 0.0

    async def look(self, detail: dict[str, Any]) -> None:
        """Take in what the terminal seems to do now."""
        state = detail.get("state") or {}
        asks = state.get("waiting_for")
        if asks and self._task is None and not state.get("settling") and time.monotonic() - self._typed > AGAIN_SECONDS:
            self._count += 1
            self._task = asyncio.create_task(self._settle(str(asks), str(state.get("message") or "")))
        elif not asks:
            self._typed = 0.0
            await self.close()

    async def close(self) -> None:
        """The program does not ask any more: the one who was asked need not answer."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _settle(self, kind: str, message: str) -> None:
        screen = await asyncio.to_thread(_screen, self._path)
        asked = AgentQuestion(
            request=f"terminal {self._count}",
            kind=kind,
            headline=message or "the program in its terminal asks",
            text=screen[-SCREEN_MAX:],
            why=HOW.get(kind, ""),
            tool="terminal",
        )
        try:
            answer = await self._questions.settle(asked)
            self._typed = time.monotonic()
            await asyncio.to_thread(_type_bytes, self._path, keys(kind, answer))
        except TreadleError as error:  # the program has ended meanwhile, or the engine is away: it is asked again
            log.warning("a question of the terminal was not answered: %s", error)
        self._task = None


def _screen(path: str) -> str:
    try:
        with Client(path, timeout=5.0) as client:
            return str(client.explain().get("screen") or "").rstrip()
    except TreadleError:
        return ""


def keys(kind: str, answer: Answer) -> bytes:
    """What is typed for an answer."""
    if answer.decision != "allow":
        return ESCAPE
    words = " ".join(answer.text.split()) if answer.by != "deadline" else ""
    if len(words) == 1:
        return words.encode()
    return words.encode() + ENTER if kind == "question" else ENTER


def _type_bytes(path: str, data: bytes) -> None:
    """Type it, unless the program asks no more: then it was answered by another process."""
    with Client(path, timeout=5.0) as client:
        if (client.detail().get("state") or {}).get("waiting_for"):
            client.input(data)


# An order whose agent runs in a terminal, for a person to watch and type into. It ends when the program does.

READY_SECONDS = 60.0
LOOK_SECONDS = 0.5
Seen = Callable[[str, float], None]
"""Told what the program seems to do, and for how many seconds it has written nothing."""


def command(agent: str) -> list[str]:
    """The command that starts the agent for a person."""
    from treadle.agents import AGENTS, agent_settings, find_card
    from treadle.drivers.card import launch_of

    if agent in AGENTS:
        return treadle()
    settings = agent_settings()
    card, given = find_card(agent, settings)
    if card.name in ("worker", "acp", "sidecar") and given:
        return ["/bin/sh", "-c", given]
    return [launch_of(card, settings.get(card.name), given).program()]


async def run(attempt: RunningAttempt, words: str, seen: Seen, questions: Questions) -> Ended:
    """Start the agent in the worktree, type the task, and wait for its end."""
    spec = attempt.spec
    place = place_of(spec.id, "agent")
    options = ["--foreground", "--id", place.id, "--workdir", attempt.root, "--linger", "0"]
    argv = treadle("run", *options, "--", *command(spec.agent))
    terminal = await start(argv, place)
    try:
        await _type(place, words)
        watching = asyncio.create_task(_watch(seen, place.sock, TerminalQuestions(questions, place.sock)))
        stopping = asyncio.create_task(attempt.stopping.wait())
        ending = asyncio.create_task(terminal.wait())
        await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
        await end_tasks(watching, stopping, ending)
    finally:
        await terminal.stop()
    stopped = attempt.stopped
    check = await _check(attempt) if spec.verify and stopped is None else None
    result = {"verified": None if check is None else check.ok, "exit_code": terminal.exit_code, "terminal": True}
    if stopped is not None:
        outcome, why, reason = ("cancelled" if stopped.code == "cancelled" else "failed"), str(stopped), stopped.code
    elif check is not None and not check.ok:
        why = not_verified(check.failure)
        output = check.output_tail[-OUTPUT_MAX:]
        return Ended(outcome="failed", why=why, reason=VERIFY, fault="verify", output=output, result=result)
    elif terminal.exit_code:
        outcome, why, reason = "failed", f"the program ended with code {terminal.exit_code}", "agent_failed"
    else:
        outcome, why, reason = "done", "", ""
    return Ended(outcome=outcome, why=why, reason=reason, result=result)


async def _check(attempt: RunningAttempt) -> Check:
    """The order's check of the result, by the judge of the commit that it starts from."""
    from treadle.sandboxed.checks import confined_check, verified_check

    spec, taker = attempt.spec, attempt.taker
    if taker is None:  # there is no repository, or the order is to work in place
        return await confined_check(spec.verify, attempt.root, network=spec.network)
    result = (await asyncio.to_thread(taker.files)).tree
    return await verified_check(
        taker.store,
        taker.start_tree,
        result,
        spec.verify,
        taker.write_tree,
        setup=spec.setup,
        shown=taker.shown(),
        network=spec.network,
        inside=taker.origin.inside,
        may_change=spec.may_change,
    )


async def _type(place: Place, words: str) -> None:
    """Type the task once the program has drawn itself and waits for input."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and not await asyncio.to_thread(_idle, place.sock):
        await asyncio.sleep(0.1)
    argv = treadle("send", place.id, "--enter", "--anyway", "--file", "-")
    await asyncio.to_thread(run_program, argv, stdin=words.rstrip().encode(), timeout=60.0)


def _idle(path: str) -> bool:
    try:
        with Client(path, timeout=5.0) as client:
            status = client.status()
            return not status.alive or status.idle_ms > 700
    except TreadleError:
        return False


async def _watch(seen: Seen, path: str, asking: TerminalQuestions) -> None:
    """Report what the terminal's program seems to do, with each beat, and what it asks, at once."""
    try:
        while True:
            try:
                detail = await asyncio.to_thread(_detail, path)
                state = detail.get("state") or {}
                seen(str(state.get("name") or "?"), float(detail.get("idle_ms") or 0.0) / 1000)
                await asking.look(detail)
            except TreadleError:
                pass
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await asking.close()


def _detail(path: str) -> dict[str, Any]:
    with Client(path, timeout=5.0) as client:
        return client.detail()
