"""The claims guard of a shared remote: a pre-receive hook that refuses commits under the claims of its clones.

Claims are kept in each clone. The hook is told which clones on this machine count; without one, a copy of their live
state in the remote's own `heimdall` directory does. What cannot be read refuses the push.
"""

import os
from collections.abc import Iterable, Sequence

from treadle.coordination import changes, repository
from treadle.coordination.claims import Claims, Collision, Overlap
from treadle.coordination.identity import checked, human_of, root_of, slug
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError, Denied, TreadleError

QUARANTINE = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH")
"""Where git keeps what is pushed until the hook has agreed."""


def ledgers(project: str, clones: Sequence[str]) -> list[Claims]:
    """The claims that count. Raises ConfigError if some cannot be found."""
    found = []
    for place in clones or [project]:
        planning = Planning(project=place)
        known = repository.find(place)
        if known is None or planning.live == planning.root:
            raise ConfigError(f"{place} is not a git repository of this machine, so its claims are not seen")
        if not clones and not planning.claimed():
            hint = "name the clones whose claims count: guard install --server CLONE..., or copy their live state there"
            raise ConfigError(f"no claims are kept in {planning.live}", hint=hint)
        found.append(Claims(planning, known.top, once=True))
    return found


def judge(project: str, clones: Sequence[str], refs: Iterable[str]) -> None:
    """Raises Collision for a push of what others hold, and Denied where that cannot be seen.

    `refs`: the lines that git gives to pre-receive.
    """
    try:
        made = [one for line in refs for one in _received(project, line.split())]
        counted = ledgers(project, clones)
    except TreadleError as error:
        raise Denied(f"what others hold cannot be seen: {error.message}") from error
    found: list[Overlap] = []
    for claims in counted:
        if unseen := claims.unseen():
            raise Denied(f"what others hold cannot be seen: {'; '.join(unseen)}")
        for by, author, files in made:
            met = changes.overlaps(claims, by, files)
            found += [overlap for overlap in met if by != "" or not _is_persons_own(overlap, author)]
    if found:
        raise Collision(found, "push")


def _is_persons_own(overlap: Overlap, author: str) -> bool:
    """Whether an unsigned commit is by the person who holds the file; what their agents hold is not theirs."""
    holder = overlap.claim.haid
    return holder == root_of(holder) and human_of(holder) == slug(author.partition("@")[0])


def _received(project: str, ref: list[str]) -> list[tuple[str, str, list[str]]]:
    """For each new commit: the identity that signed it, or "", its author's address, and the files that it changed."""
    if len(ref) != 3 or not ref[1].strip("0"):
        return []  # a branch is deleted: nothing is changed
    env = {name: os.environ[name] for name in QUARANTINE if name in os.environ}
    listed = changes.read(project, "rev-list", ref[1], "--not", "--all", "--", env=env)
    if not listed:
        return []
    asked = ("log", "--no-show-signature", "--no-walk=unsorted", "--stdin", "--format=%ae")
    authors = changes.read(project, *asked, stdin=listed, env=env).decode(errors="replace").splitlines()
    made = changes.made_in(project, listed, env)
    return [(checked(by) if by else "", author, files) for (by, files), author in zip(made, authors, strict=True)]
