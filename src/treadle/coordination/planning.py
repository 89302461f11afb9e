"""The planning directory, through which agents in one repository coordinate, and the audit trail of what they did."""

import os
import time
from collections.abc import Callable
from functools import lru_cache

from treadle.coordination import repository
from treadle.errors import StorageError, TreadleError
from treadle.io.files import append_line, locked, locked_beside, read_if_there, storage_error, try_remove, write_atomic
from treadle.io.paths import here, state_dir
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.common.records import Damaged, Newer

# Keeps live state in git's common directory, with links in `.planning` where other tools look for it.
#
# git clean, stash, checkout and removing a worktree affect `.planning`, but never git's own directory. Live files that
# git restores in `.planning` are history and are ignored.

LIVE = ("protocol.log", "ledger/claims", "ledger/agents.json", "protocol/ledger.jsonl")
"""What other tools read in `.planning`, and what is therefore linked from there."""
_IGNORE = """# What is listed here leads to live state in git's own directory. The rest is for you to commit, or not.
/protocol.log
/ledger/claims
/ledger/agents.json
/protocol/ledger.jsonl
/.locks/
/.gitignore
"""


def link(root: str, live: str) -> None:
    """Create the missing links. A file that git tracks there stays; without support for links, none are made."""
    for name in LIVE:
        target, place = os.path.join(live, name), os.path.join(root, name)
        if os.path.lexists(place) or not os.path.exists(target):
            continue
        directory = os.path.dirname(place)
        try:
            if not os.path.isdir(directory):
                os.makedirs(directory, exist_ok=True)
            ignore = os.path.join(root, ".gitignore")
            if not os.path.lexists(ignore):
                write_atomic(ignore, _IGNORE.encode(), 0o644, sync=False)
            os.symlink(os.path.relpath(target, os.path.realpath(directory)), place)
        except (OSError, TreadleError):
            return


