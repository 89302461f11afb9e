"""Agents that the public registry of the Agent Client Protocol lists, by name: for `treadle agents add`.

COPY is what it listed on DATE, in our own form, with later releases of those that we have greeted since. `treadle
agents refresh` keeps a newer one among our own files, read from the form in which the registry publishes it. Every
version is a pin: what is added is that release and no other.
"""

import os
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from treadle.errors import ConfigError
from treadle.io import files
from treadle.io.paths import private_dir, state_dir
from treadle.io.reading import read_if_there

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


def _path() -> str:
    return os.path.join(state_dir(), "agents", "registry.json")


def registry() -> AgentRegistry:
    """The newest that we have: the person's own, or the one that came with this release."""
    text = read_if_there(_path())
    if text is None:
        return COPY
    try:
        return msgspec.json.decode(text, type=AgentRegistry)
    except msgspec.DecodeError as error:
        hint = "`treadle agents refresh FILE` writes it anew; without it, the one that came with this release holds"
        raise ConfigError(f"{_path()} is damaged: {error}", hint=hint) from None


def refresh(text: bytes, date: str) -> AgentRegistry:
    """Keep what the registry publishes now (`registry.json`)."""
    made = AgentRegistry(date=date, agents=published(text))
    private_dir(os.path.dirname(_path()))
    files.write_atomic(_path(), msgspec.json.encode(made))
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
