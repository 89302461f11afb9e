"""The gate: what leaves a sandbox for a person's repository by itself, and what waits for the person.

    gate = TreeGate(user)
    gate.refused(crossings)      # path -> why it waits; everything else may pass

Files, indexes and commits are compared as trees, and each change is a crossing: a path, and the entry that it becomes.
Most paths pass. A path that other programs obey passes only if it becomes what one of the person's own refs has there,
so that switching, merging and rebasing work. Obeyed are the names in a table, what git's settings name, and by class: a
dot file at the top that the project does not have, a submodule, a directory that would be a repository.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from treadle.errors import LocalError, TimedOut, WorkspaceError
from treadle.io.files import read_at_most
from treadle.io.sandbox.places import is_under
from treadle.policy.protected import is_protected, is_usual_at_top, leads
from treadle.workspace.changes import Delta
from treadle.workspace.git import is_git
from treadle.workspace.private_git import PRIVATE_REFS, Staged
from treadle.workspace.store import GITLINK, Store
from treadle.workspace.user_repository import ID, UserRepository

AGENTS = re.compile(r"refs/(heads|remotes/.+)/treadle/")
"""The branches of what orders, tasks and sessions have done, also those that were pushed."""
RAW = (
    *("--raw", "--no-abbrev", "--no-renames", "--format=", "-z", "--diff-merges=separate", "--ignore-submodules=none"),
    *("--no-show-signature", "--no-relative"),
)
"""For `git log`: what `read_raw` reads, whatever the person has set."""
MOST_DOUBTFUL = 1000
"""Paths that are looked up in the person's refs. Of more than that, none passes."""
HISTORY_SECONDS = 10.0
"""For a look into the whole history, where no ref has what a path becomes."""
LARGEST = 64 << 20
"""Bytes of a file that other programs obey; of a larger one it is not known what it is."""
ENTERED = "is a submodule, which your git would enter"
OBEYED = "is a file that other programs obey"
AT_TOP = "is new at the top, where programs look for their settings"
AGREED = (ENTERED, OBEYED, AT_TOP)
"""What a person can agree to beforehand, without a look at each file."""
REPOSITORY = "makes its directory a repository, which your git would obey"


class Crossing(NamedTuple):
    path: str
    entry: Staged | None
    """What the path becomes; None: it goes."""


