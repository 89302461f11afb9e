"""The one way to start and stop a process, with everything that will ever descend from it.

    with spawn(["npm", "test"], stdout=fd) as tree:
        code = tree.wait(timeout=60)

A tree runs under the keeper (`keeper.py`), which is started with the first one and ends all of them when this process
ends, however it ends. This is the plain, blocking face; `child.py` has the async one. Select on `fileno()` and call
`update()` to follow a tree from a loop of your own.

We never call `waitpid(-1)` and never adopt orphans in this process: embedders share it.
"""

from __future__ import annotations

import atexit
import errno
import marshal
import os
import select
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType

from treadle.errors import LocalError, NotFound, StorageError, TimedOut
from treadle.io import paths
from treadle.io.process import handle, keeper, reaper, table
from treadle.io.process.handle import ANSWER_TIMEOUT
from treadle.light import TYPE_CHECKING
from treadle.wire.common.framing import FrameSplitter, frame

if TYPE_CHECKING:
    from typing import Any

GRACE = reaper.GRACE


class Report:
    """How a tree ended: how many were asked to, which had to be killed, and which could not be.

    `confirmed` is False when both its reaper and its keeper are dead, so that nobody can say.
    """

    __slots__ = ("asked", "confirmed", "killed", "left", "seconds")

    def __init__(
        self,
        asked: int = 0,
        killed: Sequence[tuple[int, str]] = (),
        left: Sequence[tuple[int, str]] = (),
        seconds: float = 0.0,
        confirmed: bool = True,
    ) -> None:
        self.asked = asked
        self.confirmed = confirmed
        self.killed = list(killed)
        self.left = list(left)
        self.seconds = seconds

    def __repr__(self) -> str:
        return f"<ended: {self.asked} asked, {len(self.killed)} killed, {len(self.left)} left, {self.seconds:.2f} s>"


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    tty: bool = False,
    limits: Iterable[tuple[int, int, int]] = (),
    fds: Sequence[int] = (),
    patient: bool = False,
) -> Tree:
    """Start `argv` and wait until it runs.

    Standard streams are descriptors, `None` is /dev/null; ours are never inherited. The command leads a session of its
    own; with `tty`, its stdin is a pty's slave side and becomes its controlling terminal. `limits` are arguments of
    `setrlimit`. `fds` are further descriptors, which the command has as 3, 4, 5 and so on. With `patient`, the command
    itself is not asked to end, only what descends from it: it is a wrapper whose death would end them unasked. Raises
    `NotFound` when there is no such program or directory.
    """
    tree = request(
        argv,
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        tty=tty,
        limits=limits,
        fds=fds,
        patient=patient,
    )
    try:
        tree.await_started()
    except BaseException:
        tree.close()
        raise
    return tree


def request(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    tty: bool = False,
    limits: Iterable[tuple[int, int, int]] = (),
    fds: Sequence[int] = (),
    patient: bool = False,
    detached: bool = False,
) -> Tree:
    """`spawn` without the wait: the tree has started, or failed to, when `update` says so.

    One that is `detached` lives on under a keeper of its own when it is let go of, and when we end.
    """
    message = {
        "argv": [os.fsencode(part) for part in argv],
        "env": {os.fsencode(k): os.fsencode(v) for k, v in (os.environ if env is None else env).items()},
        "cwd": os.fsencode(os.getcwd() if cwd is None else cwd),
        "tty": tty,
        "limits": [(int(name), int(soft), int(hard)) for name, soft, hard in limits],
        "owner": os.getpid(),
        "registry": _registry(),
        "fds": len(fds),
        "patient": patient,
        "detached": detached,
    }
    if not argv:
        raise ValueError("nothing to start: argv is empty")
    ours, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        streams = [null if fd is None else fd for fd in (stdin, stdout, stderr)]
        send = handle.send_detached if detached else handle.own.send
        send(frame(keeper.SPAWN, marshal.dumps(message)), [theirs.fileno(), *streams, *fds])
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(null)
    return Tree(ours, list(argv))


