"""Sends a repository to nodes that have no copy: everything up to the order's base commit, in one object."""

import asyncio
import os

from msgspec.structs import replace

from treadle.errors import WorkspaceError
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import trees
from treadle.io import scratch
from treadle.wire.fleet.orders import Spec
from treadle.workspace import checkouts
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository


async def send(bus: Bus, spec: Spec) -> Spec:
    """The order, with its repository stored beside it."""
    user = await asyncio.to_thread(checkouts.find, spec.root)
    if user is not None and not spec.base:
        await asyncio.to_thread(trees.see_branch, user, spec)
        spec = replace(spec, base=await asyncio.to_thread(trees.commit_of, user, trees.beginning(spec)))
    if user is None or not spec.base:
        raise WorkspaceError(f"{spec.root} is not in a git repository, so it cannot be sent", hint="leave out --bundle")
    name = f"source.{spec.base}"
    data = await asyncio.to_thread(_bundle, user, spec.base)
    await objects.put(bus, name, data)
    return replace(spec, bundle=name)


def _bundle(user: UserRepository, base: str) -> bytes:
    """Made in a store of ours that borrows the objects: a bundle needs a ref, and that is not to be the user's."""
    with scratch.directory("bundle") as here:
        place, lenders = os.path.join(here, "store"), user.object_places()
        store = Store.make(place, lenders=lenders, algorithm="sha1" if len(base) == 40 else "sha256")
        ref = f"refs/treadle/{base}"
        store.set_ref(ref, base)
        return store.bundle(ref)
