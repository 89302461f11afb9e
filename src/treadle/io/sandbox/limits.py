"""What one confined program and all that it starts may use: memory, processes, and the disk.

The kernel keeps memory and processes, in a cgroup for each program, where we were given one to divide
(`io/process/cgroup.py`). Elsewhere an ordinary user's processes are counted in the user namespace of the sandbox (Linux
5.14), and memory has no limit: RLIMIT_AS would break Node, Go and the JVM, which reserve far more than they use.

No kernel limits what is written to a shared disk. So we look, as often as the space that is left demands, and stop the
program: by default when little is left, by a limit when the kernel has counted that much in /proc/PID/io.
"""

import asyncio
import itertools
import logging
import os
import re
import resource
from collections.abc import Iterable
from functools import cache

from treadle.confinement import ResourceLimits
from treadle.errors import LocalError
from treadle.io.process import cgroup, table, tree
from treadle.io.process.child import Child

PROC = "/proc"
PROCESSES = 8192
SHARE = 0.9
"""Of the memory of the machine, or of the cgroup that we are in."""
LEFT = 1 << 30
"""Bytes that stay free on a disk; where less than ten times that is free, a tenth of it."""
LEAST = 1 << 20
"""With fewer bytes than that, a disk is full."""
SPEED = 2 << 30
"""Bytes in a second that a program is thought to write at most: how long we need not look."""
SHORTEST, LONGEST = 0.2, 5.0
GRACE = 2.0
COUNTED_IN_NAMESPACES = (5, 14)
NO_FORK = re.compile(
    r"fork[^\n]*temporarily unavailable|annot fork|start new thread|create native thread|spawn[^\n]*EAGAIN"
)
"""What programs say when they may not start another."""
UNGIVEN = "no cgroup is ours to divide"

log = logging.getLogger(__name__)
_numbers = itertools.count(1)


class LimitedGroup:
    """A cgroup with limits, for one program."""

    def __init__(self, base: str, limits: ResourceLimits) -> None:
        """`base`: a group in which we may make others."""
        me = os.getpid()
        self.base = base
        self.path = os.path.join(base, f"{cgroup.LIMITED}{me}-{table.start_time(me)}-{next(_numbers)}")
        os.mkdir(self.path, 0o755)
        self.memory = memory(limits, base) if self._set("memory.max", memory(limits, base)) else 0
        if self.memory and limits.memory:
            self._set("memory.swap.max", 0, zero=True)  # what a person limits is not evaded by swapping
        self.processes = processes(limits) if self._set("pids.max", processes(limits)) else 0

    def _set(self, name: str, value: int, *, zero: bool = False) -> bool:
        place = os.path.join(self.path, name)
        if (not value and not zero) or not os.path.exists(place):
            return False
        cgroup.write(place, b"%d" % value)
        return True

    def hold(self, pid: int) -> None:
        """Put a process into it that has no others yet. Takes up to 30 ms, which the kernel waits."""
        cgroup.await_entered(self.base, tree.own.pid)
        cgroup.write(os.path.join(self.path, "cgroup.procs"), b"%d" % pid)

    def exceeded(self) -> str:
        if self.memory and self._count("memory.events", "oom_kill"):
            return f"the kernel ended the process that had most: it used more than {shown(self.memory)} of memory"
        if self.processes and self._count("pids.events", "max"):
            return f"it was refused another process: it had {self.processes} of them and of threads"
        return ""

    def _count(self, name: str, key: str) -> int:
        try:
            with open(os.path.join(self.path, name), encoding="ascii") as file:
                return sum(int(line.split()[1]) for line in file if line.startswith(key + " "))
        except OSError:
            return 0

    def close(self) -> None:
        """Remove it. One that is not empty yet is ended, and removed by a later keeper."""
        try:
            os.rmdir(self.path)
        except OSError:
            try:
                cgroup.write(os.path.join(self.path, "cgroup.kill"), b"1")
            except OSError:
                pass


