"""A machine of its own for a command to look at: mounts that only it has, made by itself between fork and exec.

Each directory is shown through a read-only overlay. An overlay has inodes of its own, so a Unix socket or a FIFO in it
is not the one outside, however that came to its name: connecting is refused, and the FIFO has no other end.
"""

import errno
import os

from treadle.light import Any

_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
_NS_GET_USERNS = 0xB701
"""Of ioctl_ns(2): the user namespace that owns a namespace, which must be joined first to have the right to join it."""
_READ_ONLY, _NOSUID, _NODEV, _BIND, _RECURSIVE, _SLAVE = 1, 2, 4, 0x1000, 0x4000, 0x80000
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_ABSTRACT_SOCKETS = 1
"""LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET. Mounts do not hide abstract sockets: they are names in the network namespace,
not files."""

ROOT, SHOWN, OWN, EMPTY = b"root", b"shown", b"own", b"empty"
"""Directories in the place of a view: the machine's root, other directories and those of the session by number, and an
empty one."""
DIRECTORY, LINK, BIND, OVERLAY, OVERLAY_OR_BIND = "directory", "link", "bind", "overlay", "overlay or bind"
WRITABLE = "writable"
"""An overlay that can be written; its source is three directories with a NUL between: the lower, the upper, the work
one. Where there is no such overlay, the upper one alone."""


