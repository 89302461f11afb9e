"""A started process tree as its owner sees it: what its reaper reports, and what the reaper can be asked to do.

`tree.py` starts trees under this process's keeper. A process that is its own keeper forks the reaper itself:

    waiting = fork_reaper()
    held = waiting.start(["sh"], env=env, cwd="/", terminal=slave)

Light: a terminal's supervisor imports this, and there may be hundreds of them.
"""

from __future__ import annotations

import errno
import marshal
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence

from treadle.errors import LocalError, NotFound, StorageError, TimedOut
from treadle.io import paths
from treadle.io.process import reaper, table
from treadle.light import Any
from treadle.wire.common.framing import FrameSplitter, frame

ANSWER_TIMEOUT = 10.0
"""After this many seconds without an answer, a reaper or the keeper counts as stuck."""
GRACE = reaper.GRACE


class TreeEnd:
    """How a tree ended: the processes that ended, with the last signal they got; those killed; those left over.

    `confirmed` is False when both its reaper and its keeper are dead, so that this is unknown.
    """

    __slots__ = ("confirmed", "ended", "killed", "left", "seconds")

    def __init__(
        self,
        ended: Sequence[tuple[int, str, int]] = (),
        killed: Sequence[tuple[int, str]] = (),
        left: Sequence[tuple[int, str]] = (),
        seconds: float = 0.0,
        confirmed: bool = True,
    ) -> None:
        self.ended = list(ended)
        self.confirmed = confirmed
        self.killed = list(killed)
        self.left = list(left)
        self.seconds = seconds

    def __repr__(self) -> str:
        return (
            f"<ended: {len(self.ended)} asked, {len(self.killed)} killed, {len(self.left)} left, {self.seconds:.2f} s>"
        )


class Tree:
    """A started command with its descendants. `close`, or leaving its `with` block, ends what is left of it."""

    def __init__(
        self, control: socket.socket, argv: list[str], sweep: Callable[[int], bool] = lambda reaper: False
    ) -> None:
        """`sweep` has the keeper end what is below a reaper that does not answer, and returns whether it did."""
        self.argv = argv
        self.pid = 0
        self.reaper = 0
        self.exit_code: int | None = None
        """The command's own exit code, negative for a signal; None while it runs or if its reaper was killed."""
        self.report: TreeEnd | None = None
        """Set when nothing of the tree is left."""
        self.failure: LocalError | None = None
        self._control = control
        self._frames = FrameSplitter()
        self._lost = False
        self._sweep = sweep
        control.setblocking(False)

    def __repr__(self) -> str:
        state = self.report or (f"exited {self.exit_code}" if self.exit_code is not None else "running")
        return f"<tree {self.pid} {self.argv[0]!r} {state}>"

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
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
        """Readable when `update` will find something new."""
        return self._control.fileno()

    @property
    def ended(self) -> bool:
        """Whether nothing more will be learned: the tree is gone, never started, or its reaper was killed."""
        return self.report is not None or self.failure is not None or self._lost

    def update(self) -> None:
        """Read what the reaper has reported, without waiting."""
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
            self.report = TreeEnd(**content)

    def await_started(self) -> None:
        self._until(lambda: self.pid > 0 or self.ended, ANSWER_TIMEOUT)
        self.check_started()

    def check_started(self) -> None:
        if self.failure:
            raise self.failure
        if not self.pid:
            raise LocalError(f"cannot start {self.argv[0]}: the keeper does not answer", hint="try again")

    def wait(self, timeout: float | None = None) -> int:
        """The exit code of the command. What it left running is still there until `stop`."""
        if not self._until(lambda: self.exit_code is not None or self.ended, timeout):
            raise TimedOut(f"{self.argv[0]} still runs after {timeout:g} s")
        if self.exit_code is None:
            raise LocalError(f"{self.argv[0]} was ended from outside: the process that watches it was killed")
        return self.exit_code

    def signal(self, signum: int, *, everyone: bool = False, group: bool = False) -> None:
        """Send a signal to the command, to its process group, or to every process of its tree."""
        scope = reaper.EVERYONE if everyone else reaper.GROUP if group else reaper.COMMAND
        self._say(reaper.SIGNAL, (int(signum), scope))

    def leave(self) -> None:
        """Give up the tree without ending what is left of it."""
        self._say(reaper.LEAVE, None)
        self.close()

    def stop(self, grace: float = GRACE) -> TreeEnd:
        """Ask every process of the tree to end (SIGTERM), wait `grace` seconds, kill the rest, and wait for that."""
        self.ask_stop(grace)
        self._until(lambda: self.ended, grace + reaper.KILL_LIMIT + ANSWER_TIMEOUT)
        return self.conclude()

    def ask_stop(self, grace: float = GRACE) -> None:
        """`stop` without the wait; when `ended` is true, call `conclude`."""
        self._say(reaper.STOP, float(grace))

    def conclude(self) -> TreeEnd:
        """The final report. If the reaper was killed or is stuck, the keeper first ends what was below it."""
        if self.report is None and self.failure is None:
            before = self.processes()
            confirmed = self._sweep(self.reaper) if self.reaper else True
            left = [(each.pid, each.name) for each in before if table.start_time(each.pid) == each.start]
            self.report = TreeEnd(left=left, confirmed=confirmed)
        self.close()
        return self.report or TreeEnd()

    def processes(self) -> list[table.Process]:
        """All processes that run in this tree now, the command first."""
        return table.descendants(self.reaper) if self.reaper else []

    def close(self) -> None:
        """Give up the tree. If it still runs, it is ended as if we had died."""
        self._control.close()

    def _say(self, kind: int, content: Any) -> None:
        self.update()
        if not self.ended and self._control.fileno() >= 0:
            try:
                self._control.send(frame(kind, marshal.dumps(content)))
            except OSError:
                pass  # it is gone or stuck: `conclude` handles that

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