class TreeGate:
    def __init__(
        self,
        user: UserRepository | None,
        inside: str = "",
        also: Sequence[str] = (),
        tips: Sequence[str] | None = None,
    ) -> None:
        """`user`: the person's repository; None where there is none, so that nothing can be looked up. `inside`: the
        directory of its checkout that paths begin from. `also`: commits that count as refs do. `tips`: what is known of
        these already. Raises WorkspaceError if its settings cannot be read."""
        self._user = user
        self._inside = inside
        self._by_settings = obeyed(user) if user is not None else lambda path: ""
        self._also = also
        self._tips = [*tips, *also] if tips is not None else None
        self._at_top: set[str] | None = None

    @classmethod
    def around(cls, directory: str) -> "TreeGate":
        """For paths relative to a directory, which may lie in a checkout."""
        user = UserRepository.around(directory)
        inside = os.path.relpath(os.path.realpath(directory), os.path.realpath(user.top)) if user is not None else ""
        return cls(user, "" if inside == "." else inside)

    def why(self, path: str, *, agreed: bool = False) -> str:
        """Why a path does not change without the person, as the end of a sentence that begins with it; empty when it
        may. `agreed`: a person has agreed to all but what their own git would run."""
        place = os.path.normpath(os.path.join(self._inside, path))
        if (why := self._by_settings(place)) or agreed:
            return why
        if is_protected(path):
            return OBEYED
        return AT_TOP if self.is_new_at_top(place.split("/")[0]) else ""

    def refused(
        self,
        crossings: Iterable[Crossing],
        *,
        agreed: bool = False,
        has: Callable[[str], bool] | None = None,
        passes: Callable[[Crossing], bool] = lambda crossing: False,
    ) -> dict[str, str]:
        """Those that wait for the person, each with the reason. `has`: whether there is something at a path once all
        have passed, to see directories that would be repositories. `passes`: whether the person has agreed to one."""
        every = list(crossings)
        doubtful: dict[str, str] = {}
        for path, entry in every:
            if path not in doubtful and (why := self.doubt(path, entry, agreed=agreed)):
                doubtful[path] = why
        remaining = self._not_held([one for one in every if one.path in doubtful and not passes(one)])
        found = {path: doubtful[path] for path in remaining}
        return {**found, **_repositories([one.path for one in every if one.entry is not None], has)}

    def doubt(self, path: str, entry: Staged | None, *, agreed: bool = False) -> str:
        """`why`, for a path that becomes this."""
        if entry is not None and not agreed:
            if entry.mode == GITLINK:
                return ENTERED
            if entry.mode == "120000" and leads(path):
                return OBEYED
        return self.why(path, agreed=agreed)

    # What the person's own refs have

    def tips(self) -> list[str]:
        """The commits that the person's refs and HEAD are at. What we have put apart for them does not count."""
        if self._tips is None:
            self._tips = [*persons_tips(self._user), *self._also] if self._user is not None else []
        return self._tips

    def is_new_at_top(self, name: str) -> bool:
        if not name.startswith(".") or is_usual_at_top(name) or not self.tips():
            return False
        if self._at_top is None:
            self._at_top = {name for tree in self._trees([""]).values() for found in tree for name in found}
        return name not in self._at_top

    def _not_held(self, doubtful: Sequence[Crossing]) -> list[str]:
        """The paths of which no ref of the person has, or had, what they become."""
        paths = sorted({path for path, _ in doubtful})
        if not paths or not self.tips() or len(paths) > MOST_DOUBTFUL:
            return paths
        held = self.held(paths)
        left = [one for one in doubtful if not _holds(held[one.path], one.entry)]
        past = self._past(sorted({path for path, _ in left}))
        return sorted({one.path for one in left if not _holds(past.get(one.path, set()), one.entry)})

    def held(self, paths: Sequence[str]) -> dict[str, set[Staged | None]]:
        """What the person's refs have at each path now."""
        places = {path: os.path.normpath(os.path.join(self._inside, path)) for path in paths}
        trees = self._trees(sorted({os.path.dirname(place) for place in places.values()}))
        return {
            path: {tree.get(os.path.basename(place)) for tree in trees.get(os.path.dirname(place), ())}
            for path, place in places.items()
        }

    def _trees(self, folders: Sequence[str]) -> dict[str, list[dict[str, Staged]]]:
        """What each of these directories has in the trees of the person's refs: each state of it once."""
        assert self._user is not None
        asked = [(folder, f"{tip}:{folder}") for folder in folders if "\n" not in folder for tip in self.tips()]
        listed = self._user.run(
            "cat-file", "--batch-check", stdin=os.fsencode("".join(f"{name}\n" for _, name in asked))
        )
        found: dict[str, set[str]] = {folder: set() for folder in folders}
        for (folder, _), line in zip(asked, os.fsdecode(listed.stdout).split("\n")[:-1], strict=True):
            words = line.rsplit(" ", 2)
            found[folder].add(words[0] if ID.fullmatch(words[0]) and words[1] == "tree" else "")
        wanted = sorted({tree for trees in found.values() for tree in trees if tree})
        content = self._read_trees(wanted)
        return {folder: [content.get(tree, {}) for tree in trees] for folder, trees in found.items()}

    def _read_trees(self, trees: Sequence[str]) -> dict[str, dict[str, Staged]]:
        assert self._user is not None
        data = self._user.run("cat-file", "--batch", stdin="".join(f"{tree}\n" for tree in trees).encode()).stdout
        found, at = {}, 0
        for tree in trees:
            end = data.index(b"\n", at)
            size = int(data[at:end].split()[-1])
            found[tree] = dict(_rows(data[end + 1 : end + 1 + size], len(tree) // 2))
            at = end + size + 2
        return found

    def _past(self, paths: Sequence[str]) -> dict[str, set[Staged | None]]:
        """What these paths ever were in the person's history; nothing where it takes too long to tell."""
        if not paths or self._user is None:
            return {}
        places = {os.path.normpath(os.path.join(self._inside, path)): path for path in paths}
        words = ["log", *RAW, *self.tips()[:MOST_DOUBTFUL]]
        try:
            done = self._user.run("--literal-pathspecs", *words, "--", *places, check=False, timeout=HISTORY_SECONDS)
        except TimedOut:
            return {}
        found: dict[str, set[Staged | None]] = {}
        for one in read_raw(done.stdout):
            if one.path in places:
                found.setdefault(places[one.path], set()).add(one.entry)
        return found


def persons_tips(user: UserRepository) -> list[str]:
    """What the person's refs are at: neither those that we keep, nor the branches that we make of agents' work, unless
    the person has one checked out."""
    head, refs = user.head(), user.refs()
    own = [at for name, at in refs.items() if name == head or not (name.startswith(PRIVATE_REFS) or AGENTS.match(name))]
    return [*dict.fromkeys(at for at in (*own, head) if ID.fullmatch(at))]


def waiting(
    user: UserRepository,
    gate: TreeGate,
    commits: Sequence[str],
    staged: Sequence[Crossing] = (),
    passes: Callable[[Crossing], bool] = lambda crossing: False,
) -> dict[str, str]:
    """What of these commits, with those before them that the person does not have, and of an index is refused."""

    def has(path: str) -> bool:
        if "\n" in path:
            return True  # it cannot be asked about
        lines = os.fsencode("".join(f"{one}:{path}\n" for one in commits))
        listed = user.run("cat-file", "--batch-check", stdin=lines).stdout.split(b"\n")[:-1]
        added = (one.path for one in staged if one.entry is not None)
        return any(not line.endswith(b"missing") for line in listed) or any(is_under(one, path) for one in added)

    return gate.refused([*_changed_by(user, commits, gate.tips()), *staged], has=has, passes=passes)


def _changed_by(user: UserRepository, commits: Sequence[str], tips: Sequence[str]) -> list[Crossing]:
    """What commits that the person does not have change, each against its parents."""
    if not commits:
        return []
    revs = "".join([*(f"{one}\n" for one in commits), *(f"^{one}\n" for one in tips)]).encode()
    words = ("log", "--root", *RAW, "--stdin")
    return read_raw(user.run(*words, stdin=revs, timeout=600.0).stdout)


def read_raw(listed: bytes) -> list[Crossing]:
    """The output of `git log --raw -z` or `git diff-tree --raw -z`, without renames. Raises WorkspaceError."""
    fields = [field for field in os.fsdecode(listed).split("\0") if field.strip("\n")]
    found = []
    try:
        for head, path in zip(fields[::2], fields[1::2], strict=True):
            _, mode, _, name, _ = head.lstrip("\n").removeprefix(":").split(" ")
            found.append(Crossing(path, Staged(mode, name) if mode.strip("0") else None))
    except ValueError as error:
        raise WorkspaceError(f"git's output about commits cannot be read: {error}") from error
    return found


def crossings(deltas: Iterable[Delta]) -> list[Crossing]:
    """Those of the difference between two trees of ours."""
    found = []
    for delta in deltas:
        new = Staged(delta.new.mode, delta.new.blob) if delta.new is not None else None
        found.append(Crossing(delta.change.path, new))
        found += [Crossing(delta.change.old_path, None)] if delta.change.old_path else []
    return found


def on_disk(path: str, hash_size: int = 20) -> Staged | None:
    """The entry that a file or link is, as git would store it without filters; None for anything else."""
    try:
        if os.path.islink(path):
            data, mode = os.fsencode(os.readlink(path)), "120000"
        else:
            data = read_at_most(path, LARGEST + 1, follow=False)
            mode = "100755" if os.stat(path, follow_symlinks=False).st_mode & 0o100 else "100644"
    except (LocalError, OSError):
        return None
    made = hashlib.sha1 if hash_size == 20 else hashlib.sha256
    return Staged(mode, made(b"blob %d\0%s" % (len(data), data)).hexdigest())


def holds(store: Store, tree: str) -> Callable[[str], bool]:
    """Whether a tree of ours has something at a path."""
    return lambda path: store.git("cat-file", "-e", f"{tree}:{path}", check=False).code == 0


def _holds(known: set[Staged | None], entry: Staged | None) -> bool:
    """Of a submodule every commit counts: which one it is at runs nothing by itself."""
    if entry is not None and entry.mode == GITLINK:
        return any(one is not None and one.mode == GITLINK for one in known)
    return entry in known


def _rows(tree: bytes, hash_size: int) -> Iterator[tuple[str, Staged]]:
    at = 0
    while at < len(tree):
        end = tree.index(b"\0", at)
        mode, _, name = tree[at:end].partition(b" ")
        at = end + 1 + hash_size
        yield os.fsdecode(name), Staged(mode.decode().zfill(6), tree[end + 1 : at].hex())


_PARTS = ("HEAD", "objects", "refs", "commondir")


def _repositories(paths: Iterable[str], has: Callable[[str], bool] | None) -> dict[str, str]:
    """The HEAD of each directory that would be a repository, among those that get a part of one."""
    found = {}
    for path in paths:
        names = path.split("/")
        for number, name in enumerate(names[1:], 1):  # at the top git looks at `.git` first
            if name.casefold() in map(str.casefold, _PARTS):
                base = "/".join(names[:number])
                if base not in found and has is not None and _would_be(has, base):
                    found[base] = f"{base}/HEAD"
    return dict.fromkeys(found.values(), REPOSITORY)


def _would_be(has: Callable[[str], bool], base: str) -> bool:
    return has(f"{base}/HEAD") and (has(f"{base}/commondir") or has(f"{base}/objects") and has(f"{base}/refs"))


# What git's own settings name...

_INCLUDED = re.compile(r"include(if\..+)?\.path", re.I)
_COMMAND = re.compile(
    r"(core\.(fsmonitor|sshcommand|askpass|pager|editor|gitproxy|alternaterefscommand)|sequence\.editor|pager\..+"
    r"|filter\..+\.(clean|smudge|process)|merge\..+\.driver|diff\..+\.(command|textconv)|diff\.external"
    r"|(diff|merge)tool\..+\.(cmd|path)|credential\.(.+\.)?helper|gpg\.(.+\.)?program|hook\..+\.command|alias\..+"
    r"|trailer\..+\.(command|cmd)|interactive\.difffilter|uploadpack\.packobjectshook)",
    re.I,
)
_CONFIGURATION = "is read by your git as its configuration"
_RUN = "is run by your git"
_HOOKS = "tells your git's hooks what to run"
_MANAGERS = {
    b"pre-commit": (".pre-commit-config.yaml",),
    b"lefthook": tuple(
        f"{dot}lefthook{local}.{end}" for dot in ("", ".") for local in ("", "-local") for end in ("yml", "yaml")
    ),
    b"overcommit": (".overcommit.yml",),
}
"""Programs that are installed as hooks, and the files in which they are told what to run."""
HOOK_CAP = 64 << 10
LINKS = 40
"""How many links are followed, as in the kernel."""


def obeyed(user: UserRepository) -> Callable[[str], str]:
    """A function that tells why a path, relative to the top of this checkout, must not be written without the person:
    the end of a sentence that begins with the path. It is empty for all other paths.

    These are the directory of hooks that is configured, files that say what an installed manager of hooks runs, files
    that the configuration includes, programs in the checkout that it names, and the links and directories that lead to
    any of them. What else a hook runs is not known. Capitals make no difference, because they
    make none to some file systems. Raises WorkspaceError if the configuration cannot be read.
    """
    top = os.path.realpath(user.top)
    exact: dict[str, str] = {}
    below: dict[str, str] = {}
    for place, why, whole in _named(user, top):
        for step in _steps(place):
            inside = _inside(top, step)
            if inside is not None:
                exact.setdefault(inside, why)
                if whole:
                    below.setdefault(inside, why)
                exact.update({above: why for above in _above(inside) if above not in exact})

    def reason(path: str) -> str:
        names = os.path.normpath(path).casefold()
        if any(map(is_git, names.split("/"))):
            return "belongs to git itself"
        return exact.get(names, "") or next((below[above] for above in ("", *_above(names)) if above in below), "")

    return reason


def settings_files(user: UserRepository) -> list[str]:
    """The files that the user's git or the managers of its hooks read as configuration, also those that do not exist,
    with their links."""
    return _files(user, lambda why: why.startswith((_CONFIGURATION, _HOOKS)))


def named_programs(user: UserRepository) -> list[str]:
    """The files that the user's git would run, also those that do not exist, with their links."""
    return [place for place in _files(user, lambda why: why.startswith(_RUN)) if not os.path.isdir(place)]


def _files(user: UserRepository, wanted: Callable[[str], bool]) -> list[str]:
    named = [place for place, why, _ in _named(user, os.path.realpath(user.top)) if wanted(why)]
    return [*dict.fromkeys(step for place in named for step in _steps(place))]


def _named(user: UserRepository, top: str) -> Iterator[tuple[str, str, bool]]:
    """The places that the configuration names, the reason to give, and whether it holds for all that is in them."""
    listed = user.run("config", "--list", "--includes", "--show-origin", "-z").stdout
    fields = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
    hooks = os.path.join(user.common, "hooks")
    for origin, entry in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = entry.partition("\n")
        if not origin.startswith("file:") or not value:
            continue  # our own settings
        file = os.path.join(user.common, origin.removeprefix("file:"))
        yield file, _CONFIGURATION, False
        if key.lower() == "core.hookspath":
            hooks = _place(top, value)
            yield hooks, "is in the directory of your git's hooks (core.hooksPath)", True
        elif _INCLUDED.fullmatch(key):
            yield _place(os.path.dirname(file), value), f"{_CONFIGURATION} ({key})", False
        elif _COMMAND.fullmatch(key):
            for word in _words(value):
                yield _place(top, word), f"{_RUN} ({key})", False
    if os.path.basename(os.path.normpath(hooks)) == "_":  # husky: these run the scripts of the same name above them
        yield os.path.dirname(os.path.normpath(hooks)), _HOOKS, True
    for name in _managed(hooks):
        yield os.path.join(top, name), _HOOKS, False


def _managed(hooks: str) -> Iterator[str]:
    """What the managers read whose scripts are in this directory."""
    for name in os.listdir(hooks) if os.path.isdir(hooks) else ():
        if name.endswith(".sample"):
            continue
        try:
            text = read_at_most(os.path.join(hooks, name), HOOK_CAP)
        except (LocalError, OSError):
            continue  # a directory, for example
        for manager, files in _MANAGERS.items():
            if manager in text:
                yield from files
        for other in re.findall(rb"--config[= ]([\w./-]+)", text):
            yield os.fsdecode(other)


def _place(base: str, value: str) -> str:
    return os.path.join(base, os.path.expanduser(value))


def _words(command: str) -> list[str]:
    """The words of a command that are paths."""
    try:
        words = shlex.split(command.removeprefix("!"))
    except ValueError:
        words = command.split()
    return [word for word in words if "/" in word and "\0" not in word]


def _steps(place: str) -> Iterator[str]:
    """The path, and each that it stands for when the links in it are followed one by one."""
    place = os.path.normpath(place)
    for _ in range(LINKS):
        yield place
        link = next((above for above in (*sorted(_parents(place), key=len), place) if os.path.islink(above)), None)
        if link is None:
            return
        target = os.path.join(os.path.dirname(link), os.readlink(link))
        place = os.path.normpath(target + place[len(link) :])


def _parents(place: str) -> Iterator[str]:
    while (above := os.path.dirname(place)) != place:
        yield above
        place = above


def _inside(top: str, place: str) -> str | None:
    """The path in the checkout, in small letters; None when it is outside."""
    inside = os.path.relpath(place, top)
    if inside == os.pardir or inside.startswith("../"):
        return None
    return "" if inside == "." else inside.casefold()


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]
