"""The claims guard in git: pre-commit, pre-push and pre-receive hooks refuse changes under another's claim."""

import os
from collections.abc import Iterable, Mapping, Sequence

from treadle.coordination import changes, repository
from treadle.coordination.claim import is_proved
from treadle.coordination.claims import Claims, Collision, Overlap
from treadle.coordination.identity import root_of
from treadle.coordination.planning import Planning
from treadle.coordination.repository import HOOK_MARK, LEGACY, SERVER_HOOK, hook_text, is_legacy, is_ours
from treadle.coordination.repository import HOOKS as HOOKS
from treadle.errors import ConfigError, Denied, TreadleError
from treadle.io.files import move, write_atomic
from treadle.io.paths import state_dir

# The claims guard of a shared remote: a pre-receive hook that refuses commits under the claims of its clones.
#
# Claims are kept in each clone. The hook is told which clones on this machine count; without one, a copy of their
# live state in the remote's own `heimdall` directory does. What cannot be read refuses the push.

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
            raise ConfigError(f"there are no claims in {planning.live}", hint=hint)
        found.append(Claims(planning, known.top))
    return found


def judge_push(project: str, clones: Sequence[str], refs: Iterable[str], given: Sequence[str] = ()) -> None:
    """Raises Collision for a push of what is held, and Denied where that cannot be seen.

    `refs`: the lines that git gives to pre-receive. `given`: the push's options; who holds something proves it by one.
    What a commit says of its author proves nothing.
    """
    try:
        files = [name for line in refs for name in _received(project, line.split())]
        counted = ledgers(project, clones)
    except TreadleError as error:
        raise Denied(f"others' claims cannot be read: {error.message}") from error
    found: list[Overlap] = []
    for claims in counted:
        if unseen := claims.unseen():
            raise Denied(f"others' claims cannot be read: {'; '.join(unseen)}")
        own = {claim.haid for claim in claims.active() if is_proved(claim, given) and not claim.fields.get("unproved")}
        found += [one for one in changes.overlaps(claims, own, files) if not is_proved(one.claim, given)]
    if found:
        raise Collision(found, "push")


def pushed_with(environment: Mapping[str, str]) -> list[str]:
    """The options of the push that a hook judges."""
    count = environment.get("GIT_PUSH_OPTION_COUNT", "")
    numbers = range(int(count)) if count.isdecimal() else ()
    return [environment.get(f"GIT_PUSH_OPTION_{number}", "") for number in numbers]


def _received(project: str, ref: list[str]) -> list[str]:
    """The files that new commits change."""
    if len(ref) != 3 or not ref[1].strip("0"):
        return []  # a branch is deleted: nothing is changed
    env = {name: os.environ[name] for name in QUARANTINE if name in os.environ}
    listed = changes.read(project, "rev-list", ref[1], "--not", "--all", "--", env=env)
    return [name for _, files in changes.made_in(project, listed, env) for name in files]


# The claims guard in git: a pre-commit and a pre-push hook that refuse changes under another agent's claim.
#
# If git uses its own hooks directory, ours is put there, and a hook that was there runs first. If `core.hooksPath`
# names another directory, as husky does, that directory may be tracked, recreated by a package manager, or missing in
# some worktree. Then we point git to a directory of ours, whose hooks run those of the other directory, and no
# tracked file is touched.

BYPASS = "HEIMDALL_GUARD_BYPASS"
_BACKUP = ".before-heimdall"
_SETTING = "core.hooksPath"
_BEFORE = "heimdall.hooksPath"
"""The setting that remembers the previous hooks directory; `=` when nothing was set for this repository."""
_ALL = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update"),
    *("proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc"),
    *("post-rewrite", "sendemail-validate", "post-index-change"),
)
"""Every hook that git may look for in a replaced directory (fsmonitor names its own program)."""


def install(project: str, mode: str) -> list[str]:
    """Install the hooks and return their paths. An existing hook is kept and runs first."""
    found = _repository(project)
    before = _setting(project, _SETTING)
    ours = _own_directory(found)
    if before is None:
        return _beside(os.path.join(found.common, "hooks"), mode)
    os.makedirs(ours, exist_ok=True)
    if before != ours:
        local = _setting(project, _SETTING, "local")
        changes.read(project, "config", "--local", _BEFORE, local if local is not None else f"={before}")
    for hook in _ALL:
        write_atomic(
            os.path.join(ours, hook), _forwarding_script(hook, _previous_directory(project), mode).encode(), 0o755
        )
    changes.read(project, "config", "--local", _SETTING, ours)
    return [os.path.join(ours, hook) for hook in HOOKS]


