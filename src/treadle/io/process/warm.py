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
from collections.abc import Mapping, Sequence

from treadle.errors import TreadleError
from treadle.io import paths
from treadle.light import NoReturn

# What a process does while a copy of the warm parent works in its place: pass signals on, and end as the copy does.
#
# A signal that comes in the moment before a read begins is handled when that read ends, so the copy sends an empty
# line every few seconds (`LINE_SECONDS`): without it such a signal would wait for the next one.
#
# A Python that only waits has 4 MB of its own, so it becomes a shell that waits, which has a tenth of a megabyte.
# Where there is no shell, Python waits.

KILLED = "treadle: the process that did this was killed; how far it got is unknown\n"
SHELL = "/bin/sh"
PASSED = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
LINE_SECONDS = 5.0
START = b"\0"
"""What the copy gets when signals are passed on from then on. Before that it does nothing, and any of them ends us."""
_CONTROL = 3
"""The descriptor of the connection to the copy, in the shell."""
_WAIT = f"""
trap '' PIPE
TRAPS
printf '\\000' 2>/dev/null >&{_CONTROL}
while :; do
    new=
    read -r code <&{_CONTROL} && {{ [ "$code" ] && exit "$code"; continue; }}
    [ "$new" ] || break # not a signal: the copy is gone
done
[ "$last" ] && {{ trap - "$last"; kill -s "$last" $$; }}
printf '%s' "$2" >&2
exit 1
"""
"""Called with the pid of the copy and KILLED."""


def wait(control: socket.socket, copy: int) -> int:
    """Pass on every signal that we get to the copy. Returns its exit code, if this process does not become a shell."""
    try:
        os.dup2(control.fileno(), _CONTROL)
        os.set_inheritable(_CONTROL, True)
        shown = f"# {os.path.basename(sys.argv[0])}, waiting for process {copy}, which does the work\n"
        os.execve(SHELL, ["sh", "-c", shown + _script(), "sh", str(copy), KILLED], {})
    except OSError:
        return _wait_here(control, copy)


def _script() -> str:
    """A signal that we ignore stays ignored: a shell cannot trap those."""
    import signal

    traps = []
    for name in PASSED:
        byte = rf"\\{signal.Signals[f'SIG{name}']:03o}"
        traps.append(f"trap 'last={name} new=yes; printf {byte} 2>/dev/null >&{_CONTROL}' {name}")
    # When someone resumes us, the copy is resumed as well.
    traps.append('trap \'new=yes; kill -s STOP "$1"; kill -s STOP $$; kill -s CONT "$1"\' TSTP')
    return _WAIT.replace("TRAPS", "\n".join(traps))


def _wait_here(control: socket.socket, copy: int) -> int:
    passed = _pass_on_signals(control, copy)
    control.send(START)
    answer = b""
    while (more := control.recv(16)) and not (answer := (answer + more).lstrip()).endswith(b"\n"):
        pass
    if more:
        return int(answer)
    if passed:
        _die_by_signal(passed[-1])
    sys.stderr.write(KILLED)
    return 1


def _pass_on_signals(control: socket.socket, copy: int) -> list[int]:
    """Pass on every signal that we get from now on to the copy; the list has those that were passed on."""
    import signal

    passed: list[int] = []

    def pass_on(number: int, frame: object) -> None:
        passed.append(number)
        control.send(bytes([number]))

    def stop(number: int, frame: object) -> None:
        os.kill(copy, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(copy, signal.SIGCONT)  # someone resumed us

    for name in PASSED:
        number = signal.Signals[f"SIG{name}"]
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, stop)
    return passed


def _die_by_signal(number: int) -> NoReturn:
    """End by the same signal as the copy, so that the one who waits for us learns of it."""
    import signal

    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(1)


IDLE = 60.0
"""It ends after this many seconds without a request. `TREADLE_WARM` sets another number, or 0 for no warm parent."""
PATIENCE = 2.0
"""How many seconds a caller waits for a copy before it does the work itself."""
START_PATIENCE = 10.0
"""How many seconds a caller waits for one that it starts itself."""
WORKERS = "workers"
"""The name of the one that workers start when it pays. There is one for each control group, to which its copies are
charged: no one has asked for it."""
FEW = 2
"""Start a warm parent only when this many unshared workers already run: it takes the memory that three copies save."""
PROC = "/proc"
READY, STALE, GOING = b"r", b"s", b"g"
PID_BYTES = 4
ALONE, WATCHED, TIED = 0, 1, 2
"""What ties a copy to its caller: nothing; it reports its exit code; or it also ends with the caller."""
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
    if name == WORKERS:
        surroundings += [_text(f"{PROC}/self/cgroup"), _text(f"{PROC}/self/oom_score_adj")]
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


