"""What has changed, or would be changed by a shell command, and whether another identity's claim covers it; and which
lines of work would conflict if they were merged now.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from treadle.coordination import repository
from treadle.coordination.claims import Claim, Claims, Overlap
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError, TreadleError
from treadle.light import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from treadle.policy.writes import CommandWrites
    from treadle.workspace.store import Store
    from treadle.workspace.user_repository import UserRepository


# Which files git says have changed, and whether another identity's claim covers them.

TRAILER = "Heimdall-Agent"
Made: TypeAlias = "tuple[str, list[str]]"
"""Files that one identity changed; "" is the one that asks."""


def of(project: str) -> UserRepository:
    """The repository around `project`, for commands about refs and objects: none looks at a file of the checkout."""
    from treadle.workspace.user_repository import UserRepository  # git is rarely needed, and a hook runs at every call

    found = repository.locate(project)
    if found is None:
        raise ConfigError(f"{project} is not in a git repository", hint="git init makes one")
    common = repository.common_of(found[1])
    return UserRepository(*found, common, linked=found[1] != common)


def read(project: str, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """git's output."""
    return of(project).run(*arguments, stdin=stdin, env=env).stdout


def names(listed: bytes) -> list[str]:
    return [name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name]


RAW = ("--raw", "--abbrev=40", "--no-renames", "-z")
_SUBMODULE = "160000"


def changed_names(listed: bytes) -> list[str]:
    """The paths in git's raw format, which lists each with its modes; a submodule's path ends with a slash."""
    fields = names(listed)
    return [_named(head, name) for head, name in zip(fields[::2], fields[1::2], strict=True)]


def _named(head: str, name: str) -> str:
    return f"{name}/" if _SUBMODULE in head.replace(":", " ").split() else name


def staged_changes(project: str) -> list[str]:
    """What the next commit changes: both names of a rename; in a merge, only what differs from every parent."""
    user = of(project)
    head = "HEAD" if has(project, "HEAD") else user.run("hash-object", "-t", "tree", "--stdin").stdout.decode().strip()
    changed = _staged_since(project, head)
    if os.path.exists(user.file("MERGE_HEAD")):
        merged = set(_staged_since(project, "MERGE_HEAD"))
        return [name for name in changed if name in merged]
    return changed


def _staged_since(project: str, commit: str) -> list[str]:
    """In a hook, the index that the commit is made from is used. It is compared with a tree, not with files."""
    index = {"GIT_INDEX_FILE": os.path.abspath(name)} if (name := os.environ.get("GIT_INDEX_FILE")) else {}
    return changed_names(read(project, "diff-index", "--cached", *RAW, commit, "--", env=index))


def uncommitted(project: str) -> list[str]:
    """What differs from the last commit, staged or not, and new files; a submodule's path ends with a slash."""
    from treadle.workspace import uncommitted as working  # costs more than all else in a hook

    found = working.find(of(project))
    links = {path for path, entry in found.head.items() if entry.mode == _SUBMODULE}
    return [*(f"{path}/" if path in links else path for path in found.changed), *found.new]


def has(project: str, commit: str) -> bool:
    return of(project).run("rev-parse", "-q", "--verify", f"{commit}^{{commit}}", check=False).code == 0


def commits(project: str, *revisions: str) -> Iterator[Made]:
    """The author identity of each commit, from its trailer ("" if it has none), and the files that it changed.

    In a merge only what differs from every parent counts: the rest is the work of others.
    """
    if any(revision.startswith("-") and revision not in ("--not", "--remotes") for revision in revisions):
        raise ConfigError(f"{' '.join(revisions)!r} is not a range of commits", hint="such as origin/main..HEAD")
    yield from made_in(project, read(project, "rev-list", *revisions, "--"))