def install_server(project: str, clones: Iterable[str]) -> str:
    """Install the hook of a shared remote, for the claims of these clones, and return its path."""
    import shlex

    places = [os.path.realpath(clone) for clone in clones]
    ledgers(project, places)
    changes.read(project, "config", "--local", "receive.advertisePushOptions", "true")
    (path,) = _beside(_directory(project), "block", (SERVER_HOOK,), " ".join(map(shlex.quote, places)))
    return path


def _beside(directory: str, mode: str, hooks: Iterable[str] = HOOKS, more: str = "") -> list[str]:
    os.makedirs(directory, exist_ok=True)
    written = []
    for hook in hooks:
        path = os.path.join(directory, hook)
        if is_legacy(path):
            path += LEGACY
        if os.path.lexists(path) and not is_ours(path):
            if os.path.lexists(path + _BACKUP) and hook_text(path + _BACKUP) != hook_text(path):
                raise ConfigError(f"{path} and {path}{_BACKUP} both exist", hint="merge them by hand first")
            move(path, path + _BACKUP)
        write_atomic(path, _script(hook, mode, more=more).encode(), 0o755)
        written.append(path)
    return written


def uninstall(project: str) -> list[str]:
    """Remove the hooks and restore what was there."""
    found = _repository(project)
    removed = []
    for directory in (_own_directory(found), os.path.join(found.common, "hooks")):
        for hook in _ALL:
            for path in (os.path.join(directory, hook), os.path.join(directory, hook + LEGACY)):
                if is_ours(path):
                    os.unlink(path)
                    if os.path.lexists(path + _BACKUP):
                        move(path + _BACKUP, path)
                    removed += [path] if hook in (*HOOKS, SERVER_HOOK) else []
    try:
        os.rmdir(_own_directory(found))
    except OSError:
        pass  # it was never created, or someone put something into it
    if _setting(project, _SETTING, "local") == _own_directory(found):
        before = _setting(project, _BEFORE, "local") or "="
        if before.startswith("="):
            changes.read(project, "config", "--local", "--unset", _SETTING)
        else:
            changes.read(project, "config", "--local", _SETTING, before)
    changes.of(project).run("config", "--local", "--unset", _BEFORE, check=False)
    return removed


def status(project: str) -> dict[str, str]:
    """For each hook, how it is installed where git looks for it in this worktree: block, warn or absent."""
    directory = _directory(project)
    found = {}
    for hook in HOOKS:
        path = os.path.join(directory, hook)
        path += LEGACY if is_legacy(path) else ""
        text = hook_text(path)
        known = HOOK_MARK in text and os.access(path, os.X_OK)
        found[hook] = ("warn" if "--mode warn" in text else "block") if known else "absent"
    return found


def why_absent(project: str) -> str:
    """Why our installed hooks have no effect here; empty when there are none."""
    found = _repository(project)
    places = (_own_directory(found), os.path.join(found.common, "hooks"))
    if not any(is_ours(os.path.join(place, hook)) for place in places for hook in HOOKS):
        return ""
    place = _directory(project)
    why = "another program has put its own in their place"
    if place not in places:
        why = f"git takes hooks from {place} ({_SETTING} was changed since)"
    return f"the hooks were installed, but {why}: `heimdall-claim guard install` puts them back"


def changed(project: str, hook: str, refs: Iterable[str]) -> list[changes.Made]:
    """What is about to be committed or pushed; `refs`: the lines that git gives to pre-push."""
    if hook == "pre-commit":
        return [("", changes.staged_changes(project))]
    return [made for line in refs for made in _pushed(project, line.split())]


