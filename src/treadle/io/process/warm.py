"""The warm parent: a process that has loaded what commands need, and forks a copy of itself for each that asks.

    code = run("treadle.cli.terminal", "main", ["run", ["--detach", "sleep", "60"]])    # None: do it yourself
    done = spawn("treadle.terminal.launch", "supervise", [settings], [lock, tell])      # False: fork yourself

The copy takes over the caller's standard streams, directory, environment and umask, so it does what the caller would
have done without loading anything, and whatever it forks shares memory with all other copies. Nothing depends on the
warm parent: a command that finds none, or gets no answer, does the work itself.

The copy reports that it is ready, and only then gets the request: one marshalled value preceded by its length, and the
descriptors of the directory and the streams. So a late copy does nothing, and a warm parent that is stuck holds no
stream open.

It ends when no one has asked for a while, when its socket is gone, or when a file that it has loaded has changed.
"""

import marshal
import os
import socket
import sys
from collections.abc import Sequence

from treadle.errors import TreadleError
from treadle.io import paths

KILLED = "treadle: the process that did this was killed; how far it got is unknown\n"
IDLE = 60.0
"""It ends after this many seconds without a request. `TREADLE_WARM` sets another number, or 0 for no warm parent."""
PATIENCE = 2.0
"""How many seconds a caller waits for a copy before it does the work itself."""
START_PATIENCE = 10.0
"""How many seconds a caller waits for one that it starts itself."""
PROC = "/proc"
READY, STALE = b"r", b"s"
ALONE, WATCHED = 0, 1
"""What ties a copy to its caller: nothing, or that it reports its exit code."""
_START = "import sys; sys.path[:0] = sys.argv[1].split(':'); import treadle.io.process.warm_parent as it; it.main()"


def idle() -> float:
    """For how many seconds an idle warm parent is kept; 0 when there should be none."""
    try:
        return max(0.0, float(os.environ.get("TREADLE_WARM", IDLE)))
    except ValueError:
        return IDLE


def address(name: str = "") -> str:
    """The socket of the warm parent for processes like this one: another interpreter, resource limit or namespace
    needs another one. `name` tells apart those with different modules loaded."""
    from zlib import crc32

    package = os.path.abspath(__file__ + "/../../../__init__.py")
    surroundings = [sys.executable, package, str(os.stat(package).st_mtime_ns), *([name] if name else [])]
    surroundings.append(os.environ.get("PYTHONPATH", ""))
    policy = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else 0
    surroundings.append(f"{policy} {os.getpriority(os.PRIO_PROCESS, 0)} {os.getgid()} {sorted(os.getgroups())}")
    for space in ("mnt", "net", "pid", "user"):
        surroundings.append(_link(f"{PROC}/self/ns/{space}"))
    surroundings.append(_text(f"{PROC}/self/limits"))
    directory = paths.private_dir(os.path.join(paths.state_dir(), "warm"))
    prefix = f"{name}-" if name else ""
    return paths.socket_path(directory, f"{prefix}{crc32(os.fsencode(chr(0).join(surroundings))):08x}.sock")


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""


# The caller...


def run(
    module: str, function: str, arguments: list[object], *, start: Sequence[str] = (), name: str = ""
) -> int | None:
    """Have a copy of the warm parent call a function and return the exit code. None: no copy, or it is stuck.

    If there is no warm parent, one is started with the modules in `start`.
    """
    control = _connect_to_copy(module, function, arguments, [0, 1, 2], WATCHED, start, name)
    if control is None:
        return None
    with control:
        answer = control.recv(16)
    if answer == STALE:
        return None
    if answer:
        return int(answer)
    sys.stderr.write(KILLED)
    return 1


