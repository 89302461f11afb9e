"""How each agent program shows what it is doing: one TOML file per agent, and no code.

`treadle.terminal.judge` uses the tables. To describe another agent, add a file here and a recording to the tests; a
person's own tables are in the directory `detectors` beside their configuration, and come before ours. The tables rely
on what all agents seen so far have in common:

- A dialog replaces the input box. Without a box an agent is never idle, and an answer that only quotes a dialog is
  above a box. So signs of a dialog count only below the box, or if there is none.
- If an agent sets a window title or sends status reports (OSC 7501), they tell working from idle; dialogs at its start
  are only on the screen.
- Words such as "esc to interrupt" count only in their own place: the footer or the line above the box.
"""

from __future__ import annotations

import os
import re

from treadle.errors import ConfigError
from treadle.io import paths
from treadle.terminal.detectors.table import read_table

TYPE_CHECKING = False  # `typing` would cost every supervisor a megabyte
if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.terminal.detectors.table import Detector

NAMES = ("claude", "codex", "gemini", "opencode", "kimi", "copilot", "pi", "qwen", "aider", "cline")
"""The agents whose tables ship with us."""

MOMENTS = ".moments.toml"
"""How the files of labelled screens end that earlier versions wrote beside a table."""
_loaded: dict[str, Detector] = {}
"""By the path of the file."""
_files: dict[str, str] = {}
unreadable: dict[str, str] = {}
"""Agent -> what is wrong with a person's own table for it."""


def own_directory() -> str:
    """Where a person's own tables are."""
    return os.path.join(os.path.dirname(paths.config_file()), "detectors")


def files() -> dict[str, str]:
    """The file of each agent's table, by its name: a person's own first, then ours. Looked for once."""
    if not _files:
        own = own_directory()
        try:
            mine = sorted(name for name in os.listdir(own) if name.endswith(".toml") and not name.endswith(MOMENTS))
        except OSError:
            mine = []
        _files.update({name.removesuffix(".toml"): os.path.join(own, name) for name in mine})
        _files.update({name: _shipped(name) for name in NAMES if name not in _files})
    return _files


def named(name: str) -> Detector:
    """The table of an agent, read when first needed. ConfigError when it cannot be."""
    path = files()[name]
    if path not in _loaded:
        _loaded[path] = read_table(path)
    return _loaded[path]


def readable(name: str) -> Detector | None:
    """The same for a supervisor, which goes on without a table that cannot be read."""
    if not name or name in unreadable:
        return None
    try:
        return named(name)
    except ConfigError as error:
        unreadable[name] = error.message
        return None


def preload() -> None:
    """Read our tables, so that all supervisors that are forked from this process share them."""
    for path in map(_shipped, NAMES):
        _loaded[path] = read_table(path)


def _shipped(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.toml")


WRAPPERS = frozenset("npx bunx pnpm pnpx yarn node bun deno uvx env sudo nice exec dlx x run".split())


def by_command(command: Sequence[str]) -> str:
    """The name of the agent that a command starts; "" for one without a table.

    Also recognises `npx @openai/codex` and `node /opt/gemini/bin/gemini.js`.
    """
    return position(command)[0]


def alone(command: Sequence[str]) -> list[str]:
    """The command with arguments that keep it from sharing a background process, which would end with one session."""
    name, at = position(command)
    more = named(name).alone if name else []
    if set(more) <= set(command):
        return list(command)
    return [*command[: at + 1], *more, *command[at + 1 :]]


def position(command: Sequence[str]) -> tuple[str, int]:
    """The agent, and which word of the command is its program."""
    names = files()
    for at, word in enumerate(command[:6]):
        name = word.rsplit("/", 1)[-1].split("@", 1)[0].lower()
        name = re.sub(r"\.(m?js|cjs|py|exe)$", "", name)
        for suffix in ("", "-code", "-cli", "-ai", "-coding-agent"):
            base = name.removesuffix(suffix)
            if base in names:
                return base, at
        if name not in WRAPPERS and not word.startswith("-") and "=" not in word:
            return "", 0
    return "", 0


def by_app(app: str) -> str:
    """The agent that sends reports under this name."""
    name = app.removesuffix("-code").removesuffix("-cli")
    return name if name in files() else ""


def by_sight(title: str, screen: str) -> str:
    """The agent that has this title or screen."""
    for name in files():
        table = readable(name)
        if table and table.known_by.search(f"{title}\n{screen}"):
            return name
    return ""
