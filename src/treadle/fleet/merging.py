"""Merges the work of finished orders into a branch, one after the other, each verified before the branch moves.

A merge is built beside, in a store of ours; what was built is verified in a fresh directory, confined; then the branch
moves in one compare-and-set to exactly what was verified. If somebody else has moved it meanwhile, the merge is built
and verified again on what is there now. Nothing is ever taken back, because nothing untested ever lands. Whether an
order is merged is read from the branch.
"""

import asyncio
import os
from collections.abc import Sequence
from functools import partial

import msgspec

from treadle.errors import NotFound, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import trees
from treadle.io import scratch
from treadle.io.files import write_atomic
from treadle.receipts.trace import Check
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order
from treadle.workspace import branch_moves, checkouts, merges
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.copied import bring_files
from treadle.workspace.exchange import lacks
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository

TRIES = 5
"""How often a merge is built again because the branch has moved meanwhile."""
WORK = "refs/heads/work"


class MergeStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one order's work."""

    order: str
    title: str = ""
    merged: bool = False
    commit: str = ""
    why: str = ""
    conflicts: tuple[str, ...] = ()
    kinds: dict[str, str] = {}
    """The kind of each conflict, in git's words: contents, add/add, modify/delete..."""


class Merging(msgspec.Struct, kw_only=True):
    """Orders that are merged one after the other. `state` is running, merged or stopped."""

    id: str
    orders: list[str]
    into: str
    verify: str
    by: str
    started: float
    state: str = "running"
    at: str = ""
    """The order that is being merged and verified now."""
    steps: list[MergeStep] = []
    problem: str = ""
    ended: float = 0.0


async def merge(bus: Bus, names: list[str], into: str, *, verify: str = "", by: str = "") -> list[MergeStep]:
    """Merge the work of these orders, in this order, into the branch that is checked out in `into`."""
    user = await asyncio.to_thread(checkouts.around, into)
    await asyncio.to_thread(branch_moves.recover, user)
    ref = await asyncio.to_thread(user.head)
    if not ref.startswith("refs/heads/"):
        raise WorkspaceError(f"no branch is checked out in {user.top}", hint="git switch BRANCH")
    steps: list[MergeStep] = []
    for name in names:
        order = await client.get_order(bus, name)
        step = await _merge_one(bus, order, user, ref, verify)
        steps.append(step)
        if not step.merged:
            break
        await client.note_result(bus, name, f"merged into {user.top}", {"merged": step.commit}, by=by)
    return steps


async def _merge_one(bus: Bus, order: Order, user: UserRepository, ref: str, verify: str) -> MergeStep:
    if order.state != "done":
        return MergeStep(order=order.id, title=order.title, why=f"it is {order.state}, so there is nothing to merge")
    if not order.result.get("commit"):
        return MergeStep(order=order.id, title=order.title, merged=True, why="it changed nothing")
    spec = await client.get_spec(bus, order.id)
    bundle = await bundle_of(bus, order, user)
    for _ in range(TRIES):
        with scratch.directory("merging") as directory:
            trying = _Trying(order, spec, user, ref, directory)
            try:
                return await trying.run(bundle, verify)
            except BranchMoved:
                continue
            except WorkspaceError as error:
                return MergeStep(order=order.id, title=order.title, why=str(error))
    why = f"{ref.removeprefix('refs/heads/')} was moved by others {TRIES} times while this was built: try again"
    return MergeStep(order=order.id, title=order.title, why=why)


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


class _Trying:
    """One try at merging one order, on the branch as it is now."""

    def __init__(self, order: Order, spec: Spec, user: UserRepository, ref: str, directory: str) -> None:
        self.order, self.spec, self.user, self.ref = order, spec, user, ref
        self.directory = directory
        self.work = str(order.result["commit"])

    def _step(self, **fields: object) -> MergeStep:
        return MergeStep(order=self.order.id, title=self.order.title, **fields)  # type: ignore[arg-type]

    async def run(self, bundle: tuple[bytes, str], verify: str) -> MergeStep:
        if await asyncio.to_thread(branch_moves.contains, self.user, self.ref, self.work):
            return self._step(merged=True, commit=self.work, why="it is on the branch already")
        built = await asyncio.to_thread(self._build, *bundle)
        if isinstance(built, MergeStep):
            return built
        await asyncio.to_thread(branch_moves.look, self.user, self.ref, self.store, self.tip, built)
        if verify:
            done = await self._verify(built, verify)
            if not done.ok:
                said = done.output_tail.strip().splitlines()[-1:] or [""]
                return self._step(why=f"{verify} fails with it, so the branch was left as it is: {said[0]}")
        message = f"treadle: merge order {self.order.id}"
        behind = await asyncio.to_thread(branch_moves.move, self.user, self.ref, self.store, self.tip, built, message)
        why = f"the files of {', '.join(behind)} were changed meanwhile and are behind the branch" if behind else ""
        return self._step(merged=True, commit=built, why=why)

    # Building...

    def _build(self, bundle: bytes, ref: str) -> str | MergeStep:
        """The merge commit, or what is in the way of one."""
        self.tip = branch_moves.tip(self.user, self.ref)
        self.store = Store.make(
            os.path.join(self.directory, "store"),
            lenders=self.user.object_places(),
            algorithm="sha1" if len(self.tip) == 40 else "sha256",
        )
        self._take(bundle, ref)
        merges.set_attributes(self.store, self.tip)
        merged = self.store.merge(self.tip, self.work)
        if merged.conflicts:
            why = "it conflicts with what is there; its work is kept: resolve by hand or send it back"
            return self._step(why=why, conflicts=merged.conflicts, kinds=merges.kinds(merged.messages))
        base = str(self.order.result.get("base") or self.tip)
        if more := merges.unstated(self.store, self.store.tree_of(self.tip), merged.tree, base, self.work):
            return self._step(why=f"it would also change {more[0]}, which its order does not state: merge it by hand")
        message = f"Merge order {self.order.id}: {self.order.title}\n\nOrder: {self.order.id}\n"
        who = merges.fixed_identity(self.store, [self.tip, self.work])
        return self.store.commit(merged.tree, [self.tip, self.work], message, who=who)

    def _take(self, bundle: bytes, ref: str) -> None:
        base = str(self.order.result.get("base", ""))
        if base and lacks(self.user, [base]):
            raise WorkspaceError(
                f"{self.user.top} has no {base[:12]}, which {self.order.id} starts from", hint="git fetch"
            )
        found = self.store.take_bundle(bundle, ref, WORK)
        if found != self.work:
            raise WorkspaceError(f"the bundle of {self.order.id} has {found[:12]} and not {self.work[:12]}")

    # Verifying...

    async def _verify(self, commit: str, command: str) -> Check:
        here = os.path.join(self.directory, "merged")
        await asyncio.to_thread(merges.check_out, self.store, self.user, self.ref, commit, self.tip, here)
        return await verify_in(here, self.user, command, setup=self.spec.setup, bring=self.spec.bring)


async def verify_in(here: str, user: UserRepository, command: str, *, setup: str, bring: Sequence[str]) -> Check:
    """Run a check, confined, in a fresh directory of the user's repository, with what is brought along from there."""
    from treadle.host.confine import confined_check

    await asyncio.to_thread(partial(bring_files, user.top, here, bring, linked=True))
    shown = user.object_places()
    if setup:
        done = await confined_check(setup, here, shown=shown)
        if not done.ok:
            return done
    return await confined_check(command, here, shown=shown)