def enter(view: dict[str, Any]) -> None:
    """Make the view's mounts, in a mount namespace of this process. Raises OSError; then nothing may be executed.

    `place` is where: an existing directory, outside what the command may write. `steps` are of one kind each, with a
    source and a path in `place`. With `user`, a user namespace gives the right to mount. With `scope`, the command can
    connect only to those abstract sockets that it and its descendants make. `network` is the path of the network
    namespace to join, if any.
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if view["scope"]:
        _scope(library)
    uid, gid = os.geteuid(), os.getegid()
    if network := view.get("network"):
        _join(library, network, view["user"])
    _separate(library, view["user"], uid, gid)
    place = view["place"]
    _mount(library, b"tmpfs", place, b"tmpfs", _NOSUID | _NODEV, b"mode=755,size=4m")
    for name in (ROOT, SHOWN, OWN, EMPTY):
        os.mkdir(os.path.join(place, name), 0o755)
    empty = os.open(os.path.join(place, EMPTY), os.O_PATH | os.O_DIRECTORY)
    for kind, source, path in view["steps"]:
        _step(library, kind, source, os.path.join(place, path), empty)
    os.close(empty)
    for number, (source, points) in enumerate(view.get("own", ())):
        _own(library, source, os.path.join(place, OWN, b"%d" % number), points)


def _step(library: Any, kind: str, source: bytes, target: bytes, empty: int) -> None:
    if kind == LINK:
        os.symlink(source, target)
        return
    if kind == BIND:
        if not os.path.exists(target):  # a file that is mounted, as a container's /etc/hosts is, is there, unwritable
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount(library, source, target, None, _BIND, None)
        return
    if not os.path.isdir(target):
        os.mkdir(target, 0o755)
    if kind == DIRECTORY:
        return
    if kind == WRITABLE:
        _writable(library, source.split(b"\0"), target)
        return
    try:
        lower = os.open(source, os.O_PATH | os.O_DIRECTORY)
    except FileNotFoundError:
        return  # gone since it was listed
    try:
        layers = b"lowerdir=/proc/self/fd/%d:/proc/self/fd/%d,userxattr" % (lower, empty)
        _mount(library, b"overlay", target, b"overlay", _READ_ONLY | _NOSUID | _NODEV, layers)
    except PermissionError:
        os.chmod(target, 0)  # this user cannot look into it
    except OSError:
        if kind != OVERLAY_OR_BIND:
            raise
        _mount(library, source, target, None, _BIND | _RECURSIVE, None)
    finally:
        os.close(lower)


def _own(library: Any, source: bytes, target: bytes, points: list[tuple[bytes, bool]]) -> None:
    """Show a directory that the session's programs write, and make the points in it at which more will be mounted; each
    is the path in it, and whether it is a file.

    A program may have put a link in place of one: it is removed, not followed, since bubblewrap would follow it to the
    machine outside. Each directory on the way becomes a mount point of its own, which no program can rename or remove.
    """
    os.mkdir(target, 0o755)
    _mount(library, source, target, None, _BIND, None)
    pinned = set()
    for path, is_file in points:
        at = os.open(target, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        names = path.split(b"/")
        for depth, name in enumerate(names, 1):
            last = _point(at, name, is_file and depth == len(names))
            if not (is_file and depth == len(names)) and (reached := b"/".join(names[:depth])) not in pinned:
                pinned.add(reached)
                itself = b"/proc/self/fd/%d" % last
                _mount(library, itself, itself, None, _BIND, None)
                os.close(last)
                last = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = last
        os.close(at)


def _point(at: int, name: bytes, is_file: bool) -> int:
    """A file or a directory of this name in an open directory."""
    kind = 0 if is_file else os.O_DIRECTORY
    for _ in range(2):
        try:
            found = os.open(name, os.O_PATH | os.O_NOFOLLOW | kind, dir_fd=at)
            if not is_file or os.fstat(found).st_mode & 0o170000 == 0o100000:
                return found
            os.close(found)
            os.unlink(name, dir_fd=at)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            os.unlink(name, dir_fd=at)
        if is_file:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=at))
        else:
            os.mkdir(name, 0o700, dir_fd=at)
    raise OSError(errno.EBUSY, f"{os.fsdecode(name)} is being changed by another program")


def _writable(library: Any, layers: list[bytes], target: bytes) -> None:
    fds = [os.open(layer, os.O_PATH | os.O_DIRECTORY) for layer in layers]
    try:
        given = b"lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,userxattr" % (*fds,)
        _mount(library, b"overlay", target, b"overlay", _NOSUID | _NODEV, given)
    except OSError:
        _mount(library, layers[1], target, None, _BIND, None)
    finally:
        for fd in fds:
            os.close(fd)


def _join(library: Any, network: bytes, user: bool) -> None:
    """An ordinary user may join it only from within the user namespace that it belongs to."""
    there = os.open(network, os.O_RDONLY)
    if user:
        import fcntl

        owner = fcntl.ioctl(there, _NS_GET_USERNS)
        _check(library, library.setns(owner, _NEWUSER))
        os.close(owner)
    _check(library, library.setns(there, _NEWNET))
    os.close(there)


def _separate(library: Any, user: bool, uid: int, gid: int) -> None:
    """`uid` and `gid`: what the program is to see itself as; the user namespace around it may show it as another."""
    if user:
        library.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise the files in /proc are not ours to write
    around = os.geteuid(), os.getegid()
    _check(library, library.unshare(_NEWNS | (_NEWUSER if user else 0)))
    if user:
        texts = {
            "setgroups": b"deny",
            "uid_map": b"%d %d 1" % (uid, around[0]),
            "gid_map": b"%d %d 1" % (gid, around[1]),
        }
        for name, text in texts.items():
            fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
            os.write(fd, text)
            os.close(fd)
    _mount(library, None, b"/", None, _RECURSIVE | _SLAVE, None)


def _scope(library: Any) -> None:
    """Where the kernel's Landlock knows no scopes, or there is none, abstract sockets are reached as before."""
    rules = (0).to_bytes(16, "little") + _ABSTRACT_SOCKETS.to_bytes(8, "little")
    ruleset = library.syscall(_LANDLOCK_CREATE, rules, len(rules), 0)
    if ruleset < 0:
        return
    library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _check(library, library.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    os.close(ruleset)


def _mount(
    library: Any, source: bytes | None, target: bytes, kind: bytes | None, flags: int, data: bytes | None
) -> None:
    _check(library, library.mount(source, target, kind, flags, data), target)


def _check(library: Any, result: int, path: bytes = b"") -> None:
    if result < 0:
        import ctypes

        number = ctypes.get_errno() or errno.EINVAL
        reason = os.strerror(number)
        raise OSError(number, f"{reason} ({path.decode(errors='replace')})" if path else reason)
