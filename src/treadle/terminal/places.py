"""Where a terminal's files are, and which terminals exist."""

import os

from treadle.errors import ConfigError, NotFound
from treadle.io import paths
from treadle.io.files import read_at_most

TITLE = "treadle: terminal "
"""How `ps` shows a supervisor; its id follows."""
ID_MAX = 100
FOREIGN, BUSY = 2.0, 30.0
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def default_directory() -> str:
    return os.path.join(paths.state_dir(), "terminals")


def check_id(name: str) -> str:
    """The id, if it is safe as a file name; otherwise raises ConfigError with the reason."""
    if not name or len(name) > ID_MAX or not _LETTERS.issuperset(name) or name[0] in ".-":
        raise ConfigError(
            f"{name!r} cannot be the id of a terminal",
            hint=f"use 1 to {ID_MAX} letters, digits, dots, dashes and underscores, not beginning with a dot or dash",
        )
    return name


class Place:
    """The files of one terminal. `pid` is locked by its supervisor; `exit`, `log` and `out` outlive it."""

    def __init__(self, directory: str, name: str) -> None:
        self.id = check_id(name)
        self.directory = os.path.abspath(directory)
        base = os.path.join(self.directory, name)
        self.pid = f"{base}.pid"
        self.log = f"{base}.log"
        self.out = f"{base}.out"
        self.exit = f"{base}.exit"
        self.state = f"{base}.state"
        self.summary = f"{base}.summary"
        self.start = f"{base}.start"

    @property
    def sock(self) -> str:
        return paths.socket_path(self.directory, f"{self.id}.sock")

    @property
    def patience(self) -> float:
        """How many seconds to wait for an answer that the plain protocol does not have. Ours is only slow."""
        return BUSY if self.is_ours else FOREIGN

    @property
    def is_ours(self) -> bool:
        """Whether its supervisor has our additions to the protocol: it keeps a summary."""
        return os.path.exists(self.summary)

    def pids(self) -> tuple[int, int]:
        """The pids of supervisor and child from the pid file; 0 for one that is missing or not a number."""
        try:
            lines = read_at_most(self.pid, 64).split(b"\n")
        except OSError:
            return 0, 0
        numbers = [int(line) if line.isdigit() else 0 for line in lines] + [0, 0]
        return numbers[0], numbers[1]

    def known(self) -> bool:
        return os.path.exists(self.exit) or os.path.exists(self.pid)


def find(directory: str, name: str) -> Place:
    """The place of a terminal that exists or existed; raises NotFound otherwise."""
    place = Place(directory, name)
    if not place.known():
        from difflib import get_close_matches

        close = get_close_matches(name, ids(directory), 3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`treadle ls --all` lists them"
        raise NotFound(f"No session found: {name}", hint=hint)
    return place


def ids(directory: str) -> list[str]:
    """The sorted ids of all terminals that left a file here. Other files are ignored."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found = {base for base, end in map(os.path.splitext, names) if end in (".pid", ".exit")}
    return sorted(base for base in found if _LETTERS.issuperset(base) and base[0] not in ".-" and len(base) <= ID_MAX)


def stale(directory: str) -> list[str]:
    """The sockets that nothing listens at: their supervisors are gone, and their pid files are not locked."""
    from treadle.io.files import is_locked

    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    bases = [os.path.join(directory, name.removesuffix(".sock")) for name in names if name.endswith(".sock")]
    return [f"{base}.sock" for base in bases if not is_locked(f"{base}.pid")]


def free_id(directory: str, command: str) -> str:
    """An id for a terminal that was given none: the program's name, with a number if that is taken."""
    base = "".join(letter for letter in os.path.basename(command) if letter in _LETTERS).strip(".-")[:40] or "terminal"
    taken = set(ids(directory))
    number = 2
    name = base
    while name in taken:
        name = f"{base}-{number}"
        number += 1
    return name
