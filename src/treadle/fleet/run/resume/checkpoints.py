"""Keeps how far an attempt has come while it runs, so that the next one continues from there.

On the node, `state.json` in the run's directory names its session and worktree. In the object store,
`NODE/checkpoint.ORDER.ATTEMPT` holds what another machine needs: the worktree as a commit, and the agent's session,
encrypted with the order's key (`session_keys`).
"""

import asyncio
import logging
import os
import time

import msgspec
from msgspec.structs import replace

from treadle.errors import NotFound, StorageError, TreadleError
from treadle.events import AnyEvent, Message, ToolEnded, ToolStarted, TurnEnded
from treadle.fleet import session_keys
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.run import trees
from treadle.fleet.run.attempt import RunningAttempt
from treadle.fleet.run.resume import transcripts
from treadle.io.files import write_atomic
from treadle.io.reading import read_if_there

log = logging.getLogger(__name__)

FORMAT = 1
PLAIN, CHECKPOINT = 1, 2
"""Release 0.1 stored the session as it was, which is still read; since then it is encrypted."""
KIND = "checkpoint"
SECONDS = 5.0
"""Seconds between two checkpoints of a run."""
MOST = 64 * 1024 * 1024
DONE_MAX = 40


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs to this run on its node."""

    format: int = FORMAT
    agent: str
    tree: trees.WorkTree
    session: str = ""


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
    """The session's files, as the agent keeps them; never stored like this since format 2."""
    sealed: bytes = b""
    """The same, encrypted with the order's key under the checkpoint's name."""
    words: str = ""
    done: tuple[str, ...] = ()
    """Its last tool calls, for the brief of an agent that cannot resume a session."""


async def fetch(bus: Bus, node: str, order: str, attempt: int, key: bytes | None) -> Checkpoint | None:
    """What an attempt left in the object store; None when there is nothing we can read.

    Without the right key it comes without the session.
    """
    plain = f"{KIND}.{order}.{attempt}"
    for name in (objects.owned(node, plain), plain):  # release 0.1 stored it without its node
        try:
            data = await objects.get(bus, name)
            return _opened(data, plain, key)
        except NotFound:
            continue
        except (StorageError, msgspec.MsgspecError) as error:
            log.warning("%s is not used: %s", name, error)
    return None


def _opened(data: bytes, name: str, key: bytes | None) -> Checkpoint | None:
    found = msgspec.msgpack.decode(data, type=Checkpoint)
    if found.format not in (PLAIN, CHECKPOINT):
        return None
    if found.format == PLAIN or not found.sealed or key is None:
        return found
    try:
        session = session_keys.unseal(key, found.sealed, name)
    except StorageError as error:
        log.warning("the files are taken over and the session is not: %s", error)
        return found
    return replace(found, files=msgspec.msgpack.decode(session, type=dict[str, bytes]), sealed=b"")


def read_state(directory: str) -> RunState | None:
    data = read_if_there(os.path.join(directory, "state.json"))
    try:
        return None if data is None else msgspec.json.decode(data, type=RunState)
    except msgspec.MsgspecError:
        return None


class Checkpoints:
    """The checkpoints of one run: it hears the run's events and stores one after something was done, not too often."""

    def __init__(self, attempt: RunningAttempt) -> None:
        self._attempt = attempt
        self.session = ""
        self.changed: tuple[str, ...] = ()
        """What had changed in the worktree at the last checkpoint."""
        self._words = ""
        self._done: list[str] = []
        self._more = asyncio.Event()
        self._slot = "a"
        self._task: asyncio.Task[None] | None = None
        self._keeping = asyncio.Lock()
        """One at a time. They are written to two slots in turn, so the last good one stays until the next is whole."""

    def look(self, event: AnyEvent) -> None:
        if isinstance(event, ToolStarted):
            action = f"{event.name} {event.command or ' '.join(event.paths)}".strip()
            self._done = [*self._done, self._attempt.redactor.text(action)[:200]][-DONE_MAX:]
        elif isinstance(event, Message) and event.text.strip():
            self._words = self._attempt.redactor.text(event.text)[-2000:]
        if isinstance(event, ToolEnded | TurnEnded | Message):
            self._more.set()

    def opened(self, session: str) -> None:
        """The agent has opened this session, so it can be resumed from now on."""
        tree = self._attempt.tree
        if session != self.session and session and tree is not None:
            self.session = session
            state = RunState(agent=self._attempt.spec.agent, tree=tree, session=session)
            write_atomic(os.path.join(self._attempt.directory, "state.json"), msgspec.json.encode(state))

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
                if len(data) > MOST:
                    log.warning("the checkpoint has %d bytes, which are too many", len(data))
                    return False
                await objects.put(self._attempt.bus, self._attempt.object_name(KIND), data, slot=self._slot)
                self._slot = "b" if self._slot == "a" else "a"
                log.info("checkpoint of %d bytes in %.2f s", len(data), time.monotonic() - began)
                return True
            except (Unreachable, TreadleError) as error:
                log.warning("no checkpoint: %s", error)
                return False

    def _made(self, tree: trees.WorkTree, head: str, key: bytes | None) -> Checkpoint:
        spec, taker = self._attempt.spec, self._attempt.taker
        # The session first: an agent may find more done than it remembers, but never less.
        files = transcripts.collect(spec.agent, self.session, tree.root, os.environ)
        name = f"{KIND}.{spec.id}.{self._attempt.job.attempt}"
        sealed = session_keys.seal(key, msgspec.msgpack.encode(files), name) if key is not None and files else b""
        commit, bundle = "", b""
        if taker is not None:
            commit = taker.commit(head, "as it was when the attempt was cut off").commit
            self.changed = taker.changed(commit)
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
            words=self._words,
            done=tuple(self._done),
        )
