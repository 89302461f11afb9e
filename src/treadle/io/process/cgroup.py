"""Puts a keeper and everything under it into a cgroup of its own, if this process may create cgroups.

The kernel then ends all of it in one step, however fast it forks. The group also survives: if everything of ours is
killed at once, the next keeper finds the group without its keeper and ends what is in it.

We may create groups if systemd says so (`Delegate=yes`), or in the top group of a container. Entering one takes tens of
milliseconds, so a helper process does it while the keeper works. Light: the keeper imports this.

Beside the keepers' groups lie those with limits (`io/sandbox/limits.py`). The kernel allows these only in a group that
has no process of its own, so ours are moved into a group for the rest first.
"""

import errno
import fcntl
import os
import time

from treadle.io.process import launch, table

PROC = "/proc"
MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
PREFIX = "treadle-"
REST = PREFIX + "rest"
"""Where those are who were in the given group itself."""
LIMITED = PREFIX + "limits-"
CONTROLLERS = {"memory", "pids"}
MARKS = ("user.delegate", "trusted.delegate")
ROUNDS = 100
"""How often we try to move processes that were started meanwhile, and to remove a group."""


def given() -> str | None:
    """The directory of this process's cgroup, if it may create groups in it and kill them."""
    path = _birth_group("self")
    for mount in MOUNTS if path is not None else ():
        place = os.path.join(mount, (path or "").lstrip("/"))
        # The machine's root group cannot be killed, so it has no such file.
        if os.path.exists(os.path.join(place, "cgroup.kill")):
            writable = os.access(place, os.W_OK) and os.access(os.path.join(place, "cgroup.procs"), os.W_OK)
            return place if writable and (path == "/" or _is_delegated(place)) else None
    return None


def divided() -> str | None:
    """The given group, if groups in it can have limits. What is in it is moved into one of them if that is needed."""
    base = given()
    for _ in range(ROUNDS if base is not None else 0):
        assert base is not None
        wanted = CONTROLLERS & _words(base, "cgroup.controllers")
        if wanted <= _words(base, "cgroup.subtree_control"):
            return base if wanted else None
        try:
            write(os.path.join(base, "cgroup.subtree_control"), b" ".join(b"+" + one.encode() for one in wanted))
        except OSError as error:
            if error.errno != errno.EBUSY or not _is_delegated(base) or not _clear(base):
                return None
    return None


def _words(group: str, name: str) -> set[str]:
    try:
        with open(os.path.join(group, name), encoding="ascii") as file:
            return set(file.read().split())
    except OSError:
        return set()


def _clear(base: str) -> bool:
    rest = os.path.join(base, REST)
    try:
        os.makedirs(rest, 0o755, exist_ok=True)
        for pid in members(base):
            try:
                write(os.path.join(rest, "cgroup.procs"), b"%d" % pid)
            except ProcessLookupError:
                pass  # it has exited meanwhile
    except OSError:
        return False
    return True


def await_entered(base: str, keeper: int) -> None:
    """Wait until the helper of this keeper has moved what there was: from then on it moves nothing."""
    try:
        fd = os.open(_of(base, keeper), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _of(base: str, keeper: int) -> str:
    return os.path.join(base, f"{PREFIX}{keeper}-{table.start_time(keeper)}")


def hold_in_background() -> str | None:
    """Put this process and its descendants into a new group. Returns the group's directory, or None without one."""
    base = given()
    if base is None:
        return None
    me = os.getpid()
    mine = _of(base, me)
    try:
        os.mkdir(mine, 0o755)
        busy = os.open(mine, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(busy, fcntl.LOCK_EX)  # until the helper ends
        if os.fork():
            os.close(busy)
            return mine
    except OSError:
        return None
    try:
        launch.close_all_but([0, 1, 2, busy])
        _enter(mine, me)
        end_lost(base)
    finally:
        os._exit(0)


def end(group: str) -> None:
    """A keeper's last act: if anything else is left in its group, kill the whole group, the keeper included."""
    try:
        if set(members(group)) - {os.getpid()}:
            write(os.path.join(group, "cgroup.kill"), b"1")
    except OSError:
        pass  # then the earlier signals have to do


def end_lost(base: str) -> None:
    """Kill what is in groups whose keeper or owner is gone, and remove them."""
    for name in os.listdir(base):
        pid, start, *_ = [*name.removeprefix(LIMITED).removeprefix(PREFIX).split("-"), ""]
        if name.startswith(PREFIX) and pid.isdigit():
            keeper = table.look(int(pid))
            if keeper is None or keeper.state in "ZX" or str(keeper.start) != start:
                _remove(os.path.join(base, name))


def _remove(group: str) -> None:
    for inner in os.listdir(group):
        if os.path.isdir(os.path.join(group, inner)):
            _remove(os.path.join(group, inner))
    for _ in range(ROUNDS):
        try:
            if members(group):
                write(os.path.join(group, "cgroup.kill"), b"1")
            os.rmdir(group)
            return
        except OSError:
            time.sleep(0.01)  # they are killed but not gone yet


def _enter(group: str, keeper: int) -> None:
    """Move the keeper first: whatever it forks from then on starts in the group."""
    place, birth = os.path.join(group, "cgroup.procs"), _birth_group("self")
    write(place, b"%d" % keeper)
    for _ in range(ROUNDS):
        inside = {*members(group), os.getpid()}
        found = [one.pid for one in table.descendants(keeper) if one.pid not in inside]
        outside = [pid for pid in found if _birth_group(pid) == birth]  # others are in a group with limits
        if not outside:
            return
        for pid in outside:
            try:
                write(place, b"%d" % pid)
            except OSError:
                pass  # it has exited meanwhile


def _birth_group(pid: int | str) -> str | None:
    """The group that a process is in; the given one instead of that for the rest of it."""
    try:
        with open(f"{PROC}/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            path = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
    except OSError:
        return None
    return path if path is None else path.removesuffix("/" + REST) or "/"


def members(group: str) -> list[int]:
    """The processes that are in a group itself, not in one below it."""
    with open(os.path.join(group, "cgroup.procs"), "rb") as file:
        return [int(pid) for pid in file.read().split()]


def write(path: str, data: bytes) -> None:
    """Write to a file of the kernel's, in one piece."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _is_delegated(place: str) -> bool:
    for mark in MARKS:
        try:
            if os.getxattr(place, mark) == b"1":
                return True
        except (AttributeError, OSError):
            continue
    return False
