"""The one change that treadle makes to a person's own `config.toml`: adding allow rules.

The file is theirs: comments, order and everything that is not one of our rules stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from treadle.errors import ConfigError
from treadle.io.files import locked, write_atomic
from treadle.io.paths import config_file, private_dir, state_dir
from treadle.io.reading import read_if_there

if TYPE_CHECKING:  # every command reads settings, but few change them
    from tomlkit import TOMLDocument


def add_allow_rules(rules: Iterable[str]) -> str:
    """Add these rules to the user's settings for all future sessions. Returns the path of the file."""
    path = config_file()
    if not os.path.isdir(os.path.dirname(path)):
        private_dir(os.path.dirname(path))
    with locked(os.path.join(private_dir(state_dir()), "config.lock")):
        document = _read(path)
        if _add(document, list(rules), path):
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
        raise ConfigError(f"permissions.allow in {path} is not a list of rules", hint="mend it by hand")
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
        raise ConfigError(f"{path} cannot be read: {error}", hint="mend it by hand") from error
