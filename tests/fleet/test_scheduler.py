"""The scheduler: what it decides together is stored together."""

from tests.fleet.conftest import Start, give, spec
from treadle.fleet import client
from treadle.fleet.bus import STATE, Bus


async def sequence(bus: Bus) -> int:
    return int((await bus.api(f"STREAM.INFO.{STATE}"))["state"]["last_seq"])


async def test_many_orders_cost_few_batches(bus: Bus, start_node: Start) -> None:
    """A batch costs the engine several syncs, whatever is in it. Each holds one write of the lease, so that the writes
    that are not an order's say how many there were."""
    orders = [spec() for _ in range(200)]
    await give(bus, *orders)
    before = await sequence(bus)
    await start_node(slots=200)
    for order in orders:
        assert (await client.wait(bus, order.id, 60)).state == "done"
    # Taken in: the order, and that it is active. Placed: the order and its work, or both in one stroke. Ended: the
    # order, its receipt, and two keys purged.
    batches = await sequence(bus) - before - 200 * (2 + 2 + 4)
    assert batches < 100, f"{batches} batches for 200 orders that were taken in, placed and ended"
