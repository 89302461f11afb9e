"""The work of finished orders, as a diff to read, or merged one after the other with each step verified.

Nothing is forced: merging stops at a conflict or a step that fails its check, and keeps what was merged before.
"""

import asyncio
import os

import msgspec

from treadle.errors import LocalError, NotFound, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import trees
from treadle.io import scratch
from treadle.io.opening import write
from treadle.wire.fleet.records import Order
from treadle.workspace.git import Repository, git

_AUTHOR = ["-c", "user.name=treadle", "-c", "user.email=treadle@localhost"]


class MergeStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one order's work."""

    order: str
    title: str = ""
    merged: bool = False
    commit: str = ""
    why: str = ""
    conflicts: tuple[str, ...] = ()


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


async def diff(bus: Bus, name: str) -> bytes:
    order = await client.get_order(bus, name)
    patch = order.result.get("patch")
    if not patch:
        raise NotFound(
            f"the order {name} has left no changes" if order.ended else f"the order {name} has not ended yet"
        )
    return await objects.get(bus, str(patch))


async def merge(bus: Bus, names: list[str], into: str, *, verify: str = "", by: str = "") -> list[MergeStep]:
    """Merge the work of these orders, in this order, into the branch that is checked out in `into`."""
    repository = await asyncio.to_thread(Repository.find, into)
    if repository is None:
        raise WorkspaceError(f"{into} is not in a git repository")
    if await asyncio.to_thread(_dirty, repository):
        raise WorkspaceError(f"{repository.top} has changes that are not committed", hint="commit or stash them first")
    steps: list[MergeStep] = []
    for name in names:
        order = await client.get_order(bus, name)
        step = await _merge_one(bus, order, repository, verify)
        steps.append(step)
        if not step.merged:
            break
        await client.note_result(bus, name, f"merged into {repository.top}", {"merged": step.commit}, by=by)
    return steps


async def _merge_one(bus: Bus, order: Order, repository: Repository, verify: str) -> MergeStep:
    if order.state != "done":
        return MergeStep(order=order.id, title=order.title, why=f"it is {order.state}, so there is nothing to merge")
    commit = str(order.result.get("commit", ""))
    if not commit:
        return MergeStep(order=order.id, title=order.title, merged=True, why="it changed nothing")
    await _bring(bus, order, repository, commit)
    before = await asyncio.to_thread(repository.commit)
    conflicts = await asyncio.to_thread(_merge, repository, commit, order)
    if conflicts:
        why = "it conflicts with what is there; its work is kept: resolve by hand or send it back"
        return MergeStep(order=order.id, title=order.title, why=why, conflicts=conflicts)
    if verify:
        from treadle.host.confine import confined_check

        done = await confined_check(verify, repository.top)
        if not done.ok:
            await asyncio.to_thread(git, "reset", "--quiet", "--keep", before, cwd=repository.top)
            said = done.output_tail.strip().splitlines()[-1:] or [""]
            return MergeStep(order=order.id, title=order.title, why=f"{verify} fails with it (taken back): {said[0]}")
    return MergeStep(order=order.id, title=order.title, merged=True, commit=await asyncio.to_thread(repository.commit))


async def _bring(bus: Bus, order: Order, repository: Repository, commit: str) -> None:
    """Have the commit here: made on this machine, or fetched from the bundle that the runner left."""
    there = await asyncio.to_thread(git, "cat-file", "-e", f"{commit}^{{commit}}", cwd=repository.top, check=False)
    if there.code == 0:
        return
    data = await objects.get(bus, str(order.result.get("bundle", "")))
    with scratch.directory("bundle") as here:
        path = os.path.join(here, "result.bundle")
        write(path, data)
        refs = f"+{trees.BUNDLED}:refs/heads/treadle/{order.id}"
        done = await asyncio.to_thread(git, "fetch", "--quiet", path, refs, cwd=repository.top, check=False)
    if done.code:
        raise WorkspaceError(
            f"{repository.top} has no {str(order.result.get('base'))[:12]}, which {order.id} starts from",
            hint=f"git said: {done.complaint[-200:]}",
        )


def _dirty(repository: Repository) -> bool:
    return bool(git("status", "--porcelain", "--untracked-files=no", cwd=repository.top).stdout)


def _merge(repository: Repository, commit: str, order: Order) -> tuple[str, ...]:
    message = f"Merge order {order.id}: {order.title}"
    with repository.lock():
        done = git(*_AUTHOR, "merge", "--no-ff", "--no-edit", "-m", message, commit, cwd=repository.top, check=False)
        if done.code == 0:
            return ()
        names = git("diff", "--name-only", "--diff-filter=U", "-z", cwd=repository.top, check=False).stdout
        git("merge", "--abort", cwd=repository.top, check=False)
    found = tuple(name.decode("utf-8", "replace") for name in names.split(b"\0") if name)
    if not found:
        raise WorkspaceError(f"git cannot merge {commit[:12]}: {done.complaint}")
    return found


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
