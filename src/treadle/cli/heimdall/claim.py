"""heimdall-claim: reserve files of a repository for a limited time; treadle coord allow: an exception, once"""

import os
import sys
from collections.abc import Callable

from treadle.cli.heimdall.table import Arguments, UsageError, err, out, small
from treadle.coordination import bindings, installed_hooks, repository
from treadle.coordination.bindings import acting
from treadle.coordination.claim import owns, wait_text
from treadle.coordination.claims import Claims, Collision, Overlap
from treadle.coordination.identity import checked, spawn
from treadle.coordination.planning import Planning, one_line
from treadle.coordination.surfaces import Surface
from treadle.wire.common.jsontext import dumps

# treadle coord allow: let an agent override another's claim once

ALLOW_HELP = """treadle coord allow: let an agent override another's claim once

treadle coord allow [--minutes N]
    for a person: prints a code to set as HEIMDALL_ALLOW for the agent. It permits one `release --force`, one commit or
    push with HEIMDALL_GUARD_BYPASS, or one command under another session's identity, within N minutes (default: 10)
"""


@small(ALLOW_HELP, "--minutes")
def allow_command(args: Arguments) -> int:
    minutes = args.get("--minutes") or "10"
    if args.rest or not (minutes.isascii() and minutes.isdecimal() and 1 <= int(minutes) <= 1440):
        raise UsageError("expected [--minutes N], 1 to 1440")
    out(bindings.grant(Planning(), int(minutes)))
    err(f"valid once, for {minutes} minutes: {bindings.VARIABLE}=CODE in the agent's command")
    err("  an agent that runs without a sandbox could have made this itself: without one, claims are advice")
    return 0


WAIT_SECONDS = 0.2
"""Seconds between two looks of a wait."""
ASK_SECONDS = 15.0
"""The same, at what other clones hold."""


CLAIM_HELP = """heimdall-claim: reserve files of a repository for a limited time

heimdall-claim claim SURFACE... --task T [--ttl MINUTES] [--shared]
    add these to your claims; exit 3 if another agent has claimed any of them
    a surface is a path (and everything below it), a quoted glob such as 'src/**/*.ts', or file#symbol; --shared: for
    reading
heimdall-claim release [SURFACE...] [--haid H] [--force --reason TEXT]
    release these claims, or all of yours; another agent's only with --force, which records the reason in decisions.md
heimdall-claim wait SURFACE... [--timeout SECONDS]
    wait until all are free (exit 0) or the timeout (default: 600 s; exit 3); the holders are notified
heimdall-claim heartbeat [--haid H]         renew the claim before it expires
heimdall-claim check SURFACE... [--shared] [--json]          exit 3 if another agent has claimed any of them
heimdall-claim check --diff [RANGE] [--json]
    check the changes of the commits in RANGE (in CI: origin/main..HEAD), each for the agent in its Heimdall-Agent
    trailer; without RANGE, for uncommitted changes
heimdall-claim list [--json]                all active claims
heimdall-claim who [--json]                 active agents, their tasks, and who waits for whom
heimdall-claim show [--haid H] [--json]     show one claim
heimdall-claim reap                         remove expired claims
heimdall-claim guard install [--mode block|warn] | uninstall | status [--json]
    git hooks that reject commits and pushes of files claimed by another agent; installed with the first claim
    HEIMDALL_GUARD_BYPASS="why" bypasses them once and records the reason in decisions.md
    In an agent's session, this, --force and another identity need a code from `treadle coord allow`.
heimdall-claim guard install --server [CLONE...]
    in a shared remote: reject pushes of files claimed in these clones on this machine, or in its own heimdall/
heimdall-claim proof [--haid H]
    proves to such a remote that the claim is yours: git push -o "$(heimdall-claim proof)"; the next code replaces it
heimdall-claim share REMOTE | off | now
    exchange claims with the other clones of this repository that share them through REMOTE (ref refs/heimdall/claims);
    check, claim and release do it; `check` shows the age of the other clones' claims
heimdall-claim radar [BRANCH...] [--json]   find branches and worktrees that would conflict now (exit 3: yes)
The acting identity is HEIMDALL_HAID, else the current agent session, else the checkout's person;
--role R: the agent with that role in this checkout.
"""


def _caller(claims: Claims, args: Arguments, *, enter: bool = False) -> str:
    if role := args.get("--role"):
        return spawn(claims.planning.project, role)
    return acting(claims.planning, enter=enter)


