"""A program that keeps files read-only in a running sandbox, and gives them back: `python -m ... PID`.

It joins the mount namespace of a process inside, so it is a process of its own. Each line of its standard input is a
JSON object, `{"keep": [PATH...], "release": [PATH...]}` with absolute paths, answered by `{"failed": {PATH: WHY}}`.

A process inside may see a directory through more than one mount: one that works in it keeps the mount that was there
when it entered. A file is therefore kept in every mount through which its directory was ever seen. The directories
above it become mount points, which cannot be renamed, and stay so.
"""

import ctypes
import fcntl
import json
import os
import sys

NS_GET_USERNS = 0xB701
"""Of ioctl_ns(2): the user namespace that owns a mount namespace is joined first, since it gives the right to join
that."""
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
MS_BIND, MS_REC, MNT_DETACH, UMOUNT_NOFOLLOW = 0x1000, 0x4000, 2, 8
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY, SYS_MOUNT_SETATTR = -100, 0x8000, 1, 442

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    enter(int(sys.argv[1]))
    keeping = ReadOnlyMounts(sys.argv[2:])
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        failed = {}
        for act, paths in ((keeping.release, asked["release"]), (keeping.keep, asked["keep"])):
            for path in paths:
                try:
                    act(path)
                except OSError as error:
                    failed[path] = error.strerror or str(error)
        os.write(1, json.dumps({"failed": failed}).encode() + b"\n")
    return 0


def enter(pid: int) -> None:
    """Join the mount namespace of a process, and first the user namespace that owns it, which is not the process's."""
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(mounts, NS_GET_USERNS)
    if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
        _check(_libc.setns(owner, CLONE_NEWUSER))
    _check(_libc.setns(mounts, CLONE_NEWNS))


class ReadOnlyMounts:
    def __init__(self, tops: list[str]) -> None:
        """`tops`: the writable places, which are mount points already."""
        self._tops = tops
        self._views: dict[str, list[int]] = {}
        """For each directory with something read-only in or below it: itself, through each mount."""

    def keep(self, path: str) -> None:
        folder, name = os.path.split(path)
        new = [place for place in self._above(folder) if place not in self._views]
        for place in {*new, folder}:
            self._views.setdefault(place, [_open(place)])
        for view in self._views[folder]:
            os.fchdir(view)
            _check(_libc.mount(os.fsencode(name), os.fsencode(name), None, MS_BIND | MS_REC, None))
            _protect(os.fsencode(name))
        for number, place in enumerate(new):  # the innermost first: each binding brings along what lies below it
            _check(_libc.mount(os.fsencode(place), os.fsencode(place), None, MS_BIND | MS_REC, None))
            for below in new[: number + 1]:
                self._views[below].append(_open(below))

    def release(self, path: str) -> None:
        folder, name = os.path.split(path)
        for view in self._views.get(folder) or [_open(folder)]:
            os.fchdir(view)
            _check(_libc.umount2(os.fsencode(name), MNT_DETACH | UMOUNT_NOFOLLOW))

    def _above(self, folder: str) -> list[str]:
        """The directories that have to become mount points, the innermost first."""
        found = []
        while folder not in self._tops and folder != "/":
            found.append(folder)
            folder = os.path.dirname(folder)
        return found


def _open(place: str) -> int:
    return os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _protect(name: bytes) -> None:
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    _check(_libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, name, AT_RECURSIVE, attributes, size))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main())