class Tree:
    """A started command and all that descends from it. Close it, or use it in `with`: both end what is left of it."""

    def __init__(self, control: socket.socket, argv: list[str]) -> None:
        self.argv = argv
        self.pid = 0
        self.reaper = 0
        self.exit_code: int | None = None
        """Of the command itself, negative for a signal; None while it runs, and when it was lost with its reaper."""
        self.report: Report | None = None
        """Set when nothing of the tree is left."""
        self.failure: LocalError | None = None
        self._control = control
        self._frames = FrameSplitter()
        self._lost = False
        self._keeper = handle.own.pid
        control.setblocking(False)
        _trees.add(self)

    def __repr__(self) -> str:
        state = self.report or (f"exited {self.exit_code}" if self.exit_code is not None else "running")
        return f"<tree {self.pid} {self.argv[0]!r} {state}>"

    def __enter__(self) -> Tree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self.close()

    def __del__(self) -> None:
        if self._control.fileno() >= 0:
            if self.report is None:
                import warnings

                warnings.warn(f"{self!r} was never stopped", ResourceWarning, source=self, stacklevel=2)
            self._control.close()

    def fileno(self) -> int:
        """Readable when there is something for `update` to learn."""
        return self._control.fileno()

    @property
    def ended(self) -> bool:
        """Nothing more will be learned: the tree is gone, never was, or its reaper was killed."""
        return self.report is not None or self.failure is not None or self._lost

    def update(self) -> None:
        """Take in what the reaper has said, without waiting."""
        while not self.ended:
            try:
                data = self._control.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lost = True
            for item in self._frames.feed(data):
                if isinstance(item, tuple):
                    self._learn(item[0], marshal.loads(item[1]))

    def _learn(self, kind: int, content: Any) -> None:
        if kind == reaper.STARTED:
            self.pid, self.reaper = content["pid"], content["reaper"]
        elif kind == reaper.FAILED:
            self.failure = _why(self.argv[0], *content)
        elif kind == reaper.EXITED:
            self.exit_code = content
        elif kind == reaper.GONE:
            self.report = Report(**content)

    def await_started(self) -> None:
        self._until(lambda: self.pid > 0 or self.ended, ANSWER_TIMEOUT)
        self.check_started()

    def check_started(self) -> None:
        if self.failure:
            raise self.failure
        if not self.pid:
            raise LocalError(f"cannot start {self.argv[0]}: the keeper does not answer", hint="try again")

    def wait(self, timeout: float | None = None) -> int:
        """The exit code of the command. What it left running is still there: `stop` ends that."""
        if not self._until(lambda: self.exit_code is not None or self.ended, timeout):
            raise TimedOut(f"{self.argv[0]} still runs after {timeout:g} s")
        if self.exit_code is None:
            raise LocalError(f"{self.argv[0]} was ended from outside: somebody killed the process that watches it")
        return self.exit_code

    def signal(self, signum: int, *, everyone: bool = False) -> None:
        """Send a signal to the command, or to everyone in its tree."""
        self._say(reaper.SIGNAL, (int(signum), everyone))

    def stop(self, grace: float = GRACE) -> Report:
        """Ask everyone in the tree to end (SIGTERM), give them `grace` seconds, kill who is left, and wait for that."""
        self.ask_stop(grace)
        self._until(lambda: self.ended, grace + reaper.KILL_LIMIT + ANSWER_TIMEOUT)
        return self.conclude()

    def ask_stop(self, grace: float = GRACE) -> None:
        """`stop` without the wait; `ended` tells when it is done, then call `conclude`."""
        self._say(reaper.STOP, float(grace))

    def conclude(self) -> Report:
        """The report; where the reaper was killed or is stuck, the keeper ends what was below it first."""
        if self.report is None and self.failure is None:
            before = self.processes()
            confirmed = handle.own.sweep(self._keeper, self.reaper) if self.reaper else True
            left = [(each.pid, each.name) for each in before if table.start_time(each.pid) == each.start]
            self.report = Report(left=left, confirmed=confirmed)
        self.close()
        return self.report or Report()

    def processes(self) -> list[table.Process]:
        """All that run in this tree now, the command first."""
        return table.descendants(self.reaper) if self.reaper else []

    def close(self) -> None:
        """Let go of the tree. If it still runs, it is ended as if we had died."""
        self._control.close()
        _trees.discard(self)

    def _say(self, kind: int, content: Any) -> None:
        self.update()
        if not self.ended and self._control.fileno() >= 0:
            try:
                self._control.send(frame(kind, marshal.dumps(content)))
            except OSError:
                pass  # gone or stuck: `conclude` sees to it

    def _until(self, done: Callable[[], bool], timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        self.update()
        while not done():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            poller = select.poll()
            poller.register(self._control, select.POLLIN)
            poller.poll(None if left is None else int(left * 1000) + 1)
            self.update()
        return True


def _why(program: str, doing: str, number: int, reason: str) -> LocalError:
    if doing == "enter":
        kind = NotFound if number in (errno.ENOENT, errno.ENOTDIR) else LocalError
        return kind(f"cannot start {program}: its working directory: {reason}")
    if number == errno.ENOENT:
        return NotFound(f"cannot start {program}: {reason}", hint="is it installed and on PATH?")
    return LocalError(f"cannot start {program}: {reason}")


def _registry() -> bytes | None:
    try:
        return os.fsencode(paths.private_dir(os.path.join(paths.state_dir(), "keepers")))
    except StorageError:
        return None  # `treadle ps` will not show it; that is no reason not to run it


_trees: weakref.WeakSet[Tree] = weakref.WeakSet()


def _let_go() -> None:
    for tree in _trees:
        tree._control.close()


# A forked copy of us must not keep the sockets open: the reapers would take it for us after our death.
os.register_at_fork(after_in_child=_let_go)
atexit.register(_let_go)
