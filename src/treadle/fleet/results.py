"""The work of finished orders: a diff to read, or to throw away. `merging.py` merges it."""

import asyncio
import os

from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus
from treadle.workspace.git import Repository, git


async def diff(bus: Bus, name: str) -> bytes:
    order = await client.get_order(bus, name)
    patch = order.result.get("patch")
    if not patch:
        raise NotFound(
            f"the order {name} has left no changes" if order.ended else f"the order {name} has not ended yet"
        )
    return await objects.get(bus, str(patch))


async def discard(bus: Bus, name: str, *, by: str = "") -> None:
    """Throw the work of an order away: its branch on this machine is removed, the receipt and the patch stay."""
    order = await client.get_order(bus, name)
    if not order.ended:
        raise LocalError(f"the order {name} has not ended: it is {order.state}", hint="cancel it first")
    if os.path.isdir(order.place):
        repository = await asyncio.to_thread(Repository.find, order.place)
        if repository is not None:
            branch = f"treadle/{name}"
            await asyncio.to_thread(git, "branch", "--quiet", "-D", branch, cwd=repository.top, check=False)
    await client.note_result(bus, name, "thrown away", {"discarded": True}, by=by)
