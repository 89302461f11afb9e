"""Who is here and what each works on, and which lines of work would conflict if they were merged now."""

import os
from collections.abc import Sequence

from treadle.coordination import changes
from treadle.coordination.claims import Claim, Claims
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError
from treadle.io import scratch
from treadle.light import Any
from treadle.workspace import branch_merges, uncommitted
from treadle.workspace.store import Store, lending
from treadle.workspace.user_repository import UserRepository

# Who is here, what each works on, since when, and who waits for whom.


def rows(claims: Claims) -> list[dict[str, Any]]:
    """One row for each live session, and for each identity that holds or waits for something."""
    held = {claim.haid: claim for claim in claims.active()}
    waits = {wait["haid"]: wait for wait in claims.waits.all()}
    bindings = {binding.haid: binding for binding in claims.bindings.all()}
    here = {haid for haid, binding in bindings.items() if claims.bindings.living(haid)}
    found = []
    for haid in sorted(held.keys() | waits.keys() | here):
        binding, claim, wait = bindings.get(haid), held.get(haid), waits.get(haid)
        row: dict[str, Any] = {"haid": haid, "here": haid in here if binding else None}
        if binding is not None:
            row |= {
                "session": binding.key,
                "since": binding.fields.get("since", ""),
                "cwd": binding.fields.get("cwd", ""),
            }
            if haid not in here:
                row["not_connected_since"] = binding.seen
        if claim is not None:
            parts = [{"surface": text, **claim.part(text)} for text in claim.texts]
            row |= {"holds": parts, "expires_at": claim.expires_at}
        if wait is not None:
            row["waits"] = {name: wait[name] for name in ("surfaces", "task", "since", "holders")}
        row["waited_for_by"] = sorted(other["haid"] for other in waits.values() if haid in other["holders"])
        found.append(row)
    return found


def lines(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["(no one is here, and nothing is claimed)"]
    shown = []
    for row in found:
        place = f" in {row['cwd']}" if row.get("cwd") else ""
        state = {True: f"here since {row.get('since')}{place}", None: "no session known"}.get(
            row["here"], f"not connected since {row.get('not_connected_since')}"
        )
        shown.append(f"{row['haid']}  {state}")
        for part in row.get("holds", ()):
            shown.append(f"  holds {part['surface']} ({part['mode']}, task {part['task']}, since {part['since']})")
        if wait := row.get("waits"):
            shown.append(
                f"  waits for {' '.join(wait['surfaces'])} since {wait['since']}: {', '.join(wait['holders'])}"
            )
        if row["waited_for_by"]:
            shown.append(f"  waited for by {', '.join(row['waited_for_by'])}")
    return shown


# Finds the lines of work that would conflict if they were merged now.
#
# The merges are tried in a store of ours, which goes afterwards: nothing is written into the person's repository.


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
        branch_merges.set_attributes(store, tips[names[0]])
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
