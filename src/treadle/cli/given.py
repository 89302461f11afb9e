"""Options whose value is a file or JSON: subagents, MCP servers, settings in the form of Claude Code.

Programs that drive Claude Code give these. What we cannot honour is refused, never silently ignored.
"""

import os
import re
from typing import Any

import msgspec

from treadle.agent.tools import BUILTIN
from treadle.doors.oneshot.command_hooks import CommandHook, command_hooks
from treadle.errors import ConfigError
from treadle.io.reading import read
from treadle.session import Rules, Subagent
from treadle.wire.oneshot.names import OURS
from treadle.wire.oneshot.subagents import subagent

VARIADIC = ("--allowedTools", "--allowed-tools", "--disallowedTools", "--denied-tools", "--disallowed-tools")
"""Options that take several words."""
_RULE = r"(?s)([\w*-]+)(\(.*\))?"


def joined(arguments: list[str]) -> list[str]:
    """Join `--allowedTools A B C` into one value: only further words that name a tool belong to it."""
    out: list[str] = []
    words = iter(arguments)
    word = next(words, None)
    while word is not None:
        out.append(word)
        if word == "--":
            return [*out, *words]
        if word in VARIADIC and (value := next(words, None)) is not None:
            word = next(words, None)
            while word is not None and _names_tools(word):
                value += f",{word}"
                word = next(words, None)
            out.append(value)
            continue
        word = next(words, None)
    return out


def _names_tools(word: str) -> bool:
    found = re.fullmatch(_RULE, word.rstrip(","))
    known = found is not None and (found[1] in OURS or found[1] in BUILTIN or found[1].startswith("mcp__"))
    return known or "," in word and all(_names_tools(part.strip()) for part in word.split(",") if part.strip())


def subagents(text: str) -> tuple[Subagent, ...]:
    """`--agents`: an object of name -> description and prompt, optionally tools, disallowedTools, model, maxTurns."""
    table = _object(text, "--agents")
    return tuple(subagent(name, entry) for name, entry in table.items())


def servers(texts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """`--mcp-config`: files or JSON with `mcpServers`, or only that table."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        table = _object(text, "--mcp-config")
        entries = table.get("mcpServers", table)
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise ConfigError("--mcp-config has no table of servers", hint='write {"mcpServers": {"NAME": {...}}}')
        found |= entries
    return found


class ClaudeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of Claude Code's settings that means the same here."""

    rules: Rules = Rules()
    mode: str | None = None
    model: str | None = None
    env: dict[str, str] = {}
    add_dirs: tuple[str, ...] = ()
    hooks: tuple[CommandHook, ...] = ()
    ignored: tuple[str, ...] = ()


def claude_settings(text: str) -> ClaudeSettings:
    """`--settings`: a file or JSON. A setting that could forbid something and cannot be honoured is refused."""
    table = _object(text, "--settings")
    if table.get("sandbox"):
        raise ConfigError(
            "--settings has a sandbox, which is set up differently here", hint="`treadle docs sandbox` says how"
        )
    permissions = table.get("permissions") or {}
    known = ("permissions", "model", "env", "hooks", "disableAllHooks", "sandbox", "$schema")
    hooks = table.get("hooks") if table.get("disableAllHooks") is not True else None
    return ClaudeSettings(
        hooks=command_hooks(hooks) if hooks else (),
        rules=Rules(
            allow=tuple(permissions.get("allow") or ()),
            ask=tuple(permissions.get("ask") or ()),
            deny=tuple(permissions.get("deny") or ()),
        ),
        mode=permissions.get("defaultMode"),
        model=table.get("model"),
        env={name: str(value) for name, value in (table.get("env") or {}).items()},
        add_dirs=tuple(permissions.get("additionalDirectories") or ()),
        ignored=tuple(name for name in table if name not in known),
    )


def _object(text: str, option: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        path, text = text, read(os.path.expanduser(text)).decode(errors="replace")
        option = f"{option} {path}"
    try:
        table = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{option} is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{option} is not a JSON object")
    return table


def sources(text: str | None) -> tuple[str, ...] | None:
    """What --setting-sources names. There are no local settings here, which Claude Code has beside the project's."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if wrong := set(names) - {"user", "project", "local"}:
        raise ConfigError(f"there is no setting source {min(wrong)!r}", hint="user and project, with a comma between")
    return names
