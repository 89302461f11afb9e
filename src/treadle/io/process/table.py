"""The processes of this machine, read from /proc, and signals that cannot hit the wrong process.

A process is identified by its pid and its start time together, because pids are reused. Without /proc (macOS) the table
is empty. Light: the keeper and its reapers import this.
"""

import errno
import os
import signal
from collections.abc import Callable, Container

HAS_PROC = os.path.exists("/proc/self/stat")
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
CHASE = 100
"""Rounds of killing children that appear while others die. Without a bound, a tree that forks as fast as it is killed
would keep us here."""
_PF_EXITING = 4
"""A bit of the kernel's flags for a process, the ninth field of /proc/PID/stat: it has begun to exit."""


class Process:
    __slots__ = ("cpu", "dying", "group", "name", "parent", "pid", "rss", "start", "state")

    def __init__(
        self,
        pid: int,
        parent: int,
        start: int,
        state: str,
        rss: int,
        name: str,
        cpu: float = 0.0,
        group: int = 0,
        dying: bool = False,
    ) -> None:
        self.pid = pid
        self.parent = parent
        self.start = start  # in ticks since the machine started
        self.state = state
        self.rss = rss  # bytes
        self.name = name
        self.cpu = cpu  # seconds used so far
        self.group = group
        self.dying = dying  # it will not run again, but may still hold files and have children

    def __repr__(self) -> str:
        return f"<{self.pid} {self.name} {self.state}>"


def look(pid: int) -> Process | None:
    """The process with this pid, or None."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError:
        return None
    # The name is in parentheses and may itself contain parentheses and spaces.
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    if len(fields) < 22:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    cpu = (int(fields[11]) + int(fields[12])) / TICKS
    parent, group, start, pages = (int(fields[index]) for index in (1, 2, 19, 21))
    dying = bool(int(fields[6]) & _PF_EXITING)
    return Process(pid, parent, start, fields[0].decode(), pages * PAGE, name, cpu, group, dying)


def start_time(pid: int) -> int:
    """The start time, which tells this process from an earlier one with the same pid; 0 when it is gone."""
    found = look(pid)
    return found.start if found else 0


def lives(pid: int, start: int) -> bool:
    """Whether the process that began then still runs. A zombie has ended."""
    found = look(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def processes() -> list[Process]:
    if not HAS_PROC:
        return []
    return [found for name in os.listdir("/proc") if name.isdigit() and (found := look(int(name)))]


def group(number: int, root: int) -> list[Process]:
    """The running processes of a process group, among `root` and its descendants. Cheaper than a look at all."""
    found, todo = [], [root]
    for pid in todo:
        process = look(pid)
        if process is None or process.state in "ZX":
            continue
        if process.group == number:
            found.append(process)
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                todo += _numbers(f"/proc/{pid}/task/{thread}/children")
        except OSError:
            continue
    return found


def _numbers(path: str) -> list[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return [int(word) for word in os.read(fd, 4096).split()]
    finally:
        os.close(fd)


def descendants(root: int, among: list[Process] | None = None, *, apart: Container[int] = ()) -> list[Process]:
    """All running descendants of `root`, parents first, without the branches of those in `apart`."""
    children: dict[int, list[Process]] = {}
    for process in processes() if among is None else among:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    todo = [root]
    for parent in todo:
        for process in children.get(parent, ()):
            if process.pid not in apart:
                todo.append(process.pid)
                if process.state not in "ZX":
                    found.append(process)
    return found


def send_to(pid: int, start: int, signum: int) -> bool:
    """Send a signal to a process that was noted down. False when it is gone."""
    process = look(pid)
    return process is not None and process.start == start and send(process, signum)


def send(process: Process, signum: int) -> bool:
    """Signal exactly this process. False when it is gone, even if its pid is in use again, or when it is not ours."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSYS, errno.EPERM):
            return False
        handle = -1
    try:
        # A pidfd stays with one process: if it is the one we mean now, no other can be hit later.
        if start_time(process.pid) != process.start:
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, signum)
        else:
            os.kill(process.pid, signum)
    except OSError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def cull(reap: Callable[[], bool], apart: Container[int] = ()) -> list[Process]:
    """Send SIGKILL once to all descendants of this process and return those it found. `reap` collects the dead.

    Call it until `reap` says that none is left, because they may fork while they die. Whole groups are killed at once,
    which no process can escape by forking. A group belongs to one session, a process can only be born into a session,
    and the commands we start lead their own, so only our own group can contain strangers.
    """
    found = descendants(os.getpid(), apart=apart)
    ours = os.getpgrp()
    groups: set[int] = set()
    for process in found:
        if process.group == ours:
            send(process, signal.SIGKILL)  # not yet in a session of its own
        elif process.group not in groups and send(process, signal.SIGSTOP):
            groups.add(process.group)  # the number stays taken while a member exists, and members are stopped
    for signum in (signal.SIGSTOP, signal.SIGKILL):  # stop all first, so that none can replace another
        for group in groups:
            _signal_group(group, signum)
    _kill_children(reap, apart)
    return found


def _kill_children(reap: Callable[[], bool], apart: Container[int]) -> None:
    """Kill our own children. A process that forks and exits faster than the table is read leaves its child to us."""
    seen: set[int] = set()
    idle = 0
    for _ in range(CHASE):
        if not reap() or idle == 3:
            return
        fresh = [pid for pid in children() if pid not in seen and pid not in apart]
        seen.update(fresh)
        idle = 0 if fresh else idle + 1
        for pid in fresh:  # these pids cannot be reused yet: only we free them, in reap
            try:
                os.kill(pid, signal.SIGKILL)
                if os.getpgid(pid) != os.getpgrp():
                    _signal_group(os.getpgid(pid), signal.SIGKILL)
            except OSError:
                pass


def _signal_group(group: int, signum: int) -> None:
    try:
        os.killpg(group, signum)
    except OSError:
        pass


def children() -> list[int]:
    """The pids of our own children, dead ones too, from one short file. Only for a process without threads."""
    try:
        fd = os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return [int(pid) for pid in os.read(fd, 65536).split()]
        finally:
            os.close(fd)
    except OSError:
        return []


def command_line(pid: int) -> list[str]:
    """Its program and arguments; empty for a process that is gone or shows none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(part) for part in file.read().split(b"\0")[:-1]]
    except OSError:
        return []


def environment_has(pid: int, entry: str) -> bool:
    """Whether the process was started with this variable, given as NAME=VALUE. False when we may not look."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return entry.encode() in file.read().split(b"\0")
    except OSError:
        return False


def space() -> str:
    """The PID namespace that we are in; pids mean something within one."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
