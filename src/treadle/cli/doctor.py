"""`treadle doctor`: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator

import click
import msgspec

from treadle import __version__
from treadle.agent.providers.names import VENDORS
from treadle.agent.tools import ripgrep
from treadle.cli.agents import installed
from treadle.cli.as_json import json_option, show_json
from treadle.errors import TreadleError
from treadle.io import paths
from treadle.io.sandbox import methods

EXTRAS = {
    "mcp": "mcp",
    "sandbox": "sandlock",
    "signing": "cryptography",
    "schema": "jsonschema_rs",
    "screen": "pyghostty",
    "fleet": "nats",
}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    area: str
    name: str
    ok: bool
    says: str
    needed: bool = False
    """Whether Treadle is of little use without it."""


@click.command("doctor")
@json_option
def doctor(as_json: bool) -> None:
    """Say what works on this machine: state, models, agents, optional parts, sandbox.

    Exits with 1 when something needed is broken.
    """
    checks = [check for area in AREAS for check in area()]
    if as_json:
        show_json(checks)
    else:
        for check in checks:
            mark = "ok " if check.ok else "NO " if check.needed else "-  "
            click.echo(f"{mark} {check.area:10} {check.name:22} {check.says}")
    sys.exit(any(check.needed and not check.ok for check in checks))


def _machine() -> Iterator[Check]:
    version = platform.python_version()
    yield Check(area="machine", name="treadle", ok=True, says=f"{__version__} on Python {version}", needed=True)
    linux = sys.platform == "linux"
    says = "complete" if linux else "works without the sandbox and without the no-orphan guarantee"
    yield Check(area="machine", name=platform.system(), ok=linux, says=says)
    git = shutil.which("git")
    yield Check(area="machine", name="git", ok=git is not None, says=git or "not found: worktrees and diffs need it")


def _state() -> Iterator[Check]:
    directory = paths.state_dir()
    try:
        paths.private_dir(directory)
        ok, says = os.access(directory, os.W_OK), directory
    except TreadleError as error:
        ok, says = False, str(error)
    yield Check(area="state", name="directory", ok=ok, says=says, needed=True)
    config = paths.config_file()
    there = os.path.exists(config)
    yield Check(area="state", name="settings", ok=there, says=config if there else f"{config} (none: defaults hold)")


def _models() -> Iterator[Check]:
    chosen = os.environ.get("TREADLE_MODEL")
    yield Check(area="models", name="TREADLE_MODEL", ok=bool(chosen), says=chosen or "not set: give --model")
    for name, vendor in VENDORS.items():
        variables = [variable for variable in (vendor.key, vendor.base) if variable and os.environ.get(variable)]
        if vendor.key or variables:
            says = f"{', '.join(variables)} set" if variables else f"{vendor.key} not set"
            yield Check(area="models", name=name, ok=bool(variables), says=says)


def _agents() -> Iterator[Check]:
    for found in installed():
        says = found.error or f"{found.version} at {found.path}, by {found.how}"
        if found.newer:
            says += f"; newer than our recordings ({found.recorded[-1]}), so what is new in it is not known"
        yield Check(area="agents", name=found.name, ok=found.path is not None, says=says)


def _parts() -> Iterator[Check]:
    for extra, module in EXTRAS.items():
        found = importlib.util.find_spec(module) is not None
        says = "installed" if found else f"pip install 'treadle[{extra}]'"
        yield Check(area="parts", name=extra, ok=found, says=says)
    rg = ripgrep.find()
    says = rg or "not found, so searching is slower: install ripgrep"
    yield Check(area="parts", name="ripgrep", ok=rg is not None, says=says)


def _sandbox() -> Iterator[Check]:
    found = methods.available()
    yield Check(
        area="sandbox",
        name="--sandbox",
        ok=found.method is not None,
        says="; ".join([found.method or "nothing to confine commands with", *found.problems]),
    )
    for one in found.cannot:
        yield Check(area="sandbox", name="cannot", ok=False, says=one)


def _fleet() -> Iterator[Check]:
    from treadle.fleet import server

    try:
        found = server.find_program()
        ok, says = True, f"{found.version} at {found.path}, from the {found.source}"
        if found.source == "PATH":
            says = f"{found.version} at {found.path}, found on PATH"
    except TreadleError as error:
        ok, says = False, str(error)
    yield Check(area="fleet", name="nats-server", ok=ok, says=says)


AREAS: list[Callable[[], Iterator[Check]]] = [_machine, _state, _models, _agents, _parts, _sandbox, _fleet]