def _claim(claims: Claims, args: Arguments) -> int:
    ttl = args.get("--ttl")
    if ttl and not (ttl.isascii() and ttl.isdecimal()):
        raise UsageError("--ttl is a number of minutes")
    if not args.rest:
        raise UsageError("expected at least one surface")
    haid = _caller(claims, args, enter=True)
    shared = "--shared" in args.flags
    task = args.need("--task")
    first = not os.path.isdir(claims.directory)
    claims.session = bindings.session(claims.planning)
    made = claims.claim(haid, args.rest, task, int(ttl) if ttl else None, shared=shared)
    asked = list(dict.fromkeys(args.rest))
    out(f"claimed {len(asked)} surface(s) for {haid} (task {one_line(task)}, ttl {made.fields['ttl_minutes']}m)")
    for text in asked:
        out(f"  {one_line(text)}")
    out(f"{'shared' if shared else 'exclusive'}, fence {made.fence}, expires_at {made.expires_at}")
    if len(made.texts) > len(asked):
        out(f"held in all: {' '.join(map(one_line, made.texts))}")
    if claims.unreported:
        err(f"warning: {claims.unreported}")
    for text in claims.without_files(asked):
        err(f"warning: {one_line(text)} matches no file")
    if first:
        for line in installed_hooks.begin(claims.planning):
            (err if line.startswith("warning: ") else out)(line)
    else:
        _warn_unguarded(claims)
    _tell_of_waits(claims, haid)
    return 0


def _tell_of_waits(claims: Claims, haid: str) -> None:
    for wait in claims.waits.on(haid):
        err(f"another agent waits for you: {one_line(wait_text(wait))}")


def _release(claims: Claims, args: Arguments) -> int:
    caller = _caller(claims, args)
    haid = checked(args.get("--haid") or caller)
    if "--force" in args.flags and not owns(caller, haid):
        bindings.require(claims.planning, "release what another holds")
    elif owns(caller, haid):
        bindings.check_own(claims.planning, haid)
    released = claims.release(caller, haid, args.rest, force="--force" in args.flags, reason=args.get("--reason"))
    out(f"released claim for {haid}" if released else f"no active claim for {haid}")
    if released:
        out(f"given up: {' '.join(map(one_line, released.given))}")
        if released.left:
            out(f"still held: {' '.join(map(one_line, released.left))}")
    return 0


def _wait(claims: Claims, args: Arguments) -> int:
    import time

    seconds = args.get("--timeout") or "600"
    if not args.rest or not (seconds.isascii() and seconds.isdecimal()):
        raise UsageError("expected surfaces, and --timeout as a number of seconds")
    haid = _caller(claims, args, enter=True)
    until, announced = time.monotonic() + int(seconds), False
    wanted = [Surface(text, claims.top) for text in args.rest]
    asked = time.monotonic()
    claims.publish()
    while found := Claims(claims.planning, claims.top).overlaps(haid, wanted):
        if not announced:
            claims.waits.put(haid, args.rest, "waits", [overlap.claim.haid for overlap in found])
            err("\n".join(f"waiting: {overlap}" for overlap in found))
            announced = True
        if time.monotonic() >= until:
            raise Collision(found)
        time.sleep(WAIT_SECONDS)
        if time.monotonic() - asked > ASK_SECONDS:
            claims.share()
            asked = time.monotonic()
    claims.waits.drop(haid)
    out(f"free: {' '.join(map(one_line, args.rest))}")
    return 0


def _heartbeat(claims: Claims, args: Arguments) -> int:
    from treadle.errors import NotFound

    caller = _caller(claims, args)
    haid = checked(args.get("--haid") or caller)
    bindings.check_own(claims.planning, haid)
    try:
        claim = claims.heartbeat(caller, haid)
    except NotFound as error:
        err(f"heimdall-claim: {error}")
        return 2
    claims.publish()
    out(f"heartbeat {haid} (expires_at {claim.expires_at})")
    out(f"held: {' '.join(map(one_line, claim.texts))}")
    _tell_of_waits(claims, haid)
    return 0


def _check(claims: Claims, args: Arguments) -> int:
    haid = checked(args.get("--haid") or _caller(claims, args))
    claims.publish()
    if age := claims.store.clones.age():
        err(age if not claims.unreported else f"{age}; {claims.unreported}")
    if "--diff" in args.flags:
        found = _diff(claims, haid, args.rest)
    elif args.rest:
        found = claims.check(haid, args.rest, shared="--shared" in args.flags)
    else:
        raise UsageError("expected at least one surface, or --diff")
    return _verdict(claims, found, args)


