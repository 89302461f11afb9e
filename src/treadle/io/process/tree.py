"""The one way to start and stop a process, with everything that will ever descend from it.

    with spawn(["npm", "test"], stdout=fd) as tree:
        code = tree.wait(timeout=60)

A tree runs under the keeper (`keeper.py`), which is started with the first one and ends all of them when this process
ends, however it ends. This is the plain, blocking interface; `child.py` is the async one. To follow a tree from a loop
of your own, select on `fileno()` and call `update()`.

We never call `waitpid(-1)` and never adopt orphans in this process: embedders share it.
"""

from __future__ import annotations

import atexit
import errno
import marshal
import os
import select
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence

from treadle.errors import LocalError, NotFound, StorageError, TimedOut
from treadle.io import files, paths
from treadle.io.process import keeper, reaper, table
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.common.framing import FrameSplitter, frame

# A started process tree as its owner sees it: what its reaper reports, and what the reaper can be asked to do.
#
# `spawn` starts trees under this process's keeper. A process that is its own keeper forks the reaper itself:
#
#     waiting = fork_reaper()
#     held = waiting.start(["sh"], env=env, cwd="/", terminal=slave)
#
# Light: a terminal's supervisor imports this, and there may be hundreds of them.

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
        reaper is killed, its processes become our children: reap with `waitpid(-1)`, and see `registry.py`. `patient`
        as in `spawn`.
        """
        message = start_request(argv, env, cwd, True)
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


def start_request(argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, tty: bool) -> dict[str, Any]:
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
        return LocalError(f"cannot start {program}: its sandbox cannot be created: {reason}")
    if number == errno.ENOENT:
        return NotFound(f"cannot start {program}: {reason}", hint="is it installed and on PATH?")
    return LocalError(f"cannot start {program}: {reason}")


def _registry() -> bytes | None:
    try:
        return os.fsencode(paths.private_dir(os.path.join(paths.state_dir(), "keepers")))
    except StorageError:
        return None  # `treadle ps` will not show it, but it can still run


# This process's connection to its keeper, started with the first tree and again if it was killed or let go.

_START = "import sys; sys.path.append(sys.argv[1]); from treadle.io.process.keeper import main; main()"


class KeeperHandle:
    """`pid` is the keeper's pid, 0 before the first tree."""

    def __init__(self) -> None:
        self.pid = 0
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        """Held while the socket is used: a message and its descriptors are one whole, an answer belongs to the request
        before it, and of two threads that start the first trees only one starts a keeper."""

    def begin(self) -> None:
        """Start the keeper now, so that the first tree need not wait for it."""
        with self._lock:
            self._started()

    def _started(self) -> socket.socket:
        if self._control is None:
            if self.pid:
                _collect(self.pid, os.WNOHANG)
            self._control, self.pid = _start()
        return self._control

    def send(self, message: bytes, fds: list[int]) -> None:
        """Send the keeper a message with descriptors."""
        with self._lock:
            for attempt in (1, 2):
                control = self._started()
                try:
                    _send(control, message, fds)
                    return
                except OSError as error:
                    control.close()
                    self._control = None
                    _collect(self.pid, os.WNOHANG)
                    if attempt == 2:
                        raise LocalError(f"the keeper of child processes cannot be reached: {error}") from error

    def sweep(self, keeper_pid: int, reaper_pid: int) -> bool:
        """Have the keeper end what is below a reaper that does not answer, and wait; False when the keeper cannot."""
        with self._lock:
            if self._control is None or self.pid != keeper_pid:
                return False  # the keeper was killed as well
            try:
                self._control.settimeout(reaper.KILL_LIMIT + ANSWER_TIMEOUT)
                self._control.sendall(frame(keeper.SWEEP, marshal.dumps(reaper_pid)))
                return bool(self._control.recv(4096))
            except OSError:
                return False
            finally:
                self._control.settimeout(ANSWER_TIMEOUT)

    def rest(self, busy: Callable[[], bool]) -> bool:
        """Let the keeper end, unless a tree of ours is under it. Returns whether it is gone, and collected."""
        with self._lock:
            if self._control is not None:
                if busy():
                    return False
                self._control.close()
                self._control = None
            if self.pid and _collect(self.pid, os.WNOHANG):
                self.pid = 0
            return not self.pid

    def let_go(self) -> None:
        self._lock = threading.Lock()  # in a fork, a thread that is not there any more may have held the old one
        if self._control is not None:
            self._control.close()
        self._control = None


