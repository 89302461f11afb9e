"""The reaper: a small process that starts one command and keeps hold of everything that ever descends from it.

The keeper forks one for each tree. It is a child-subreaper: any process orphaned in its tree, by double fork, setsid or
a dead parent, becomes its child and no one else's. So a tree is exactly what descends from its reaper, and it is empty
exactly when the reaper has no child left. Nothing has to be guessed.

A terminal's supervisor forks its reaper itself (`tree.fork_reaper`): it is its own keeper, and has one tree.

It ends the tree when the owner says so, when the owner's socket closes, or when the keeper dies; then it exits. The
reaper of a detached tree outlives the owner, and ends what is left of the tree when the command exits.
"""

import marshal
import os
import select
import signal
import socket
import time
from collections.abc import Iterable, Sequence

from treadle.io.process import launch, signals, table
from treadle.light import Any, NoReturn
from treadle.wire.common.framing import FrameSplitter, frame

# Reaper to owner...
STARTED, FAILED, EXITED, GONE = 1, 2, 3, 4
# Owner to reaper...
SIGNAL, STOP, LEAVE, START = 5, 6, 7, 8
# Which processes a signal is for...
COMMAND, GROUP, EVERYONE = "command", "group", "everyone"

GRACE = 5.0
"""Seconds that a tree is given to end by itself before it is killed."""
ORPHAN_GRACE = 0.5
"""Seconds between asking and killing when the owner is gone."""
KILL_PATIENCE = 5.0
"""If nothing dies for this many seconds, the processes that SIGKILL does not end (stuck, or not ours) count as left."""
KILL_LIMIT = 30.0
"""After this many seconds of killing, give up on a tree that grows as fast as it dies."""
HANGUP_AFTER = 0.5
"""After this many seconds, processes on a terminal also get SIGHUP, because interactive shells ignore SIGTERM."""
REPORT_MAX = 200
"""Processes named in a report; the others are ended all the same."""
FDS_MAX = 16

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_library: list[Any] = []


def mark(name: bytes, *, parent: int | None = None, adopt: bool = True) -> None:
    """Set our name and adopt orphans; with `parent`, get SIGTERM when it dies. Does nothing where prctl is missing."""
    try:
        if not _library:  # kept, so that forks share it
            import ctypes

            _library.append(ctypes.CDLL(None))
        prctl = _library[0].prctl
    except (ImportError, AttributeError, OSError):
        return
    if adopt:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_NAME, name, 0, 0, 0)
    if parent is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # it died before the call, so no signal will come
            os._exit(1)


def wait_for_tree(keeper: int, owner: socket.socket) -> NoReturn:
    """The main function of a reaper that is forked before its command is known. Its keeper is the owner."""
    code = 1
    try:
        launch.close_all_but([0, 1, 2, owner.fileno()])
        splitter = FrameSplitter()
        fds: list[int] = []
        while True:
            data, more, _, _ = socket.recv_fds(owner, 65536, FDS_MAX)
            fds += more
            found = [item for item in splitter.feed(data) if isinstance(item, tuple)]
            if found:
                (_, payload), *rest = found
                live(keeper, marshal.loads(payload), owner.fileno(), [fds[0]] * 3, fds[1:], rest, signals_held=False)
            if not data:
                code = 0  # no command was ever sent
                break
    finally:
        os._exit(code)


def live(
    keeper: int,
    request: dict[str, Any],
    owner: int,
    stdio: list[int],
    inherited: Sequence[int] = (),
    orders: Sequence[tuple[int, bytes]] = (),
    *,
    signals_held: bool = True,
) -> NoReturn:
    """The main function of a reaper, in the process forked for it.

    `inherited` are descriptors for the program that runs afterwards, `orders` what the owner has already sent.

    A crash exits with 1, and the keeper then ends what was below. If the keeper is gone at the end, a program may run
    that cleans up after it; the pids that had to be killed are its last argument.
    """
    code = 1
    try:
        launch.close_all_but([0, 1, 2, owner, *stdio, *inherited])
        reaper = Reaper(owner, outlives=request["detached"])
        mark(b"treadle-reaper", parent=keeper)
        if signals_held:
            signals.release()  # the handlers are there now: what came since the fork is not lost
        if reaper.start(request, stdio):
            for order in orders:
                reaper.obey(*order)
            reaper.tend()
        if request["afterwards"] and _parent_is_dying(keeper):
            if _library:
                _library[0].prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)  # a parent that is still dying would end us with it
            signals.reset()
            for target, fd in enumerate(inherited, 3):  # ascending: each is at its target number or above it
                os.dup2(fd, target)
            killed = b",".join(b"%d" % pid for pid, _ in reaper.killed)
            os.execve(request["afterwards"][0], [*request["afterwards"], killed], request["env"])
        code = 0
    finally:
        os._exit(code)


