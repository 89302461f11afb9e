"""How far an attempt has come, stored while it runs, and what the next attempt continues from."""

import asyncio
import contextlib
import glob
import logging
import os
import time
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from treadle.drivers.card import cards, filled, place_of, slug
from treadle.errors import Busy, NotFound, StorageError, TreadleError, WorkspaceError
from treadle.events import AnyEvent, Message, ToolEnded, TurnEnded
from treadle.fleet import client
from treadle.fleet.engine import places, streams
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.orders import TRAIN
from treadle.fleet.run import runs, trees
from treadle.fleet.run.attempt import RunningAttempt
from treadle.io.files import locked, read, write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.process import table
from treadle.io.records import FileRecord
from treadle.redact import MARK, SHORTEST, is_secret_name
from treadle.sessions.handover import FORMAT as HANDOVER_FORMAT
from treadle.sessions.handover import Gathering, Handover

# Finds the files in which an agent keeps a session, and puts them where the agent looks for them on another machine.
#
# Where they are is on the agent's card (`Card.transcripts`); our own agent keeps them in the state directory. All
# functions block.

TRANSCRIPT_MAX = 16 * 1024 * 1024
"""The most bytes of a session that are moved; a longer one continues only on its own machine."""


def collect(agent: str, session: str, cwd: str, environ: Mapping[str, str]) -> dict[str, bytes]:
    """The files of a session, by their path below the agent's directory; empty when it cannot be moved."""
    found: dict[str, bytes] = {}
    size = 0
    pattern = _pattern(agent, environ)
    if not pattern or not session:
        return found
    for path in sorted(glob.glob(filled(pattern, session, cwd), include_hidden=True)):
        size += os.path.getsize(path)
        if size > TRANSCRIPT_MAX:
            return {}
        found[os.path.relpath(path, _start(pattern, cwd))] = _without_keys(read(path), environ)
    return found


def _without_keys(data: bytes, environ: Mapping[str, str]) -> bytes:
    """The text without this machine's keys. Nothing else is removed: the agent needs the rest unchanged."""
    for name, value in environ.items():
        if is_secret_name(name) and len(value) >= SHORTEST:
            data = data.replace(value.encode(), MARK.encode())
    return data


def put_back(files: Mapping[str, bytes], agent: str, cwd: str, environ: Mapping[str, str]) -> bool:
    """Put the files of a session in place. Whether the agent will find it here, for this directory."""
    pattern = _pattern(agent, environ)
    if not pattern or not files:
        return False
    start = _start(pattern, cwd)
    for name, data in files.items():
        path = os.path.normpath(os.path.join(start, name))
        if not path.startswith(start + "/"):
            return False  # the path leads outside: the one who made it wants to write elsewhere
        private_dir(os.path.dirname(path))
        write_atomic(path, data)
    return True


def _pattern(agent: str, environ: Mapping[str, str]) -> str:
    if agent == "native":
        return os.path.join(state_dir(), "sessions", "{id}", "history.jsonl")
    card = cards().get(agent.partition(":")[0])
    return place_of(card, environ) if card is not None else ""


def _start(pattern: str, cwd: str) -> str:
    """The directory below which a session's files have the same names everywhere."""
    fixed = pattern.replace("{cwd}", slug(cwd)).split("/")
    at = next(number for number, part in enumerate(fixed) if "*" in part or "{" in part)
    return "/".join(fixed[:at])


# Keeps how far an attempt has come while it runs, so that the next one continues from there.
#
# On the node, `state.json` in the run's directory names its session and worktree. In the object store,
# `NODE/checkpoint.ORDER.ATTEMPT` holds what another machine needs: the worktree as a commit, and the agent's session,
# encrypted with the order's key (`engine/places.py`).

log = logging.getLogger(__name__)

