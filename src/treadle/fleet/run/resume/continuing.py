"""What an attempt continues from: the session and the files of the attempt before, if there was one.

On the same machine, when the runner before is gone, its worktree and its agent's session are taken over where they are.
On another machine, or when that runner may still be alive, both come from the checkpoint in the object store. An agent
that cannot resume a session gets the files and a brief of what was done.
"""

import asyncio
import contextlib
import os
import time
from typing import Literal

import msgspec

from treadle.errors import Busy, StorageError, TreadleError, WorkspaceError
from treadle.fleet import client
from treadle.fleet.run import runs, trees
from treadle.fleet.run.attempt import RunningAttempt
from treadle.fleet.run.resume import transcripts
from treadle.fleet.run.resume.checkpoints import Checkpoint, fetch, read_state
from treadle.io.files import locked
from treadle.io.process import table

SETTLE_SECONDS = 5.0
"""How long the earlier runner's processes may take to leave its worktree."""
TASK_MAX = 4000
TRAIN = "train"
"""Who gives orders back whose work could not land; the comments are the train's then, not a reviewer's."""


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What there was before this attempt."""

    how: Literal["", "session", "brief"] = ""
    session: str = ""
    fork: bool = False
    """Continue with a copy: the earlier runner may be asleep, and would write into the same session."""
    cwd: str = ""
    words: str = ""
    done: tuple[str, ...] = ()
    restored: bool = False
    """Whether the files are as it left them."""
    tree: trees.WorkTree | None = None


async def prepare(attempt: RunningAttempt, source: str) -> Before:
    """The worktree for this attempt, with everything of the earlier attempt that is available."""
    for order, number, node in await _earlier(attempt):
        if (found := await _from_this_machine(attempt, order, number, source)) is not None:
            return found
        key = await attempt.session_key(order)
        if (checkpoint := await fetch(attempt.bus, node, order, number, key)) is not None:
            return await _from_store(attempt, checkpoint, source)
    tree = await asyncio.to_thread(attempt.prepare, source)
    return Before(how="brief" if attempt.earlier else "", tree=tree)


async def _earlier(attempt: RunningAttempt) -> list[tuple[str, int, str]]:
    """The attempts that this one could continue from and their nodes, latest first."""
    spec = attempt.spec
    found = [(spec.id, each.number, each.node) for each in reversed(attempt.earlier)]
    if spec.continues:
        with contextlib.suppress(TreadleError):
            order = await client.get_order(attempt.bus, spec.continues)
            found += [(order.id, each.number, each.node) for each in order.attempts if each.number == order.attempt]
    return found


async def _from_this_machine(attempt: RunningAttempt, order: str, number: int, source: str) -> Before | None:
    """Its own worktree and session on this machine; None when there are none, or someone may still use them."""
    directory = runs.directory(order, number)
    state = read_state(directory)
    if state is None or state.agent != attempt.spec.agent:
        return None
    holding = locked(runs.lock_of(directory), SETTLE_SECONDS)
    try:
        await asyncio.to_thread(holding.__enter__)
    except (Busy, StorageError):
        return None
    attempt.locks.callback(holding.__exit__, None, None, None)
    if state.tree.top and not state.tree.store:
        return None  # a `git worktree` of release 0.1: its checkpoint is in the object store
    if not await asyncio.to_thread(_is_unused, state.tree.top or state.tree.root):
        return None
    again = bool(state.tree.top) and (order != attempt.spec.id or not os.path.isdir(state.tree.top))
    # For another order, it is made again in the same place, where the session knows the files.
    tree = await asyncio.to_thread(attempt.prepare, source, state.tree.top) if again else state.tree
    how: Literal["session", "brief"] = "session" if attempt.can_resume and state.session else "brief"
    return Before(how=how, session=state.session, cwd=tree.root, restored=not again, tree=tree)


def _is_unused(place: str) -> bool:
    """Whether nothing works there any more: the keeper ends what a killed runner had started."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while any(_inside(process.pid, place) for process in table.processes()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _inside(pid: int, place: str) -> bool:
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    return cwd == place or cwd.startswith(place + "/")


