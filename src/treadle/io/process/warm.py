"""A warm parent: a process that has loaded what commands need, and forks a copy of itself for each that asks.

    code = run("treadle.cli.terminal", "main", ["run", ["--detach", "sleep", "60"]])    # None: do it yourself
    done = spawn("treadle.terminal.launch", "supervise", [settings], [lock, tell])      # False: fork yourself

The copy has the standard streams, the directory, the environment and the umask of who asks, so it does what that one
would have done, without loading anything, and what it forks in turn shares its memory with all the others. Nothing
depends on the warm parent: it holds nobody, and who finds none, or one that does not answer, does the work himself.

The copy says that it is there, and only then gets the request: one marshalled value with its length before it, and the
descriptors of the directory and the streams. So nothing is done by a copy that comes late, and no stream is held open
by a warm parent that is stuck.

It ends when nobody has asked for a while, when its socket is gone, and when a file that it has loaded has changed.
"""

from __future__ import annotations

import marshal
import os
import socket
import sys

from treadle.errors import TreadleError
from treadle.io import paths, sockets
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

IDLE = 1800.0
"""Seconds without a request after which it ends. `TREADLE_WARM` is another number, or 0 for none at all."""
LOOK = 30.0
"""Seconds between looks whether its socket is still there."""
PATIENCE = 2.0
"""Seconds that one who asks waits for the copy to be there, before he does it himself."""
START_PATIENCE = 10.0
REQUEST_MAX = 16 * 1024 * 1024
STREAMS = 4
"""Descriptors that come with a request: the directory and the standard streams, and further ones for the function."""
FDS_MAX = 16
_READY, _STALE = b"r", b"s"
_START = (
    "import sys; sys.path[:0] = sys.argv[1].split(':'); from treadle.io.process.warm import main; main(sys.argv[2:])"
)


def idle() -> float:
    """Seconds that a warm parent is kept for; 0 when there is to be none."""
    try:
        return max(0.0, float(os.environ.get("TREADLE_WARM", IDLE)))
    except ValueError:
        return IDLE


def address(name: str = "") -> str:
    """The socket of the warm parent that is as we are: another interpreter, limit or namespace makes another one. One
    of another `name` has other modules loaded."""
    from zlib import crc32

    package = os.path.abspath(__file__ + "/../../../__init__.py")
    surroundings = [sys.executable, package, str(os.stat(package).st_mtime_ns), *([name] if name else [])]
    surroundings.append(str(os.getpriority(os.PRIO_PROCESS, 0)))
    for space in ("mnt", "net", "pid", "user"):
        surroundings.append(_link(f"/proc/self/ns/{space}"))
    try:
        with open("/proc/self/limits") as file:
            surroundings.append(file.read())
    except OSError:
        pass
    directory = paths.private_dir(os.path.join(paths.state_dir(), "warm"))
    prefix = f"{name}-" if name else ""
    return paths.socket_path(directory, f"{prefix}{crc32(os.fsencode(chr(0).join(surroundings))):08x}.sock")


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


# Who asks...


def run(module: str, function: str, arguments: list[object], *, start: Sequence[str] = ()) -> int | None:
    """Have a copy of the warm parent call a function; gives its exit code. None when there is none, or it is stuck.

    `start` names the modules with which one is started when there is none.
    """
    control = _begun(module, function, arguments, [0, 1, 2], True, start)
    if control is None:
        return None
    with control:
        answer = control.recv(16)
    if not answer:
        sys.stderr.write("treadle: the process that was to do this was killed; nobody knows how far it came\n")
        return 1
    return None if answer == _STALE else int(answer)