class WaitingReaper:
    """A reaper without a tree yet. It was forked early, while our memory held little that it would have to copy."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self._control = control

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        terminal: int,
        inherited: Sequence[int] = (),
        afterwards: Sequence[str] = (),
        patient: bool = False,
    ) -> Tree:
        """Start a command on a terminal: a pty's slave side becomes its standard streams and controlling terminal.

        If this process dies first, the reaper ends the tree and then executes the program `afterwards`, which gets the
        descriptors `inherited` as 3, 4 and so on, and the pids that had to be killed as its last argument. If the
        reaper is killed, its processes become our children: reap with `waitpid(-1)`, and see `strays.py`. `patient` as
        in `tree.py`.
        """
        message = request(argv, env, cwd, True)
        message["afterwards"] = [os.fsencode(part) for part in afterwards]
        message["patient"] = patient
        body = frame(reaper.START, marshal.dumps(message))
        sent = socket.send_fds(self._control, [body], [terminal, *inherited])
        if sent < len(body):
            self._control.sendall(body[sent:])
        held = Tree(self._control, list(argv))
        held.reaper = self.pid
        return held


def fork_reaper() -> WaitingReaper:
    """Fork a reaper for a process that has no threads and keeps one tree itself, without a keeper."""
    ours, theirs = socket.socketpair()
    reaper.mark(b"treadle-terminal")
    keeper = os.getpid()
    pid = os.fork()
    if not pid:
        os.setsid()  # a signal to our group must not end us both
        reaper.wait_for_tree(keeper, theirs)
    theirs.close()
    return WaitingReaper(pid, ours)


def request(argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, tty: bool) -> dict[str, Any]:
    """The message that tells a reaper to start a command, with default options."""
    if not argv:
        raise ValueError("nothing to start: argv is empty")
    return {
        "argv": [os.fsencode(part) for part in argv],
        "env": {os.fsencode(k): os.fsencode(v) for k, v in (os.environ if env is None else env).items()},
        "cwd": os.fsencode(os.getcwd() if cwd is None else cwd),
        "tty": tty,
        "limits": [],
        "owner": os.getpid(),
        "registry": _registry(),
        "fds": 0,
        "patient": False,
        "detached": False,
        "afterwards": [],
        "view": None,
    }


def _why(program: str, doing: str, number: int, reason: str) -> LocalError:
    if doing == "enter":
        kind = NotFound if number in (errno.ENOENT, errno.ENOTDIR) else LocalError
        return kind(f"cannot start {program}: its working directory: {reason}")
    if doing == "look":
        return LocalError(f"cannot start {program}: its view of the machine cannot be made: {reason}")
    if number == errno.ENOENT:
        return NotFound(f"cannot start {program}: {reason}", hint="is it installed and on PATH?")
    return LocalError(f"cannot start {program}: {reason}")


def _registry() -> bytes | None:
    try:
        return os.fsencode(paths.private_dir(os.path.join(paths.state_dir(), "keepers")))
    except StorageError:
        return None  # `treadle ps` will not show it, but it can still run
