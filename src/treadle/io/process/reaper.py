"""One tree: a small process that starts a command and holds on to all that ever descends from it.

The stem is forked from the keeper for each tree and is a child-subreaper: whatever is orphaned in its tree, by double
fork or setsid or a dead parent, becomes its child and nobody else's. So a tree is exactly what descends from its stem,
and it is empty exactly when the stem has no child left to wait for. Nothing has to be guessed.

It ends the tree when the owner says so, when the owner's socket closes, when the keeper dies, and then itself.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import errno
import marshal
import os
import select
import time

from treadle.io.process import procs
from treadle.wire.common.framing import FrameSplitter, frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

# Stem to owner...
STARTED, FAILED, EXITED, GONE = 1, 2, 3, 4
# Owner to stem...
SIGNAL, STOP = 5, 6

ORPHAN_GRACE = 0.5
"""Seconds between asking and killing when the owner is gone."""
KILL_PATIENCE = 5.0
"""Seconds without a single death after which those that SIGKILL does not end (stuck, or not ours) count as left."""
KILL_LIMIT = 30.0
"""Seconds of killing after which we give up on a tree that grows as fast as it dies."""
REPORT_MAX = 200

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36


def mark(name: bytes, *, parent: int | None = None) -> None:
    """Adopt orphans; with `parent`, get SIGTERM when it dies. On systems without this, do nothing."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, AttributeError, OSError):
        return
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_NAME, name, 0, 0, 0)
    if parent is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def wakeups() -> int:
    """A descriptor from which the numbers of the signals SIGCHLD and SIGTERM can be read as they arrive."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(signum, _note)
    return read


def hold_signals(held: bool) -> None:
    """So that none is lost between a fork and the new process's own `wakeups`."""
    signal.pthread_sigmask(signal.SIG_BLOCK if held else signal.SIG_UNBLOCK, [signal.SIGCHLD, signal.SIGTERM])


def _note(signum: int, where: object) -> None:
    pass


def drain(fd: int) -> bytes:
    try:
        return os.read(fd, 4096)
    except BlockingIOError:
        return b""