def send_detached(message: bytes, fds: list[int]) -> None:
    """Send the message to a new keeper, which from then on does not need us."""
    control, pid = _start(keeper.DETACHED)
    with control:
        _collect(pid, 0)  # it goes on in a fork
        _send(control, message, fds)


def _send(control: socket.socket, message: bytes, fds: list[int]) -> None:
    sent = socket.send_fds(control, [message], fds)
    control.sendall(message[sent:])


def _start(*more: str) -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair()
    root = os.path.abspath(__file__ + "/../../../..")
    argv = [sys.executable, "-I", "-S", "-c", _START, root, "treadle-keeper", *more]
    actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), keeper.CONTROL)]
    actions += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]  # type: ignore[misc]
    try:
        pid = os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True)
    except OSError as error:
        ours.close()
        raise LocalError(f"cannot start the keeper of child processes: {error}") from error
    finally:
        theirs.close()
    ours.settimeout(ANSWER_TIMEOUT)
    return ours, pid


def _collect(pid: int, flags: int) -> bool:
    """Whether it is gone."""
    try:
        return bool(os.waitpid(pid, flags)[0])
    except ChildProcessError:
        return True  # the program that embeds us has collected it


own = KeeperHandle()
# A forked copy of us must not keep the socket open: after our death the keeper would take the copy for us.
os.register_at_fork(after_in_child=own.let_go)
atexit.register(own.let_go)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypedDict, Unpack

    class SpawnOptions(TypedDict, total=False):
        """How a command is started."""

        env: Mapping[str, str] | None
        cwd: str | None
        tty: bool
        """Its stdin is a pty's slave side and becomes its controlling terminal."""
        limits: Iterable[tuple[int, int, int]]
        """Arguments of `setrlimit`."""
        patient: bool
        """Only its descendants are asked to end: it is a wrapper, and its death would kill them without asking."""
        view: Mapping[str, object] | None
        """It sees the machine through mounts of its own (`view.py`)."""


__all__ = ["GRACE", "Tree", "TreeEnd", "busy", "request", "rest", "spawn"]


def spawn(
    argv: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    fds: Sequence[int] = (),
    **how: Unpack[SpawnOptions],
) -> Tree:
    """Start `argv` and wait until it runs.

    Standard streams are descriptors; `None` is /dev/null; ours are never inherited. The command leads a session of its
    own. `fds` are further descriptors, which the command gets as 3, 4, 5 and so on.
    Raises `NotFound` when there is no such program or directory.
    """
    tree = request(argv, stdin=stdin, stdout=stdout, stderr=stderr, fds=fds, **how)
    try:
        tree.await_started()
    except BaseException:
        tree.close()
        raise
    return tree


def request(
    argv: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    tty: bool = False,
    limits: Iterable[tuple[int, int, int]] = (),
    patient: bool = False,
    view: Mapping[str, object] | None = None,
    detached: bool = False,
) -> Tree:
    """`spawn` without the wait: `update` learns when the tree has started, or failed to.

    A `detached` tree has a keeper of its own and outlives its handle and this process.
    """
    message = {
        **start_request(argv, env, cwd, tty),
        "limits": [(int(name), int(soft), int(hard)) for name, soft, hard in limits],
        "fds": len(fds),
        "patient": patient,
        "view": dict(view) if view else None,
        "detached": detached,
    }
    ours, theirs = socket.socketpair()
    keeper_pid = 0
    started = Tree(ours, list(argv), lambda reaper: own.sweep(keeper_pid, reaper))
    _trees.add(started)  # from now on the keeper is not let go
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        streams = [null if fd is None else fd for fd in (stdin, stdout, stderr)]
        send = send_detached if detached else own.send
        send(frame(keeper.SPAWN, marshal.dumps(message)), [theirs.fileno(), *streams, *fds])
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(null)
    keeper_pid = own.pid
    return started


