"""Agents that the public registry of the Agent Client Protocol lists, by name, and how one is fetched: for `treadle
agents add`.

COPY is what it listed on DATE, in our own form, with later releases of those that we have greeted since. `treadle
agents refresh` keeps a newer one among our own files, read from the form in which the registry publishes it. Every
version is a pin: what is added is that release and no other.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from treadle.errors import ConfigError, LocalError, NotFound
from treadle.io.files import read_if_there
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import find_outside, run_program
from treadle.io.records import FileRecord

DATE = "2026-08-20"


class ListedAgent(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    version: str
    source: Literal["npm", "pypi", "download"]
    """`download`: an archive from somewhere, which is not a package and which we do not fetch."""
    package: str = ""
    program: str = ""
    """Its command, if it has another name than the package."""
    arguments: tuple[str, ...] = ()
    sets: dict[str, str] = {}
    writes: tuple[str, ...] = ()
    """Directories of its own that it must be able to write in a sandbox, beside those of an agent that it adapts."""
    greeted: str = ""
    """The day on which this release, fetched in this way, answered our greeting; empty: never tried."""
    turned: str = ""
    """The day on which it completed a turn with a scripted model, also in a sandbox."""
    untried: str = ""
    """Why it has not."""


class AgentRegistry(msgspec.Struct, frozen=True, kw_only=True):
    date: str
    agents: tuple[ListedAgent, ...]

    def find(self, name: str) -> ListedAgent:
        for each in self.agents:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.agents if each.source != "download")
        raise ConfigError(
            f"the registry of {self.date} lists no agent {name!r}",
            hint=f"it has {known}; `treadle agents refresh` reads a newer one",
        )


def _npm(name: str, title: str, package: str, version: str, *arguments: str, **more: Any) -> ListedAgent:
    return ListedAgent(
        name=name, title=title, version=version, source="npm", package=package, arguments=arguments, **more
    )


def _download(*agents: tuple[str, str, str]) -> Iterable[ListedAgent]:
    return (ListedAgent(name=name, title=title, version=version, source="download") for name, title, version in agents)


_GREETED, _TURNED = "2026-11-16", "2026-11-17"
_NO_PACKAGE = "its package was not to be had"
_ACCOUNT = "it opens no session without an account of its vendor"
COPY = AgentRegistry(
    date=DATE,
    agents=(
        _npm(
            "auggie",
            "Auggie CLI",
            "@augmentcode/auggie",
            "0.36.0",
            "--acp",
            sets={"AUGMENT_DISABLE_AUTO_UPDATE": "1"},
            greeted=_GREETED,
            untried=_ACCOUNT,
        ),
        _npm(
            *("claude-acp", "Claude Agent", "@agentclientprotocol/claude-agent-acp", "0.99.1"),
            greeted=_GREETED,
            turned=_TURNED,
        ),
        _npm("cline", "Cline", "cline", "3.0.65", "--acp", greeted=_GREETED, untried=_ACCOUNT),
        _npm(
            *("codex-acp", "Codex", "@agentclientprotocol/codex-acp", "2.6.0"),
            program="codex-acp",
            greeted=_GREETED,
            turned=_TURNED,
        ),
        _npm("dimcode", "DimCode", "dimcode", "0.3.16", "acp", untried=_NO_PACKAGE),
        _npm("dirac", "Dirac", "dirac-cli", "0.4.37", "--acp", untried=_NO_PACKAGE),
        _npm(
            "factory-droid",
            "Factory Droid",
            "droid",
            "0.215.0",
            *("exec", "--output-format", "acp-daemon"),
            sets={"DROID_DISABLE_AUTO_UPDATE": "true", "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"},
            greeted=_GREETED,
            untried=_ACCOUNT,
        ),
        ListedAgent(
            name="fast-agent",
            title="fast-agent",
            version="0.10.1",
            source="pypi",
            package="fast-agent-mcp",  # the registry has its sister fast-agent-acp, whose wheel lacks the program
            program="fast-agent",
            arguments=("acp", "-x"),
            writes=("$FAST_AGENT_HOME|~/.fast-agent",),
            greeted=_TURNED,
            turned=_TURNED,
        ),
        _npm(
            *("github-copilot", "GitHub Copilot", "@github/copilot-language-server", "1.539.0", "--acp"),
            program="copilot-language-server",
            greeted=_TURNED,
            untried=_ACCOUNT,
        ),
        _npm("glm-acp-agent", "GLM Agent", "glm-acp-agent", "1.6.0", untried=_NO_PACKAGE),
        _npm(
            *("grok-build", "Grok Build", "@xai-official/grok", "1.0.41", "agent", "stdio"),
            writes=("$GROK_HOME|~/.grok",),
            greeted=_GREETED,
            turned=_TURNED,
        ),
        ListedAgent(
            name="hermes-agent",
            title="Hermes Agent",
            version="0.19.0",
            source="pypi",
            package="hermes-agent[acp]",
            program="hermes-acp",
            writes=("$HERMES_HOME|~/.hermes",),
            greeted=_TURNED,
            turned=_TURNED,
        ),
        _npm(
            *("kilo", "Kilo", "@kilocode/cli", "7.7.7", "acp"),
            program="kilo",
            writes=("$KILO_CONFIG_DIR|~/.config/kilo", "~/.local/share/kilo", "~/.local/state/kilo", "~/.cache/kilo"),
            greeted=_TURNED,
            turned=_TURNED,
        ),
        ListedAgent(
            name="mistral-vibe",
            title="Mistral Vibe",
            version="2.24.0",
            source="pypi",  # the registry has it as a download; the same program is a package, too
            package="mistral-vibe",
            program="vibe-acp",
            writes=("$VIBE_HOME|~/.vibe",),
            greeted=_TURNED,
            turned=_TURNED,
        ),
        _npm("nova", "Nova", "@compass-ai/nova", "1.1.35", "acp", untried=_NO_PACKAGE),
        _npm(
            *("pi-acp", "pi ACP", "pi-acp", "0.0.34"),
            writes=("$PI_CODING_AGENT_DIR|~/.pi",),
            greeted=_TURNED,
            turned=_TURNED,  # with pi 0.87.1; with 0.74.2 it opens no session
        ),
        _npm("sigit", "siGit Code", "@smbcloud/sigit", "1.5.2", untried=_NO_PACKAGE),
        *_download(
            ("amp-acp", "Amp", "0.9.0"),
            ("cortex-code", "Cortex Code", "1.0.73"),
            ("corust-agent", "Corust Agent", "0.6.0"),
            ("cursor", "Cursor", "2026.08.11"),
            ("devin", "Devin", "3000.4.25"),
            ("goose", "goose", "1.46.0"),
            ("harn", "Harn", "0.10.105"),
            ("junie", "Junie", "2913.6.0"),
            ("poolside", "Poolside", "1.0.16"),
            ("stakpak", "Stakpak", "0.3.88"),
        ),
    ),
)
OWN = {"qwen-code": "qwen", "github-copilot-cli": "copilot", "amp-acp": "amp"}
"""Agents of the registry that have a card of ours under another name."""


REGISTRY = FileRecord(
    AgentRegistry,
    hint="`treadle agents refresh FILE` writes it anew; without it, the one that came with this release holds",
)


def _path() -> str:
    return os.path.join(state_dir(), "agents", "registry.json")


def registry() -> AgentRegistry:
    """The newest that we have: the person's own, or the one that came with this release."""
    return REGISTRY.load(_path()) or COPY


