"""The claims guard in git: a pre-commit and a pre-push hook that refuse changes under somebody else's claim."""

from __future__ import annotations

import os
from collections.abc import Iterable

from treadle.coordination import changes, decisions
from treadle.coordination.claims import Claims, Collision, Overlap
from treadle.coordination.setup import command
from treadle.errors import ConfigError
from treadle.io.files import write_atomic
from treadle.io.process.programs import output_of

HOOKS = ("pre-commit", "pre-push")
BYPASS = "HEIMDALL_GUARD_BYPASS"
_MARK = "# heimdall-guard"
_KEPT = ".before-heimdall"


def install(project: str, mode: str) -> list[str]:
    """Put the hooks in place; a hook that was there is kept and runs first. Gives the paths."""
    directory = _directory(project)
    os.makedirs(directory, exist_ok=True)
    written = []
    for hook in HOOKS:
        path = os.path.join(directory, hook)
        if os.path.lexists(path) and not _is_ours(path):
            if os.path.lexists(path + _KEPT):
                raise ConfigError(f"{path} and {path}{_KEPT} both exist", hint="put them together by hand first")
            os.rename(path, path + _KEPT)
        write_atomic(path, _script(hook, mode).encode(), 0o755)
        written.append(path)
    return written


def uninstall(project: str) -> list[str]:
    """Remove the hooks and put back what was there."""
    directory = _directory(project)
    removed = []
    for hook in HOOKS:
        path = os.path.join(directory, hook)
        if _is_ours(path):
            os.unlink(path)
            if os.path.lexists(path + _KEPT):
                os.rename(path + _KEPT, path)
            removed.append(path)
    return removed


def status(project: str) -> dict[str, str]:
    """For each hook, how it is installed: block, warn or absent."""
    directory = _directory(project)
    found = {}
    for hook in HOOKS:
        path = os.path.join(directory, hook)
        found[hook] = ("warn" if "--mode warn" in _text(path) else "block") if _is_ours(path) else "absent"
    return found


def run(claims: Claims, hook: str, haid: str, mode: str, refs: Iterable[str]) -> list[Overlap]:
    """What the hook found, when it only warns; when it blocks, a Collision. A bypass must give its reason."""
    project = claims.planning.project
    if hook == "pre-commit":
        found = changes.overlaps(claims, haid, changes.staged(project))
    else:
        found = [overlap for line in refs for overlap in _pushed(claims, haid, project, line.split())]
    if not found:
        claims.planning.log("guard", hook, f"{haid} clear")
        return []
    listed = ", ".join(sorted({overlap.asked for overlap in found}))
    reason = os.environ.get(BYPASS, "").strip()
    if reason:
        decisions.append(
            claims.planning, f"{hook} guard bypassed", f"`{haid}` changed {listed} under another's claim: {reason}"
        )
        claims.planning.log("guard", "bypass", f"{haid} {listed} reason={reason}")
        return []
    claims.planning.log("guard", mode, f"{haid} {hook} {listed}")
    if mode == "block":
        raise Collision(found, "commit" if hook == "pre-commit" else "push")
    return found


def _pushed(claims: Claims, haid: str, project: str, ref: list[str]) -> list[Overlap]:
    if len(ref) != 4 or not ref[1].strip("0"):
        return []  # a branch is deleted: nothing is changed
    known = [ref[3]] if ref[3].strip("0") and changes.has(project, ref[3]) else []
    return changes.check_commits(claims, haid, changes.commits(project, ref[1], "--not", *known, "--remotes"))


def _directory(project: str) -> str:
    path = output_of(["git", "-C", project, "rev-parse", "--git-path", "hooks"])
    if path is None:
        raise ConfigError(f"{project} is not in a git repository", hint="git init makes one")
    return os.path.normpath(os.path.join(project, path))


def _is_ours(path: str) -> bool:
    return _MARK in _text(path)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""


def _script(hook: str, mode: str) -> str:
    import shlex

    program = shlex.quote(command("heimdall-claim"))
    # What git says on standard input is for both; the full stop keeps the newline at its end, if there is one.
    keep, give = ("said=$(cat; echo .)\n", 'printf %s "${said%.}" | ') if hook == "pre-push" else ("", "")
    return f"""#!/bin/sh
{_MARK}: refuses changes under somebody else's claim; `heimdall-claim guard uninstall` removes it
before="$0{_KEPT}"
{keep}if [ -x "$before" ]; then
  {give}"$before" "$@" || exit $?
fi
if [ ! -x {program} ]; then
  echo "$0: {program} is gone: install treadle again, or remove this hook" >&2
  exit 1
fi
{give}{program} guard {hook} --mode {mode}
"""
