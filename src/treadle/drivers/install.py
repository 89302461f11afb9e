"""Fetches an agent that is a package, at one version, into a directory of its own among our files.

No script of a package runs while it is installed: one that would fetch a program from elsewhere does not get to.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence

import msgspec

from treadle.drivers.registry import ListedAgent
from treadle.errors import ConfigError, LocalError, NotFound
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import find_outside, run_program
from treadle.io.reading import read_if_there

SECONDS = 900.0
_PLAIN = re.compile(r"[\w@./\[\]+-]+")


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    """The path of its program."""
    version: str
    place: str


def install(agent: ListedAgent) -> Installed:
    """Blocks. Raises when it is not a package, or its package cannot be fetched whole."""
    if agent.source == "download":
        raise ConfigError(
            f"{agent.title} is a download, not a package, so it is not fetched",
            hint=f"install it yourself, then set agents.{agent.name}.speaks to acp, and its command",
        )
    for text in (agent.package, agent.version):
        if not _PLAIN.fullmatch(text) or text.startswith("-"):
            raise ConfigError(f"the registry's package {agent.package!r} {agent.version!r} is no name and version")
    place = private_dir(os.path.join(state_dir(), "agents", agent.name))
    command = _npm(agent, place) if agent.source == "npm" else _pypi(agent, place)
    return Installed(command=command, version=agent.version, place=place)


def _npm(agent: ListedAgent, place: str) -> str:
    _run(
        ["npm", "install", "--prefix", place, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
        f"{agent.package}@{agent.version}",
    )
    manifest = read_if_there(os.path.join(place, "node_modules", agent.package, "package.json"))
    about = msgspec.json.decode(manifest) if manifest is not None else {}
    programs = about.get("bin") if isinstance(about, dict) else None
    own = agent.package.rpartition("/")[2]
    names = [own] if isinstance(programs, str) else list(programs or ())
    wanted = next((name for name in (agent.program, own, *names) if name in names), "")
    command = os.path.join(place, "node_modules", ".bin", wanted)
    if not wanted or not os.path.exists(command):
        raise LocalError(f"{agent.package} {agent.version} has no program to run")
    return command


def _pypi(agent: ListedAgent, place: str) -> str:
    bins = os.path.join(place, "bin")
    first: LocalError | None = None
    for python in _pythons():
        try:
            _run([python, "-m", "venv", "--clear"], place)
            _run(
                [os.path.join(bins, "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"],
                f"{agent.package}=={agent.version}",
            )
            break
        except LocalError as error:  # many agents are for a newer Python than ours
            first = first or error
    else:
        assert first is not None
        first.hint = "if it needs a newer Python, install that one too, so that python3.13 or the like is found"
        raise first
    command = os.path.join(bins, agent.program or agent.package.partition("[")[0])
    if not os.path.exists(command):
        raise LocalError(f"{agent.package} {agent.version} has no program {os.path.basename(command)!r}")
    return command


def _pythons() -> Iterator[str]:
    """Our own, then the newer ones that are installed."""
    yield sys.executable
    for minor in range(sys.version_info.minor + 1, sys.version_info.minor + 6):
        found = find_outside(f"python3.{minor}")
        if found is not None:
            yield found


def _run(argv: Sequence[str], last: str) -> None:
    try:
        done = run_program([*argv, last], timeout=SECONDS)
    except NotFound as error:
        raise NotFound(f"{argv[0]} is needed to fetch {last}", hint="install Node.js with npm") from error
    if done.code != 0:
        raise LocalError(f"{last} could not be fetched: {done.complaint}", retryable=True)
