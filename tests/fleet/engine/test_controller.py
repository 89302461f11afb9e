"""One of several does the work, what passes is tried again, and what does not pass stands still with the reason."""

import asyncio
import errno
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.engine.buses import StoringClient
from treadle.errors import (
    AuthFailed,
    ConfigError,
    LocalError,
    RateLimited,
    StorageError,
    TimedOut,
    WorkspaceError,
    kind_of,
)
from treadle.fleet.engine import controller, tasks
from treadle.fleet.engine.bus import Bus, Stale, Unreachable, Write
from treadle.fleet.engine.controller import Controller, Drive, Lease, delay_words, delayed
from treadle.io.files import storage_error
from treadle.wire.fleet.records import Delay


def lease(bus: Bus, value: bytes = b"me", **options: Any) -> Lease:
    return Lease(bus, "lease.x", lambda: value, **{"ttl": 2, "overdue": 3600.0, **options})


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(("take", "write", "leave", "expire"))), max_size=30))
def test_whoever_is_told_to_have_the_lease_has_it_and_no_one_else_can_write_with_it(acts: list[Any]) -> None:
    async def play() -> None:
        there = StoringClient()
        holders = [lease(there.bus(), b"%d" % number) for number in range(3)]
        holds: int | None = None
        for number, act in acts:
            one = holders[number]
            if act == "take":
                assert await one.taken() is (holds in (None, number))
                holds = number if holds is None else holds
            elif act == "leave":
                await one.leave()
                holds = None if holds == number else holds
            elif act == "expire":
                there.keys.pop("lease.x", None)
                holds = None
                for each in holders:
                    each.revision = 0
            elif one.revision:
                assert holds == number
                one.renewal_at(await one.bus.batch([one.renewal(), Write("y", b"")]) - 1)

    asyncio.run(play())


async def test_a_lease_is_renewed_in_time_and_refused_to_one_who_slept_through_its_end() -> None:
    there = StoringClient()
    slept, other = lease(there.bus()), lease(there.bus())
    assert await slept.taken() and there.keys["lease.x"][2]["Nats-TTL"] == "2"
    first = slept.revision
    assert await slept.taken(60) and slept.revision == first, "it is not renewed at every look"
    assert await slept.taken() and slept.revision > first
    del there.keys["lease.x"]
    assert await other.taken()
    with pytest.raises(Stale):
        await slept.bus.batch([slept.renewal(), Write("y", b"")])
    assert not await slept.taken() and not slept.revision
    await slept.leave()
    assert await other.taken(), "what is another's is left alone"


async def test_a_lease_is_taken_from_one_that_is_gone_or_overdue_and_not_from_one_that_renews_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    there = StoringClient()
    held, other = lease(there.bus(), b"held"), lease(there.bus(), overdue=8.0)
    assert await held.taken() and not await other.taken()
    for _ in range(3):
        now[0] += 7.0
        assert await held.taken() and not await other.taken()
    now[0] += 7.0
    assert not await other.taken()
    other.forget()
    now[0] += 2.0
    assert not await other.taken(), "what was seen before the engine was away does not count"
    now[0] += 9.0
    assert await other.taken() and not await held.taken()
    assert await lease(there.bus(), gone=lambda holder: holder == b"me").taken()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unreachable("away"), "transient"),
        (RateLimited("slower"), "transient"),
        (TimedOut("git took too long"), "transient"),
        (WorkspaceError("killed", retryable=True), "transient"),
        (OSError(errno.ENOSPC, "full"), "transient"),
        (ConnectionResetError("gone"), "transient"),
        (OSError(errno.EACCES, "no"), "permanent"),
        (WorkspaceError("no branch"), "permanent"),
        (StorageError("newer"), "permanent"),
        (ValueError("odd"), "permanent"),
        (ConfigError("no token"), "person"),
        (AuthFailed("key"), "person"),
    ],
)
def test_an_error_passes_or_not_or_needs_a_person(error: Exception, kind: str) -> None:
    assert kind_of(error) == kind


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, "transient"), (errno.EACCES, "permanent")])
def test_a_file_that_cannot_be_written_is_of_the_kind_of_its_cause(number: int, kind: str) -> None:
    cause = OSError(number, "x")
    with pytest.raises(StorageError) as raised:
        raise storage_error(cause, "/a", "write") from cause
    assert kind_of(raised.value) == kind


def test_the_time_until_it_is_tried_again_grows_to_a_limit_and_is_at_least_what_the_other_side_asks_for() -> None:
    found, seconds = None, []
    for _ in range(12):
        found = delayed(found, Unreachable("away"), 100.0)
        seconds.append(found.next - 100.0)
    assert seconds[:4] == [1.0, 2.0, 4.0, 8.0] and seconds[-1] == controller.LONGEST_SECONDS
    assert found is not None and (found.tries, found.since, found.why) == (12, 100.0, "away")
    assert delayed(None, RateLimited("x", retry_after_ms=90_000), 0.0).next == 90.0
    assert delayed(None, OSError(), 0.0).why == "OSError"
    words = delay_words(Delay(why="origin is away", since=0.0, tries=3, next=3661.0))
    assert words.startswith("origin is away; tried 3 times since ") and ", again at " in words
    assert "tried once" in delay_words(Delay(why="x", since=0.0, next=1.0))