def pays(name: str) -> bool:
    """Whether `FEW` others like us already run by themselves, so that starting a warm parent saves memory.

    If not, we are counted as one of them from now on, until we end: by a name that the kernel forgets with us.
    """
    from zlib import crc32

    if sys.platform != "linux" or not idle():
        return False
    try:
        key = crc32(os.fsencode(address(name)))
    except (TreadleError, OSError):
        return False
    for number in range(FEW):
        one = socket.socket(socket.AF_UNIX)
        try:
            one.bind(f"\0treadle-{os.getuid()}-{key:08x}-{number}")
        except OSError:
            one.close()
            continue
        _counted.append(one)
        return False
    return True


_counted: list[socket.socket] = []


# The caller...


def run(
    module: str,
    function: str,
    arguments: list[object],
    *,
    start: Sequence[str] = (),
    name: str = "",
    tied: bool = False,
) -> int | None:
    """Have a copy of the warm parent call a function and return the exit code. None: no copy, or it is stuck.

    If there is no warm parent, one is started with the modules in `start`. `tied`: the copy shares our fate: it gets
    every signal that we get, and is killed when we are; this process then only waits for it.
    """
    begun = _connect_to_copy(module, function, arguments, [0, 1, 2], TIED if tied else WATCHED, start, name)
    if begun is None:
        return None

    control, pid = begun
    with control:
        answer = control.recv(1 if tied else 16)
        if answer == STALE:
            return None
        if answer == GOING:
            return wait(control, pid)
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
        begun = _connect_to_copy(module, function, arguments, [null, null, null, *fds], ALONE, start, name)
    finally:
        os.close(null)
    if begun is None:
        return False
    begun[0].close()
    return True


def start_beside(path: str, module: str, function: str, arguments: list[object], fds: Sequence[int]) -> int:
    """As `spawn`, with the warm parent at `path`, and none of our variables. Returns the pid, 0 when there is none."""
    if (control := _connect(path, ())) is None:
        return 0
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        begun = _begin_copy(control, (module, function, arguments), [null, null, null, *fds], ALONE, env={})
    finally:
        control.close()
        os.close(null)
    return begun[1] if begun else 0


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
) -> tuple[socket.socket, int] | None:
    """A connection to a copy that has begun the work, and its pid.

    None when there is no copy, or it is stuck: then nothing was done.
    """
    if not idle():
        return None
    try:
        control = _connect(address(name), start, bool(name))
    except (TreadleError, OSError):
        return None
    return _begin_copy(control, (module, function, arguments), fds, bond) if control else None


def _begin_copy(
    control: socket.socket,
    work: tuple[str, str, list[object]],
    fds: list[int],
    bond: int,
    env: Mapping[str, str] = os.environ,
) -> tuple[socket.socket, int] | None:
    try:
        answer = control.recv(1 + PID_BYTES)
        if answer[:1] == READY:
            control.settimeout(None)
            _ask(control, work, fds, bond, env)
            return control, int.from_bytes(answer[1:], "big")
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


def _ask(
    control: socket.socket, work: tuple[str, str, list[object]], fds: list[int], bond: int, env: Mapping[str, str]
) -> None:
    body = marshal.dumps((*work, _surroundings(env), sys.argv, bond))
    here = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = len(body).to_bytes(4, "big") + body
        sent = socket.send_fds(control, [data], [here, *fds])
        if sent < len(data):  # else the copy may have done its work already and closed its end
            control.sendall(data[sent:])
    finally:
        os.close(here)


def _surroundings(env: Mapping[str, str]) -> dict[str, object]:
    """What a child of ours would inherit from us, beyond the directory and the standard streams."""
    mask = os.umask(0)
    os.umask(mask)
    ignored, blocked = _signals()
    return {
        "pid": os.getpid(),
        "env": dict(env),
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
