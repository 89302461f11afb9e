"""Finds the lines of work that would conflict if they were merged now.

The merges are tried in a store of ours, which goes afterwards: nothing is written into the person's repository.
"""

import os
from collections.abc import Sequence
from typing import Any

from treadle.coordination import changes
from treadle.coordination.claims import Claim, Claims
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError
from treadle.io import scratch
from treadle.workspace import merges, uncommitted
from treadle.workspace.store import Store, lending
from treadle.workspace.user_repository import UserRepository


def scan(claims: Claims, branches: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every pair that conflicts, with the files and who holds each file.

    Lines of work are the worktrees, including uncommitted changes, and the local branches that are not merged into the
    main worktree; or only the branches that are named.
    """
    user = changes.of(claims.planning.project)
    with scratch.directory("radar") as directory:
        store = Store.make(os.path.join(directory, "store"), **lending(user))
        tips = {name: _commit(user, name) for name in branches} if branches else live(user, store)
        found = _conflicting(store, tips, claims.active())
    claims.planning.note("claim", "radar", f"lines={len(tips)} conflicts={len(found)}")
    return found


def _conflicting(store: Store, tips: dict[str, str], active: Sequence[Claim]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    names = list(tips)
    if names:
        merges.set_attributes(store, tips[names[0]])
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            files = store.merge(tips[one], tips[other]).conflicts if tips[one] != tips[other] else ()
            if files:
                rows = [{"file": file, "holders": _holders(active, file)} for file in files]
                found.append({"between": [one, other], "files": rows})
    return found


def live(user: UserRepository, store: Store) -> dict[str, str]:
    """Name -> commit, of each worktree and of each branch with commits of its own."""
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
