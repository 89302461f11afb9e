"""Keeps confined programs apart from the Unix sockets and FIFOs outside, whatever they are called.

What a sandbox shows read-only, it shows through overlays (`io/process/view.py`), in which no socket or FIFO is the one
outside. What it may write must be the place itself, so there those that exist are found and covered one by one.
"""

import errno
import os
import socket
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from treadle.errors import LocalError, StorageError
from treadle.io import paths, scratch
from treadle.io.process import view
from treadle.io.sandbox import places
from treadle.io.sandbox.places import SpecialFiles

MACHINE, PROC = "/", "/proc"
OWN = ("/proc", "/sys", "/dev", *places.PRIVATE)
"""A sandbox has its own of these, or they hold nothing but the kernel's files."""
SOCKETLESS = {"vfat", "msdos", "exfat", "ntfs", "ntfs3", "iso9660", "udf", "squashfs", "erofs", "cramfs"}
"""File systems in which no socket can be bound. Some of them cannot be shown through an overlay."""
MOST = 500
"""Steps to make a view. Where more are needed, no Unix sockets can be made inside."""
CAP_SYS_ADMIN = 21
"""Its bit in CapEff of /proc/self/status. Root in a container often lacks it, and then cannot mount."""


class MachineView:
    """How the machine is shown to one program. Raises LocalError when that takes too many mounts."""

    def __init__(
        self,
        shown: Iterable[str] = (),
        *,
        layers: Mapping[str, tuple[str, str]] | None = None,
        scope: bool,
        network: str = "",
    ) -> None:
        """`shown`: directories in the machine's /tmp and similar places that can be read inside. `layers`: those that
        can be written inside, each with the upper and the work directory of its overlay. `network`: the path of the
        network namespace that the program joins."""
        self.place = _place()
        self.root = os.path.join(self.place, os.fsdecode(view.ROOT))
        self._scope = scope
        self._network = network
        self._user = not _can_mount()
        self._mounts = _mounts()
        self._steps: list[tuple[str, str, str]] = []
        for name in sorted(os.listdir(MACHINE)):
            self._show(os.path.join(MACHINE, name))
        self._own: list[tuple[bytes, list[tuple[bytes, bool]]]] = []
        self._shown: dict[str, str] = {}
        for number, place in enumerate(dict.fromkeys(shown)):
            if os.path.isdir(place):
                inside = f"{os.fsdecode(view.SHOWN)}/{number}"
                self._steps.append((view.OVERLAY, place, inside))
                self._shown[place] = os.path.join(self.place, inside)
        for place, upper in (layers or {}).items():
            inside = f"{os.fsdecode(view.SHOWN)}/{len(self._shown)}"
            self._steps.append((view.WRITABLE, "\0".join((os.path.realpath(place), *upper)), inside))
            self._shown[place] = os.path.join(self.place, inside)

    def source(self, place: str) -> str:
        """The path from which bubblewrap should take a directory that is shown read-only."""
        return self._shown.get(place, place)

    def in_root(self, place: str) -> str:
        """The same for one that the machine's root shows, too."""
        return place if places.is_under(place, *OWN) else self.root + place

    def own(self, source: str, points: Sequence[tuple[str, bool]]) -> str:
        """The path from which bubblewrap should take a directory that the session's programs write. `points`: the paths
        in it at which more is mounted, those outside first, and whether each is a file."""
        self._own.append((os.fsencode(source), [(os.fsencode(path), is_file) for path, is_file in points]))
        return os.path.join(self.place, os.fsdecode(view.OWN), str(len(self._own) - 1))

    def plan(self) -> Mapping[str, object]:
        """For `io/process/tree.py`."""
        steps = [(kind, os.fsencode(source), os.fsencode(path)) for kind, source, path in self._steps]
        return {
            "place": os.fsencode(self.place),
            "user": self._user,
            "scope": self._scope,
            "network": os.fsencode(self._network),
            "steps": steps,
            "own": self._own,
        }

    def _show(self, path: str) -> None:
        if len(self._steps) > MOST:
            raise LocalError(f"this machine has too many mounts for a sandbox (more than {MOST} steps)")
        inside = os.fsdecode(view.ROOT) + path
        if os.path.islink(path):
            self._steps.append((view.LINK, os.readlink(path), inside))
        elif not os.path.isdir(path):
            if os.path.isfile(path):
                self._steps.append((view.BIND, path, inside))
        elif path in OWN:
            self._steps.append((view.DIRECTORY, "", inside))
        else:
            self._show_directory(path, inside)

    def _show_directory(self, path: str, inside: str) -> None:
        below = [one for one in self._mounts if places.is_under(one, path) and one != path]
        if below and self._user:
            # In a user namespace the kernel shows no directory without the mounts in it, so it is shown in parts.
            self._steps.append((view.DIRECTORY, "", inside))
            for name in _names(path):
                self._show(os.path.join(path, name))
            return
        kind = view.OVERLAY_OR_BIND if self._mounts.get(path) in SOCKETLESS else view.OVERLAY
        self._steps.append((kind, path, inside))
        for one in below:
            kind = view.OVERLAY_OR_BIND if self._mounts[one] in SOCKETLESS else view.OVERLAY
            self._steps.append((kind if os.path.isdir(one) else view.BIND, one, os.fsdecode(view.ROOT) + one))


def _place() -> str:
    """The directory in which views are made: one for all, because each is in a mount namespace of its own."""
    try:
        return paths.private_dir(os.path.join(paths.state_dir(), "view"))
    except StorageError:
        return _temporary()


@cache
def _temporary() -> str:
    """The same for a user who has no place to keep anything, until this process ends."""
    return scratch.make("view")


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except PermissionError:
        return []  # this user cannot look into it anyway


def _can_mount() -> bool:
    with open(f"{PROC}/self/status", encoding="ascii", errors="replace") as status:
        held = next((line.split()[1] for line in status if line.startswith("CapEff:")), "0")
    return os.geteuid() == 0 and bool(int(held, 16) >> CAP_SYS_ADMIN & 1)


def _mounts() -> dict[str, str]:
    """The visible mount points and the type of each, those outside first."""
    found: dict[str, str] = {}
    with open(f"{PROC}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            before, _, after = line.partition(" - ")
            path = _unescaped(before.split(" ")[4])
            if path != "/" and not places.is_under(path, *OWN):
                found[path] = after.split(" ")[0]
    return {path: found[path] for path in sorted(found, key=lambda path: (path.count("/"), path))}


def _unescaped(path: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path


_found: dict[tuple[str, ...], SpecialFiles] = {}
CACHED = 16
"""How many sets of places are remembered, so that the next command there need not look at everything again."""


def left_inside(write: Sequence[str]) -> list[str]:
    """The FIFOs in these places, and the Unix sockets with a program behind them."""
    roots = tuple(place for place in write if not any(places.is_under(place, one) for one in write if one != place))
    known = _found.pop(roots, None) or SpecialFiles(roots)
    _found[roots] = known
    if len(_found) > CACHED:
        del _found[next(iter(_found))]
    return [path for path in known.find() if _is_in_use(path)]


def _is_in_use(path: str) -> bool:
    """Asks with a datagram socket: nothing is sent, and a program that accepts connections notices nothing."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return True  # a FIFO cannot be asked without being opened
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asking:
            place = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:  # a path can be longer than an address
                asking.connect(f"/proc/self/fd/{place}/{os.path.basename(path)}")
            finally:
                os.close(place)
    except FileNotFoundError:
        return False
    except OSError as error:
        return error.errno != errno.ECONNREFUSED
    return True
