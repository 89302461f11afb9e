"""The changes that treadle makes to a person's own `config.toml`: allow rules, the model and agent they chose, and
agents they added.

The file is theirs: comments, order and everything else stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from treadle.errors import ConfigError
from treadle.io.files import locked, read_if_there, write_atomic
from treadle.io.paths import config_file, private_dir, state_dir

if TYPE_CHECKING:  # every command reads settings, but few change them
    from tomlkit import TOMLDocument


def add_allow_rules(rules: Iterable[str]) -> str:
    """Add these rules to the user's settings for all future sessions. Returns the path of the file."""
    return _change(lambda document, path: _add(document, list(rules), path))


def choose(*, agent: str | None = None, model: str | None = None) -> str:
    """Use this model of ours, or this agent with its own, from now on. Returns the path of the file."""

    def change(document: TOMLDocument, path: str) -> bool:
        if model is not None:
            document["model"] = model
        if agent is not None:
            document["agent"] = agent
        elif "agent" in document:
            del document["agent"]
        return True

    return _change(change)


def allow_extension(distribution: str, version: str) -> str:
    """Let what this distribution adds be used in this version. Returns the path of the file."""

    def change(document: TOMLDocument, path: str) -> bool:
        import tomlkit

        table: Any = document.setdefault("extensions", tomlkit.table())
        if not isinstance(table, dict):
            raise ConfigError(f"extensions in {path} is not a table", hint="fix it by hand")
        table[distribution] = version
        return True

    return _change(change)


def _change(change: Callable[[TOMLDocument, str], bool]) -> str:
    """Change the user's file under a lock, so that no concurrent change is lost; readers need none, because the file is
    replaced as a whole. `change` returns whether there is anything to write."""
    path = config_file()
    if not os.path.isdir(os.path.dirname(path)):
        private_dir(os.path.dirname(path))
    with locked(os.path.join(private_dir(state_dir()), "config.lock")):
        document = _read(path)
        if change(document, path):
            write_atomic(path, document.as_string().encode(), keep_mode=True)
    return path


def _add(document: TOMLDocument, rules: list[str], path: str) -> bool:
    """Returns whether any rule was new. New rules come first."""
    import tomlkit

    permissions = document.get("permissions")
    if permissions is None:
        permissions = document["permissions"] = tomlkit.table()
    allow = permissions.get("allow") if isinstance(permissions, dict) else None
    if not isinstance(permissions, dict) or not isinstance(allow, list | None):
        raise ConfigError(f"permissions.allow in {path} is not a list of rules", hint="fix it by hand")
    wanted = [rule for rule in rules if rule not in (allow or ())]
    if allow is None:
        permissions["allow"] = wanted
    else:
        for rule in reversed(wanted):
            allow.insert(0, rule)
    return bool(wanted)


def _read(path: str) -> TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse((read_if_there(path) or b"").decode())
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="fix it by hand") from error
