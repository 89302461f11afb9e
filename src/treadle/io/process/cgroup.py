"""Puts a keeper and everything under it into a cgroup of its own, if this process may create cgroups.

The kernel then ends all of it in one step, however fast it forks. The group also survives: if everything of ours is
killed at once, the next keeper finds the group without its keeper and ends what is in it.

We may create groups if systemd says so (`Delegate=yes`), or in the top group of a container. Entering one takes tens of
milliseconds, so a helper process does it while the keeper works. Light: the keeper imports this.
"""

import os
import time

from treadle.io.process import launch, table

MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
PREFIX = "treadle-"
MARKS = ("user.delegate", "trusted.delegate")
ROUNDS = 100
"""How often we try to move processes that were started meanwhile, and to remove a group."""


def given() -> str | None:
    """The directory of this process's cgroup, if it may create groups in it and kill them."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            path = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
    except OSError:
        return None
    for mount in MOUNTS if path is not None else ():
        place = os.path.join(mount, (path or "").lstrip("/"))
        # The machine's root group cannot be killed, so it has no such file.
        if os.path.exists(os.path.join(place, "cgroup.kill")):
            writable = os.access(place, os.W_OK) and os.access(os.path.join(place, "cgroup.procs"), os.W_OK)
            return place if writable and (path == "/" or _is_delegated(place)) else None
    return None


def hold_in_background() -> str | None:
    """Put this process and its descendants into a new group. Returns the group's directory, or None without one."""
    base = given()
    if base is None:
        return None
    me = os.getpid()
    mine = os.path.join(base, f"{PREFIX}{me}-{table.start_time(me)}")
    try:
        os.mkdir(mine, 0o755)
        if os.fork():
            return mine
    except OSError:
        return None
    try:
        launch.close_all_but([0, 1, 2])
        _enter(mine, me)
        end_lost(base)
    finally:
        os._exit(0)


def end(group: str) -> None:
    """A keeper's last act: if anything else is left in its group, kill the whole group, the keeper included."""
    try:
        if set(_members(group)) - {os.getpid()}:
            _write(os.path.join(group, "cgroup.kill"), b"1")
    except OSError:
        pass  # then the earlier signals have to do


def end_lost(base: str) -> None:
    """Kill what is in groups whose keeper is gone, and remove them."""
    for name in os.listdir(base):
        pid, _, start = name.removeprefix(PREFIX).partition("-")
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
            if _members(group):
                _write(os.path.join(group, "cgroup.kill"), b"1")
            os.rmdir(group)
            return
        except OSError:
            time.sleep(0.01)  # they are killed but not gone yet


def _enter(group: str, keeper: int) -> None:
    """Move the keeper first: whatever it forks from then on starts in the group."""
    place = os.path.join(group, "cgroup.procs")
    _write(place, b"%d" % keeper)
    for _ in range(ROUNDS):
        inside = {*_members(group), os.getpid()}
        outside = [
            one.pid for one in table.descendants(keeper) if one.pid not in inside and _in_birth_group(one.pid, group)
        ]
        if not outside:
            return
        for pid in outside:
            try:
                _write(place, b"%d" % pid)
            except OSError:
                pass  # it has exited meanwhile


def _in_birth_group(pid: int, group: str) -> bool:
    """Whether a process is still in the group it was born in, not already in one below ours."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            return not any(f"/{os.path.basename(group)}/" in line for line in file if line.startswith("0::"))
    except OSError:
        return False


def _members(group: str) -> list[int]:
    with open(os.path.join(group, "cgroup.procs"), "rb") as file:
        return [int(pid) for pid in file.read().split()]


def _write(path: str, data: bytes) -> None:
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