FORMAT = 1
CHECKPOINT = 2
KIND = "checkpoint"
SECONDS = 5.0
"""Seconds between two checkpoints of a run."""
CHECKPOINT_MAX = 64 * 1024 * 1024
HANDED = "handover.json"
HANDOVER = FileRecord(Handover, format=HANDOVER_FORMAT)


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs to this run on its node."""

    format: int = FORMAT
    agent: str
    tree: trees.WorkTree
    session: str = ""


STATE = FileRecord(RunState, format=FORMAT)


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    format: int = CHECKPOINT
    agent: str
    cwd: str
    session: str = ""
    start: str = ""
    """The commit that the order's work starts from."""
    head: str = ""
    commit: str = ""
    """The worktree as it was, on top of what was committed at `head`."""
    bundle: bytes = b""
    """The commits since `start`."""
    files: dict[str, bytes] = {}
    """The session's files, as the agent keeps them; never stored like this."""
    sealed: bytes = b""
    """The same, encrypted with the order's key under the checkpoint's name."""
    words: str = ""
    done: tuple[str, ...] = ()
    """Its last words and tool calls, in place of a handover, as release 0.2 stored them."""
    handover: bytes = b""
    """For an agent that cannot resume the session: what was said and done."""


async def fetch(bus: Bus, node: str, order: str, attempt: int, key: bytes | None) -> Checkpoint | None:
    """What an attempt left in the object store; None when there is nothing we can read.

    Without the right key it comes without the session.
    """
    name = f"{KIND}.{order}.{attempt}"
    try:
        return _opened(await streams.get(bus, streams.owned(node, name)), name, key)
    except NotFound:
        return None
    except (StorageError, msgspec.MsgspecError) as error:
        log.warning("%s is not used: %s", name, error)
        return None


def _opened(data: bytes, name: str, key: bytes | None) -> Checkpoint | None:
    found = msgspec.msgpack.decode(data, type=Checkpoint)
    if found.format != CHECKPOINT:
        return None
    found = replace(found, files={})  # what is not encrypted was not written by us
    if not found.sealed or key is None:
        return found
    try:
        session = places.unseal(key, found.sealed, name)
    except StorageError as error:
        log.warning("the files are taken over and the session is not: %s", error)
        return found
    return replace(found, files=msgspec.msgpack.decode(session, type=dict[str, bytes]), sealed=b"")


def read_state(directory: str) -> RunState | None:
    return STATE.load_whole(os.path.join(directory, "state.json"))


