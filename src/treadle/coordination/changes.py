"""Which files git says have changed, and whether another identity's claim covers them."""

import os
from collections.abc import Iterable, Iterator, Mapping

from treadle.coordination import repository
from treadle.coordination.claims import Claims, Overlap
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError
from treadle.light import TypeAlias
from treadle.workspace import uncommitted as working
from treadle.workspace.user_repository import UserRepository

TRAILER = "Heimdall-Agent"
Made: TypeAlias = "tuple[str, list[str]]"
"""Files that one identity changed; "" is the one that asks."""


def of(project: str) -> UserRepository:
    """The repository around `project`, for commands about refs and objects: none looks at a file of the checkout."""
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


def staged(project: str) -> list[str]:
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


def overlaps(claims: Claims, haid: str, changed: Iterable[str]) -> list[Overlap]:
    """Which of these files, changed by this identity, are under another's claim, exclusive or shared.

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
    return claims.held_by_others(claims.bindings.family(haid), surfaces)


def check_commits(claims: Claims, haid: str, made: Iterable[Made]) -> list[Overlap]:
    """The same for commits: the identity that signed a commit is the one that changed its files."""
    found: dict[tuple[str, str, str], Overlap] = {}
    for signer, changed in made:
        for overlap in overlaps(claims, signer or haid, changed):
            found.setdefault((overlap.asked, overlap.held, overlap.claim.haid), overlap)
    return list(found.values())