class Reaper:
    def __init__(self, owner: int, *, outlives: bool = False) -> None:
        self.owner = owner
        self.outlives = outlives
        self.commands = FrameSplitter()
        self.poller = select.poll()
        self.wake = signals.pipe((signal.SIGCHLD, signal.SIGTERM))
        self.poller.register(self.wake, select.POLLIN)
        self.poller.register(owner, select.POLLIN)
        self.root = 0
        self.on_terminal = False
        self.left_alone = False
        self.unasked = 0  # the pid of the wrapper that is not asked to end, if any
        self.record = b""
        self.began = 0.0  # when we began to end the tree
        self.deadline: float | None = None  # when we stop asking and start killing
        self.hangup: float | None = None  # when SIGHUP follows for processes on a terminal
        self.asked: dict[tuple[int, int], tuple[str, int]] = {}  # process -> its name and the last signal it got
        self.last_death = 0.0
        self.killed: dict[tuple[int, int], str] = {}
        self.left: list[table.Process] = []

    def start(self, request: dict[str, Any], stdio: list[int]) -> bool:
        """Start the command; report its pid to the owner, or why it could not be started."""
        errors, child_errors = os.pipe()
        self.root = os.fork()
        if self.root == 0:
            launch.become(request, stdio, child_errors)
        for fd in {*stdio, child_errors}:
            os.close(fd)
        failure = launch.why_not(errors)
        if failure:
            os.waitpid(self.root, 0)
            self.tell(FAILED, failure)
            return False
        self.unasked = self.root if request["patient"] else 0
        self.on_terminal = request["tty"]
        self.register(request)
        self.tell(STARTED, {"pid": self.root, "start": table.start_time(self.root), "reaper": os.getpid()})
        return True

    def register(self, request: dict[str, Any]) -> None:
        if not request["registry"]:
            return
        path = b"%b/%d" % (request["registry"], os.getpid())
        owner = os.getppid() if self.outlives else request["owner"]
        if leave_note(path, owner, os.getppid(), os.getpid(), self.root, request["argv"]):
            self.record = path

    def tend(self) -> None:
        """Serve until nothing of the tree is left."""
        while self.reap():
            for fd, _ in self.poller.poll(self.patience()):
                if fd == self.owner:
                    self.hear()
                elif signal.SIGTERM in signals.drain(self.wake):
                    self.end(ORPHAN_GRACE)
            if self.left_alone:
                break
            if self.deadline is None:
                continue
            if time.monotonic() < self.deadline:
                self.ask()
                self.hang_up()
            elif not self.kill():
                break  # some cannot be killed
        self.forget()
        killed = [(pid, name) for (pid, _), name in self.killed.items()][:REPORT_MAX]
        left = [(process.pid, process.name) for process in self.left][:REPORT_MAX]
        took = time.monotonic() - self.began if self.began else 0.0
        ended = [(pid, name, by) for (pid, _), (name, by) in self.asked.items() if (pid, name) not in left][:REPORT_MAX]
        self.tell(GONE, {"ended": ended, "killed": killed, "left": left, "seconds": took})

    def patience(self) -> int | None:
        if self.deadline is None:
            return None
        now = time.monotonic()
        if now < self.deadline:
            return int((min(self.deadline, self.hangup or self.deadline) - now) * 1000) + 1
        return 2 if now < self.deadline + 1 else 50

    def hear(self) -> None:
        try:
            data = os.read(self.owner, 65536)
        except OSError:
            data = b""
        if not data:
            self.poller.unregister(self.owner)
            if not self.outlives:
                self.end(ORPHAN_GRACE)
        for item in self.commands.feed(data):
            if isinstance(item, tuple):
                self.obey(*item)

    def obey(self, kind: int, payload: bytes) -> None:
        if kind == STOP:
            self.end(marshal.loads(payload))
        elif kind == SIGNAL:
            self.signal(*marshal.loads(payload))
        elif kind == LEAVE:
            self.left_alone = True

    def signal(self, signum: int, scope: str) -> None:
        if scope == GROUP:
            return self._signal_group(signum)
        for process in table.descendants(os.getpid()):
            if scope == EVERYONE or process.pid == self.root:
                table.send(process, signum)

    def reap(self) -> bool:
        """Collect dead processes; False when no process of this tree is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.last_death = time.monotonic()
            if pid == self.root:
                self.root = 0
                self.tell(EXITED, os.waitstatus_to_exitcode(status))
                if self.outlives:
                    self.end(GRACE)  # no one else would end what the command left

    def end(self, grace: float) -> None:
        """Ask all to end, and set the time at which they are killed. If asked again, the earlier time counts."""
        now = time.monotonic()
        if self.deadline is not None:
            self.deadline = min(self.deadline, now + grace)
            return
        self.began = now
        self.deadline = now + grace
        self.hangup = now + HANGUP_AFTER if self.on_terminal else None
        if grace > 0:
            self.ask()
            if not table.HAS_PROC:
                self._signal_group(signal.SIGTERM)

    def ask(self) -> None:
        """Ask each process to end, once. Called again after each death, for what the dead one had started meanwhile."""
        for process in table.descendants(os.getpid()):
            key = (process.pid, process.start)
            if key in self.asked:
                continue
            if process.pid != self.unasked and table.send(process, signal.SIGTERM):
                self.asked[key] = (process.name, int(signal.SIGTERM))
            if process.state in "Tt":
                table.send(process, signal.SIGCONT)  # a stopped process could not react

    def hang_up(self) -> None:
        if self.hangup is not None and time.monotonic() >= self.hangup:
            self.hangup = None
            for process in table.descendants(os.getpid()):
                if process.pid != self.unasked and table.send(process, signal.SIGHUP):
                    self.asked[process.pid, process.start] = (process.name, int(signal.SIGHUP))

    def kill(self) -> bool:
        """Send SIGKILL to everything that is there now. Called repeatedly, because processes may fork while dying.

        False when the time is up for those that do not die.
        """
        if not self.killed:
            _raise_priority()
        found = table.cull(self.reap)
        for process in found:
            self.killed.setdefault((process.pid, process.start), process.name)
            self.asked[process.pid, process.start] = (process.name, int(signal.SIGKILL))
        if not table.HAS_PROC:
            self._signal_group(signal.SIGKILL)
        assert self.deadline is not None
        now = time.monotonic()
        if now > max(self.deadline, self.last_death) + KILL_PATIENCE or now > self.deadline + KILL_LIMIT:
            self.left = found
            return False
        return True

    def _signal_group(self, signum: int) -> None:
        # Without /proc we can only name the process group, and miss what left it with setsid. The group's number is
        # still ours: only we collect the command, and then we forget it.
        try:
            if self.unasked:
                for process in table.group(self.root, os.getpid()):
                    if process.pid != self.unasked:
                        table.send(process, signum)
            elif self.root:
                os.killpg(self.root, signum)
        except OSError:
            pass

    def tell(self, kind: int, content: Any) -> None:
        try:
            os.write(self.owner, frame(kind, marshal.dumps(content)))
        except OSError:
            pass  # the owner is gone, which hear() will notice

    def forget(self) -> None:
        if self.record:
            try:
                os.unlink(self.record)
            except OSError:
                pass


def leave_note(path: bytes, owner: int, keeper: int, reaper: int, pid: int, command: Iterable[bytes]) -> bool:
    """Write a note for `treadle ps`, which reads it in `registry.py`. Errors are ignored: a tree can do without one."""
    fields = [1, owner, keeper, reaper, table.start_time(reaper), pid, int(time.time())]
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"\0".join([*(b"%d" % field for field in fields), *command]))
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def _parent_is_dying(parent: int) -> bool:
    """Whether our parent is dead or dying.

    A dying process closes its files first. A tree that ends because its terminal hung up may be gone before we become
    an
    orphan.
    """
    found = table.look(parent)
    return os.getppid() != parent or (found is not None and found.dying)


def _raise_priority() -> None:
    """Raise our priority: in a tree of a thousand processes we would get a thousandth of the processor."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        pass
