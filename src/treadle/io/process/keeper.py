"""The keeper: one tiny process per treadle process that outlives it just long enough to end all it started.

It is in a session of its own, so no signal to the owner's group or terminal reaches it, and it learns of the owner's
death by the closed socket and by the owner's pidfd, so `kill -9` is noticed like any other end. For each tree it forks
a stem (see `reaper.py`); if somebody kills a stem, its orphans become the keeper's children, and the keeper ends them.

Run by `tree.py` as `python -I -S`. Light: start-up time and memory are paid by every treadle process that has children.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import gc
import marshal
import os
import select
import time

from treadle.io.process import procs, reaper
from treadle.wire.common.framing import FrameSplitter, frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Owner to keeper...
SPAWN, SWEEP = 1, 2
# Keeper to owner...
SWEPT = 3

REQUEST_CAP = 64 * 1024 * 1024
CONTROL = 3
"""The descriptor of the socket to the owner."""
FDS_PER_SPAWN = 4
"""With each spawn come the socket of the tree and the child's three standard streams, and as many as it asks for."""
FDS_MAX = 200
"""That can come with one message; the kernel takes no more than 253."""


def main() -> None:
    reaper.close_all_but([0, 1, 2, CONTROL])
    reaper.mark(b"treadle-keeper")
    gc.disable()
    gc.freeze()  # what stems share with us stays shared
    keeper = Keeper(_socket.socket(fileno=CONTROL), os.getppid())
    try:
        keeper.serve()
    finally:
        keeper.end()


class Keeper:
    def __init__(self, control: _socket.socket, owner: int) -> None:
        self.control = control
        self.requests = FrameSplitter(REQUEST_CAP)
        self.fds: list[int] = []
        self.stems: set[int] = set()
        self.lost_stem = False
        self.wake = reaper.wakeups()
        self.poller = select.poll()
        self.poller.register(self.wake, select.POLLIN)
        self.poller.register(control.fileno(), select.POLLIN)
        self.owner = _watch(owner)
        if self.owner >= 0:
            self.poller.register(self.owner, select.POLLIN)

    def serve(self) -> None:
        """Until the owner is gone or somebody ends us politely."""
        while True:
            for fd, _ in self.poller.poll():
                if fd == self.owner or (fd == CONTROL and not self.hear()):
                    return
                if fd == self.wake and signal.SIGTERM in reaper.drain(self.wake):
                    return
            self.reap()
            if self.lost_stem:
                self.end_orphans()

    def hear(self) -> bool:
        try:
            space = _socket.CMSG_SPACE(FDS_MAX * 4)
            flags = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
            data, extra, _, _ = self.control.recvmsg(65536, space, flags)
        except OSError:
            return False
        for level, kind, content in extra:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                whole = len(content) // 4 * 4
                self.fds += memoryview(content[:whole]).cast("i")
        for item in self.requests.feed(data):
            if isinstance(item, tuple):
                request, payload = item
                if request == SPAWN:
                    self.spawn(marshal.loads(payload))
                elif request == SWEEP:
                    self.sweep(marshal.loads(payload))
        return bool(data)

    def spawn(self, request: dict[str, Any]) -> None:
        count = FDS_PER_SPAWN + request["fds"]
        (owner, *stdio), self.fds = self.fds[:count], self.fds[count:]
        me = os.getpid()
        reaper.hold_signals(True)
        try:
            pid = os.fork()
        except OSError as error:
            failure = ("start", error.errno, error.strerror)
            os.write(owner, frame(reaper.FAILED, marshal.dumps(failure)))
        else:
            if pid == 0:
                reaper.grow(me, request, owner, stdio)
            self.stems.add(pid)
        reaper.hold_signals(False)
        for fd in (owner, *stdio):
            os.close(fd)

    def sweep(self, number: int) -> None:
        """End what a stem left that was killed, or that does not answer, and say when it is done."""
        if number in self.stems:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            self.stems.discard(number)
        self.end_orphans()
        self.control.send(frame(SWEPT, marshal.dumps(number)))

    def reap(self) -> bool:
        """Collect the dead; False when we have no child left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self.stems:
                self.stems.discard(pid)
                self.lost_stem = self.lost_stem or status != 0

    def end_orphans(self) -> None:
        """What is our child and no stem has lost its stem: kill it and all below it, until there is none."""
        deadline = time.monotonic() + reaper.KILL_LIMIT
        self.lost_stem = False
        while time.monotonic() < deadline:
            found = procs.cull(self.reap, self.stems)
            if not found and not set(procs.children()) - self.stems:
                return
            time.sleep(0.002)

    def end(self) -> None:
        """Ask the stems to end their trees, then kill whatever is left below us."""
        self.poller.unregister(CONTROL)
        if self.owner >= 0:
            self.poller.unregister(self.owner)
        os.close(CONTROL)
        for number in self.stems:
            os.kill(number, signal.SIGTERM)
            os.kill(number, signal.SIGCONT)
        patience = time.monotonic() + reaper.ORPHAN_GRACE + reaper.KILL_LIMIT + 1
        while self.reap():
            if self.lost_stem:
                self.end_orphans()
            if time.monotonic() > patience:
                self.stems.clear()  # they had their time: now they are killed like the rest
                self.end_orphans()
                return
            self.poller.poll(20)
            reaper.drain(self.wake)


def _watch(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
