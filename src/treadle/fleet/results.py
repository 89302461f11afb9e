"""The work of finished orders: a diff to read, or to throw away. `merging.py` merges it."""

import asyncio
import os

from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import runs, trees
from treadle.fleet.run.checkpoints import read_state
from treadle.wire.fleet.records import Order
from treadle.workspace import checkouts


async def diff(bus: Bus, name: str) -> bytes:
    order = await client.get_order(bus, name)
    patch = order.result.get("patch")
    if not patch:
        raise NotFound(
            f"the order {name} has left no changes" if order.ended else f"the order {name} has not ended yet"
        )
    return await objects.get(bus, str(patch))


async def discard(bus: Bus, name: str, *, by: str = "") -> None:
    """Throw the work of an order away: its branch and files on this machine go, receipt and patch stay."""
    order = await client.get_order(bus, name)
    if not order.ended:
        raise LocalError(f"the order {name} has not ended: it is {order.state}", hint="cancel it first")
    await asyncio.to_thread(_remove, order)
    await client.note_result(bus, name, "thrown away", {"discarded": True}, by=by)


def _remove(order: Order) -> None:
    user = checkouts.find(order.place) if os.path.isdir(order.place) else None
    if user is not None:
        user.run("branch", "--quiet", "-D", trees.branch_name(order.id), check=False)
    for name, _, directory in runs.all_here():
        state = read_state(directory) if name == order.id and runs.runner_of(directory) is None else None
        if state is not None:
            trees.remove_kept(directory, state.tree)
