"""The places that a confinement concerns: git's own files, what is private to this user or to Treadle, the files that a
rule matches, protected names that a command made, and the home directory that confined programs see.

That is an empty one of the session, with a person's programs and downloaded packages in it. What is not on the lists of
`policy/environment.py`, such as credentials under whatever name, is not there. Programs are shown read-only. Packages
are shown through a writable overlay whose upper layer is the session's: what an agent can write, a build outside must
not use.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import re
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial

from treadle.io import descriptors
from treadle.io.paths import config_file, homes, state_dir
from treadle.light import TYPE_CHECKING
from treadle.policy import protected
from treadle.policy.environment import PACKAGES, PROGRAMS, SETTINGS, harmless_lines

if TYPE_CHECKING:
    from treadle.confinement import Confinement

PRIVATE = ("/tmp", "/var/tmp", "/run")
"""Each sandbox has its own of these, so the machine's are not visible in it."""


def is_under(path: str, *bases: str) -> bool:
    return any(path == base or path.startswith(base.rstrip("/") + "/") for base in bases)


def writable(given: Sequence[str]) -> list[str]:
    """The real paths to write to. One inside another, such as `.git`, may have become a link that leads elsewhere since
    the confinement was made: it is left out, and so is what lies behind it."""
    found: dict[str, str] = {}
    for place in sorted(filter(os.path.exists, given), key=len):  # so that the one outside is judged first
        around = [other for other in given if other != place and is_under(place, other)]
        real = os.path.realpath(place)
        if not around or is_under(real, *(found[other] for other in around if other in found)):
            found[place] = real
    return [*dict.fromkeys(found[place] for place in given if place in found)]


def protected_in(workspace: str) -> tuple[str, ...]:
    """The names in a workspace that decide what runs later, whether they exist or not."""
    found = [os.path.join(workspace, name) for name in protected.WORKSPACE]
    home = os.path.realpath(os.path.expanduser("~"))
    if is_under(home, workspace):
        found += [os.path.join(home, name) for name in protected.HOME]
    # If we are installed in the workspace itself: changed code there would run outside the sandbox, as we do.
    prefix = os.path.realpath(sys.prefix)
    if is_under(prefix, workspace) and prefix != workspace:
        found.append(prefix)
    place = os.path.join(workspace, ".git")
    if os.path.lexists(place):  # a private one is mounted over it, if it is one that we understand
        found.append(place)
    return tuple(dict.fromkeys(found))


CAP_DAC_OVERRIDE = 1


def needs_override(write: Sequence[str]) -> bool:
    """Whether we are root and one of these places belongs to another user: writing there needs this one capability."""
    if os.geteuid() != 0:
        return False
    for place in write:
        try:
            if os.stat(place).st_uid != 0:
                return True
        except OSError:
            continue  # gone since; that is noticed before the program starts
    return False


def ours() -> list[str]:
    """What belongs to Treadle alone: state, sockets, keys."""
    return [place for place in (state_dir(), config_file()) if os.path.exists(place)]