class Checkpoints:
    """The checkpoints of one run: it hears the run's events and stores one after something was done, not too often."""

    def __init__(self, attempt: RunningAttempt) -> None:
        self._attempt = attempt
        self.session = ""
        self.gathering = Gathering(attempt.redactor)
        self._more = asyncio.Event()
        self._slot = "a"
        self._task: asyncio.Task[None] | None = None
        self._keeping = asyncio.Lock()
        """One at a time. They are written to two slots in turn, so the last good one stays until the next is whole."""

    def look(self, event: AnyEvent) -> None:
        self.gathering.look(event)
        if isinstance(event, ToolEnded | TurnEnded | Message):
            self._more.set()

    def opened(self, session: str) -> None:
        """The agent has opened this session, so it can be resumed from now on."""
        tree = self._attempt.tree
        if session != self.session and session and tree is not None:
            self.session = session
            state = RunState(agent=self._attempt.spec.agent, tree=tree, session=session)
            STATE.save(os.path.join(self._attempt.directory, "state.json"), state)

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_on())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _keep_on(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            await self.keep()
            await asyncio.sleep(SECONDS)

    async def keep(self) -> bool:
        """Store how far the run is. False when that is not possible now; the run goes on either way."""
        if self._attempt.tree is None or self._attempt.superseded.is_set():
            return False
        async with self._keeping:
            try:
                began = time.monotonic()
                taker = self._attempt.taker
                key = await self._attempt.session_key(self._attempt.spec.id)
                if key is None:
                    log.warning("the checkpoint is without the session: the scheduler gave no key for it")
                head = await taker.head() if taker is not None else ""
                data = msgspec.msgpack.encode(await asyncio.to_thread(self._made, self._attempt.tree, head, key))
                if len(data) > CHECKPOINT_MAX:
                    log.warning("the checkpoint has %d bytes, which are too many", len(data))
                    return False
                await streams.put(self._attempt.bus, self._attempt.object_name(KIND), data, slot=self._slot)
                self._slot = "b" if self._slot == "a" else "a"
                log.info("checkpoint of %d bytes in %.2f s", len(data), time.monotonic() - began)
                return True
            except (Unreachable, TreadleError) as error:
                log.warning("no checkpoint: %s", error)
                return False

    def _made(self, tree: trees.WorkTree, head: str, key: bytes | None) -> Checkpoint:
        spec, taker = self._attempt.spec, self._attempt.taker
        # The session first: an agent may find more done than it remembers, but never less.
        files = collect(spec.agent, self.session, tree.root, os.environ)
        name = f"{KIND}.{spec.id}.{self._attempt.order.attempt}"
        sealed = places.seal(key, msgspec.msgpack.encode(files), name) if key is not None and files else b""
        handover = self.gathering.handover(spec.agent)
        HANDOVER.save(os.path.join(self._attempt.directory, HANDED), handover)
        commit, bundle = "", b""
        if taker is not None:
            commit = taker.commit(head, "as it was when the attempt was cut off").commit
            if commit != tree.start:
                bundle = taker.bundle(commit)
        return Checkpoint(
            agent=spec.agent,
            cwd=tree.root,
            session=self.session,
            start=tree.start,
            head=head,
            commit=commit,
            bundle=bundle,
            sealed=sealed,
            handover=HANDOVER.written(handover),
        )


# What an attempt continues from: the session and the files of the attempt before, if there was one.
#
# On the same machine, when the runner before is gone, its worktree and its agent's session are taken over where they
# are. On another machine, or when that runner may still be alive, both come from the checkpoint in the object store.
# An agent that cannot resume a session gets the files and a brief of what was done.

SETTLE_SECONDS = 5.0
"""How long the earlier runner's processes may take to leave its worktree."""
TASK_MAX = 4000


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What there was before this attempt."""

    how: Literal["", "session", "brief"] = ""
    session: str = ""
    fork: bool = False
    """Continue with a copy: the earlier runner may be asleep, and would write into the same session."""
    cwd: str = ""
    handover: Handover | None = None
    restored: bool = False
    """Whether the files are as it left them."""
    tree: trees.WorkTree | None = None


async def prepare(attempt: RunningAttempt, source: str) -> Before:
    """The worktree for this attempt, with everything of the earlier attempt that is available."""
    last = attempt.earlier[-1].agent if attempt.earlier else ""
    anew = attempt.spec.fresh and last not in ("", attempt.spec.agent)
    for order, number, node in await _earlier(attempt) if not anew else ():
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
    same = state is not None and state.agent == attempt.spec.agent
    if state is None or not same and order != attempt.spec.id:
        return None
    holding = locked(runs.lock_of(directory), SETTLE_SECONDS)
    try:
        await asyncio.to_thread(holding.__enter__)
    except (Busy, StorageError):
        return None
    attempt.locks.callback(holding.__exit__, None, None, None)
    if not await asyncio.to_thread(_is_unused, state.tree.top or state.tree.root):
        return None
    # One that was killed while it made the tree again has removed the store, and named its own nowhere yet.
    whole = os.path.isdir(state.tree.top) and os.path.isdir(state.tree.store)
    again = bool(state.tree.top) and (order != attempt.spec.id or not whole)
    # For another order, it is made again in the same place, where the session knows the files.
    tree = await asyncio.to_thread(attempt.prepare, source, state.tree.top) if again else state.tree
    how: Literal["session", "brief"] = "session" if same and attempt.can_resume and state.session else "brief"
    handover = HANDOVER.load_whole(os.path.join(directory, HANDED))
    return Before(how=how, session=state.session, cwd=tree.root, handover=handover, restored=not again, tree=tree)


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
        goes_on = await asyncio.to_thread(put_back, checkpoint.files, spec.agent, tree.root, os.environ)
    else:
        goes_on = False
    return Before(
        how="session" if goes_on else "brief",
        session=checkpoint.session,
        fork=attempt.can_fork,
        cwd=checkpoint.cwd,
        handover=_handover_of(checkpoint),
        restored=restored,
        tree=tree,
    )


def _handover_of(checkpoint: Checkpoint) -> Handover:
    if checkpoint.handover:
        with contextlib.suppress(StorageError):  # of a newer version: the files are there all the same
            return HANDOVER.read(checkpoint.handover, "a handover")
    words = (checkpoint.words,) if checkpoint.words else ()
    return Handover(agent=checkpoint.agent, messages=words, done=checkpoint.done)


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
    if before.handover is not None and (lost or failed):
        since = replace(before.handover, task=before.handover.task[1:])  # the first is the order's own task
        parts.append(since.prompt())
    return "\n\n".join(parts)


def _going_on(attempt: RunningAttempt, before: Before, lost: str) -> str:
    spec = attempt.spec
    parts = []
    if lost:
        parts.append(f"You were interrupted and continue now: {lost}. The files are as you left them.")
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
