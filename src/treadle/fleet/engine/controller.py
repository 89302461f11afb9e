"""The engine under scheduler, trains and goals: hold a lease, look, decide, act, record.

What is carried on has a record that changes by compare-and-set alone. A step reads the record, decides without doing
anything, and does one thing that does no harm when it is done twice; so any number of processes at once, killed at any
moment, do no harm, and a lease only keeps them from doing the same work. What goes wrong is of one of three kinds
(`errors.kind_of`): transient, then the record says since when, why and when it is tried again, and it is, by itself;
permanent, or a person is needed, then it stands still with the reason.
"""

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from treadle.errors import TreadleError, kind_of
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Bus, Stale, Unreachable, Write
from treadle.wire.fleet.records import Delay

log = logging.getLogger(__name__)

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 300.0
"""Until something is tried again for the first time; it is doubled each time, up to the second."""


QUIET_LOOKS, AT_REST = 30, 4
"""After so many looks that found nothing to do, looks are so much rarer: a machine at rest costs next to nothing."""


def delayed(before: Delay | None, error: BaseException, now: float) -> Delay:
    """When to try again after this error, where `before` says how often that was in vain."""
    tries = before.tries + 1 if before is not None else 1
    seconds = min(FIRST_SECONDS * 2.0 ** min(tries - 1, 30), LONGEST_SECONDS)
    if isinstance(error, TreadleError) and error.retry_after_ms is not None:
        seconds = max(seconds, error.retry_after_ms / 1000)
    since = before.since if before is not None else now
    return Delay(why=str(error) or type(error).__name__, since=since, tries=tries, next=now + seconds)


def delay_words(delay: Delay) -> str:
    """A delay in words, for a person."""
    since, again = (time.strftime("%H:%M:%S", time.localtime(at)) for at in (delay.since, delay.next))
    times = "once" if delay.tries == 1 else f"{delay.tries} times"
    return f"{delay.why}; tried {times} since {since}, again at {again}"


class Lease:
    """A key that expires unless it is renewed. The one that has it does the work; the others look now and then."""

    def __init__(
        self,
        bus: Bus,
        key: str,
        value: Callable[[], bytes],
        *,
        ttl: int,
        overdue: float,
        gone: Callable[[bytes], bool] = lambda holder: False,
    ) -> None:
        """`overdue`: seconds without a change, read from an engine that answers, after which a lease counts as
        abandoned: an engine that was killed may have forgotten when it ends. `gone`: whether its holder is known to be
        no more, so that no one waits until it expires."""
        self.bus, self.key, self.ttl = bus, key, ttl
        self.revision, self.renewed = 0, 0.0
        self._value, self._overdue, self._gone = value, overdue, gone
        self._seen, self._since = 0, 0.0
        """The revision that another holds it by, and since when it has not changed."""

    async def taken(self, fresh: float = 0.0) -> bool:
        """Whether we have it: renewed within the last `fresh` seconds, renewed now, or taken now."""
        if self.revision and time.monotonic() - self.renewed < fresh:
            return True
        if await self._put(self.revision):
            return True
        entry = await self.bus.last(self.key)
        if entry is None:
            return False
        if entry.removed:
            return await self._put(entry.revision)
        if entry.revision != self._seen:
            self._seen, self._since = entry.revision, time.monotonic()
        overdue = time.monotonic() - self._since > self._overdue
        return (overdue or self._gone(entry.value)) and await self._put(entry.revision)

    async def _put(self, expect: int) -> bool:
        try:
            self.renewal_at(await self.bus.put(self.key, self._value(), expect=expect, ttl=self.ttl))
        except Stale:
            self.revision = 0
            return False
        return True

    def renewal(self) -> Write:
        """For a batch that counts only while we have the lease."""
        return Write(self.key, self._value(), self.revision, self.ttl)

    def renewal_at(self, revision: int) -> None:
        self.revision, self.renewed = revision, time.monotonic()

    def forget(self) -> None:
        """What was seen of another's lease says nothing after a time in which the engine was away."""
        self._seen = self.revision = 0

    async def leave(self) -> None:
        """Let another take it at once. A lease that is another's by now is left alone."""
        if self.revision:
            with contextlib.suppress(Stale, TreadleError):
                await self.bus.purge(self.key, expect=self.revision)
            self.revision = 0


class Drive(ABC):
    """One thing that this process carries on, or watches while another `drives`."""

    drives = True

    @property
    @abstractmethod
    def delay(self) -> Delay | None:
        """Of the record as it was read."""

    @abstractmethod
    async def read(self) -> None: ...

    @abstractmethod
    async def step(self) -> bool:
        """Decide and do one thing. False when there is nothing to do but wait."""

    @abstractmethod
    def over(self) -> bool: ...

    @abstractmethod
    async def wait(self) -> None: ...

    @abstractmethod
    async def set_delay(self, delay: Delay | None) -> None: ...

    async def carry_on(self) -> None:
        """Until it is over. Raises what does not pass by itself, and Unreachable: then nothing can be recorded."""
        while True:
            try:
                await self.read()
                if self.drives and (self.delay is None or self.delay.next <= time.time()):
                    busy = await self.step()
                    if self.delay is not None:
                        await self.set_delay(None)
                    if busy:
                        continue
                if self.over():
                    return
                await self.wait()
            except Stale:
                continue  # another changed the record: read and decide again
            except Unreachable:
                raise
            except (TreadleError, OSError) as error:
                if kind_of(error) != "transient":
                    raise
                await self.set_delay(delayed(self.delay, error, time.time()))


class Controller(ABC):
    """Carries everything of one kind on that is on this machine, each in a task, while its node is the scheduler."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}

    @abstractmethod
    def idle_seconds(self) -> float:
        """Between two looks."""

    @abstractmethod
    async def take_up(self, bus: Bus) -> None:
        """Do what others have left for us in the store."""

    @abstractmethod
    async def due(self, bus: Bus) -> Mapping[str, Delay | None]:
        """What is to be carried on here, with the delay in its record."""

    @abstractmethod
    async def drive(self, bus: Bus, name: str) -> None: ...

    @abstractmethod
    async def set_delay(self, bus: Bus, name: str, delay: Delay) -> None: ...

    @abstractmethod
    async def stop(self, bus: Bus, name: str, error: Exception) -> None:
        """It stands still until a person has seen to it."""

    async def ride(self, bus: Bus) -> None:
        quiet = 0
        try:
            while True:
                try:
                    await self.take_up(bus)
                    await self.start(bus)
                    quiet = 0 if self._running else quiet + 1
                except Unreachable as error:
                    log.info("%s", error)
                except Exception:  # one record that cannot be read must not stop all others
                    log.exception("%s cannot go on", type(self).__name__)
                await asyncio.sleep(self.idle_seconds() * (1 if quiet < QUIET_LOOKS else AT_REST))
        finally:
            await tasks.end([*self._running.values()])

    async def start(self, bus: Bus) -> None:
        self._running = {name: task for name, task in self._running.items() if not task.done()}
        for name, delay in (await self.due(bus)).items():
            if name not in self._running and (delay is None or delay.next <= time.time()):
                self._running[name] = asyncio.create_task(self._drive(bus, name, delay))

    async def _drive(self, bus: Bus, name: str, delay: Delay | None) -> None:
        try:
            await self.drive(bus, name)
        except Unreachable as error:
            log.info("%s", error)
        except (TreadleError, OSError) as error:
            log.warning("%s: %s", name, error)
            if kind_of(error) == "transient":  # before it could begin: a drive sees to its own
                await self.set_delay(bus, name, delayed(delay, error, time.time()))
            else:
                await self.stop(bus, name, error)
