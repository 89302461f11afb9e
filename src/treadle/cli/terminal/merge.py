"""`treadle merge`."""

from __future__ import annotations

import sys

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import WHERE, place, show, warn
from treadle.errors import LocalError
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.terminal.places import Place
    from treadle.workspace.workspace import Workspace


MERGE_HELP = """Bring what a terminal's program has changed in its worktree into your directory.

    treadle merge ID [--branch | --discard] [--anyway] [--json]

The changes become uncommitted changes of the directory that `run --worktree` was started for: all of them, or none if
they conflict with yours. Once the program has ended and all is brought over, its worktree is removed.

  --branch    do not change the directory: make a branch with the result, treadle/NAME, on top of the program's commits
  --discard   throw the worktree away with all that is in it; only when the program has ended
  --anyway    also files that other programs obey: CI, hooks, AGENTS.md

Exit codes: 0 done, or nothing to do. 1 conflicts, or any other failure.
"""


def merge_command(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--branch --discard --anyway --json")
    (name,) = given.exactly(1, "one id")
    if {"--branch", "--discard"} <= given.flags:
        raise UsageError("--branch keeps the work and --discard throws it away")
    from treadle.terminal import worktree

    where = place(given, name)
    workspace, as_json = worktree.of(where), "--json" in given.flags
    if "--discard" in given.flags:
        if worktree.runs(where):
            raise LocalError(f"{where.id} still runs in its worktree", hint=f"`treadle kill {where.id}` ends it")
        workspace.discard()
        return _report(as_json, "discarded", workspace.top, [])
    if "--branch" in given.flags:
        return _branch(where, workspace, as_json)
    return _apply(where, workspace, "--anyway" in given.flags, as_json)


def _apply(where: Place, workspace: Workspace, anyway: bool, as_json: bool) -> int:
    from treadle.terminal import worktree

    plan = workspace.plan(anyway=anyway)
    done = workspace.apply(plan)
    source = workspace.place.source
    if done.conflicts:
        for each in done.conflicts:
            warn(f"treadle: {each.path}: {each.reason}")
        warn(f"  nothing in {source} was changed; commit or take back your own changes, or use --branch")
        return 1
    changed = [each.path for each in workspace.difference().changes]
    if not worktree.runs(where):
        left = workspace.release(applied=True)
        if left:
            warn(f"treadle: {left} is kept: it has commits of its own (--branch brings them, --discard removes it)")
    return _report(as_json, "merged", source, changed)


def _branch(where: Place, workspace: Workspace, as_json: bool) -> int:

    from treadle.agent.bundling import bundle_of
    from treadle.io.process.loop import run_async

    agent = None
    if workspace.has_committed():
        start, lenders = str(workspace.place.start), workspace.store.lenders
        agent = workspace.take_commits(run_async(bundle_of(workspace.top, start, lenders)))
    commit = workspace.publish(f"{where.id}: what was left in its worktree", agent)
    if commit is None:
        return _report(as_json, "unchanged", "", [])
    return _report(as_json, "branch", str(workspace.place.branch), [])


WORDS = {
    "discarded": "the worktree {place} is gone",
    "merged": "{count} changed files are in {place} now",
    "unchanged": "nothing was changed",
    "branch": "the branch {place} has it",
}


def _report(as_json: bool, outcome: str, where: str, changed: list[str]) -> int:
    if as_json:
        show({"outcome": outcome, "place": where, "changed": changed})
    elif outcome == "merged" and not changed:
        sys.stdout.write("nothing was changed\n")
    else:
        sys.stdout.write(f"{WORDS[outcome].format(place=where, count=len(changed))}\n")
    return 0
