"""Finds the lines of work that would conflict if they were merged now. Uses `git merge-tree`, which changes nothing."""

import os
from collections.abc import Sequence
from typing import Any

from treadle.coordination import changes
from treadle.coordination.claims import Claim, Claims
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError, LocalError
from treadle.workspace.git import git


def scan(claims: Claims, branches: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every pair that conflicts, with the files and who holds each file.

    Lines of work are the worktrees, including uncommitted changes, and the local branches that are not merged into the
    main worktree; or only the branches that are named.
    """
    project = claims.planning.project
    tips = {name: _commit(project, name) for name in branches} if branches else live(project)
    active = claims.active()
    found = []
    names = list(tips)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            files = conflicts(project, tips[one], tips[other])
            if files:
                rows = [{"file": file, "holders": _holders(active, file)} for file in files]
                found.append({"between": [one, other], "files": rows})
    claims.planning.note("claim", "radar", f"lines={len(tips)} conflicts={len(found)}")
    return found


def live(project: str) -> dict[str, str]:
    """Name -> commit, of each worktree and of each branch with commits of its own."""
    tips: dict[str, str] = {}
    checked_out = set()
    listed = changes.read(project, "worktree", "list", "--porcelain").decode(errors="surrogateescape")
    base = ""
    for block in listed.split("\n\n"):
        fields = dict(line.partition(" ")[::2] for line in block.splitlines())
        place, head = fields.get("worktree", ""), fields.get("HEAD", "")
        if not os.path.isdir(place) or not head.strip("0") or "bare" in fields:
            continue
        base = base or head
        branch = fields.get("branch", "").removeprefix("refs/heads/")
        checked_out.add(branch)
        # A commit of the working tree as it is, on no branch; empty when everything is committed.
        tips[f"{branch or head[:12]} ({place})"] = _working_tree_commit(place) or head
    if base:
        form = "--format=%(refname:short) %(objectname)"
        for line in changes.read(project, "branch", "--no-merged", base, form).decode().splitlines():
            name, _, commit = line.rpartition(" ")
            if name not in checked_out:
                tips[name] = commit
    return tips


def conflicts(project: str, one: str, other: str) -> list[str]:
    """The files that would conflict in a merge of these two commits."""
    if one == other:
        return []
    arguments = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", one, other]
    done = git(*arguments, cwd=project, check=False)
    if done.code not in (0, 1):
        raise LocalError(f"git cannot try the merge: {done.complaint}", hint="it needs git 2.38 or newer")
    return changes.names(done.stdout.partition(b"\0")[2]) if done.code else []


def _commit(project: str, name: str) -> str:
    done = git("rev-parse", "-q", "--verify", f"{name}^{{commit}}", cwd=project, check=False)
    if done.code or name.startswith("-"):
        raise ConfigError(f"{name!r} is not a branch or commit here", hint="git branch --all lists them")
    return done.stdout.decode().strip()


def _working_tree_commit(place: str) -> str:
    return git("stash", "create", cwd=place, check=False).stdout.decode().strip()


def _holders(active: Sequence[Claim], file: str) -> list[dict[str, str]]:
    surface = Surface.of(file)
    return [
        {"haid": claim.haid, "task": claim.task, "expires_at": claim.expires_at}
        for claim in active
        if any(surface.overlaps(held) for held in claim.surfaces)
    ]
