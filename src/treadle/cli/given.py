"""Options whose value is a file or JSON: subagents, MCP servers, settings in the form of Claude Code.

Programs that drive Claude Code give these. What we cannot honour is refused, never silently ignored.
"""

import os
import re
from typing import Any

import msgspec

from treadle.agent.tools import BUILTIN
from treadle.errors import ConfigError
from treadle.io.paths import here
from treadle.io.reading import read
from treadle.session import Subagent
from treadle.settings import claude
from treadle.settings.claude import ClaudeSettings
from treadle.wire.oneshot.arguments import OURS
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


def claude_settings(text: str) -> ClaudeSettings:
    """`--settings`: a file or JSON. A setting that could forbid something and cannot be honoured is refused."""
    table = _object(text, "--settings")
    if table.get("sandbox"):
        raise ConfigError(
            "--settings has a sandbox, which is set up differently here", hint="`treadle docs sandbox` says how"
        )
    return claude.all_run(claude.parse(table, "--settings", here()))


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


def tokens(text: str, option: str) -> int:
    """A number of tokens: 200000, 200k, 1M."""
    number, factor = text.strip().lower(), 1
    if number[-1:] in ("k", "m"):
        number, factor = number[:-1], 1_000 if number.endswith("k") else 1_000_000
    if not number.isascii() or not number.isdigit() or not int(number):
        raise ConfigError(f"{option} {text} is no number of tokens", hint="such as 200000, 200k or 1M")
    return int(number) * factor


def text_or_file(text: str | None, path: str | None) -> str | None:
    if text is not None and path is not None:
        raise ConfigError("a system prompt and a file of one were given", hint="leave one of them out")
    return read(path).decode(errors="replace") if path is not None else text


def sources(text: str | None) -> tuple[str, ...] | None:
    """What --setting-sources names. `local` is Claude Code's second file of a project."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if wrong := set(names) - {"user", "project", "local"}:
        raise ConfigError(f"there is no setting source {min(wrong)!r}", hint="user and project, with a comma between")
    return names
