"""A program that we started and speak to over its standard streams, in the messages of one wire.

    peer = await Peer.start(["codex", "app-server"], wire, name="codex", env=env, cwd=cwd)
    try:
        async with peer.handshake("did not answer the initialize"):
            await peer.say(Initialize(...))
            answer = (await peer.hear()).popleft()      # take what you deal with, leave the rest in the queue
        ...
        heard = await peer.hear()                       # at least one message
        while heard:
            deal_with(heard.popleft())
        ...
        if nonsense:
            raise await peer.blame(RemoteProtocolError, "answered what nobody asked")
    finally:
        await peer.end()                                # or `leave`, which lets it exit by itself first

`wire` is a `Connection` of a folder in `treadle.wire`: `receive(bytes) -> messages`, `send(message) -> bytes`, `end()`.
Every way in which the program can fail is one typed error that names the program, says what it did, its exit code and
its last words on stderr, and when that error is raised nothing of its process tree is left:

    PeerExited            it exited, also when a process it left behind still holds its output open
    PeerStalled           it said nothing, took no input or did not finish the handshake in the time there was
    RemoteProtocolError   it closed its output and went on running, or what `blame` was told
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

from treadle.errors import (
    LocalError,
    PeerClosed,
    PeerExited,
    PeerStalled,
    RemoteError,
    RemoteProtocolError,
    TreadleError,
)
from treadle.io.link import WRITE_TIMEOUT, Link, Received, Said, Wire
from treadle.io.process.child import Child
from treadle.io.sandbox.start import start
from treadle.io.within import within
from treadle.session import Confinement, Watching

LAST_BYTES = 0.5
"""Seconds for what a program wrote before it exited to arrive."""

E = TypeVar("E", bound=RemoteError)


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a program is given. The driver applies `cancel`; the rest are applied here."""

    handshake: float = 60.0
    """Under load, agents written for Node took up to 16 s to answer, and one may stand behind a program of ours."""
    silence: float | None = None
    """Without a message from it, or without taking one of ours; None waits for messages for ever."""
    cancel: float = 5.0
    """Between asking it to stop its work and ending it."""
    shutdown: float = 5.0
    """To exit by itself, once it was told that we leave."""
    grace: float = 2.0
    """Between asking its processes to end and killing them."""