class Counter(Drive):
    """Counts to three, and meets what `errors` has for each step."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = [*errors]
        self.count = 0
        self.delays: list[Delay | None] = []
        self.waits = 0

    @property
    def delay(self) -> Delay | None:
        return self.delays[-1] if self.delays else None

    async def read(self) -> None:
        pass

    async def step(self) -> bool:
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.count += 1
        return self.count < 3

    def over(self) -> bool:
        return self.count >= 3

    async def wait(self) -> None:
        self.waits += 1
        await asyncio.sleep(0)

    async def set_delay(self, delay: Delay | None) -> None:
        self.delays.append(delay)


async def test_what_passes_is_recorded_and_tried_again_when_it_is_time_and_then_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]

    def later() -> float:
        now[0] += 0.25
        return now[0]

    monkeypatch.setattr(time, "time", later)
    one = Counter(None, WorkspaceError("away", retryable=True), OSError(errno.ENOSPC, "full"), Stale("x"))
    await one.carry_on()
    first, second, last = one.delays
    assert first is not None and second is not None and last is None
    assert (first.why, first.tries, second.tries, second.since) == ("away", 1, 2, first.since)
    assert one.count == 3 and one.waits > 3, "meanwhile it waits"


@pytest.mark.parametrize("error", [WorkspaceError("no branch"), ConfigError("no token"), Unreachable("away")])
async def test_what_does_not_pass_or_cannot_be_recorded_is_raised(error: Exception) -> None:
    one = Counter(error)
    with pytest.raises(type(error)):
        await one.carry_on()
    assert one.delays == []


async def test_one_that_only_watches_does_nothing_and_leaves_the_delay_alone() -> None:
    one = Counter()
    one.drives, one.delays, one.count = False, [Delay(why="x", since=0.0, next=0.0)], 3
    await one.carry_on()
    assert len(one.delays) == 1 and one.count == 3


class Some(Controller):
    def __init__(self, errors: Mapping[str, Exception | None]) -> None:
        super().__init__()
        self.errors = errors
        self.delays: dict[str, Delay | None] = dict.fromkeys(errors)
        self.driven: list[str] = []
        self.stopped: dict[str, str] = {}
        self.odd: list[Exception] = []
        self.looked = asyncio.Event()

    def idle_seconds(self) -> float:
        return 0.001

    async def take_up(self, bus: Bus) -> None:
        if self.odd:
            raise self.odd.pop(0)

    async def due(self, bus: Bus) -> Mapping[str, Delay | None]:
        self.looked.set()
        return {name: delay for name, delay in self.delays.items() if name not in self.stopped}

    async def drive(self, bus: Bus, name: str) -> None:
        self.driven.append(name)
        if (error := self.errors[name]) is not None:
            raise error
        await asyncio.Event().wait()

    async def set_delay(self, bus: Bus, name: str, delay: Delay) -> None:
        self.delays[name] = delay

    async def stop(self, bus: Bus, name: str, error: Exception) -> None:
        self.stopped[name] = str(error)


async def test_each_is_carried_on_once_until_it_cannot_go_on_or_waits() -> None:
    bus = StoringClient().bus()
    errors = {"runs": None, "passes": TimedOut("slow"), "red": LocalError("broken"), "away": Unreachable("away")}
    some = Some(errors)
    for _ in range(3):
        await some.start(bus)
        for _ in range(5):
            await asyncio.sleep(0)
    assert [some.driven.count(name) for name in errors] == [1, 1, 1, 3], "what cannot be recorded is tried each time"
    assert some.stopped == {"red": "broken"}
    delay = some.delays["passes"]
    assert delay is not None and delay.why == "slow" and delay.next > time.time()
    some.delays["passes"] = Delay(why="slow", since=1.0, tries=4, next=0.0)
    await some.start(bus)
    for _ in range(5):
        await asyncio.sleep(0)
    delay = some.delays["passes"]
    assert delay is not None and (delay.tries, delay.since) == (5, 1.0)
    await tasks.end(some._running.values())


async def test_what_goes_wrong_once_stops_nothing_and_all_ends_with_the_ride() -> None:
    some = Some({"runs": None})
    some.odd = [Unreachable("away"), ValueError("an odd record")]
    riding = asyncio.create_task(some.ride(StoringClient().bus()))
    await asyncio.wait_for(some.looked.wait(), 60)
    while not some._running:
        await asyncio.sleep(0)
    (task,) = some._running.values()
    await tasks.end([riding])
    assert task.done() and not some.odd