def made_in(project: str, listed: bytes, env: Mapping[str, str] | None = None) -> Iterator[Made]:
    """The same for commits that `rev-list` has listed, in their order."""
    if not listed:
        return
    form = f"--format=%H%x00%(trailers:key={TRAILER},valueonly)%x00"
    log = read(project, "log", "--no-show-signature", "--no-walk=unsorted", "--stdin", form, stdin=listed, env=env)
    fields = log.decode(errors="replace").split("\0")
    signers = {commit.strip(): signer.strip() for commit, signer in zip(fields[::2], fields[1::2], strict=False)}
    changed: dict[str, list[str]] = {commit: [] for commit in signers}
    commit, head = "", ""
    for field in names(read(project, "diff-tree", "--stdin", "--root", "-r", "-c", *RAW, stdin=listed, env=env)):
        if head:
            changed[commit].append(_named(head, field))
            head = ""
        elif field.startswith(":"):
            head = field
        else:
            commit = field
    yield from ((signers[commit], changed[commit]) for commit in signers)


def overlaps(claims: Claims, own: set[str], changed: Iterable[str]) -> list[Overlap]:
    """Which of these files, changed by one with these identities, are under another's claim, exclusive or shared.

    The coordination files themselves, if they are kept in git, belong to no one.
    """
    if not claims.planning.claimed():
        return []
    found = repository.find(claims.planning.project)
    common = os.path.relpath(claims.planning.root, found.main if found else claims.top) + "/"
    # A path with a trailing slash is a submodule. The one who holds anything inside it also holds its pointer.
    surfaces = (
        Surface.directory(name[:-1]) if name.endswith("/") else Surface.of(name)
        for name in changed
        if not name.startswith(common)
    )
    return claims.held_by_others(own, surfaces)


def check_commits(claims: Claims, haid: str, made: Iterable[Made]) -> list[Overlap]:
    """The same for commits: the identity that signed a commit is the one that changed its files."""
    found: dict[tuple[str, str, str], Overlap] = {}
    for signer, changed in made:
        for overlap in overlaps(claims, claims.bindings.family(signer or haid), changed):
            found.setdefault((overlap.asked, overlap.held, overlap.claim.haid), overlap)
    return list(found.values())


# What a shell command would change that others hold, found before it runs.
#
# Its text tells most of it (`policy/writes.py`); for git the repository is asked: what is staged, what an alias
# means.

MAX_ALIASES = 4


