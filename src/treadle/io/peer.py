"""A program that we started and speak to over its standard streams, in the messages of one wire.

    peer = await Peer.start(["codex", "app-server"], wire, name="codex", env=env, cwd=cwd)
    try:
        async with peer.handshake("did not answer the initialize"):
            await peer.say(Initialize(...))
            answer = (await peer.hear()).popleft()      # take what you handle, leave the rest in the queue
        ...
        heard = await peer.hear()                       # at least one message
        while heard:
            deal_with(heard.popleft())
        ...
        if nonsense:
            raise await peer.blame(RemoteProtocolError, "answered what no one asked")
    finally:
        await peer.end()                                # or `leave`, which lets it exit by itself first

`wire` is a `Connection` of a folder in `treadle.wire`: `receive(bytes) -> messages`, `send(message) -> bytes`, `end()`.
Every failure of the program is one typed error that names the program and gives what it did, its exit code and the end
of its stderr. When that error is raised, nothing of its process tree is left:

    PeerExited            it exited, even if a process it left behind still holds its output open
    PeerStalled           it said nothing, took no input or did not finish the handshake in time
    RemoteProtocolError   it closed its output and went on running, or what was given to `blame`
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from treadle import errors
from treadle.io.link import WRITE_TIMEOUT, Link, Received, Sent, WireConnection
from treadle.io.process.child import Child
from treadle.io.sandbox.proxy import Reaching
from treadle.io.sandbox.start import start
from treadle.io.tasks import within
from treadle.session import Confinement, Watching

LAST_BYTES = 0.5
"""Seconds to wait for output that a program wrote before it exited."""

E = TypeVar("E", bound=errors.RemoteError)


class TurnBounds(Protocol):
    """Something to do before and after each turn of a confined program; `say` tells a person what came of it."""

    def begin_turn(self) -> None: ...

    async def ready(self, say: Callable[[str], None]) -> None: ...

    async def finish(self, say: Callable[[str], None]) -> None: ...


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds a program is given for each thing. The driver applies `cancel`; the rest are applied here."""

    handshake: float = 60.0
    """Under load, agents written for Node took up to 16 s to answer, and a program of ours may start one."""
    silence: float | None = None
    """The longest time without a message from it, or without it reading ours; None waits for messages for ever."""
    cancel: float = 5.0
    """Between asking it to stop its work and ending it."""
    shutdown: float = 5.0
    """To exit by itself after it was told that we are leaving."""
    grace: float = 2.0
    """Between asking its processes to end and killing them."""