async def _from_store(attempt: RunningAttempt, checkpoint: Checkpoint, source: str) -> Before:
    """Take it from the object store."""
    spec = attempt.spec
    left = trees.Left(head=checkpoint.head or checkpoint.start, commit=checkpoint.commit, start=checkpoint.start)
    restored = bool(checkpoint.commit) and checkpoint.start == (spec.base or checkpoint.start)
    try:
        tree = await asyncio.to_thread(attempt.prepare, source, "", left if restored else None, checkpoint.bundle)
    except (WorkspaceError, StorageError):
        if not restored:
            raise
        restored = False
        tree = await asyncio.to_thread(attempt.prepare, source)
    goes_on = bool(checkpoint.session) and checkpoint.agent == spec.agent and attempt.can_resume
    # A session that remembers changes which are not there would build on nothing.
    if goes_on and (restored or checkpoint.commit in ("", checkpoint.start) or bool(spec.continues)):
        goes_on = await asyncio.to_thread(transcripts.put_back, checkpoint.files, spec.agent, tree.root, os.environ)
    else:
        goes_on = False
    return Before(
        how="session" if goes_on else "brief",
        session=checkpoint.session,
        fork=attempt.can_fork,
        cwd=checkpoint.cwd,
        words=checkpoint.words,
        done=checkpoint.done,
        restored=restored,
        tree=tree,
    )


def first_message(attempt: RunningAttempt, before: Before, brief: str) -> str:
    """The first message to the agent: the task, or how to continue from what was done before."""
    spec = attempt.spec
    failed, lost = _not_verified(attempt), _ends(attempt)
    files = "The files are as that left them." if before.restored else "The files are as at the start."
    if before.how == "session":
        return "\n\n".join([failed, *_moved(before)]) if failed else _going_on(attempt, before, lost)
    parts = [spec.task, brief] if brief else [spec.task]
    if spec.comments:
        where = "its files are as that left them" if spec.base else "its files may be as that left them"
        review = spec.comments if spec.by == TRAIN else f"A reviewer says:\n\n{spec.comments}"
        parts.append(f"This was done before, and {where}. {review}")
    if failed:
        parts.append(f"This was done before. {files} {failed}")
    elif lost:
        parts.append(f"This was begun before and not finished: {lost}. {files}")
    if before.done and lost:
        parts.append("What was done then, the last of it:\n" + "\n".join(f"- {each}" for each in before.done))
    if before.words and lost:
        parts.append(f"What was said last then:\n{before.words}")
    return "\n\n".join(parts)


def _going_on(attempt: RunningAttempt, before: Before, lost: str) -> str:
    spec = attempt.spec
    parts = []
    if lost:
        parts.append(f"You were interrupted and go on now: {lost}. The files are as you left them.")
    elif spec.comments:
        reviewed = f"A reviewer has looked at what you did and says:\n\n{spec.comments}"
        parts.append(spec.comments if spec.by == TRAIN else reviewed)
    parts += _moved(before)
    if lost:
        task = spec.task if len(spec.task) <= TASK_MAX else spec.task[:TASK_MAX] + " ..."
        parts.append(f"Look at what is done, and do the rest of the task:\n\n{task}")
        if spec.comments:
            parts.append(f"A reviewer had said:\n\n{spec.comments}")
    return "\n\n".join(parts)


def _moved(before: Before) -> list[str]:
    if before.tree is None or not before.cwd or before.cwd == before.tree.root:
        return []
    return [f"You work in {before.tree.root} now; that is what {before.cwd} was before. Use the new path."]


def _ends(attempt: RunningAttempt) -> str:
    """How the earlier attempts ended."""
    return "; ".join(f"attempt {each.number} on {each.node}: {each.outcome} ({each.why})" for each in attempt.earlier)


def _not_verified(attempt: RunningAttempt) -> str:
    """What is sent back to the agent when its work did not pass the check, if the last attempt ended so."""
    last = attempt.earlier[-1] if attempt.earlier else None
    if last is None or last.fault != "verify":
        return ""
    printed = f"It printed, the last of it:\n\n{last.output.strip()}" if last.output.strip() else "It printed nothing."
    check = f"The work was checked with `{attempt.spec.verify}`, which failed."
    return f"{check} {printed}\n\nFix what is wrong, so that the check passes."
