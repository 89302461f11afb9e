"""The fleet for Python programs: submit orders, watch them, answer what they ask, read their receipts.

async with treadle.fleet.connect() as fleet:
    order = await fleet.submit(treadle.fleet.OrderRequest(task="fix the test", verify="make test", land="main"))
    async for now in order.watch():
        print(now.state, now.why)
    print((await order.landed()).result["merged"])
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Literal

import msgspec

from treadle.errors import LocalError, NotFound, TimedOut
from treadle.fleet import client, submission
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.orders import read_order
from treadle.fleet.submission import Given, completed
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import OrderRequest as OrderRequest
from treadle.wire.fleet.records import AskRecord, Order, OrderReceipt

Decision = Literal["allow", "deny"]
AGAIN_SECONDS = 0.5


class SubmittedOrder:
    """An order that is stored. `new` is False when one with the same key was stored before; `ignored` is what the
    repository's own file asked for and was not given."""

    def __init__(self, fleet: "ConnectedFleet", given: Given) -> None:
        self._fleet = fleet
        self.id, self.new, self.ignored = given.id, given.new, given.ignored

    def watch(self) -> AsyncGenerator[Order]:
        return self._fleet.watch(self.id)

    async def wait(self, timeout: float | None = None) -> Order:
        return await self._fleet.wait(self.id, timeout)

    async def landed(self, timeout: float | None = None) -> Order:
        return await self._fleet.landed(self.id, timeout)


class ConnectedFleet:
    """A connection to this machine's fleet. Ids of orders may be shortened, as on the command line."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def submit(self, order: OrderRequest | str) -> SubmittedOrder:
        """Submit an order, or a task for the defaults of one. Returns when it is stored; `key` makes it repeatable."""
        tree = (
            {"task": order} if isinstance(order, str) else msgspec.to_builtins(order)
        )  # without what is at its default
        ignored: list[str] = []
        request = await asyncio.to_thread(completed, tree, "the order", ignored.append)
        spec = await asyncio.to_thread(submission.made, request, by=client.me())
        (given,) = await client.submit(self._bus, [spec])
        return SubmittedOrder(self, msgspec.structs.replace(given, ignored=tuple(ignored)))

    async def show(self, order: str) -> Order:
        """Where an order stands."""
        return await client.get_order(self._bus, await client.resolve(self._bus, order))

    async def watch(self, order: str) -> AsyncGenerator[Order]:
        """Where it stands now, and then each change until it has ended; also across an engine that was away."""
        name, seen = await client.resolve(self._bus, order), 0
        while True:
            try:
                async with aclosing(_changes(self._bus, name, seen)) as changes:
                    async for found, at in changes:
                        seen = at
                        yield found
                        if found.ended:
                            return
            except Unreachable:
                await asyncio.sleep(AGAIN_SECONDS)

    async def wait(self, order: str, timeout: float | None = None) -> Order:
        """Wait until it has ended. Raises TimedOut after so many seconds."""
        return await client.wait(self._bus, await client.resolve(self._bus, order), timeout)

    async def landed(self, order: str, timeout: float | None = None) -> Order:
        """Wait until its work has landed: `result["merged"]` is the commit.

        Raises LocalError if the order failed, or its work is not to land or was left out; TimedOut after so many
        seconds.
        """
        name = await client.resolve(self._bus, order)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    with suppress(Unreachable):
                        return await self._landed(name)
                    await asyncio.sleep(AGAIN_SECONDS)
        except TimeoutError:
            raise TimedOut(f"the work of order {name} has not landed within {timeout:g} s") from None

    async def _landed(self, name: str) -> Order:
        spec = await client.get_spec(self._bus, name)
        async with aclosing(_changes(self._bus, name, 0)) as changes:
            async for found, _ in changes:
                if found.result.get("merged"):
                    return found
                if found.ended and found.state != "done":
                    raise LocalError(f"order {name} {found.state}: {found.why}", hint=f"`treadle fleet show {name}`")
                if why := found.result.get("not_landed"):
                    raise LocalError(f"the work of order {name} did not land: {why}", hint="`treadle fleet again`")
                if found.ended and not (spec.land and found.result.get("commit")):
                    why = "it changed nothing" if spec.land else "no branch to land on was set"
                    raise LocalError(f"order {name} has nothing to land: {why}")
        raise Unreachable(f"the changes of order {name} ended")

    async def questions(self) -> list[AskRecord]:
        """What orders ask and no one has answered, the nearest deadline first."""
        return await client.approvals(self._bus)

    async def answer(self, order: str, decision: Decision, *, text: str = "") -> None:
        """Answer what an order asks. A second answer is refused, with who gave the first."""
        name = await client.resolve(self._bus, order)
        await client.answer(self._bus, name, decision, text=text, by=client.me())

    async def cancel(self, order: str, *, why: str = "") -> None:
        """End an order, with all that it has started."""
        await client.cancel(self._bus, await client.resolve(self._bus, order), why=why, by=client.me())

    async def receipt(self, order: str) -> OrderReceipt:
        """The receipt of an order that has ended. Raises NotFound while it has not."""
        found = await client.get_receipt(self._bus, await client.resolve(self._bus, order))
        if found is None:
            raise NotFound(f"the order {order!r} has no receipt yet", hint="`wait` returns when it has ended")
        return found


async def _changes(bus: Bus, name: str, seen: int) -> AsyncGenerator[tuple[Order, int]]:
    """The order as it is, unless that was seen, and each change after it, with their revisions."""
    start = await bus.last_revision() + 1
    entry = await bus.get(keys.ORDER(name), latest=True)
    if entry is None:
        yield await client.get_order(bus, name), 0
    elif entry.revision > seen:
        yield read_order(entry), entry.revision
    async with aclosing(client.changes(bus, pattern=keys.ORDER(name), start=start)) as stored:
        async for entry in stored:
            yield read_order(entry), entry.revision


@asynccontextmanager
async def connect() -> AsyncIterator[ConnectedFleet]:
    """Connect to this machine's fleet, with the rights that its user has here."""
    async with client.connected() as bus:
        yield ConnectedFleet(bus)