def _diff(claims: Claims, haid: str, rest: list[str]) -> list[Overlap]:
    from treadle.coordination import changes

    project = claims.planning.project
    if len(rest) > 1:
        raise UsageError("expected one range of commits after --diff")
    if not rest:
        found = changes.overlaps(claims, claims.bindings.family(haid), changes.uncommitted(project))
    else:
        revisions = rest[0] if ".." in rest[0] else f"{rest[0]}..HEAD"
        found = changes.check_commits(claims, haid, changes.commits(project, revisions))
    claims.planning.note("claim", "check", f"{haid} overlaps={len(found)} --diff {' '.join(rest)}")
    return found


def _verdict(claims: Claims, found: list[Overlap], args: Arguments) -> int:
    """Say "clear" only when all could be checked: exit 2 when a file or the directory of claims was unreadable."""
    unseen = claims.unseen()
    fresh = not unseen and not claims.planning.claimed()
    if fresh:
        why = "no claims were ever made in this clone, and those of other clones are not seen"
        unseen = [f"{claims.planning.live} is not there: {why}"] if "--diff" in args.flags and args.rest else []
    if "--json" in args.flags:
        clear = None if unseen and not found else not found
        more = {"unseen": unseen} if unseen else {}
        out(dumps({"clear": clear, "overlaps": [overlap.as_json() for overlap in found], **more}, 2))
        return 3 if found else 2 if unseen else 0
    for reason in unseen:
        err(f"cannot tell: {reason}")
    if found:
        raise Collision(found, "change")
    if unseen:
        return 2
    out("clear: no one has claimed anything in this clone" if fresh else "clear")
    return 0


def _list(claims: Claims, args: Arguments) -> int:
    as_json = "--json" in args.flags
    listed = claims.listed(as_json=as_json)
    claims.planning.note("claim", "list", str(len(listed)))
    _warn(claims)
    if as_json:
        inside = ",\n".join(listed).replace("\n", "\n  ")
        out(f"[\n  {inside}\n]" if inside else "[]")
        return 0
    out("\n".join([f"ACTIVE CLAIMS ({len(listed)})" if listed else "(no active claims)", *listed]))
    return 0


def _proof(claims: Claims, args: Arguments) -> int:
    haid = checked(args.get("--haid") or _caller(claims, args))
    bindings.check_own(claims.planning, haid)
    out(claims.prove(haid))
    if claims.unreported:
        err(f"warning: {claims.unreported}")
    return 0


def share(claims: Claims, args: Arguments) -> int:
    (what,) = args.exactly(1, "a remote, off or now")
    if what != "now":
        bindings.require(claims.planning, "decide with whom claims are shared")
        from treadle.coordination.clones import Clones

        if what == "off":
            claims.publish(withdrawn=True)
            if claims.unreported:
                err(f"warning: {claims.unreported}; they see this clone's claims until those end")
        Clones(claims.planning).turn("" if what == "off" else what)
    claims.publish()
    out(claims.store.clones.age() or "claims are not shared with other clones")
    if claims.unreported:
        err(f"warning: {claims.unreported}")
    return 2 if claims.unreported else 0


def _warn(claims: Claims) -> None:
    for reason in claims.unseen():
        err(f"warning: {reason}")
    _warn_unguarded(claims)


def _warn_unguarded(claims: Claims) -> None:
    for reason in installed_hooks.warnings(claims.planning):
        err(f"warning: {reason}")


def _who(claims: Claims, args: Arguments) -> int:
    from treadle.coordination.claims import lines, rows

    found = rows(claims)
    claims.planning.note("claim", "who", str(len(found)))
    _warn(claims)
    if "--json" in args.flags:
        out(dumps(found, 2))
    else:
        for line in lines(found):
            out(one_line(line))
    return 0


def _show(claims: Claims, args: Arguments) -> int:
    haid = checked(args.get("--haid") or _caller(claims, args))
    claim = claims.of(haid)
    claims.planning.note("claim", "show", haid)
    if "--json" in args.flags:
        out(dumps(claim.as_json() if claim else None, 2))
    elif claim:
        out(claim.listed(claims.bindings.gone_since(haid)))
    else:
        out(f"no active claim for {haid}")
    return 0


def _reap(claims: Claims, args: Arguments) -> int:
    reaped, active = claims.reap()
    out(f"reaped {len(reaped)} expired claim(s); {len(active)} active claim(s) remain")
    return 0