def shown(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The places of a program and its files that a sandbox would otherwise hide or replace by its own, such as /tmp.

    The whole installation, because a program needs its other files, and the interpreter in its first line needs its
    own; only the file if it lies in /tmp itself.
    """
    from shutil import which  # most turns start no program

    path = env.get("PATH", os.defpath)
    words = [which(argv[0], path=path) or argv[0], *argv[1:]]
    files = [word for word in words if os.path.isabs(word) and os.path.isfile(word)]
    files += filter(None, [which(_interpreter(word), path=path) for word in files])
    hidden = (*PRIVATE, os.path.realpath(state_dir()), *map(os.path.realpath, homes()))
    found = [_installation(place, hidden) for file in files for place in (file, os.path.realpath(file))]
    return [*dict.fromkeys(place for place in found if is_under(place, *hidden) and place not in hidden)]


def _installation(file: str, hidden: Sequence[str]) -> str:
    """The directory with everything that was installed together with this file."""
    around, inside, _ = file.partition("/node_modules/")
    if inside:
        return around if around not in hidden else f"{around}/node_modules"
    place = os.path.dirname(file)
    if os.path.exists(os.path.join(os.path.dirname(place), "pyvenv.cfg")):
        place = os.path.dirname(place)
    return file if place in hidden else place


def _interpreter(file: str) -> str:
    """The program that the first line of a script names; empty when there is none."""
    try:
        with open(file, "rb") as script:
            words = script.readline(256).decode("utf-8", "replace").removeprefix("#!").split()
            is_script = script.seek(0) == 0 and script.read(2) == b"#!"
    except OSError:
        return ""
    words = [word for word in words if is_script and word != "-S"]
    return words[1] if len(words) > 1 and os.path.basename(words[0]) == "env" else words[0] if words else ""


@cache
def running() -> list[str]:
    """What we run from: the interpreter, its environment, our own code. Our programs inside need them too."""
    code = os.path.abspath(__file__ + "/../../../..")
    found = [sys.prefix, sys.base_prefix, code]
    around = os.path.dirname(os.path.dirname(sys.executable))
    if os.path.exists(os.path.join(around, "pyvenv.cfg")):  # started with -S, `sys.prefix` is not the environment
        found.append(around)
    return sorted({os.path.realpath(place) for place in found})


def other_homes(workspace: str) -> list[str]:
    """The home directories of others that we could look into, except one that contains the workspace."""
    mine = {os.path.realpath(place) for place in homes()}
    found = [os.path.join("/home", name) for name in (os.listdir("/home") if os.path.isdir("/home") else ())]
    found.append("/root")
    real = {os.path.realpath(place) for place in found if os.path.isdir(place) and os.access(place, os.R_OK | os.X_OK)}
    return sorted(place for place in real - mine if not is_under(workspace, place) and place != "/")


# Finds the files that a rule matches and keeps the list up to date, because the kernel hides paths, not patterns.
#
# A directory is read again only when its change time shows that a name in it came or went. On 100,000 files in 5,000
# directories the first look took 0.5 s and each later one 27 ms on a busy machine.

SKIPPED = ("objects",)
"""Skipped inside a git directory: they are many, and their names mean nothing."""

COARSE = 2_000_000_000
"""Nanoseconds within which two changes may bear the same time, so that a directory is read again. Some file systems
note no more than seconds."""


class Matches:
    """The paths below `roots` for which `matches` is true. A directory that matches is not searched further."""

    def __init__(
        self,
        roots: Iterable[str],
        matches: Callable[[str], bool],
        skipped: Collection[str] = (),
        *,
        opens: Callable[[str], None] | None = None,
    ) -> None:
        """`skipped`: names of directories that are not searched. `opens`: gives us the rights to read a directory; for
        those that could be read, or were not there, at the first look."""
        self._roots = list(roots)
        self._matches = matches
        self._skipped = skipped
        self._opens = opens
        self._closed: set[str] | None = None
        self._seen: dict[str, tuple[int, list[str], list[str]]] = {}
        """For each directory: its change time, the directories in it, and the names in it that match."""
        self.unread: list[str] = []
        """The directories that the last look could not read."""

    def find(self) -> list[str]:
        found = self._find()
        if self._closed is None:
            self._closed = set(self.unread)
        while self._opens is not None and (hidden := set(self.unread) - self._closed):
            for place in hidden:
                self._opens(place)
            self._closed |= hidden
            found = self._find()
        return found

    def _find(self) -> list[str]:
        found: list[str] = []
        seen, unread = {}, []
        there = [root for root in self._roots if os.path.lexists(root)]
        todo = [root for root in there if not self._matches(root)]
        found += [root for root in there if self._matches(root)]
        for directory in todo:
            look = self._look(directory)
            if look is None:
                unread.append(directory)
            else:
                seen[directory] = look
                todo += look[1]
                found += look[2]
        self._seen, self.unread = seen, unread
        return sorted(set(found))

    def _includes(self, entry: os.DirEntry[str]) -> bool:
        return self._matches(entry.path)

    def _look(self, directory: str) -> tuple[int, list[str], list[str]] | None:
        try:
            changed = os.stat(directory).st_ctime_ns  # the other time can be set, as tar and rsync do
            if time.time_ns() - changed < COARSE:
                changed = 0
            known = self._seen.get(directory)
            if known is not None and known[0] == changed != 0:
                return known
            inner, matched = [], []
            with os.scandir(directory) as entries:
                for entry in entries:
                    if self._includes(entry):
                        matched.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False) and not self._skips(directory, entry.name):
                        inner.append(entry.path)
        except OSError:
            return None  # gone or unreadable, and then it cannot be read from inside either
        return changed, inner, matched

    def _skips(self, directory: str, name: str) -> bool:
        return name in self._skipped or name in SKIPPED and os.path.basename(directory) == ".git"


class SpecialFiles(Matches):
    """The Unix sockets, FIFOs and devices below `roots`."""

    def __init__(self, roots: Iterable[str]) -> None:
        super().__init__(roots, _is_special)

    def _includes(self, entry: os.DirEntry[str]) -> bool:
        plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink()
        return not plain and _is_special(entry.path)


def _is_special(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


# Finds what a command made that a mount could not prevent: names that did not exist when it started, or were links.
#
# A path that does not exist cannot be bound read-only, and neither can a link. So we look afterwards: a protected
# file that a command made is moved aside, where a person can find it, before anything outside the sandbox can act on
# it, and a link that it changed is restored. Where the sandbox has no mounts at all (Landlock), the same is done for
# files that were there: what they held is saved until the command has ended.

SAVED_FILES, SAVED_BYTES = 500, 1 << 20
"""How many files are saved, and how much of each; what is beyond that is only looked for by name."""


class ProtectedNames:
    """The state of these names before a command, and what the files at and below those in `keep` held."""

    def __init__(self, paths: Iterable[str], *, keep: Iterable[str] = ()) -> None:
        self.absent: list[str] = []
        self.links: dict[str, str] = {}
        self.held = dict(itertools.islice(_contents(keep), SAVED_FILES))
        for path in paths:
            if not os.path.lexists(path):
                self.absent.append(path)
            elif os.path.islink(path):
                self.links[path] = os.readlink(path)

    def changed(self) -> list[str]:
        """The names that exist now, and the links that were changed."""
        made = [path for path in self.absent if os.path.lexists(path)]
        made += [path for path, target in self.links.items() if _link(path) != target]
        return made + [path for path, held in self.held.items() if _content(path) != held]

    def restore(self) -> None:
        """Recreate the links, once what took their place has been moved aside."""
        for path, target in self.links.items():
            if not os.path.lexists(path):
                with contextlib.suppress(OSError):
                    os.symlink(target, path)
        for path, held in self.held.items():
            with contextlib.suppress(OSError):
                if _content(path) != held:
                    put_back(path, *held)


def _contents(paths: Iterable[str]) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """What is in each of these files, and in those in each of these directories. Git directories are left out: Landlock
    keeps them read-only, and a person's own git may work there meanwhile."""
    for path in paths:
        if ".git" in path.split("/"):
            continue
        inside = [path]
        if os.path.isdir(path) and not os.path.islink(path):
            inside = [os.path.join(place, name) for place, _, names in os.walk(path) for name in sorted(names)]
        for one in inside:
            if (held := _content(one)) is not None:
                yield one, held


def _content(path: str) -> tuple[bytes, int] | None:
    """What is in this file, and its permissions; None for anything else, and for what is too large to keep."""
    try:
        with open(descriptors.open_file(path), "rb") as file:
            data = file.read(SAVED_BYTES + 1)
            return (data, stat.S_IMODE(os.fstat(file.fileno()).st_mode)) if len(data) <= SAVED_BYTES else None
    except OSError:
        return None


def put_back(path: str, data: bytes, mode: int | None) -> None:
    """Write a file where nothing is; a link to `data` if it has no mode. No link on the way is followed."""
    folder, name = os.path.split(path)
    with descriptors.directory(folder, make=True) as parent:
        if mode is None:
            os.symlink(data, name.encode(errors="surrogateescape"), dir_fd=parent)
            return
        with open(descriptors.open_in(parent, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)


def open_up(root: str) -> None:
    """Give ourselves the rights to look into a directory and to move what is in it: a program could have taken them."""
    todo = [root]
    while todo:
        place = todo.pop()
        try:
            found = os.lstat(place)
            if not stat.S_ISDIR(found.st_mode):
                continue
            _give_rights(place, found.st_mode)
            with os.scandir(place) as entries:
                todo += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # gone, or another user's


def open_above(path: str) -> None:
    """The same for the directories above, up to the first that we have all rights to."""
    closed: list[str] = []
    while (path := os.path.dirname(path)) != "/":
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            mode = 0
        if mode & stat.S_IRWXU == stat.S_IRWXU:
            break
        closed.append(path)
    for place in reversed(closed):
        with contextlib.suppress(OSError):
            _give_rights(place, os.lstat(place).st_mode)


def _give_rights(place: str, mode: int) -> None:
    if mode & stat.S_IRWXU == stat.S_IRWXU:
        return
    folder = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(mode) | stat.S_IRWXU)
    finally:
        os.close(folder)


def _link(path: str) -> str | None:
    return os.readlink(path) if os.path.islink(path) else None


def move_aside(paths: Iterable[str], directory: str) -> list[tuple[str, str]]:
    """Move these out of the workspace. Returns the new place of each.

    What a directory was when we looked may be a link by now, so none is followed: nothing outside is moved.
    """
    moved = []
    for path in paths:
        for number in range(1000):
            target = os.path.join(directory, f"{os.path.basename(path)}.{number}")
            if not os.path.lexists(target):
                break
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            move(path, target)
        except OSError:
            continue  # gone again, or we may not move it: it is reported anyway
        moved.append((path, target))
    return moved


def move(path: str, target: str) -> None:
    """No link above either of them is followed."""
    from shutil import copytree

    (folder, name), (above, new) = os.path.split(path), os.path.split(target)
    with descriptors.directory(folder) as parent, descriptors.directory(above, make=True) as there:
        source, target = f"/proc/self/fd/{parent}/{name}", f"/proc/self/fd/{there}/{new}"
        try:
            os.rename(source, target)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        if os.path.isdir(source) and not os.path.islink(source):
            copytree(source, target, symlinks=True, copy_function=_copy_plain)
        else:
            _copy_plain(source, target)
        descriptors.remove_tree(source)


def _copy_plain(source: str, target: str) -> None:
    """FIFOs, sockets and devices are not copied: to read one may wait for ever."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
    elif os.path.isfile(source):
        descriptors.copy_file(source, target)


# Counts the confined programs of this process, by the places that they may write to.

_started: Counter[str] = Counter()
_running: Counter[str] = Counter()


def count_start(places: Sequence[str]) -> None:
    """A program is about to be started."""
    _started.update(places)


def count_run(places: Sequence[str]) -> Callable[[], None]:
    """A program runs. To be called when it has ended."""
    _running.update(places)
    return partial(_running.subtract, tuple(places))


def activity(places: Iterable[str]) -> tuple[int, bool]:
    """How many programs that may write to one of these have been started so far, and whether one still runs."""
    found = list(places)
    return sum(_started[place] for place in found), any(_running[place] for place in found)


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
        packages = _outermost(at_home(PACKAGES)) if place is not None else []
        programs = (*at_home(PROGRAMS), *on_path(), *filter(os.path.exists, readable))
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


def missing(text: str, confinement: "Confinement") -> list[str]:
    """What of the home directories a text names that is there outside and is not shown inside."""
    from shutil import which  # imported late: most runs start nothing that is missing

    home = Home(None, confinement.readable, confinement.write)
    shown = (*home.programs, *at_home(PACKAGES), *confinement.write, *confinement.read_only)
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
    given = [*map(os.path.realpath, given), *at_home((*PROGRAMS, *PACKAGES))]
    inside = [home for home in real_homes() if os.path.isdir(home) and any(is_under(home, one) for one in write)]
    dotted = [os.path.join(home, name) for home in inside for name in os.listdir(home) if name.startswith(".")]
    return [one for path in dotted if os.path.basename(path) != ".git" for one in _rest(path, given)]


def _rest(path: str, given: Sequence[str]) -> list[str]:
    if is_under(path, *given) or os.path.islink(path):
        return []
    if not any(is_under(one, path) for one in given):
        return [path]
    return [one for name in os.listdir(path) for one in _rest(os.path.join(path, name), given)]


def at_home(entries: Iterable[str]) -> Iterator[str]:
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
