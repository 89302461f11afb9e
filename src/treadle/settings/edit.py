"""The one change that treadle makes to a person's own `config.toml`: adding allow rules.

The text is theirs, with their comments and their order, so the rules are put in where they fit and the rest stays as
it is. What comes out is read again before it is written: unless it is the old settings with the rules, it is dropped.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

from treadle.errors import ConfigError
from treadle.io.files import locked, write_atomic
from treadle.io.paths import config_file, private_dir, state_dir
from treadle.io.reading import read_if_there

_TABLE = re.compile(r"^[ \t]*\[[ \t]*permissions[ \t]*\][ \t]*(?:#.*)?$", re.M)
_ALLOW = re.compile(r"^[ \t]*allow[ \t]*=[ \t]*\[", re.M)


def add_allow_rules(rules: Iterable[str]) -> str:
    """Put these into the user's settings, now and for every session to come; gives the path of the file."""
    path = config_file()
    if not os.path.isdir(os.path.dirname(path)):
        private_dir(os.path.dirname(path))
    with locked(os.path.join(private_dir(state_dir()), "config.lock")):
        text = _read(path)
        wanted = [rule for rule in rules if rule not in _allowed(_parse(text, path))]
        if wanted:
            write_atomic(path, _with(text, wanted, path).encode(), keep_mode=True)
    return path


def _with(text: str, rules: list[str], path: str) -> str:
    before = _parse(text, path)
    for changed in _ways(text, rules):
        try:
            after = tomllib.loads(changed)
        except tomllib.TOMLDecodeError:
            continue
        if _allowed(after) == [*rules, *_allowed(before)] and _rest(after) == _rest(before):
            return changed
    listed = ", ".join(map(_quoted, rules))
    raise ConfigError(f"{path} is written in a way that cannot be added to", hint=f"add to permissions.allow: {listed}")


def _ways(text: str, rules: list[str]) -> Iterator[str]:
    """Into the list that is there, as a list in the table that is there, in a table of its own."""
    listed = ", ".join(map(_quoted, rules))
    table = _TABLE.search(text)
    if table is None:
        gap = "\n" if text and not text.endswith("\n") else ""
        yield f"{text}{gap}{chr(10) if text else ''}[permissions]\nallow = [{listed}]\n"
        return
    if found := _ALLOW.search(text, table.end()):
        rest = text[found.end() :]
        yield f"{text[: found.end()]}{listed}{'' if rest.lstrip().startswith(']') else ', '}{rest}"
    yield f"{text[: table.end()]}\nallow = [{listed}]{text[table.end() :]}"


def _quoted(rule: str) -> str:
    # A JSON string is a TOML string, except that TOML wants DEL escaped too.
    return json.dumps(rule, ensure_ascii=False).replace("\x7f", "\\u007f")


def _allowed(table: dict[str, Any]) -> list[str]:
    return list(table.get("permissions", {}).get("allow", []))


def _rest(table: dict[str, Any]) -> dict[str, Any]:
    permissions = {**table.get("permissions", {}), "allow": []}
    return {**table, "permissions": permissions}


def _parse(text: str, path: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(text)
        _rest(table), _allowed(table)
    except (tomllib.TOMLDecodeError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="mend it by hand") from error
    return table


def _read(path: str) -> str:
    try:
        return (read_if_there(path) or b"").decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid UTF-8: {error}", hint="mend it by hand") from error