class Peer(Generic[Received, Said]):
    """The process and the conversation with it. One task hears; any number of tasks may say something."""

    CLOSED: type[RemoteError] = RemoteProtocolError
    """The error for a program that closes its output and goes on running."""

    def __init__(
        self, child: Child, wire: Wire[Received, Said], *, name: str, patience: Patience | None = None
    ) -> None:
        self.child = child
        self.name = name
        self.patience = patience or Patience()
        self.link = Link(child.stdio, wire, write_timeout=self.patience.silence or WRITE_TIMEOUT)
        self.exited = False
        """The program itself has exited; what it wrote before may still be on its way."""
        self.gone = False
        """Nothing of its process tree is left."""
        self.torn: RemoteProtocolError | None = None
        """Why what it said last could not be read, when its output ended inside a message."""
        self.hint: str | None = None
        """What to do when it fails, for errors that have no better one."""
        self.watching: Watching | None = None
        """Looks at what is there before a turn, for what it gives to be called after it. Set by whoever confined it."""
        self.failure: TreadleError | None = None
        """What the conversation was ended with, for whoever hears or says something next."""
        self._heard: deque[Received] = deque()
        self._words = ""
        self._limit: asyncio.Timeout | None = None
        self._ending = asyncio.Lock()
        self._exit_watch = asyncio.create_task(self._see_it_exit(), name=f"exit of {name}")

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        wire: Wire[Received, Said],
        *,
        name: str,
        env: Mapping[str, str],
        cwd: str,
        patience: Patience | None = None,
        confinement: Confinement | None = None,
    ) -> Self:
        """Start the program; NotFound when there is none. Whoever starts it ends it: `end`, `leave` or `async with`."""
        child = await start(confinement, argv, env=env, cwd=cwd, stdin="pipe")
        return cls(child, wire, name=name, patience=patience)

    def __repr__(self) -> str:
        state = "gone" if self.gone else "exited" if self.exited else "running"
        return f"<peer {self.name!r} {self.child.pid} {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    # Speaking and hearing...

    async def say(self, *messages: Said) -> None:
        """Returns when the system has taken all of it. Cancelled in the middle, half of a message may be written."""
        try:
            await self.link.send(*messages)
        except PeerStalled:
            raise await self.blame(PeerStalled, f"took no input for {self.link.write_timeout:g} s") from None
        except PeerClosed:
            raise await self.parted() from None

    async def hear(self, seconds: float | None = None) -> deque[Received]:
        """The queue of what it has said, with at least one message; take from its left what you have dealt with.

        Waits `seconds`, or as long as silence is allowed. Can be cancelled and called again: nothing is lost.
        """
        seconds = seconds or self.patience.silence
        while not self._heard:
            if self.failure is not None or not await self._listen(seconds):
                raise await self.parted()
        return self._heard

    async def _listen(self, seconds: float | None) -> bool:
        """Take in what comes next; False when nothing more will come."""
        try:
            async with asyncio.timeout(LAST_BYTES if self.exited else seconds) as self._limit:
                messages = await self.link.receive()
        except TimeoutError:
            if not self.exited:
                raise await self.blame(PeerStalled, f"said nothing for {seconds:g} s") from None
            messages = None
        except RemoteProtocolError as error:
            if not self.link.ended:
                raise await self.blame(RemoteProtocolError, f"broke the protocol: {error.message}") from error
            self.torn, messages = error, None  # how it ended says more than the message that it did not finish
        finally:
            self._limit = None
        self._heard.extend(messages or ())
        return messages is not None

    async def _see_it_exit(self) -> None:
        """A process that it left behind can hold its output open, so the end of output is not the only sign."""
        with contextlib.suppress(LocalError):
            await self.child.wait()
        self.exited = True
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + LAST_BYTES)

    @contextlib.asynccontextmanager
    async def handshake(
        self, missed: str = "did not finish the handshake", hint: str | None = None
    ) -> AsyncIterator[None]:
        """All that is said and heard inside must be done in time. Left with any error, the program is ended."""
        seconds = self.patience.handshake
        try:
            async with within(seconds):
                yield
        except TimeoutError:
            raise await self.blame(PeerStalled, f"{missed} within {seconds:g} s", hint=hint) from None
        except BaseException:
            await self.end()
            raise

    # Ending...

    def abort(self, error: TreadleError) -> None:
        """End the conversation: whoever hears or says something gets this error, whatever the program does."""
        if self.failure is None:
            self.failure = error
        self.child.stdio.close()

    async def leave(self) -> None:
        """Close its input and let it exit by itself within `patience.shutdown`, then end what is left."""
        self.child.stdio.close_write()
        if not self.gone:
            with contextlib.suppress(TimeoutError, LocalError):
                async with within(self.patience.shutdown):
                    await self.child.wait()
        await self.end()

    async def end(self) -> None:
        """Stop all of its tree; returns when none of it is left. Again, and from elsewhere, it waits for the same."""
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

    async def parted(self) -> TreadleError:
        """The error for a program that no longer speaks or listens, which it should tell by exiting."""
        if self.failure is not None:
            return self.failure
        if not self.gone:
            try:
                async with within(self.patience.grace):
                    await self.child.wait()
            except TimeoutError:
                return await self.blame(self.CLOSED, "closed its output and went on running")
            except LocalError:
                pass  # the process that watches it was killed, so nobody knows its exit code
            await self.end()
        return PeerExited(self.name, self.child.exit_code, self._words, hint=self.hint)

    async def blame(self, kind: type[E], did: str, *, hint: str | None = None, **more: object) -> E:
        """End the program, and make the error that says what it did, how it ended and what it said last."""
        await self.end()
        tail = self._words.strip()[-2000:]
        words = f"; its last words: {tail}" if tail else ""
        details = {**more, "exit_code": self.child.exit_code, "stderr": tail}
        return kind(f"{self.name} {did}{words}", details=details, hint=hint or self.hint)