def close_all_but(kept: list[int]) -> None:
    for name in os.listdir("/dev/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one the listing itself used


def grow(keeper: int, request: dict[str, Any], owner: int, stdio: list[int]) -> NoReturn:
    """The life of a stem, in the process forked for it with signals held back.

    A crash exits 1, and the keeper then ends what was below.
    """
    code = 1
    try:
        close_all_but([0, 1, 2, owner, *stdio])
        stem = Stem(owner)
        mark(b"treadle-stem", parent=keeper)
        hold_signals(False)
        if stem.plant(request, stdio):
            stem.tend()
        code = 0
    finally:
        os._exit(code)


class Stem:
    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.commands = FrameSplitter()
        self.poller = select.poll()
        self.wake = wakeups()
        self.poller.register(self.wake, select.POLLIN)
        self.poller.register(owner, select.POLLIN)
        self.root = 0
        self.unasked = 0  # the wrapper that is not asked to end, if there is one
        self.record = b""
        self.began = 0.0  # when ending began
        self.deadline: float | None = None  # when asking turns into killing
        self.asked = 0
        self.last_death = 0.0
        self.killed: dict[tuple[int, int], str] = {}
        self.left: list[procs.Process] = []

    def plant(self, request: dict[str, Any], stdio: list[int]) -> bool:
        """Start the command; tell the owner its number, or why it could not be started."""
        errors, child_errors = os.pipe()
        self.root = os.fork()
        if self.root == 0:
            _become(request, stdio, child_errors)
        for fd in {*stdio, child_errors}:
            os.close(fd)
        failure = os.read(errors, 4096)  # empty when exec closed it
        os.close(errors)
        if failure:
            os.waitpid(self.root, 0)
            self.tell(FAILED, marshal.loads(failure))
            return False
        self.unasked = self.root if request["patient"] else 0
        self.register(request)
        self.tell(STARTED, {"pid": self.root, "start": procs.start_time(self.root), "stem": os.getpid()})
        return True

    def register(self, request: dict[str, Any]) -> None:
        if not request["registry"]:
            return
        path = b"%b/%d" % (request["registry"], os.getpid())
        if leave_note(path, request["owner"], os.getppid(), os.getpid(), self.root, request["argv"]):
            self.record = path

    def tend(self) -> None:
        """Serve until nothing of the tree is left."""
        while self.reap():
            for fd, _ in self.poller.poll(self.patience()):
                if fd == self.owner:
                    self.hear()
                elif signal.SIGTERM in drain(self.wake):
                    self.end(ORPHAN_GRACE)
            if self.deadline is not None and time.monotonic() >= self.deadline and not self.kill():
                break  # some cannot be killed
        self.forget()
        killed = [(pid, name) for (pid, _), name in self.killed.items()][:REPORT_MAX]
        left = [(process.pid, process.name) for process in self.left][:REPORT_MAX]
        took = time.monotonic() - self.began if self.began else 0.0
        self.tell(GONE, {"asked": self.asked, "killed": killed, "left": left, "seconds": took})

    def patience(self) -> int | None:
        if self.deadline is None:
            return None
        now = time.monotonic()
        if now < self.deadline:
            return int((self.deadline - now) * 1000) + 1
        return 2 if now < self.deadline + 1 else 50

    def hear(self) -> None:
        try:
            data = os.read(self.owner, 65536)
        except OSError:
            data = b""
        if not data:
            self.poller.unregister(self.owner)
            self.end(ORPHAN_GRACE)
        for item in self.commands.feed(data):
            if isinstance(item, tuple):
                kind, payload = item
                if kind == STOP:
                    self.end(marshal.loads(payload))
                elif kind == SIGNAL:
                    self.signal(*marshal.loads(payload))

    def signal(self, signum: int, everyone: bool) -> None:
        for process in procs.descendants(os.getpid()):
            if everyone or process.pid == self.root:
                procs.send(process, signum)

    def reap(self) -> bool:
        """Collect the dead; False when no process of this tree is left."""
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

    def end(self, grace: float) -> None:
        """Ask all to end and set the time when they are killed. Asked again, the earlier time counts."""
        now = time.monotonic()
        if self.deadline is not None:
            self.deadline = min(self.deadline, now + grace)
            return
        self.began = now
        self.deadline = now + grace
        if grace <= 0:
            return
        for process in procs.descendants(os.getpid()):
            if process.pid != self.unasked:
                self.asked += procs.send(process, signal.SIGTERM)
            if process.state in "Tt":
                procs.send(process, signal.SIGCONT)  # one that is stopped could not hear
        if not procs.HAS_PROC:
            self._signal_group(signal.SIGTERM)

    def kill(self) -> bool:
        """One round of SIGKILL to all that is there now, again and again as they may fork while dying.

        False when time is up for those that do not die.
        """
        if not self.killed:
            _hurry()
        found = procs.cull(self.reap)
        for process in found:
            self.killed.setdefault((process.pid, process.start), process.name)
        if not procs.HAS_PROC:
            self._signal_group(signal.SIGKILL)
        assert self.deadline is not None
        now = time.monotonic()
        if now > max(self.deadline, self.last_death) + KILL_PATIENCE or now > self.deadline + KILL_LIMIT:
            self.left = found
            return False
        return True

    def _signal_group(self, signum: int) -> None:
        # Without /proc the process group is all we can name; who left it with setsid is missed.
        try:
            if self.root:
                os.killpg(self.root, signum)
        except OSError:
            pass

    def tell(self, kind: int, content: Any) -> None:
        try:
            os.write(self.owner, frame(kind, marshal.dumps(content)))
        except OSError:
            pass  # the owner is gone, which hear() learns by itself

    def forget(self) -> None:
        if self.record:
            try:
                os.unlink(self.record)
            except OSError:
                pass


def leave_note(path: bytes, owner: int, keeper: int, stem: int, pid: int, command: Iterable[bytes]) -> bool:
    """For `treadle ps`, which reads it in `kept.py`. A tree lives without one, so no error here ends it."""
    fields = [1, owner, keeper, stem, procs.start_time(stem), pid, int(time.time())]
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"\0".join([*(b"%d" % field for field in fields), *command]))
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def _hurry() -> None:
    """Ask for more than our share of the processor, which a tree of a thousand would leave us a thousandth of."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        pass


def _become(request: dict[str, Any], stdio: list[int], errors: int) -> NoReturn:
    """The forked child on its way to being the command."""
    doing = "start"
    try:
        os.setsid()
        import fcntl

        # First out of the way of the numbers that they are to have.
        *aside, errors = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(stdio)) for fd in (*stdio, errors))
        for target, fd in enumerate(aside):
            os.dup2(fd, target)
        if request["tty"]:
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for name, soft, hard in request["limits"]:
            import resource

            resource.setrlimit(name, (soft, hard))
        doing = "enter"
        os.chdir(request["cwd"])
        doing = "start"
        close_all_but([*range(len(stdio)), errors])
        signal.set_wakeup_fd(-1)
        for signum in signal.valid_signals():
            if signum not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _exec(request["argv"], request["env"])
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None) or errno.EINVAL
        os.write(errors, marshal.dumps((doing, number, str(getattr(error, "strerror", None) or error))))
    finally:
        os._exit(127)


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> NoReturn:
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)
    failure = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for directory in env.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        try:
            os.execve(os.path.join(directory or b".", argv[0]), argv, env)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            failure = error  # type: ignore[assignment]  # found but not executable: more telling than "not found"
    raise failure