LOCK_SECONDS = 60.0
"""How long a command waits for the lock; each holder keeps it for about a millisecond."""

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))}
_ESCAPES |= {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def one_line(text: str) -> str:
    """Text without tabs, line breaks or other control characters, so that it cannot break a line of a log."""
    return text.translate(_ESCAPES)


def timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_of(stamp: Any) -> float | None:
    """The time of a timestamp; None when it is not one. `time.strptime` would cost more than the whole command."""
    if not isinstance(stamp, str) or len(stamp) != 20 or stamp[4::3] != "--T::Z":
        return None
    fields = [stamp[:4], *(stamp[place : place + 2] for place in range(5, 20, 3))]
    if not all(field.isascii() and field.isdecimal() for field in fields):
        return None
    year, month, day, hour, minute, second = map(int, fields)
    if month <= 2:  # count the year from March, so that the leap day is its last
        year, month = year - 1, month + 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1
    return ((days - 719468) * 24.0 + hour) * 3600 + minute * 60 + second


def places(start: str | None = None) -> tuple[str, str]:
    """Where records are, and where live state is: in git's common directory which git clean leaves alone.

    Records are in `HEIMDALL_PLANNING_DIR`, else in `.planning` of the main worktree, else of the working directory.
    Outside a repository, or if `HEIMDALL_PLANNING_DIR` is set, live state is there too.
    """
    found = repository.find(start)
    own = os.path.join(found.main if found else os.path.abspath(start or here()), ".planning")
    override = os.environ.get("HEIMDALL_PLANNING_DIR")
    if override and os.path.realpath(override) != os.path.realpath(own):
        return os.path.abspath(override), os.path.abspath(override)
    return own, os.path.join(found.common, "heimdall") if found else own


class Planning:
    def __init__(
        self, root: str | None = None, *, project: str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.project = os.path.abspath(project or here())
        """The directory that the caller works in; the worktree around it determines identities."""
        self.root, self.live = (root, root) if root else places(self.project)
        """The directory of the records that people share by committing them, and that of the live state."""
        self._was_there = os.path.isdir(self.root)
        self.clock = clock
        if self.live != self.root and os.path.islink(self.live):
            try_remove(self.live)  # not ours: the view is put back

    def path(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    def live_path(self, *names: str) -> str:
        return os.path.join(self.live, *names)

    def copy_path(self, *names: str) -> str:
        """Where a record's copy is, which git never removes; empty where the live state is among the records."""
        return self.live_path("kept", *names) if self.live != self.root else ""

    def now(self) -> str:
        return timestamp(self.clock())

    def log(self, actor: str, action: str, detail: str = "") -> None:
        """Add one line to the audit trail, whatever the detail contains."""
        self._append(actor, action, detail)
        self.link()

    def note(self, actor: str, action: str, detail: str = "") -> None:
        """The same for commands that only read: they work where nothing can be written, and do not touch the worktree.

        A file made there while a stash holds one of its name would stop `git stash pop`.
        """
        try:
            self._append(actor, action, detail)
        except StorageError:
            pass

    def link(self) -> None:
        """Link the names in `.planning` that other tools read to the live files."""
        if self.live != self.root:
            link(self.root, self.live)

    def _append(self, actor: str, action: str, detail: str) -> None:
        line = "\t".join([self.now(), *map(one_line, (actor, action, detail))]).encode(errors="backslashreplace")
        make_dirs(self.live)
        append_line(self.live_path("protocol.log"), line, mode=0o644)

    def lock(self, name: str) -> locked:
        """One lock for each file that is read, changed and written. The kernel frees it with its process, so an agent
        that is killed blocks no one. No one waits for a second one while holding one, so none waits for ever."""
        directory = self.live_path(".locks")
        if not os.path.isdir(directory):
            make_dirs(directory)
            write_atomic(os.path.join(directory, ".gitignore"), b"*\n", 0o644, sync=False)
        return locked(os.path.join(directory, name), LOCK_SECONDS)

    def lock_beside(self, name: str, *directory: str) -> locked_beside:
        """The same, together with the lock directory that the original tools look at."""
        beside = self.path(*directory)
        if not os.path.isdir(os.path.dirname(beside)):
            beside = self.live_path(*directory)
            make_dirs(os.path.dirname(beside))
        return locked_beside(self.lock(name).path, beside, LOCK_SECONDS)

    @property
    def claims(self) -> str:
        return self.live_path("ledger", "claims")

    def record_path(self) -> str:
        """The record of live claims in the state directory; empty where the files themselves are the authority."""
        return "" if self.live == self.root else f"{_own_place(self.live)}.json"

    def private_path(self, *names: str) -> str:
        """Where live state is that no agent has to read or write; among the rest where files are the authority."""
        return os.path.join(self.live if self.live == self.root else _own_place(self.live), *names)

    def is_ours(self, path: str) -> bool:
        """Whether it lies among git's own files of this repository or in our state directory, or holds the latter."""
        if self.live == self.root:
            return False
        places = (path, state_dir(), os.path.dirname(_place(self.live)))
        real, state, git = (f"{os.path.realpath(place)}/".casefold() for place in places)  # some file systems fold it
        return real.startswith((git, state)) or state.startswith(real)

    def claimed(self) -> bool:
        """Whether anything was ever claimed here. A fresh clone has no claims of anybody, which is something else."""
        if self.live != self.root and not os.path.isdir(os.path.join(state_dir(), "claims")):
            return os.path.isdir(self.claims)  # this person has no record of any repository
        return self.shared() or os.path.isdir(self.claims) or bool(path := self.record_path()) and os.path.exists(path)

    def shared(self) -> bool:
        """Whether claims are shared with other clones, which may have claimed something."""
        return os.path.exists(self.private_path("clones.json"))

    def blind(self) -> str:
        """Why others' claims in the project's repository cannot be seen from here; empty when they can."""
        if not os.environ.get("HEIMDALL_PLANNING_DIR") or self.live != self.root:
            return ""
        project = repository.find(self.project)
        own = os.path.join(project.common, "heimdall") if project else ""
        if own and os.path.realpath(own) == os.path.realpath(self.root):
            return ""  # all of this repository's claims are made there; before the first one it need not exist
        if not self._was_there:
            return f"HEIMDALL_PLANNING_DIR is {self.root}, which was not there: what is claimed is not seen"
        if own and (_has_entries(os.path.join(own, "ledger", "claims")) or os.path.exists(f"{_own_place(own)}.json")):
            return f"HEIMDALL_PLANNING_DIR is {self.root}, but {self.project} has claims of its own: those are not seen"
        theirs = repository.find(_first_there(self.root))
        if project is None or theirs is None or project.common == theirs.common:
            return ""
        return (
            f"HEIMDALL_PLANNING_DIR is {self.root}, in another repository than {self.project}:"
            " what is claimed here is not seen"
        )


def digest(data: bytes | str) -> str:
    """SHA-256 in hex. Loading it loads OpenSSL, which costs as much as ten modules."""
    from hashlib import sha256

    return sha256(data.encode(errors="surrogateescape") if isinstance(data, str) else data).hexdigest()


def _own_place(live: str) -> str:
    directory = os.path.join(state_dir(), "claims")
    return os.path.join(directory, _name(directory, _place(live)))


@lru_cache(maxsize=64)
def _name(directory: str, place: str) -> str:
    """The digest of where it is, remembered in a file: hooks read that in less time than they could compute it."""
    index = os.path.join(directory, "places")
    try:
        for line in (read_text(index) or "").splitlines():
            if line[33:] == place:
                return line[:32]
        found = digest(place)[:32]
        if os.path.isdir(directory) and place.isprintable():
            append_line(index, f"{found} {place}".encode())
        return found
    except TreadleError:
        return digest(place)[:32]  # in a sandbox that file is not seen


def _place(live: str) -> str:
    """Where it is in git's directory, whatever a link in its place leads to: the record goes by this."""
    return os.path.join(os.path.realpath(os.path.dirname(live)), os.path.basename(live))


def _has_entries(directory: str) -> bool:
    try:
        return bool(os.listdir(directory))
    except OSError:
        return False


def _first_there(path: str) -> str:
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def make_dirs(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise storage_error(error, path, "make the directory") from error


def read_text(path: str) -> str | None:
    """The content of a file; None when it does not exist."""
    data = read_if_there(path)
    return None if data is None else data.decode(errors="surrogateescape")


def write_text(path: str, text: str) -> None:
    make_dirs(os.path.dirname(path))
    write_atomic(path, text.encode(errors="surrogateescape"), 0o644, keep_mode=True, sync=False)


def read_newer(path: str, copy: str) -> str | None:
    """The content of a record, or of its copy if git removed the record or an older one is in its place."""
    first, second = (copy, path) if copy and is_newer(copy, path) else (path, copy)
    text = read_text(first)
    return read_text(second) if text is None and second else text


def write_both(path: str, copy: str, text: str) -> None:
    """Write a record and its copy. The copy is written first: after a crash between the two it is the newer one."""
    if copy:
        write_text(copy, text)
    write_text(path, text)


def is_newer(path: str, other: str) -> bool:
    return _modified(path) > _modified(other)


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return -1


class Document:
    """A JSON object in a file that people, git and the original tools also read. Replaced whole, under a lock."""

    def __init__(
        self,
        planning: Planning,
        name: str,
        field: str,
        version: str,
        lock: Callable[[], locked] | None = None,
        *,
        live: bool = False,
    ) -> None:
        names = name.split("/")
        self.path = (planning.live_path if live else planning.path)(*names)
        self.copy = "" if live else planning.copy_path(*names)
        self.field = field
        self.version = version
        self.lock = lock or (lambda: planning.lock(name.replace("/", "-")))

    def read(self) -> dict[str, Any]:
        """The object in the document's field; empty when there is no file yet."""
        return self._inside(self._load())

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Let `edit` change the object in the field. No concurrent change is lost; a crash leaves old or new."""
        with self.lock():
            document = self._load()
            edit(self._inside(document))
            write_both(self.path, self.copy, dumps(document, 2) + "\n")

    def create(self) -> None:
        with self.lock():
            if not os.path.exists(self.path):
                empty = dumps({"version": self.version, self.field: {}}) + "\n"
                write_both(self.path, self.copy, read_newer(self.path, self.copy) or empty)

    def _load(self) -> dict[str, Any]:
        text = read_newer(self.path, self.copy)
        if text is None:
            return {"version": self.version, self.field: {}}
        try:
            document = loads(text)
        except ValueError as error:
            raise self._unusable(str(error)) from None
        if not isinstance(document, dict):
            raise self._unusable("it is not an object")
        major = str(document.get("version", self.version)).split(".")[0]
        if major.isdecimal() and int(major) > int(self.version.split(".")[0]):
            raise Newer(self.path)
        return document

    def _inside(self, document: dict[str, Any]) -> dict[str, Any]:
        inside = document.setdefault(self.field, {})
        if not isinstance(inside, dict):
            raise self._unusable(f"its {self.field!r} is not an object")
        return inside

    def _unusable(self, why: str) -> StorageError:
        return Damaged(self.path, why, "it is left as it is; fix it by hand or take it from git")