def refresh(text: bytes, date: str) -> AgentRegistry:
    """Keep what the registry publishes now (`registry.json`)."""
    made = AgentRegistry(date=date, agents=published(text))
    private_dir(os.path.dirname(_path()))
    REGISTRY.save(_path(), made)
    return made


def published(text: bytes) -> tuple[ListedAgent, ...]:
    """The agents in the registry's own form. What has no pin, or a form that is not known, is left out."""
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"this is not a registry of agents: {error}") from None
    listed = document.get("agents") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ConfigError("this is not a registry of agents: it has no list `agents`")
    found = [_listed(one) for one in listed if isinstance(one, dict)]
    return tuple(each for each in found if each is not None)


def _listed(one: dict[str, Any]) -> ListedAgent | None:
    ways = one.get("distribution")
    name, version = one.get("id"), one.get("version")
    if not isinstance(ways, dict) or not isinstance(name, str) or not isinstance(version, str):
        return None
    title = str(one.get("name") or name)
    for way, source, mark in (("npx", "npm", "@"), ("uvx", "pypi", "==")):
        entry = ways.get(way)
        if not isinstance(entry, dict) or not isinstance(entry.get("package"), str):
            continue
        package, _, pinned = entry["package"].rpartition(mark)
        if not package:  # the version of the agent is then that of the package
            package, pinned = entry["package"], version
        sets = given if isinstance(given := entry.get("env"), dict) else {}
        return ListedAgent(
            name=name,
            title=title,
            version=pinned,
            source=source,  # type: ignore[arg-type]
            package=package,
            arguments=tuple(map(str, entry.get("args") or ())),
            sets={str(key): str(value) for key, value in sets.items()},
        )
    return ListedAgent(name=name, title=title, version=version, source="download")


# Fetches an agent that is a package, at one version, into a directory of its own among our files.
#
# No script of a package runs while it is installed: one that would fetch a program from elsewhere does not get to.

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
    command = _install_npm(agent, place) if agent.source == "npm" else _pypi(agent, place)
    return Installed(command=command, version=agent.version, place=place)


def _install_npm(agent: ListedAgent, place: str) -> str:
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
