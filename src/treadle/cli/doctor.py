"""`treadle doctor` and `ps`: what works on this machine, tried, what to do about what does not, and what runs."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import click
import msgspec

from treadle import __version__
from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import one_line, printable, short_time
from treadle.errors import TreadleError
from treadle.installation import PROVIDES, adding
from treadle.io import paths
from treadle.io.files import write_atomic
from treadle.io.process import table
from treadle.io.process.loop import run_async
from treadle.io.process.programs import run_program
from treadle.io.process.registry import KeeperTree, keeper_trees

if TYPE_CHECKING:
    from treadle.agent.configuration import Configuration
    from treadle.agent.providers.names import ModelSettings
    from treadle.cli.agents import FoundAgent
    from treadle.io.sandbox.methods import Availability


# What the doctor looks at. Each function tries one area and returns what it found.

CHOOSE = "treadle models use: choose a model or an agent, among what is found here, or set TREADLE_MODEL"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    area: str
    name: str
    ok: bool
    says: str
    needed: bool = False
    """Whether Treadle is of little use while this fails."""
    fix: str = ""
    """What to do about it, in one line; empty when there is nothing to do."""


def machine(offline: bool) -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding(area="machine", name="treadle", ok=True, says=f"{__version__} on Python {version}", needed=True)
    linux = sys.platform == "linux"
    says = "complete" if linux else "works without the sandbox and without the no-orphan guarantee"
    yield Finding(area="machine", name=platform.system(), ok=linux, says=says)
    path = shutil.which("git")
    ran = run_program([path, "--version"], cwd="/", timeout=10) if path else None
    ok = ran is not None and ran.code == 0
    says = f"{ran.stdout.decode(errors='replace').strip()} at {path}" if ran and ok else "worktrees and diffs need it"
    yield Finding(area="machine", name="git", ok=ok, says=says, fix="install git")


def state(offline: bool) -> Iterator[Finding]:
    directory = paths.state_dir()
    try:
        probe = os.path.join(paths.private_dir(directory), ".doctor")
        write_atomic(probe, b"")
        os.unlink(probe)
        yield Finding(area="state", name="directory", ok=True, says=f"{directory} can be written", needed=True)
    except (TreadleError, OSError) as error:
        fix = "set TREADLE_HOME to a directory that you can write to"
        yield Finding(area="state", name="directory", ok=False, says=str(error), needed=True, fix=fix)
    yield from _leftover_repositories()


def _leftover_repositories() -> Iterator[Finding]:
    """Private repositories of sessions that were killed, or that ended in the middle of something."""
    from treadle.sandboxed import repositories

    for left in repositories.find():
        top, session = left.record.top, left.record.session
        says = f"session {session} ended before all of its work in {top} was taken over; it is in {left.private}"
        fix = f"start treadle in {top}: the commits of session {session} become branches"
        if stopped := repositories.unfinished(left):
            says += f" (unfinished: {', '.join(stopped)})"
            fix = f"treadle git adopt {session} (or treadle gc git:{session}, if you do not need it)"
        yield Finding(area="state", name="kept repository", ok=False, says=says, fix=fix)


@lru_cache(maxsize=1)
def _configuration() -> Configuration:
    """Everything that a run here would be opened with. Raises whatever error the run would be refused with."""
    from treadle.agent.configuration import Configuration
    from treadle.cli.options import RunOptions
    from treadle.io.paths import DISK
    from treadle.policy.rules import Profile

    spec = RunOptions().spec(answers=False, default_mode="suggest")
    found = run_async(Configuration.load(spec, os.environ))
    Profile(spec.cwd, found.rules, spec.mode, found.add_dirs, disk=DISK)
    assert found.limits and found.confinement
    return found


def settings(offline: bool) -> Iterator[Finding]:
    """Read the settings as every run here reads them; settings that a run would refuse are broken."""
    from treadle.settings import config

    try:
        _configuration()
        loaded = config.load(paths.here())
    except TreadleError as error:
        fix = error.hint or "fix the settings: every run refuses to start with them"
        yield Finding(area="settings", name="here", ok=False, says=error.message, needed=True, fix=f"settings: {fix}")
        return
    read = ", ".join(loaded.files) or f"none at {paths.config_file()}: defaults hold"
    yield Finding(area="settings", name="here", ok=True, says=read, needed=True)
    for one in loaded.warnings:
        yield Finding(area="settings", name="warning", ok=False, says=one)
    for one in loaded.ignored:
        fix = f"look at the project's files, then: treadle trust {loaded.project or ''}".rstrip()
        yield Finding(area="settings", name="ignored", ok=False, says=one, fix=fix)


def models(offline: bool) -> Iterator[Finding]:
    from treadle.agent.providers.names import VENDORS

    try:
        here = _configuration()
    except TreadleError:
        yield Finding(area="models", name="chosen", ok=False, says="unknown while the settings are refused")
        return
    chosen = os.environ.get("TREADLE_MODEL") or here.settings.model
    try:
        here.provider(chosen)
        yield Finding(area="models", name="chosen", ok=True, says=chosen or "")
    except TreadleError as error:
        fix = (error.hint or error.message) if chosen else CHOOSE
        yield Finding(area="models", name="chosen", ok=False, says=error.message, needed=bool(chosen), fix=fix)
    for name, vendor in VENDORS.items():
        variables = [variable for variable in (vendor.key, vendor.base) if variable and os.environ.get(variable)]
        if variables or (chosen or "").startswith(f"{name}:"):
            yield _service(name, variables, here.models, offline)


def _service(name: str, variables: list[str], table: ModelSettings, offline: bool) -> Finding:
    """Where the service is, and whether it answers."""
    from treadle.agent.providers.names import endpoint
    from treadle.cli.choice import ask

    try:
        where = endpoint(name, os.environ, table).base_url
    except TreadleError as error:
        return Finding(area="models", name=name, ok=False, says=error.message, fix=error.hint or "")
    says = f"{where}, {', '.join(variables)} set" if variables else where
    if offline:
        return Finding(area="models", name=name, ok=True, says=f"{says} (not contacted)")
    found = run_async(ask(name, table))
    if found is None or found.error is not None:
        why = found.error if found is not None else "nothing is set up for it"
        fix = f"{name}: check {' and '.join(variables) or 'that its server runs'}, then `treadle models {name}`"
        return Finding(area="models", name=name, ok=False, says=f"{says}: {why}", fix=fix)
    return Finding(area="models", name=name, ok=True, says=f"{says}: {len(found.models)} models")


def agents(offline: bool) -> Iterator[Finding]:
    """Which agents are installed, and whether each starts and answers; with `offline` none is started."""
    from treadle.cli.agents import installed

    try:
        every = installed(greet=not offline)
    except TreadleError as error:  # already reported under settings
        yield Finding(area="agents", name="all", ok=False, says=error.message)
        return
    yield from map(agent_finding, every)


def agent_finding(found: FoundAgent) -> Finding:
    if found.path is None:
        return Finding(area="agents", name=found.name, ok=False, says=found.error)
    says = f"{found.version} at {found.path}, driven by {found.how}"
    if found.newer:
        says += f"; newer than our recordings ({found.recorded[-1]}), so what is new in it is not known"
    elif found.older:
        says += f"; older than our recordings ({found.recorded[0]}), so it may lack what is declared"
    says += f"; {found.model_wire}" if found.model_wire else ""
    if found.answers is False:
        fix = f"treadle agents {found.name}: {found.error}"
        return Finding(
            area="agents", name=found.name, ok=False, says=f"{says}; cannot be driven: {found.error}", fix=fix
        )
    if found.account == "":
        fix = f"sign in to {found.name}, or give it its key"
        return Finding(area="agents", name=found.name, ok=False, says=f"{says}; answers; not signed in", fix=fix)
    answers = "; answers" if found.answers else ""
    signed = f"; {found.account}" if found.account else ""
    return Finding(area="agents", name=found.name, ok=True, says=f"{says}{answers}{signed}")


def parts(offline: bool) -> Iterator[Finding]:
    from treadle.agent.tools import search

    for extra, module in PROVIDES.items():
        fix = adding(extra)
        try:
            importlib.import_module(module)
            yield Finding(area="parts", name=extra, ok=True, says="installed, and can be loaded")
        except ModuleNotFoundError:
            yield Finding(area="parts", name=extra, ok=False, says=f"not installed: {fix}")
        except Exception as error:  # a broken wheel may raise anything
            says = f"installed, but cannot be loaded: {error}"
            yield Finding(area="parts", name=extra, ok=False, says=says, fix=f"{fix} again")
    rg = search.find()
    ran = rg is not None and run_program([rg, "--version"], cwd="/", timeout=10).code == 0
    says = rg if rg and ran else "not found, or does not run, so the tool grep cannot work"
    yield Finding(area="parts", name="ripgrep", ok=ran, says=says, fix="install ripgrep")


def sandbox(offline: bool) -> Iterator[Finding]:
    from treadle.confinement import ResourceLimits
    from treadle.io.process import cgroup
    from treadle.io.sandbox import limits, methods

    found = methods.available()
    missing = limits.unlimited(ResourceLimits(), namespace=found.method == "bubblewrap")
    yield from sandboxing(found, missing, cgroup.given())


def sandboxing(found: Availability, missing: tuple[str, ...], group: str | None) -> Iterator[Finding]:
    """With what has no limit, and the cgroup that was given to us."""
    ok = found.method is not None
    says = "; ".join([f"{found.method}, tried" if ok else "nothing to confine commands with", *found.problems])
    fix = "install bubblewrap, and see `treadle docs sandbox`"
    yield Finding(area="sandbox", name="--sandbox", ok=ok, says=says, fix=fix)
    sealed = found.method == "bubblewrap"
    says = (
        "confined runs have a git repository of their own; unconfined ones (--no-sandbox, yolo, suggest) write to yours"
    )
    if not sealed:
        says = "runs are not sealed: " + ("`.git` is read-only for them" if ok else "they write to your git repository")
    yield Finding(area="sandbox", name="git", ok=sealed, says=says, fix=fix)
    for one in found.cannot:
        yield Finding(area="sandbox", name="cannot", ok=False, says=one)
    says = "memory, processes and the disk are limited for each command"
    if missing:
        says = f"the disk is watched; it cannot {missing[0]}: `treadle docs sandbox` has how to give one"
    if ok:
        yield Finding(area="sandbox", name="limits", ok=True, says=says)
    if group is not None:
        says = f"{group}: what is left when everything of ours is killed at once is ended by the next that starts"
        yield Finding(area="sandbox", name="cgroup", ok=True, says=says)


def fleet(offline: bool) -> Iterator[Finding]:
    from treadle.fleet.engine import server

    try:
        found = server.find_program()
        source = "found on PATH" if found.source == "PATH" else f"from the {found.source}"
        yield Finding(area="fleet", name="nats-server", ok=True, says=f"{found.version} at {found.path}, {source}")
    except TreadleError as error:
        yield Finding(area="fleet", name="nats-server", ok=False, says=error.message)


AREAS: dict[str, Callable[[bool], Iterator[Finding]]] = {
    "the machine": machine,
    "the state directory": state,
    "the settings": settings,
    "optional parts": parts,
    "the sandbox": sandbox,
    "the fleet": fleet,
    "models": models,
    "agents": agents,
}
"""What is tried, the quick first."""
SLOW = {"models": "services are asked for their models", "agents": "each is started, all together for at most 45 s"}


@click.command("doctor")
@click.option("--offline", is_flag=True, help="Contact no service and start no agent.")
@json_option
def doctor(offline: bool, as_json: bool) -> None:
    """Check this machine: state, settings, models, agents, extras, sandbox, fleet.

    Every result is tested: settings are loaded, configured services list their models, installed agents are started. No
    prompt is sent to a model. Exits with 1 if something required is broken; the last lines suggest fixes.
    """
    found: list[Finding] = []
    for check in _all(offline):
        found.append(check)
        if not as_json:
            mark = "ok " if check.ok else "NO " if check.needed else "-  "
            click.echo(printable(f"{mark} {check.area:10} {check.name:22} {check.says}"))
    if as_json:
        show_json(found)
    else:
        _next(found)
    sys.exit(any(check.needed and not check.ok for check in found))


def _all(offline: bool) -> Iterator[Finding]:
    """Yield each check as soon as it is done, and say meanwhile what is being tried; in a pipe, only what may take
    long."""
    for name, area in AREAS.items():
        if sys.stderr.isatty():
            click.echo(f"trying {name}...", err=True, nl=False)
        elif name in SLOW and not offline:
            click.echo(f"trying {name}: {SLOW[name]}", err=True)
        try:
            checks = list(area(offline))
        finally:
            if sys.stderr.isatty():
                click.echo("\r\x1b[K", err=True, nl=False)
        yield from checks


def _next(found: list[Finding]) -> None:
    """One line for each thing to do, required things first."""
    todo = [check for check in found if not check.ok and check.fix]
    if not todo:
        click.echo("\nNothing to do. `treadle` opens a chat, `treadle -p PROMPT` runs one prompt.")
        return
    click.echo("\nNext:")
    for check in sorted(todo, key=lambda check: not check.needed):
        click.echo(printable(f"  {check.fix}"))


# `treadle ps`: what runs under treadle on this machine.


@click.command()
@json_option
def ps(as_json: bool) -> None:
    """List the processes that treadle runs: agents, their tools, terminals, background tasks.

    Each process tree has an owner, a treadle process. When the owner ends, for any reason, the keeper ends the tree.

    \b
    OWNER   the treadle process that started it
    KEEPER  the process that ends it when the owner is gone
    PID     the command itself; "-" if it has ended but its children run
    PROCS   number of processes in the tree
    RSS     resident memory; shared pages are counted once per process
    """
    trees = keeper_trees()
    if as_json:
        show_json([_record(tree) for tree in trees])
    elif not trees:
        click.echo("No processes of Treadle are running.")
    else:
        _print(trees)


def _record(tree: KeeperTree) -> dict[str, object]:
    owner = table.look(tree.owner)
    return {
        "owner": tree.owner,
        "owner_name": owner.name if owner else None,
        "keeper": tree.keeper,
        "reaper": tree.reaper,
        "pid": tree.pid,
        "running": tree.running,
        "command": tree.command,
        "started": tree.started,
        "age_seconds": round(tree.age, 1),
        "processes": len(tree.processes),
        "rss_bytes": tree.rss,
    }


def _print(trees: list[KeeperTree]) -> None:
    rows = [("OWNER", "KEEPER", "PID", "AGE", "PROCS", "RSS", "COMMAND")]
    for tree in trees:
        pid = str(tree.pid) if tree.running else "-"
        command = " ".join(tree.command)
        numbers = (str(tree.owner), str(tree.keeper), pid, short_time(tree.age), str(len(tree.processes)))
        rows.append((*numbers, f"{tree.rss / 1e6:.0f} MB", one_line(command)))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[6][:200]]))