def judge(claims: Claims, hook: str, haid: str, mode: str, made: Iterable[changes.Made]) -> list[Overlap]:
    """Returns what the hook found if it only warns; raises Collision if it blocks. A bypass must give its reason.

    If others' claims cannot be seen, it refuses too.
    """
    unseen = claims.unseen()
    found = [one for one in changes.check_commits(claims, haid, made) if not _is_own_role(claims, haid, one)]
    if not found and not unseen:
        claims.planning.note("guard", hook, f"{haid} clear")
        claims.keep(haid)
        return []
    listed = ", ".join(sorted({overlap.asked for overlap in found})) or "; ".join(unseen)
    reason = os.environ.get(BYPASS, "").strip()
    if reason:
        from treadle.coordination import bindings, capsules

        bindings.require(claims.planning, f"{hook.removeprefix('pre-')} what another holds")
        capsules.append(
            claims.planning, f"{hook} guard bypassed", f"`{haid}` changed {listed} under another's claim: {reason}"
        )
        claims.planning.log("guard", "bypass", f"{haid} {listed} reason={reason}")
        return []
    claims.planning.log("guard", mode, f"{haid} {hook} {listed}")
    if mode == "block" and found:
        raise Collision(found, "commit" if hook == "pre-commit" else "push")
    if mode == "block":
        raise Denied(f"others' claims cannot be read: {listed}", hint="fix or remove that first")
    return found


def _is_own_role(claims: Claims, haid: str, overlap: Overlap) -> bool:
    """Whether a person meets what they hold under a role of theirs, and not what a session of an agent holds."""
    holder = overlap.claim.haid
    if holder == haid or root_of(holder) != haid or claims.bindings.of(holder) is not None:
        return False
    from treadle.coordination import bindings

    return not bindings.in_session(claims.planning)


def _pushed(project: str, ref: list[str]) -> Iterable[changes.Made]:
    if len(ref) != 4 or not ref[1].strip("0"):
        return []  # a branch is deleted: nothing is changed
    known = [ref[3]] if ref[3].strip("0") and changes.has(project, ref[3]) else []
    return changes.commits(project, ref[1], "--not", *known, "--remotes")


def _repository(project: str) -> repository.SharedRepository:
    found = repository.find(project)
    if found is None:
        raise ConfigError(f"{project} is not in a git repository", hint="git init makes one")
    return found


def _own_directory(found: repository.SharedRepository) -> str:
    return os.path.join(found.common, "hooks", "heimdall")  # a sandbox protects this place


def _setting(project: str, name: str, *scope: str) -> str | None:
    """The value of a git setting, without our own command-line settings, which switch hooks off."""
    known = changes.of(project).settings()
    found = [value for where, key, value in known if key.lower() == name.lower() and where in (scope or (where,))]
    return found[-1] if found else None


def _previous_directory(project: str) -> str:
    """The previous hooks directory. A relative one is relative to the top of each worktree, where git runs hooks."""
    before = (_setting(project, _BEFORE, "local") or "").removeprefix("=")
    return os.path.expanduser(before)


def _directory(project: str) -> str:
    """Where git looks for hooks in this worktree."""
    found = _repository(project)
    place = _setting(project, _SETTING)
    return os.path.join(found.common, "hooks") if not place else os.path.join(found.top, os.path.expanduser(place))


def _forwarding_script(hook: str, directory: str, mode: str) -> str:
    """A hook script that runs the one in the replaced directory and, for two of the hooks, ours after it."""
    import shlex

    before = shlex.quote(os.path.join(directory, hook))
    if hook in HOOKS:
        return _script(hook, mode, before)
    return f"""#!/bin/sh
{HOOK_MARK}: runs the hook of {_BEFORE}; `heimdall-claim guard uninstall` removes it
if [ -x {before} ]; then
  exec {before} "$@"
fi
"""


def _script(hook: str, mode: str, before: str = f'"$0{_BACKUP}"', more: str = "") -> str:
    """`more`: arguments, quoted."""
    import shlex

    from treadle.coordination.hosts import command

    program, home = shlex.quote(command("heimdall-claim")), shlex.quote(state_dir())  # not the committer's to choose
    # git's standard input is for both; the added full stop keeps a newline at its end.
    reads = hook in ("pre-push", SERVER_HOOK)
    keep, give = ("said=$(cat; echo .)\n", 'printf %s "${said%.}" | ') if reads else ("", "")
    return f"""#!/bin/sh
{HOOK_MARK}: refuses changes under another agent's claim; `heimdall-claim guard uninstall` removes it
before={before}
{keep}if [ -x "$before" ]; then
  {give}"$before" "$@" || exit $?
fi
program={program}
if [ ! -x "$program" ] && ! program=$(command -v heimdall-claim); then
  echo "$0: {program} is gone: install treadle again, or remove this hook" >&2
  exit 1
fi
{give}TREADLE_HOME={home} "$program" guard {hook} --mode {mode}{more and f" {more}"}
"""