def spawn(
    module: str,
    function: str,
    arguments: list[object],
    fds: Sequence[int],
    *,
    start: Sequence[str] = (),
    name: str = "",
) -> bool:
    """Have a copy call a function with these arguments and descriptors, and let it run on its own. False: no copy.

    If there is no warm parent, one is started with the modules in `start`, and with our library paths.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        control = _connect_to_copy(module, function, arguments, [null, null, null, *fds], ALONE, start, name)
    finally:
        os.close(null)
    if control is None:
        return False
    control.close()
    return True


def parents(name: str) -> dict[str, int]:
    """The sockets of all of this name, whatever their surroundings, and the pid behind each."""
    from treadle.io import sockets

    found = {}
    directory = os.path.dirname(address(name))
    for entry in sorted(os.listdir(directory)):
        path = os.path.join(directory, entry)
        if entry.startswith(f"{name}-") and entry.endswith(".sock"):
            with socket.socket(socket.AF_UNIX) as control:
                if control.connect_ex(path) == 0:
                    found[path] = sockets.peer_pid(control)
    return found


def dismiss(name: str) -> list[int]:
    """End every warm parent of this name; its copies live on."""
    import signal

    found = parents(name)
    for path, pid in found.items():
        try:
            os.unlink(path)
            os.kill(pid, signal.SIGTERM)
        except OSError:
            continue  # it is gone already
    return [*found.values()]


def _connect_to_copy(
    module: str,
    function: str,
    arguments: list[object],
    fds: list[int],
    bond: int,
    start: Sequence[str] = (),
    name: str = "",
) -> socket.socket | None:
    """A connection to a copy that has begun the work. None when there is none, or it is stuck: nothing was done."""
    if not idle():
        return None
    try:
        control = _connect(address(name), start, bool(name))
    except (TreadleError, OSError):
        return None
    if control is None:
        return None
    try:
        if control.recv(1) == READY:
            control.settimeout(None)
            _ask(control, (module, function, arguments), fds, bond)
            return control
    except OSError:
        pass
    control.close()
    return None


def _connect(path: str, start: Sequence[str], libraries: bool = False) -> socket.socket | None:
    control = socket.socket(socket.AF_UNIX)
    control.settimeout(PATIENCE)
    try:
        control.connect(path)
    except OSError:
        if not start or not _start_one(path, start, libraries):
            control.close()
            return None
        control.connect(path)
    return control


def _start_one(path: str, modules: Sequence[str], libraries: bool) -> bool:
    """Of many that find none, one starts it and the others wait: each of them would load as much as it."""
    from treadle.io import files, sockets

    with files.locked(f"{path}.starting", timeout=START_PATIENCE):
        return sockets.is_served(path) or _start(path, modules, libraries)


def _ask(control: socket.socket, work: tuple[str, str, list[object]], fds: list[int], bond: int) -> None:
    body = marshal.dumps((*work, _surroundings(), sys.argv, bond))
    here = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = len(body).to_bytes(4, "big") + body
        sent = socket.send_fds(control, [data], [here, *fds])
        if sent < len(data):  # else the copy may have done its work already and closed its end
            control.sendall(data[sent:])
    finally:
        os.close(here)


def _surroundings() -> dict[str, object]:
    """What a child of ours would inherit from us, beyond the directory and the standard streams."""
    mask = os.umask(0)
    os.umask(mask)
    ignored, blocked = _signals()
    return {
        "env": dict(os.environ),
        "umask": mask,
        "ignored": ignored,
        "blocked": blocked,
        "cpus": list(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
    }


def _signals() -> tuple[list[int], list[int]]:
    """The signals that we ignore, and those that we block. Importing `signal` costs more than asking the kernel."""
    try:
        with open(f"{PROC}/self/status", "rb") as file:
            masks = dict(line.split(b":\t", 1) for line in file if line.startswith((b"SigIgn:", b"SigBlk:")))
        ignored, blocked = (int(masks[name], 16) for name in (b"SigIgn", b"SigBlk"))
    except (OSError, KeyError):
        import signal

        found = [int(number) for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN]
        return found, [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
    return _numbers(ignored), _numbers(blocked)


def _numbers(mask: int) -> list[int]:
    return [number for number in range(1, 65) if mask >> (number - 1) & 1]


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
