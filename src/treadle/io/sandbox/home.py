"""The home directory that confined programs see: an empty one of the session, with a person's programs and downloaded
packages in it.

What is not on the lists of `policy/environment.py`, such as credentials under whatever name, is not there. Programs are
shown read-only. Packages are shown through a writable overlay whose upper layer is the session's: what an agent can
write, a build outside must not use.
"""

import contextlib
import fcntl
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from treadle.confinement import Confinement
from treadle.io.paths import homes
from treadle.io.sandbox.places import is_under
from treadle.policy.environment import PACKAGES, PROGRAMS, SETTINGS, harmless_lines

SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc", "/dev", "/proc", "/sys", "/boot")
"""A system user's home directory may be one of these; an empty one in its place would leave no programs."""
OWN, LAYERS = "home", "layers"
"""In the directory of a session: its home directory, and the upper layers of overlays."""
_AT_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})/([\w.@+/-]*\w)")
_NOT_FOUND = re.compile(r"([\w.+-]+): (?:command )?not found")
LARGEST = 1 << 20
"""Bytes of a file of settings that are looked at."""


def real_homes() -> list[str]:
    """This user's, that of HOME first."""
    return [*dict.fromkeys(map(os.path.realpath, homes()))]


def not_replaced() -> str:
    """Why HOME is not replaced by an empty directory; empty when it is."""
    first = real_homes()[0]
    return f"hide {first}, which is a directory of the system" if first == "/" or is_under(first, *SYSTEM) else ""


def prepare(place: str, git: str) -> None:
    """Make the home directory of a session in `place`, with settings of tools that hold no secret. `git`: those of git,
    with the person's name."""
    own = os.path.join(place, OWN)
    os.mkdir(own, 0o700)
    os.mkdir(os.path.join(place, LAYERS), 0o700)
    _write(os.path.join(own, ".gitconfig"), git)
    for name, keys in SETTINGS.items():
        with contextlib.suppress(OSError):
            with open(os.path.join(os.path.expanduser("~"), name), encoding="utf-8", errors="replace") as file:
                _write(os.path.join(own, name), harmless_lines(file.read(LARGEST), keys))


def _write(path: str, text: str) -> None:
    if text:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


class Home:
    """The home directories of one program. `close` it when that has ended."""

    def __init__(self, place: str | None, readable: Sequence[str], write: Sequence[str]) -> None:
        """`place`: what `prepare` has made; None: an empty directory. `readable`: further places that are shown."""
        usual = [one for one in real_homes() if os.path.isdir(one) and one != "/" and not is_under(one, *SYSTEM)]
        usual = [one for one in usual if not any(is_under(one, other) for other in write)]
        self.first = next(iter(usual), "")
        self.emptied = sorted(usual, key=len)
        """Those that are replaced, the outer ones first: not one that lies in a workspace."""
        self.own = os.path.join(place, OWN) if place is not None else None
        packages = _outermost(found(PACKAGES)) if place is not None else []
        programs = (*found(PROGRAMS), *on_path(), *filter(os.path.exists, readable))
        self.programs = [one for one in _outermost(programs) if self._shows(one, packages)]
        self.layers: dict[str, tuple[str, str]] = {}
        """The packages, each with the upper and the work directory of its overlay."""
        self._lock: int | None = None
        layer = self._layer(place) if place is not None and packages else ""
        for number, one in enumerate(packages):
            if not is_under(one, *write) and not any(is_under(home, one) for home in self.emptied):
                upper, work = os.path.join(layer, f"{number}"), os.path.join(layer, f"{number}.work")
                for made in (upper, work):
                    os.makedirs(made, 0o700, exist_ok=True)
                self.layers[one] = (upper, work)

    def _shows(self, place: str, packages: Sequence[str]) -> bool:
        """Whether it lies in a home directory that is replaced, and nothing else of it does not come along."""
        return is_under(place, *self.emptied) and place not in self.emptied and not is_under(place, *packages)

    def _layer(self, place: str) -> str:
        """A directory of upper layers that no other program uses: of two overlays on one, the kernel warns."""
        for number in itertools.count():
            path = os.path.join(place, LAYERS, str(number))
            os.makedirs(path, 0o700, exist_ok=True)
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock = lock
                return path
            except BlockingIOError:
                os.close(lock)
        raise AssertionError("unreachable")

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def missing(text: str, confinement: Confinement) -> list[str]:
    """What of the home directories a text names that is there outside and is not shown inside."""
    from shutil import which  # imported late: most runs start nothing that is missing

    home = Home(None, confinement.readable, confinement.write)
    shown = (*home.programs, *found(PACKAGES), *confinement.write, *confinement.read_only)
    links = [which(name) for name in _NOT_FOUND.findall(text)]  # a program may be a link that leads elsewhere
    there = dict.fromkeys((*mentioned(text), *(os.path.realpath(link) for link in links if link is not None)))
    return [one for one in there if is_under(one, *home.emptied) and not is_under(one, *shown)]


def mentioned(text: str) -> list[str]:
    """The files and directories in home directories that a text names."""
    places = [os.path.join(real_homes()[0], one) for one in _AT_HOME.findall(text)]
    for home in real_homes():
        places += re.findall(rf"{re.escape(home)}/[\w.@+/-]*\w", text)
    return [place for place in places if os.path.exists(place)]


def dot_files(write: Sequence[str], given: Sequence[str]) -> list[str]:
    """Of home directories that lie in a workspace, which are not replaced: all names that begin with a dot, but for
    programs, packages and what is `given`."""
    given = [*map(os.path.realpath, given), *found((*PROGRAMS, *PACKAGES))]
    inside = [home for home in real_homes() if os.path.isdir(home) and any(is_under(home, one) for one in write)]
    dotted = [os.path.join(home, name) for home in inside for name in os.listdir(home) if name.startswith(".")]
    return [one for path in dotted if os.path.basename(path) != ".git" for one in _rest(path, given)]


def _rest(path: str, given: Sequence[str]) -> list[str]:
    if is_under(path, *given) or os.path.islink(path):
        return []
    if not any(is_under(one, path) for one in given):
        return [path]
    return [one for name in os.listdir(path) for one in _rest(os.path.join(path, name), given)]


def found(entries: Iterable[str]) -> Iterator[str]:
    """Where the person has each of these; nothing of what is not there."""
    for home in real_homes():
        for entry in entries:
            for one in entry.split("|"):
                name, _, rest = one.partition("/") if one.startswith("$") else ("", "", one)
                base = os.environ.get(name[1:], "") if name else home
                if os.path.isabs(base):
                    place = os.path.normpath(os.path.join(base, rest))
                    if os.path.exists(place):
                        yield place
                    break


def on_path() -> Iterator[str]:
    for place in os.environ.get("PATH", "").split(":"):
        if os.path.isabs(place) and os.path.isdir(place):
            yield os.path.normpath(place)


def _outermost(paths: Iterable[str]) -> list[str]:
    """Those that lie in no other, each with the links above it resolved."""
    outer: list[str] = []
    for place in sorted({os.path.join(os.path.realpath(os.path.dirname(one)), os.path.basename(one)) for one in paths}):
        if not is_under(place, *outer):
            outer.append(place)
    return outer
