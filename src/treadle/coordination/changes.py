"""What git says was changed, and whether somebody else's claim covers it."""

from __future__ import annotations

import os

from treadle.coordination.claims import Claims, Held, Overlap
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError
from treadle.work.git import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TRAILER = "Heimdall-Agent"


def read(project: str, *arguments: str) -> bytes:
    """What git answers. A hook is told which index the commit is made from; that is kept."""
    index = {"GIT_INDEX_FILE": os.path.abspath(name)} if (name := os.environ.get("GIT_INDEX_FILE")) else {}
    return git(*arguments, cwd=project, env=index).stdout


def names(listed: bytes) -> list[str]:
    return [name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name]


def staged(project: str) -> list[str]:
    """What the next commit changes; a rename is its old and its new name."""
    return names(read(project, "diff", "--cached", "--name-only", "--no-renames", "-z"))


def uncommitted(project: str) -> list[str]:
    has_commit = git("rev-parse", "-q", "--verify", "HEAD", cwd=project, check=False).code == 0
    changed = read(project, "diff", "HEAD", "--name-only", "--no-renames", "-z") if has_commit else b""
    return names(changed + read(project, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", ":/"))


def commits(project: str, *revisions: str) -> Iterator[tuple[str, list[str]]]:
    """Who made each commit, by its trailer ("" when it has none), and what it changed. Merges change nothing here."""
    if any(revision.startswith("-") and revision not in ("--not", "--remotes") for revision in revisions):
        raise ConfigError(f"{' '.join(revisions)!r} is not a range of commits", hint="such as origin/main..HEAD")
    listed = read(project, "rev-list", "--no-merges", *revisions, "--").split()
    for commit in map(bytes.decode, listed):
        signed = read(project, "show", "-s", f"--format=%(trailers:key={TRAILER},valueonly)", commit)
        changed = read(
            project, "diff-tree", "--root", "-r", "--no-commit-id", "--name-only", "--no-renames", "-z", commit
        )
        yield signed.decode(errors="replace").strip(), names(changed)


def overlaps(claims: Claims, haid: str, changed: Iterable[str]) -> list[Overlap]:
    """Where these files, changed by this identity, are under somebody else's claim, exclusive or shared."""
    others = [claim for claim in claims.active() if claim.haid != haid]
    if not others:
        return []
    return Held(others).overlaps(Surface.of(name) for name in changed)


def check_commits(claims: Claims, haid: str, made: Iterable[tuple[str, list[str]]]) -> list[Overlap]:
    """The same for commits; who signed one is who changed it."""
    found: dict[tuple[str, str, str], Overlap] = {}
    for signer, changed in made:
        for overlap in overlaps(claims, signer or haid, changed):
            found.setdefault((overlap.asked, overlap.held, overlap.claim.haid), overlap)
    return list(found.values())