def _guard(claims: Claims, args: Arguments) -> int:
    mode = args.get("--mode", "block")
    if args.rest[:1] == ["pre-receive"] or "--server" in args.flags and args.rest[:1] == ["install"]:
        return _server_guard(claims, args.rest[0], args.rest[1:])
    if len(args.rest) != 1 or mode not in ("block", "warn"):
        raise UsageError("expected guard install [--mode block|warn], uninstall or status")
    from treadle.coordination import hooks

    what, project = args.rest[0], claims.planning.project
    if what == "uninstall" or what == "install" and mode == "warn":
        bindings.require(claims.planning, "take away what guards others' claims")
    if what == "install":
        for path in hooks.install(project, mode):
            out(f"installed {path} ({mode})")
        installed_hooks.turn(claims.planning, on=True)
    elif what == "uninstall":
        for path in hooks.uninstall(project):
            out(f"removed {path}")
        installed_hooks.turn(claims.planning, on=False)
    elif what == "status":
        found = hooks.status(project)
        out(dumps(found, 2) if "--json" in args.flags else "\n".join(f"{hook}: {how}" for hook, how in found.items()))
        if "absent" in found.values() and (why := hooks.why_absent(project)):
            err(f"  {why}")
    elif what in hooks.HOOKS:
        return _hook(claims, args, what, mode)
    else:
        raise UsageError(f"unknown command guard {what}")
    return 0


def _server_guard(claims: Claims, what: str, clones: list[str]) -> int:
    """Install the hook of a shared remote, or do what it asks."""
    from treadle.coordination import hooks

    project = claims.planning.project
    if what == "install":
        out(f"installed {hooks.install_server(project, clones)} (block)")
        return 0
    try:
        hooks.judge_push(project, clones, sys.stdin.read().splitlines(), hooks.pushed_with(os.environ))
        return 0
    except Collision as collision:
        err(collision.message)
        err('  if you are the holder, prove it: git push -o "$(heimdall-claim proof)"')
        return 3


def _hook(claims: Claims, args: Arguments, hook: str, mode: str) -> int:
    haid = _caller(claims, args)
    from treadle.coordination import hooks

    lines = sys.stdin.read().splitlines() if hook == "pre-push" else []
    if hook == "pre-push":
        claims.publish()
    try:
        for overlap in hooks.judge(claims, hook, haid, mode, hooks.changed(claims.planning.project, hook, lines)):
            err(f"warning: {overlap}")
        for reason in claims.unseen():
            err(f"warning: others' claims cannot be read: {reason}")
        return 0
    except Collision as collision:
        err(collision.message)
        err(f"  you are {haid}; ask the holder, or work on something else (a person: heimdall-claim --help)")
        return 3


def _radar(claims: Claims, args: Arguments) -> int:
    from treadle.coordination import changes

    found = changes.scan(claims, args.rest)
    if "--json" in args.flags:
        out(dumps(found, 2))
    elif not found:
        out("no conflicts: everything live merges with everything else")
    else:
        for conflict in found:
            out(f"CONFLICT {' <-> '.join(conflict['between'])}")
            for row in conflict["files"]:
                held = ", ".join(f"{h['haid']} (task {h['task']}, until {h['expires_at']})" for h in row["holders"])
                out(f"  {one_line(row['file'])}  {'held by ' + held if held else 'held by no one'}")
    return 3 if found else 0


_COMMANDS: dict[str, Callable[[Claims, Arguments], int]] = {
    "claim": _claim,
    "release": _release,
    "check": _check,
    "wait": _wait,
    "heartbeat": _heartbeat,
    "list": _list,
    "who": _who,
    "show": _show,
    "reap": _reap,
    "guard": _guard,
    "proof": _proof,
    "share": share,
    "radar": _radar,
}


@small(
    CLAIM_HELP,
    "--task --ttl --haid --reason --role --mode --timeout",
    "--json --shared --force --diff --server",
    commands=" ".join(_COMMANDS),
)
def claim_command(args: Arguments) -> int:
    if not args.rest or args.rest[0] not in _COMMANDS:
        raise UsageError(f"expected one of {', '.join(_COMMANDS)}")
    command = args.rest.pop(0)
    planning = Planning()
    found = repository.find(planning.project)
    claims = Claims(planning, found.top if found else planning.project)
    try:
        return _COMMANDS[command](claims, args)
    except Collision as collision:
        err(collision.message)
        return 3
