"""What git says was changed, and whether somebody else's claim covers it."""

from __future__ import annotations

from treadle.coordination.claims import Claims, Overlap, overlaps_with
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError, LocalError
from treadle.io.ask import answer
from treadle.policy import patterns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TRAILER = "Heimdall-Agent"


def git(project: str, *arguments: str) -> bytes:
    code, said = answer(["git", "-C", project, *arguments])
    if code:
        raise LocalError(f"git {' '.join(arguments)} failed with exit code {code}", hint="it said why above")
    return said


def names(listed: bytes) -> list[str]:
    return [name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name]


def staged(project: str) -> list[str]:
    """What the next commit changes; a rename is its old and its new name."""
    return names(git(project, "diff", "--cached", "--name-only", "--no-renames", "-z"))


def uncommitted(project: str) -> list[str]:
    has_commit = answer(["git", "-C", project, "rev-parse", "-q", "--verify", "HEAD"])[0] == 0
    changed = git(project, "diff", "HEAD", "--name-only", "--no-renames", "-z") if has_commit else b""
    return names(changed + git(project, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", ":/"))


def commits(project: str, *revisions: str) -> Iterator[tuple[str, list[str]]]:
    """Who made each commit, by its trailer ("" when it has none), and what it changed. Merges change nothing here."""
    wanted = [revision for revision in revisions if revision]
    if any(revision.startswith("-") and not revision.startswith("--not") for revision in wanted):
        raise ConfigError(f"{' '.join(wanted)!r} is not a range of commits", hint="such as origin/main..HEAD")
    listed = git(project, "rev-list", "--no-merges", *wanted, "--").split()
    for commit in map(bytes.decode, listed):
        signed = git(project, "show", "-s", f"--format=%(trailers:key={TRAILER},valueonly)", commit)
        changed = git(
            project, "diff-tree", "--root", "-r", "--no-commit-id", "--name-only", "--no-renames", "-z", commit
        )
        yield signed.decode(errors="replace").strip(), names(changed)


def overlaps(claims: Claims, haid: str, changed: Iterable[str]) -> list[Overlap]:
    """Where these files, changed by this identity, are under somebody else's claim, exclusive or shared."""
    others = [claim for claim in claims.active() if claim.haid != haid]
    if not others:
        return []
    return overlaps_with(others, (Surface(patterns.escape(name), claims.top) for name in changed))


def check_commits(claims: Claims, haid: str, made: Iterable[tuple[str, list[str]]]) -> list[Overlap]:
    """The same for commits; who signed one is who changed it."""
    found: dict[tuple[str, str, str], Overlap] = {}
    for signer, changed in made:
        for overlap in overlaps(claims, signer or haid, changed):
            found.setdefault((overlap.asked, overlap.held, overlap.claim.haid), overlap)
    return list(found.values())