class Peer(Generic[Received, Sent]):
    """A process and the conversation with it. One task may receive; any number of tasks may send."""

    CLOSED: type[errors.RemoteError] = errors.RemoteProtocolError
    """The error for a program that closes its output and goes on running."""

    def __init__(
        self, child: Child, wire: WireConnection[Received, Sent], *, name: str, patience: Patience | None = None
    ) -> None:
        self.child = child
        self.name = name
        self.patience = patience or Patience()
        self.link = Link(child.stdio, wire, write_timeout=self.patience.silence or WRITE_TIMEOUT)
        self.exited = False
        """Whether the program itself has exited; what it wrote before may still arrive."""
        self.gone = False
        """Whether nothing of its process tree is left."""
        self.torn: errors.RemoteProtocolError | None = None
        """Why its last message could not be read, if its output ended inside one."""
        self.hint: str | None = None
        """What to do when it fails, for errors without a better hint."""
        self.watching: Watching | None = None
        """Called before a turn to record the state of things; what it returns is called after the turn. Set by
        the one who confined the program."""
        self.enclosed: TurnBounds | None = None
        """What confined it: awaited around a turn, outside of that."""
        self.wired: object = None
        """What stands between it and its model service, for the session that is made of it."""
        self.failure: errors.TreadleError | None = None
        """The error that ended the conversation, raised to the one who receives or sends next."""
        self._heard: deque[Received] = deque()
        self._words = ""
        self._limit: asyncio.Timeout | None = None
        self._ending = asyncio.Lock()
        """The second caller of `end` returns when the tree is gone, not when it finds that ending has begun."""
        self._exit_watch = asyncio.create_task(self._watch_for_exit(), name=f"exit of {name}")

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        wire: WireConnection[Received, Sent],
        *,
        name: str,
        env: Mapping[str, str],
        cwd: str,
        patience: Patience | None = None,
        confinement: Confinement | None = None,
        reaching: Reaching | None = None,
    ) -> Self:
        """Start the program; raises NotFound when there is none. The caller ends it: `end`, `leave` or `async with`."""
        child = await start(confinement, argv, env=env, cwd=cwd, stdin="pipe", reaching=reaching)
        return cls(child, wire, name=name, patience=patience)

    def __repr__(self) -> str:
        state = "gone" if self.gone else "exited" if self.exited else "running"
        return f"<peer {self.name!r} {self.child.pid} {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    # Sending and receiving...

    async def say(self, *messages: Sent) -> None:
        """Returns when the system has taken everything. If cancelled, a message may be left half-written."""
        try:
            await self.link.send(*messages)
        except errors.PeerStalled:
            raise await self.blame(errors.PeerStalled, f"took no input for {self.link.write_timeout:g} s") from None
        except errors.PeerClosed:
            raise await self.parted() from None

    async def hear(self, seconds: float | None = None) -> deque[Received]:
        """The queue of received messages, with at least one in it; take from its left what you have handled.

        Waits `seconds`, or `patience.silence`. Can be cancelled and called again: nothing is lost.
        """
        seconds = seconds or self.patience.silence
        while not self._heard:
            if self.failure is not None or not await self._listen(seconds):
                raise await self.parted()
        return self._heard

    async def _listen(self, seconds: float | None) -> bool:
        """Read what comes next; False when nothing more will come."""
        try:
            async with asyncio.timeout(LAST_BYTES if self.exited else seconds) as self._limit:
                messages = await self.link.receive()
        except TimeoutError:
            if not self.exited:
                raise await self.blame(errors.PeerStalled, f"sent nothing for {seconds:g} s") from None
            messages = None
        except errors.RemoteProtocolError as error:
            if not self.link.ended:
                raise await self.blame(errors.RemoteProtocolError, f"broke the protocol: {error.message}") from error
            self.torn, messages = error, None  # how the program ended says more than its unfinished message
        finally:
            self._limit = None
        self._heard.extend(messages or ())
        return messages is not None

    async def _watch_for_exit(self) -> None:
        """Watch for the exit itself: a process left behind can hold the output open, so it need not end."""
        with contextlib.suppress(errors.LocalError):
            await self.child.wait()
        self.exited = True
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + LAST_BYTES)

    @contextlib.asynccontextmanager
    async def handshake(
        self, missed: str = "did not finish the handshake", hint: str | None = None
    ) -> AsyncIterator[None]:
        """Everything inside must be done in time. If any error leaves the block, the program is ended."""
        seconds = self.patience.handshake
        try:
            async with within(seconds):
                yield
        except TimeoutError:
            raise await self.blame(errors.PeerStalled, f"{missed} within {seconds:g} s", hint=hint) from None
        except BaseException:
            await self.end()
            raise

    # Ending...

    def abort(self, error: errors.TreadleError) -> None:
        """End the conversation: the one who receives or sends gets this error, whatever the program does."""
        if self.failure is None:
            self.failure = error
        self.child.stdio.close()

    async def leave(self) -> None:
        """Close its input and let it exit by itself within `patience.shutdown`, then end what is left."""
        self.child.stdio.close_write()
        if not self.gone:
            with contextlib.suppress(TimeoutError, errors.LocalError):
                async with within(self.patience.shutdown):
                    await self.child.wait()
        await self.end()

    async def end(self) -> None:
        """Stop its whole tree and return when none of it is left. Further calls wait for the same end."""
        async with self._ending:
            if self.gone:
                return
            try:
                await self.child.stop(self.patience.grace)
                self._words = await self.child.last_words()
            finally:
                self.gone = self.exited = True
                self._exit_watch.cancel()
                self.child.close()

    async def parted(self) -> errors.TreadleError:
        """The error for a program that no longer speaks or listens. It should exit, which gives the better error."""
        if self.failure is not None:
            return self.failure
        if not self.gone:
            try:
                async with within(self.patience.grace):
                    await self.child.wait()
            except TimeoutError:
                return await self.blame(self.CLOSED, "closed its output and went on running")
            except errors.LocalError:
                pass  # its reaper was killed, so its exit code is unknown
            await self.end()
        return errors.PeerExited(self.name, self.child.exit_code, self._words, hint=self.hint)

    async def blame(self, kind: type[E], did: str, *, hint: str | None = None, **more: object) -> E:
        """End the program, and make an error with what it did, how it ended and the end of its stderr."""
        await self.end()
        tail = self._words.strip()[-2000:]
        words = f"; its last words: {tail}" if tail else ""
        details = {**more, "exit_code": self.child.exit_code, "stderr": tail}
        return kind(f"{self.name} {did}{words}", details=details, hint=hint or self.hint)