class BoundedProgram:
    """The limits of a program, which has not begun yet."""

    def __init__(self, limits: ResourceLimits, write: Iterable[str]) -> None:
        self._limits = limits
        self._disks = _disks(write) if limits.disk is None else {}
        self._group: LimitedGroup | None = None
        self._processes = 0
        self._stopped = ""
        self._last = ""

    async def hold(self, first: int, *, namespace: bool) -> None:
        """`first`: its first process; `namespace`: whether that has a user namespace of its own."""
        base = divided()
        try:
            if base is not None:
                self._group = LimitedGroup(base, self._limits)
                await asyncio.to_thread(self._group.hold, first)
            elif namespace and counts_in_namespaces() and processes(self._limits):
                self._processes = processes(self._limits)
                resource.prlimit(first, resource.RLIMIT_NPROC, (self._processes, self._processes))
        except (OSError, ValueError) as error:
            self.close()
            raise LocalError(f"the limits of the sandbox cannot be set: {error}") from error
        enforced = {
            "memory": self._group is not None and self._group.memory,
            "processes": self._processes or self._group is not None and self._group.processes,
        }
        if lacking := [name for name, by in enforced.items() if getattr(self._limits, name) and not by]:
            self.close()
            hint = "remove it from [sandbox] in the settings, or start treadle where it is given a cgroup"
            raise LocalError(f"a limit of {' and '.join(lacking)} was set and cannot be enforced: {UNGIVEN}", hint=hint)

    def follow(self, child: Child) -> None:
        """From now on it is stopped when it has filled the disk; `exceeded` of the child says what it came up to."""
        child.exceeded = self.exceeded
        watching = asyncio.create_task(self._watch(child), name="disk space") if self._watches else None
        child.beside += [self.close, *([watching.cancel] if watching is not None else [])]  # type: ignore[list-item]

    def exceeded(self, output: str) -> str:
        """Which limit it came up to, in words; empty if none. `output`: what it printed."""
        found = self._stopped or self._last or (self._group.exceeded() if self._group is not None else "")
        if not found and self._processes and NO_FORK.search(output):
            found = f"commands may have at most {self._processes} processes and threads at once"
        return found

    def close(self) -> None:
        if self._group is not None:
            self._last = self._group.exceeded()
            self._group.close()
            self._group = None
        if found := self._stopped or self._last:
            log.warning("a limit of the sandbox: %s", found)

    @property
    def _watches(self) -> bool:
        return bool(self._disks or self._limits.disk)

    async def _watch(self, child: Child) -> None:
        pause = SHORTEST
        while not child.tree.ended:
            await asyncio.sleep(pause)
            self._stopped, pause = self._written(child) if self._limits.disk else self._left(child)
            if self._stopped:
                child.tree.ask_stop(GRACE)
                return

    def _written(self, child: Child) -> tuple[str, float]:
        limit, count = self._limits.disk or 0, _written_by(child)
        why = f"stopped: it had written {shown(count)}, more than {shown(limit)}" if count > limit else ""
        return why, min(max((limit - count) / SPEED, SHORTEST), LONGEST)

    def _left(self, child: Child) -> tuple[str, float]:
        pause = LONGEST
        for place, before in self._disks.items():
            floor, free = min(LEFT, before // 10), _free(place)
            if free < floor:
                left = f"{shown(free)} are left on the disk of {place}"
                child.disk_full = left if 2 * _written_by(child) < before - free else ""
                return f"stopped: {left}, {shown(before - free)} less than when it began", SHORTEST
            pause = min(pause, max((free - floor) / SPEED, SHORTEST))
        return "", pause


def memory(limits: ResourceLimits, base: str) -> int:
    if limits.memory is not None:
        return limits.memory
    return int(SHARE * min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_around(base)]))


def _around(base: str) -> list[int]:
    """The limits of this group and of those around it."""
    found = []
    while base not in ("/", *cgroup.MOUNTS):
        try:
            with open(os.path.join(base, "memory.max"), encoding="ascii") as file:
                found += [int(word) for word in file.read().split() if word.isdigit()]
        except OSError:
            pass
        base = os.path.dirname(base)
    return found


def processes(limits: ResourceLimits) -> int:
    return PROCESSES if limits.processes is None else limits.processes


@cache
def divided() -> str | None:
    """The group in which those of programs are made; looked for once."""
    return cgroup.divided()


def counts_in_namespaces() -> bool:
    """Whether this user's processes have a limit in each user namespace: root's have none."""
    return os.geteuid() != 0 and tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= COUNTED_IN_NAMESPACES


def unlimited(limits: ResourceLimits, *, namespace: bool) -> tuple[str, ...]:
    """What has no limit here, although it is not switched off. `namespace`: as in `BoundedProgram.hold`."""
    if divided() is not None:
        return ()
    fork = processes(limits) and not (namespace and counts_in_namespaces())
    found = [*(["memory"] if limits.memory != 0 else []), *(["the number of processes"] if fork else [])]
    return (f"limit {' and '.join(found)} ({UNGIVEN})",) if found else ()


def _written_by(child: Child) -> int:
    return sum(written(one.pid) for one in child.tree.processes())


def written(pid: int) -> int:
    """Bytes that a process and its ended children have sent towards a disk."""
    try:
        with open(f"{PROC}/{pid}/io", encoding="ascii") as file:
            fields = dict(line.split(": ") for line in file.read().splitlines())
    except OSError:
        return 0  # it has just ended
    return max(int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"]), 0)


def shown(count: int) -> str:
    for unit, bits in (("GB", 30), ("MB", 20)):
        if count >= 1 << bits:
            return f"{count / (1 << bits):.1f} {unit}".replace(".0 ", " ")
    return f"{count >> 10} KB"


def _disks(write: Iterable[str]) -> dict[str, int]:
    """One place on each disk that can be written, with the bytes that are free there."""
    found: dict[int, str] = {}
    for place in write:
        try:
            found.setdefault(os.stat(place).st_dev, place)
        except OSError:
            continue
    return {place: _free(place) for place in found.values()}


def full(place: str) -> str:
    """That next to nothing can be written there, in words; empty if it can."""
    free = _free(place)
    return f"{shown(free)} are left on the disk of {place}" if free < LEAST else ""


def _free(place: str) -> int:
    try:
        seen = os.statvfs(place)
    except OSError:
        return 1 << 62  # it is gone, so there is nothing to fill
    return seen.f_bavail * seen.f_frsize
