"""The work of finished orders: a diff to read, its commits, or to throw away. `landing` brings it onto a branch."""

import asyncio
import os

import msgspec

from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import runs, trees
from treadle.fleet.run.resume.checkpoints import read_state
from treadle.io import scratch
from treadle.io.files import write_atomic
from treadle.wire.fleet.records import Order
from treadle.workspace import checkouts
from treadle.workspace.exchange import lacks
from treadle.workspace.user_repository import UserRepository


async def diff(bus: Bus, name: str) -> bytes:
    order = await client.get_order(bus, name)
    patch = order.result.get("patch")
    if not patch:
        raise NotFound(
            f"the order {name} has left no changes" if order.ended else f"the order {name} has not ended yet"
        )
    return await objects.get(bus, str(patch))


async def run_receipt(bus: Bus, name: str) -> bytes:
    """The receipt of the order's last run as the host wrote and signed it, on whatever machine that was."""
    found = await client.get_receipt(bus, name)
    if found is None or found.run is None:
        why = "has not ended yet" if found is None else "was done, or ended, without a run of an agent"
        raise NotFound(f"the order {name} {why}: there is no receipt of one", hint="treadle fleet show has the order's")
    if isinstance(found.run, dict) and found.run.keys() == {"object"}:
        return await objects.get(bus, str(found.run["object"]))
    return msgspec.json.encode(found.run)


async def bundle_of(bus: Bus, order: Order, user: UserRepository) -> tuple[bytes, str]:
    """The order's commits, and the ref that they have in the bundle."""
    name = str(order.result.get("bundle", ""))
    try:
        if not name:
            raise NotFound(f"the order {order.id} has left no bundle")
        return await objects.get(bus, name), trees.bundled(order.result)
    except NotFound:  # results are not kept for ever, but the branch may still be here
        branch = f"refs/heads/{trees.branch_name(order.id)}"
        without = f"^{order.result.get('base', '')}"
        done = await asyncio.to_thread(user.run, "bundle", "create", "--quiet", "-", branch, without, check=False)
        if done.code != 0:
            raise
        return done.stdout, branch


async def bring(bus: Bus, order: Order, user: UserRepository) -> None:
    """Bring an order's commits into the user's repository, if they are not there: they were made on another machine."""
    data, _ = await bundle_of(bus, order, user)
    commit = str(order.result["commit"])
    with scratch.directory("bundle") as here:
        path = os.path.join(here, "made.bundle")
        write_atomic(path, data, sync=False)
        await asyncio.to_thread(user.run, "bundle", "unbundle", path, timeout=600)
    await asyncio.to_thread(user.run, "update-ref", f"refs/treadle/{commit}", commit)


async def began_from(bus: Bus, order: Order) -> str:
    """Where the work began that an order has the latest of: one that was sent back starts from what the one before it
    left, and its work is all of it."""
    spec = await client.get_spec(bus, order.id)
    while spec.continues:
        before = await client.get_order(bus, spec.continues)
        if spec.base != before.result.get("commit"):
            break
        order, spec = before, await client.get_spec(bus, before.id)
    return str(order.result.get("base", ""))


async def here(bus: Bus, order: Order, user: UserRepository) -> None:
    """Make sure that the user's repository has an order's commit."""
    if await asyncio.to_thread(lacks, user, [str(order.result["commit"])]):
        await bring(bus, order, user)


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
            trees.remove_leftovers(directory, state.tree)
