"""treadle coord setup: make an external agent claim files and respect claims"""

import os
from hashlib import sha256

from treadle.cli.heimdall.claim import share
from treadle.cli.heimdall.table import Arguments, UsageError, err, out, put, small
from treadle.coordination import changes, hosts, repository
from treadle.coordination.claims import Claims
from treadle.coordination.hosts import Manifest, planned
from treadle.coordination.planning import Planning
from treadle.coordination.record import SeenClones

SETUP_HELP = """treadle coord setup: make an external agent claim files and respect claims

treadle coord setup claude|codex|gemini|qwen|copilot|opencode|cursor [--dry-run] [--trust] [--no-guard]
                    [--share REMOTE]
    in this repository: registers the MCP server, adds hooks that refuse or undo writes to claimed files, and a
    paragraph to AGENTS.md (or CLAUDE.md, GEMINI.md); installs the hooks of `heimdall-claim guard`, unless --no-guard
    --dry-run shows what would change; --trust (codex): mark the hook as trusted; otherwise Codex asks you
    --share REMOTE: exchange claims with the repository's other clones, as `heimdall-claim share`
treadle coord setup PROGRAM --remove [--dry-run]
    undoes the setup; files that were not changed since are restored byte for byte; the git hooks stay (remove them with
    `heimdall-claim guard uninstall`)
"""


@small(SETUP_HELP, "--share", "--dry-run --remove --trust --no-guard")
def setup_command(args: Arguments) -> int:
    if len(args.rest) != 1 or args.rest[0] not in hosts.NAMES:
        raise UsageError(f"expected one of {', '.join(hosts.NAMES)}")
    name, dry = args.rest[0], "--dry-run" in args.flags
    planning = Planning()
    found = repository.find(planning.project)
    top = found.top if found else planning.project
    main_top = found.main if found and os.path.exists(os.path.join(found.main, ".git")) else top
    removing = "--remove" in args.flags
    host = hosts.host(name, top, main_top, trust=removing or "--trust" in args.flags)
    place = sha256(os.fsencode(top)).hexdigest()[:8]
    manifest = Manifest(planning.live_path("setup"), f"{name}-{place}")
    if removing:
        return _remove(planning, manifest, host, name, dry)
    plan = planned(host.edits)
    if dry:
        _show(plan)
        return 0
    manifest.apply(plan)
    planning.log("setup", "write", f"{name} {top}")
    for path, (before, after) in plan.items():
        out(f"{'unchanged' if before == after else 'wrote' if before is None else 'changed'} {path}")
    for note in host.notes:
        out(note)
    if found is not None:
        _guard(planning, wanted="--no-guard" not in args.flags)
        if remote := args.get("--share"):  # claims leave this clone only through a remote that a person names
            return share(Claims(planning, top), Arguments([remote]))
        if changes.read(planning.project, "remote") and not SeenClones(planning).age():
            out("Claims are not shared with other clones of this repository: heimdall-claim share REMOTE")
    return 0


def _remove(planning: Planning, manifest: Manifest, host: hosts.HostSetup, name: str, dry: bool) -> int:
    if not manifest.files:
        out(f"{name} was not set up here")
        return 0
    if dry:
        for path in manifest.files:
            out(f"would take our part out of {path}")
        return 0
    for path in manifest.remove(host.edits):
        out(f"{'changed' if os.path.exists(path) else 'removed'} {path}")
    planning.log("setup", "remove", f"{name} {planning.project}")
    return 0


def _show(plan: dict[str, tuple[str | None, str]]) -> None:
    from difflib import unified_diff

    for path, (before, after) in plan.items():
        was, old = (path, before) if before is not None else ("/dev/null", "")
        put("".join(unified_diff(old.splitlines(keepends=True), after.splitlines(keepends=True), was, path)))


def _guard(planning: Planning, *, wanted: bool) -> None:
    """The git hooks that refuse commits and pushes of what others hold, unless they are there or not wanted."""
    from treadle.coordination import hooks, installed_hooks
    from treadle.errors import TreadleError

    project = planning.project
    try:
        installed_hooks.turn(planning, on=wanted)
        if "absent" not in hooks.status(project).values():
            return
        if wanted:
            for path in hooks.install(project, "block"):
                out(f"installed {path} (block)")
            return
        err("commits are not checked yet: heimdall-claim guard install")
    except TreadleError as error:
        err(f"commits are not checked: {error}")