def rest() -> bool:
    """Let the keeper go when we have no tree: the next one starts another. Returns whether it is gone."""
    return own.rest(busy)


def busy() -> bool:
    """Whether we have a tree that is not given up."""
    return any(tree.fileno() >= 0 for tree in list(_trees))


_trees: weakref.WeakSet[Tree] = weakref.WeakSet()


def _let_go() -> None:
    for tree in _trees:
        tree.close()


# A forked copy of us must not keep the sockets open: after our death the reapers would take the copy for us.
os.register_at_fork(after_in_child=_let_go)
atexit.register(_let_go)


# Programs that outlive the process that started them, each under a keeper of its own.
#
#     pid = detach([sys.executable, "-P", "-m", "treadle.agent.detached_runner", where], cwd=cwd, log=path, ready=True)
#
# `treadle ps` lists them. If its keeper or its reaper dies, the program ends with everything it has started. When the
# program exits, what it left running is ended.


def detach(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None = None,
    log: str | None = None,
    ready: bool = False,
    fds: Sequence[int] = (),
) -> int:
    """Start it, wait until it runs, and return its pid. It has no input; its stderr is appended to `log`.
    `fds` are further descriptors, as in `tree.spawn`.

    With `ready`, wait until it calls `say_ready` or writes anything to its stdout. If it ends before that, it could not
    start, and the last line of its log says why. Blocks; raises as `tree.spawn` does.
    """
    heard, report = os.pipe()
    try:
        pid = _start_detached(argv, env, cwd, report, log, fds)
        os.close(report)
        report = -1
        if ready and not os.read(heard, 1):
            raise LocalError(f"{argv[0]} ended before it was ready: {_last_line(log) or 'no output'}")
        return pid
    finally:
        os.close(heard)
        if report >= 0:
            os.close(report)


_DAEMON = """
import os, sys
pid = os.fork()
if pid:
    os.write(1, b"%d" % pid)
    os._exit(0)
os.setsid()
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(log, 1)
os.dup2(log, 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def daemon(argv: Sequence[str], *, cwd: str, log: str) -> int:
    """Start a program without a keeper: it ends when it wants to, and what it has detached outlives it.

    For a program that supervises others which must outlive it. Its own children are under its own keeper as always.
    """
    from treadle.io.process.programs import run_program  # imported here because it loads asyncio

    done = run_program([sys.executable, "-I", "-S", "-c", _DAEMON, log, *argv], cwd=cwd)
    if done.code:
        raise LocalError(f"{argv[0]} cannot be started: {done.complaint}")
    return int(done.stdout)


def _start_detached(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str,
    stdout: int,
    log: str | None,
    fds: Sequence[int],
) -> int:
    stderr = None if log is None else files.open_append(log)
    try:
        started = request(argv, env=env, cwd=cwd, stdout=stdout, stderr=stderr, fds=fds, detached=True)
        try:
            started.await_started()
            return started.pid
        finally:
            started.close()
    finally:
        if stderr is not None:
            os.close(stderr)


def say_ready() -> None:
    """Called by the program itself when it is ready. After this its stdout leads nowhere."""
    os.write(1, b"\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _last_line(path: str | None) -> str:
    if path is None:
        return ""
    lines, torn = files.read_lines(path)
    filled = [line for line in (*lines, torn) if line.strip()]
    return filled[-1].decode(errors="replace").removeprefix("treadle: ")[:500] if filled else ""
