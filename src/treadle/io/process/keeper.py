"""The keeper: one tiny process per treadle process, its owner. It outlives the owner just long enough to end its trees.

It has its own session, so no signal to the owner's group or terminal reaches it. It notices the owner's death by the
closed socket and by the owner's pidfd, so `kill -9` is noticed like any other end. For each tree it forks a reaper (see
`reaper.py`); if someone kills a reaper, its orphans become the keeper's children, and the keeper ends them. A program
that is to outlive its starter gets a keeper of its own, which ends with it (`tree.detach`).

Run by `tree.py` as `python -I -S`. Light: every treadle process with children pays for its start-up time and memory.
"""

import gc
import marshal
import os
import select
import signal
import socket
import sys
import time

from treadle.io.process import cgroup, launch, reaper, signals, table
from treadle.light import Any
from treadle.wire.common.framing import FrameSplitter, frame

# Owner to keeper...
SPAWN, SWEEP = 1, 2
# Keeper to owner...
SWEPT = 3

REQUEST_CAP = 64 * 1024 * 1024
CONTROL = 3
"""The descriptor of the socket to the owner."""
FDS_PER_SPAWN = 4
"""Each spawn brings the tree's socket, the child's three standard streams, and any further descriptors it asks for."""
FDS_MAX = 200
"""The most descriptors that one message may carry; the kernel's own limit is 253."""


DETACHED = "detached"
"""An argument: the owner will leave soon, and that is no reason to end. We end with our last tree."""


def main() -> None:
    detached = sys.argv[-1] == DETACHED
    owner: int | None = os.getppid()
    if detached and os.fork():
        os._exit(0)  # so that no one has to wait for us
    if detached:
        owner = None
    launch.close_all_but([0, 1, 2, CONTROL])
    reaper.mark(b"treadle-keeper")
    gc.disable()
    gc.freeze()  # keeps the memory that reapers share with us shared
    keeper = Keeper(socket.socket(fileno=CONTROL), owner)
    group = cgroup.hold_in_background()
    try:
        keeper.serve()
    finally:
        keeper.end()
        if group is not None:
            cgroup.end(group)


class Keeper:
    def __init__(self, control: socket.socket, owner: int | None) -> None:
        self.control = control
        self.detached = owner is None
        self.requests = FrameSplitter(REQUEST_CAP)
        self.fds: list[int] = []
        self.reapers: set[int] = set()
        self.lost_reaper = False
        self.wake = signals.pipe((signal.SIGCHLD, signal.SIGTERM))
        self.poller = select.poll()
        self.poller.register(self.wake, select.POLLIN)
        self.poller.register(CONTROL, select.POLLIN)
        self.owner = -1 if owner is None else _watch(owner)
        if self.owner >= 0:
            self.poller.register(self.owner, select.POLLIN)

    def serve(self) -> None:
        """Until the owner is gone (if there is none: the last tree), or until we get a signal to end."""
        left = False
        while not (left and not self.reapers):
            for fd, _ in self.poller.poll():
                if fd == self.owner or (fd == CONTROL and not self.hear()):
                    if not self.detached:
                        return
                    left = True
                    self.poller.unregister(CONTROL)
                if fd == self.wake and signal.SIGTERM in signals.drain(self.wake):
                    return
            self.reap()
            if self.lost_reaper:
                self.end_orphans()

    def hear(self) -> bool:
        try:
            flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            data, fds, _, _ = socket.recv_fds(self.control, 65536, FDS_MAX, flags)
        except OSError:
            return False
        self.fds += fds
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
        signals.hold()
        try:
            pid = os.fork()
        except OSError as error:
            failure = ("start", error.errno, error.strerror)
            os.write(owner, frame(reaper.FAILED, marshal.dumps(failure)))
        else:
            if pid == 0:
                reaper.live(me, request, owner, stdio)
            self.reapers.add(pid)
        signals.release()
        for fd in (owner, *stdio):
            os.close(fd)

    def sweep(self, number: int) -> None:
        """End what is left below a reaper that was killed or does not answer, and report when it is done."""
        if number in self.reapers:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            self.reapers.discard(number)
        self.end_orphans()
        self.control.send(frame(SWEPT, marshal.dumps(number)))

    def reap(self) -> bool:
        """Collect dead children; False when no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self.reapers:
                self.reapers.discard(pid)
                self.lost_reaper = self.lost_reaper or status != 0

    def end_orphans(self) -> None:
        """A child of ours that is not a reaper has lost its reaper: kill it and everything below it."""
        deadline = time.monotonic() + reaper.KILL_LIMIT
        self.lost_reaper = False
        while time.monotonic() < deadline:
            found = table.cull(self.reap, self.reapers)
            if not found and not set(table.children()) - self.reapers:
                return
            time.sleep(0.002)

    def end(self) -> None:
        """Ask the reapers to end their trees, then kill whatever is left below us."""
        self.poller = select.poll()  # from now on the owner is ignored
        self.poller.register(self.wake, select.POLLIN)
        self.control.close()
        for number in self.reapers:
            os.kill(number, signal.SIGTERM)
            os.kill(number, signal.SIGCONT)
        patience = time.monotonic() + reaper.ORPHAN_GRACE + reaper.KILL_LIMIT + 1
        while self.reap():
            if self.lost_reaper:
                self.end_orphans()
            if time.monotonic() > patience:
                self.reapers.clear()  # they had their time: now they are killed like the rest
                self.end_orphans()
                return
            self.poller.poll(20)
            signals.drain(self.wake)


def _watch(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