class CommandJudge:
    """Judges one command for an identity that works in `cwd`."""

    def __init__(self, claims: Claims, haid: str, cwd: str, staged: list[str] | None = None) -> None:
        """`staged`: what is about to be committed, if the repository cannot be asked here."""
        self._claims = claims
        self._haid = haid
        self._own = claims.bindings.family(haid)
        self._cwd = cwd
        self._staged = staged
        self._added: list[str] = []
        self.others = False
        """Whether another holds anything."""
        self.overlaps: list[Overlap] = []
        self.unseen = ""
        """Why not all that it would change can be seen; empty when it can, or when no one else holds anything."""
        self.lasting = ""
        """The same, where a look at the files after the command does not show it either."""

    def judge(self, command: str) -> None:
        self.others = bool(self._claims.of_others(self._own))
        if command and self.others:
            self._judge(command, 0)

    def _judge(self, command: str, depth: int) -> None:
        from treadle.policy.writes import of_command  # imported here because it costs more than all else in a hook

        found = of_command(command)
        targets, some = _targets(found, self._cwd)
        surfaces = [one for target in targets for one in self._claims.surfaces_at(*target)]
        if any(self._claims.planning.is_ours(path) for path, _ in targets):
            self._doubt("that it leaves git's own files and the record of claims alone", lasts=True)
        self._meet(self._claims.held_by_others(self._own, surfaces))
        self._doubt(found.unseen)
        self._doubt(found.lasting, lasts=True)
        self.weigh(some)
        for name, where, *words in found.git:
            there = repository.locate(os.path.join(self._cwd, where))
            if there and not repository.inside_other(f"{there[0]}/x", self._claims.planning.live):
                continue  # another repository's
            try:
                self._git(name, os.path.join(self._cwd, where), words, depth)
            except TreadleError as error:
                self._doubt(f"what git {name} changes: {error}")
        self.weigh(os.path.join(self._cwd, word) for word in found.mentions)

    def weigh(self, mentions: Iterable[str], *, lasts: bool = False) -> None:
        """These paths, absolute, are named, and may be written."""
        named = [one for path in mentions for one in self._claims.surfaces_at(path)] if self.others else []
        if met := self._claims.held_by_others(self._own, named):
            self._doubt(f"whether it writes {met[0].asked}, which {met[0].claim.haid} holds", lasts=lasts)

    def _doubt(self, why: str, *, lasts: bool = False) -> None:
        self.unseen = self.unseen or why
        self.lasting = self.lasting or (why if lasts else "")

    def _meet(self, overlaps: Iterable[Overlap]) -> None:
        known = {(one.asked, one.held, one.claim.haid) for one in self.overlaps}
        self.overlaps += [one for one in overlaps if (one.asked, one.held, one.claim.haid) not in known]

    def _git(self, name: str, where: str, words: list[str], depth: int) -> None:
        if name == "push":
            self._meet(check_commits(self._claims, self._haid, commits(where, "HEAD", "--not", "--remotes")))
        elif name == "add":
            self._added += self._changed(where, words)
        elif name == "commit":
            staged = staged_changes(where) if self._staged is None else self._staged
            named = [word for word in words if not word.startswith("-")] if "--" in words else []
            everything = any(word == "--all" or word[:1] == "-" and word[:2] != "--" and "a" in word for word in words)
            more = self._changed(where, [] if everything else named) if everything or named else []
            self._meet(overlaps(self._claims, self._own, [*staged, *self._added, *more]))
        elif name == "checkout":
            for word in words:
                if word.startswith("-") and word != "-":
                    continue
                commit = of(where).run("rev-parse", "--verify", "-q", f"{word}^{{commit}}", check=False)
                place = os.path.join(where, word)
                if not commit.code or not os.path.lexists(place):  # a branch may have the name of a directory
                    self._doubt(f"which files git checkout {word} writes")
                self._meet(self._claims.held_by_others(self._own, self._claims.surfaces_at(place)))
        else:
            self._alias(where, words, depth)

    def _changed(self, where: str, words: list[str]) -> list[str]:
        """The changed and new files under these words; without one, or with an option for all, every one of them."""
        from treadle.workspace import uncommitted as working

        found = working.find(of(where))
        files = [*found.changed, *found.new]
        named = [os.path.normpath(os.path.join(where, word)) for word in words if not word.startswith("-")]
        if not named:
            return files
        full = ((os.path.join(self._claims.top, one), one) for one in files)
        return [one for path, one in full if any(f"{path}/".startswith(f"{place.rstrip('/')}/") for place in named)]

    def _alias(self, where: str, words: list[str], depth: int) -> None:
        asked = of(where).run("config", "--get", f"alias.{words[0]}", check=False)
        means = asked.stdout.decode(errors="replace").strip()
        if asked.code or not means or depth >= MAX_ALIASES:
            self._doubt(f"what git {words[0]} does")
            return
        import shlex

        rest = " ".join(map(shlex.quote, words[1:]))
        self._judge(f"{means[1:]} {rest}" if means.startswith("!") else f"git {means} {rest}", depth + 1)


def _targets(found: CommandWrites, cwd: str) -> tuple[list[tuple[str, bool]], list[str]]:
    """The paths that are written, each with whether it is a pattern, and directories of which some may be."""
    targets, some = [], []
    for target in found.targets:
        path = os.path.join(cwd, os.path.expanduser(target.path))
        if target.some and os.path.isdir(path):
            some.append(path)
        elif not (target.inside and os.path.isdir(path)):
            targets.append((path, target.glob))
    return targets, some


