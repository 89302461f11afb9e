"""The files that an order works on, on this node: its own directory, or a repository brought here in a bundle."""

import asyncio
import hashlib
import os

from treadle.errors import WorkspaceError
from treadle.fleet.engine import objects, places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import read_order
from treadle.fleet.run import trees
from treadle.io.files import locked, write_atomic
from treadle.io.opening import rename
from treadle.io.removing import remove_tree
from treadle.wire.fleet.orders import Spec
from treadle.wire.sidecar.connection import PolicyProfile
from treadle.workspace import checkouts
from treadle.workspace.exchange import lacks, receive_bundle
from treadle.workspace.git import FETCHING, create
from treadle.workspace.user_repository import UserRepository


class NotHere(WorkspaceError):
    """This node lacks what the order needs; another one may have it."""


def commit_of(root: str) -> str:
    """The current commit of a directory's repository, for an order to start from; empty where there is none."""
    found = checkouts.find(root) if os.path.isdir(root) else None
    return trees.commit_of(found, "HEAD") if found is not None else ""


def policy_of(spec: Spec) -> PolicyProfile:
    return PolicyProfile(**{name: list(getattr(spec.policy, name)) for name in PolicyProfile.__struct_fields__})


async def find(bus: Bus, spec: Spec) -> str:
    """The directory that the order is about, on this node."""
    if spec.root and os.path.isdir(spec.root):
        user = await asyncio.to_thread(checkouts.find, spec.root)
        has = not spec.base if user is None else await _has_base(bus, spec, user)
        if spec.in_place or has:
            return spec.root
    place = ""
    if spec.bundle:
        place = await asyncio.to_thread(_unpack, await objects.get(bus, spec.bundle), spec)
    elif spec.repo:
        place = await asyncio.to_thread(_fetch, spec)
    if place:
        user = await asyncio.to_thread(checkouts.find, place)
        if user is not None and not await _has_base(bus, spec, user):
            raise WorkspaceError(f"the repository that was brought here has no commit {spec.base}")
        return place
    at = f" at {spec.base[:12]}" if spec.base else ""
    raise NotHere(
        f"this node has no {spec.root or 'directory for the order'}{at}",
        hint="submit with --bundle, or --repo URL, or a label of a node that has it",
    )


async def see_branch(spec: Spec, source: str) -> str:
    """Learn where the branch is now that the work starts from. Returns why that is not known."""
    user = await asyncio.to_thread(checkouts.find, source)
    return await asyncio.to_thread(trees.see_branch, user, spec) if user is not None else ""


async def _has_base(bus: Bus, spec: Spec, user: UserRepository) -> bool:
    """Whether the work's base commit is here; fetched, if necessary, from the order that made it."""
    if not spec.base or not await asyncio.to_thread(lacks, user, [spec.base]):
        return True
    if not spec.continues or (entry := await bus.get(f"order.{spec.continues}")) is None:
        return False
    made = read_order(entry).result
    if made.get("commit") != spec.base or not made.get("bundle"):
        return False
    data = await objects.get(bus, str(made["bundle"]))
    return await asyncio.to_thread(_take_made, user, data, spec.base)


def _take_made(user: UserRepository, data: bytes, commit: str) -> bool:
    try:
        receive_bundle(user, data, [commit])
    except WorkspaceError:
        return False
    return user.run("update-ref", f"refs/treadle/{commit}", commit, check=False).code == 0


def _copy_of(name: str) -> str:
    return places.inside("repositories", hashlib.blake2b(name.encode(), digest_size=10).hexdigest())


# A copy on this node is shared by all attempts at orders of one repository. Its lock is held while it is made or
# fetched into; who works from it afterwards needs none, because commits are only added. It is made under another name:
# what a killed node leaves of a clone is not taken for the repository.


def _copy(here: str, *words: str, timeout: float = 60.0) -> str:
    top, making = os.path.join(here, "repository"), os.path.join(here, "making")
    if not os.path.isdir(top):
        remove_tree(making)
        create(*words, making, cwd=here, timeout=timeout)
        rename(making, top)
    return top


def _unpack(data: bytes, spec: Spec) -> str:
    here = _copy_of(spec.place)
    with locked(os.path.join(here, "lock"), 300):
        path = os.path.join(here, "in.bundle")
        write_atomic(path, data, sync=False)
        top = _copy(here, "init", "--quiet")
        words = ("fetch", "--quiet", "--no-write-fetch-head", path, "+refs/treadle/*:refs/treadle/*")
        checkouts.around(top).run(*words, env=FETCHING, timeout=600)
        os.unlink(path)
    return top


def _fetch(spec: Spec) -> str:
    here = _copy_of(spec.repo)
    with locked(os.path.join(here, "lock"), 600):
        known = os.path.isdir(os.path.join(here, "repository"))
        top = _copy(here, "clone", "--quiet", "--no-checkout", "--", spec.repo, timeout=1800)
        if known:
            checkouts.around(top).run("fetch", "--quiet", "--all", env=FETCHING, timeout=1800)
    return top