def spawn(
    module: str,
    function: str,
    arguments: list[object],
    fds: Sequence[int],
    *,
    start: Sequence[str] = (),
    name: str = "",
) -> bool:
    """Have a copy call a function with these arguments and descriptors, and live its own life. False: there is none.

    `start` names the modules with which one is started when there is none; it then finds all libraries that we find.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        control = _begun(module, function, arguments, [null, null, null, *fds], False, start, name)
    finally:
        os.close(null)
    if control is None:
        return False
    control.close()
    return True


def dismiss(name: str) -> None:
    """End every warm parent of this name, whatever its surroundings; copies of it live on."""
    import signal

    directory = os.path.dirname(address(name))
    for entry in os.listdir(directory):
        if entry.startswith(f"{name}-"):
            path = os.path.join(directory, entry)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
                try:
                    control.connect(path)
                    os.unlink(path)
                    os.kill(sockets.peer_pid(control), signal.SIGTERM)
                except OSError:
                    continue  # it is gone already


def _begun(
    module: str,
    function: str,
    arguments: list[object],
    fds: list[int],
    watched: bool,
    start: Sequence[str] = (),
    name: str = "",
) -> socket.socket | None:
    """A connection to a copy that has begun to do it; None when there is none, or it is stuck, and nothing was done."""
    if not idle():
        return None
    try:
        control = _connect(address(name), start, bool(name))
    except (TreadleError, OSError):
        return None
    if control is None:
        return None
    try:
        if control.recv(1) == _READY:
            control.settimeout(None)
            _ask(control, (module, function, arguments), fds, watched)
            return control
    except OSError:
        pass
    control.close()
    return None


def _connect(path: str, start: Sequence[str], libraries: bool = False) -> socket.socket | None:
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.settimeout(PATIENCE)
    try:
        control.connect(path)
    except OSError:
        if not start or not _start(path, start, libraries):
            control.close()
            return None
        control.connect(path)
    return control


def _ask(control: socket.socket, work: tuple[str, str, list[object]], fds: list[int], watched: bool) -> None:
    """`watched`: the streams are ours, and we wait for an exit code."""
    mask = os.umask(0)
    os.umask(mask)
    body = marshal.dumps((*work, dict(os.environ), mask, sys.argv, watched))
    here = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = len(body).to_bytes(4, "big") + body
        sent = socket.send_fds(control, [data], [here, *fds])
        if sent < len(data):  # else the copy may be at work by now, and have closed its end
            control.sendall(data[sent:])
    finally:
        os.close(here)


def _start(path: str, modules: Sequence[str], libraries: bool) -> bool:
    """Start one and wait until it answers."""
    root = os.path.abspath(__file__ + "/../../../..")
    if libraries:
        root = ":".join([root, *(place for place in sys.path if place and os.path.isdir(place))])
    ready, tell = os.pipe()
    argv = [sys.executable, "-I", "-S", "-c", _START, root, path, str(idle()), *modules]
    actions = [(os.POSIX_SPAWN_DUP2, tell, 3)]
    actions += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]  # type: ignore[misc]
    try:
        os.waitpid(
            os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True), 0
        )  # it goes on in a fork
    finally:
        os.close(tell)
    import select

    try:
        poller = select.poll()
        poller.register(ready, select.POLLIN)
        return bool(poller.poll(START_PATIENCE * 1000)) and bool(os.read(ready, 1))
    finally:
        os.close(ready)


# The warm parent...


def main(arguments: list[str]) -> None:
    """Be the warm parent. It becomes the child of nobody in particular, as a terminal does that it started."""
    import gc

    from treadle.io.process import launch

    path, seconds, *modules = arguments
    if os.fork():
        os._exit(0)
    launch.close_all_but([0, 1, 2, 3])
    os.set_inheritable(3, False)
    os.chdir("/")
    for name in modules:
        __import__(name)
    gc.collect()
    gc.disable()
    gc.freeze()  # what the copies share with us stays shared
    try:
        listener = sockets.listen(path)
    except TreadleError:
        os._exit(os.write(3, b"r") - 1)  # another was faster, and answers
    os.write(3, b"r")
    os.close(3)
    WarmParent(path, listener, float(seconds)).serve()
    os._exit(0)


class WarmParent:
    def __init__(self, path: str, listener: socket.socket, seconds: float) -> None:
        from treadle.io.process import reaper, signals

        reaper.mark(b"treadle-warm", adopt=False)
        self.path = path
        self.listener = listener
        self.seconds = seconds
        self.identity = os.stat(path).st_ino
        self.files = _loaded()
        self.wake = signals.pipe(_numbers())

    def serve(self) -> None:
        import select
        import signal
        import time

        from treadle.io.process import signals

        poller = select.poll()
        poller.register(self.wake, select.POLLIN)
        poller.register(self.listener, select.POLLIN)
        last = time.monotonic()
        while time.monotonic() < last + self.seconds and self.in_place():
            for fd, _ in poller.poll(int(min(LOOK, self.seconds) * 1000) + 1):
                if fd == self.wake:
                    if signal.SIGTERM in signals.drain(self.wake):
                        return self.leave()
                    _collect()
                else:
                    last = time.monotonic()
                    self.accept()
        self.leave()

    def in_place(self) -> bool:
        try:
            return os.stat(self.path).st_ino == self.identity
        except OSError:
            return False

    def leave(self) -> None:
        if self.in_place():
            os.unlink(self.path)
        self.listener.close()

    def accept(self) -> None:
        """Fork a copy for one who asks.

        Whatever we write to between two forks is a page more for every copy that was made before, so this does nothing
        else. The copies see to the rest.
        """
        try:
            control, _ = self.listener.accept()
        except OSError:
            return
        with control:
            if sockets.same_user(control) and not os.fork():
                _be(control, self)


def _numbers() -> tuple[int, int]:
    import signal

    return signal.SIGCHLD, signal.SIGTERM


def _collect() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _loaded(known: dict[str, int] | None = None) -> dict[str, int]:
    """The files of what is loaded of treadle, or those that are `known`, with when they were changed."""
    if known is None:
        found = [
            getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("treadle")
        ]
        known = {path: 0 for path in found if path}
    times = {}
    for path in known:
        try:
            times[path] = os.stat(path).st_mtime_ns
        except OSError:
            times[path] = 0
    return times


# The copy...


def _be(control: socket.socket, parent: WarmParent) -> NoReturn:
    """Do what is asked as the one who asks would do it, and tell him the exit code."""
    code = 1
    try:
        import signal

        signal.set_wakeup_fd(-1)
        for number in _numbers():
            signal.signal(number, signal.SIG_DFL)
        parent.listener.close()
        os.close(parent.wake)
        control.settimeout(PATIENCE)
        control.send(_READY)
        module, function, arguments, watched = _receive(control)
        if watched and _loaded(parent.files) != parent.files:
            os.kill(os.getppid(), signal.SIGTERM)  # it is not what would be loaded today
            control.send(_STALE)
            os._exit(1)
        control.settimeout(None)
        if not watched:
            control.close()
        code = getattr(__import__(module, fromlist=[function]), function)(*arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            control.send(b"%d" % code)
        finally:
            os._exit(code & 0xFF)


def _receive(control: socket.socket) -> tuple[str, str, list[object], bool]:
    """Take in the request, and with it the surroundings of who asks."""
    data, (*fds,), _, _ = socket.recv_fds(control, 65536, FDS_MAX)
    size = int.from_bytes(data[:4], "big")
    if len(fds) < STREAMS or size > REQUEST_MAX:
        os._exit(1)
    parts = [data[4:]]
    missing = size - len(parts[0])
    while missing > 0:
        parts.append(control.recv(1 << 20))
        if not parts[-1]:
            os._exit(1)
        missing -= len(parts[-1])
    module, function, arguments, env, mask, argv, watched = marshal.loads(b"".join(parts))
    os.fchdir(fds[0])
    for target, fd in enumerate(fds[1:STREAMS]):
        os.dup2(fd, target)
    for fd in fds[:STREAMS]:
        os.close(fd)
    os.umask(mask)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = argv
    if watched:
        sys.stdin, sys.stdout, sys.stderr = stream(0, "r"), stream(1, "w"), stream(2, "w")
    return module, function, [*arguments, *fds[STREAMS:]], watched


def stream(fd: int, mode: str) -> TextIO:
    """A standard stream of a copy."""
    whole_lines = 1 if fd == 2 or os.isatty(fd) else -1
    errors = "backslashreplace" if fd == 2 else "surrogateescape"
    made: TextIO = open(fd, mode, whole_lines, encoding="utf-8", errors=errors, closefd=False)  # type: ignore[assignment]
    return made