# Finds the lines of work that would conflict if they were merged now.
#
# The merges are tried in a store of ours, which goes afterwards: nothing is written into the person's repository.


def scan(claims: Claims, branches: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every pair that conflicts, with the files and who holds each file.

    Lines of work are the worktrees, including uncommitted changes, and the local branches that are not merged into the
    main worktree; or only the branches that are named.
    """
    from treadle.io import scratch
    from treadle.workspace.store import Store, lending

    user = of(claims.planning.project)
    with scratch.directory("radar") as directory:
        store = Store.make(os.path.join(directory, "store"), **lending(user))
        tips = {name: _commit(user, name) for name in branches} if branches else live(user, store)
        found = _conflicting(store, tips, claims.active())
    claims.planning.note("claim", "radar", f"lines={len(tips)} conflicts={len(found)}")
    return found


def _conflicting(store: Store, tips: dict[str, str], active: Sequence[Claim]) -> list[dict[str, Any]]:
    from treadle.workspace import branch_merges

    found: list[dict[str, Any]] = []
    lines = list(tips)
    if lines:
        branch_merges.set_attributes(store, tips[lines[0]])
    for place, one in enumerate(lines):
        for other in lines[place + 1 :]:
            files = store.merge(tips[one], tips[other]).conflicts if tips[one] != tips[other] else ()
            if files:
                rows = [{"file": file, "holders": _holders(active, file)} for file in files]
                found.append({"between": [one, other], "files": rows})
    return found


def live(user: UserRepository, store: Store) -> dict[str, str]:
    """Name -> commit, of each worktree and of each branch with commits of its own."""
    from treadle.workspace.user_repository import UserRepository

    tips: dict[str, str] = {}
    checked_out = set()
    listed = os.fsdecode(user.run("worktree", "list", "--porcelain").stdout)
    base = ""
    for block in listed.split("\n\n"):
        fields = dict(line.partition(" ")[::2] for line in block.splitlines())
        place, head = fields.get("worktree", ""), fields.get("HEAD", "")
        if not os.path.isdir(place) or not head.strip("0") or "bare" in fields:
            continue
        base = base or head
        branch = fields.get("branch", "").removeprefix("refs/heads/")
        checked_out.add(branch)
        checkout = UserRepository.at(place)
        tips[f"{branch or head[:12]} ({place})"] = _as_it_is(checkout, store, head) if checkout is not None else head
    if base:
        form = "--format=%(refname:short) %(objectname)"
        for line in user.run("for-each-ref", f"--no-merged={base}", form, "refs/heads").stdout.decode().splitlines():
            name, _, commit = line.rpartition(" ")
            if name not in checked_out:
                tips[name] = commit
    return tips


def _as_it_is(checkout: UserRepository, store: Store, head: str) -> str:
    """A commit in the store of the checkout's tracked files as they are; `head` when everything is committed."""
    from treadle.workspace import uncommitted

    found = uncommitted.find(checkout, new=False)
    made, left_out = uncommitted.now(checkout, store, found.changed, found.head)
    gone = {path for path in found.changed if path not in made and path not in left_out}
    files = {path: entry for path, entry in {**found.head, **made}.items() if path not in gone}
    return store.loose_commit(store.put_files(files), [head]) if files != found.head else head


def _commit(user: UserRepository, name: str) -> str:
    done = user.run("rev-parse", "-q", "--verify", f"{name}^{{commit}}", check=False)
    if done.code or name.startswith("-"):
        raise ConfigError(f"{name!r} is not a branch or commit here", hint="git branch --all lists them")
    return done.stdout.decode().strip()


def _holders(active: Sequence[Claim], file: str) -> list[dict[str, str]]:
    surface = Surface.of(file)
    return [
        {"haid": claim.haid, "task": claim.task, "expires_at": claim.expires_at}
        for claim in active
        if any(surface.overlaps(held) for held in claim.surfaces)
    ]
