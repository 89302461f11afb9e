"""Reads an agent's table from TOML, and says what is wrong with it and where."""

from __future__ import annotations

import re

from treadle.errors import ConfigError, StorageError
from treadle.io.reading import read
from treadle.light import TYPE_CHECKING
from treadle.terminal.detectors.table import COMMON_DIALOGS, STATES, WHERE, Box, Detector, Sign

if TYPE_CHECKING:
    from typing import Any

KINDS: dict[str, type] = {
    **dict.fromkeys(("name", "prompt", "block", "skip", "end", "ready", "placeholder", "box_note"), str),
    **dict.fromkeys(("known_by", "signs", "alone"), list),
    "settle_ms": int,
    "suggests": bool,
    "box": dict,
}
NEEDED = ("name", "known_by", "block", "signs", "box")
PATTERNS = ("prompt", "block", "skip", "end", "ready", "placeholder", "box_note")
BOX = ("above", "first", "below", "unless", "over", "under", "cursor")


def read_table(path: str) -> Detector:
    """The table in a file. ConfigError when it cannot be read."""
    import tomllib  # only a supervisor whose program may be an agent pays for it

    try:
        table = tomllib.loads(read(path).decode())
    except StorageError as error:
        raise ConfigError(error.message) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return _detector(table)
    except _Wrong as wrong:
        raise ConfigError(f"{path}: {wrong}", hint="treadle docs detectors") from None


class _Wrong(Exception):
    pass


def _detector(table: dict[str, Any]) -> Detector:
    for key in NEEDED:
        if key not in table:
            raise _Wrong(f"{key} is missing")
    for key, value in table.items():
        if key not in KINDS:
            raise _Wrong(f"{key} is not known; there are {', '.join(KINDS)}")
        _checked(key, value, KINDS[key])
    for key in PATTERNS:
        _pattern(key, table.get(key, ""))
    for number, pattern in enumerate(table["known_by"], 1):
        _pattern(f"known_by, entry {number}", pattern)
    for number, word in enumerate(table.get("alone", ()), 1):
        _checked(f"alone, entry {number}", word, str)
    signs = [_sign(f"signs, entry {number}", sign) for number, sign in enumerate(table["signs"], 1)]
    given = {key: value for key, value in table.items() if key not in ("name", "signs", "box")}
    return Detector(table["name"], box=_box(table["box"]), signs=(*signs, *COMMON_DIALOGS), **given)


def _sign(where: str, sign: Any) -> Sign:
    _checked(where, sign, dict)
    if set(sign) != {"state", "where", "pattern"}:
        raise _Wrong(f"{where}: a sign has state, where and pattern")
    for key, values in (("state", STATES), ("where", WHERE)):
        if sign[key] not in values:
            raise _Wrong(f"{where}: {key} is {sign[key]!r}; there are {', '.join(values)}")
    if _pattern(f"{where}: pattern", sign["pattern"]).search("") is not None:
        raise _Wrong(f"{where}: the pattern matches an empty screen")
    return Sign(sign["state"], sign["where"], sign["pattern"])


def _box(box: dict[str, Any]) -> Box:
    for key, value in box.items():
        if key not in BOX:
            raise _Wrong(f"box.{key} is not known; there are {', '.join(BOX)}")
        if key == "cursor":
            _checked("box.cursor", value, bool)
        else:
            _pattern(f"box.{key}", value)
    if "first" not in box:
        raise _Wrong("box.first is missing")
    given = {key: box[key] for key in ("unless", "over", "under", "cursor") if key in box}
    return Box(box.get("above", ""), box["first"], box.get("below", ""), **given)


def _checked(where: str, value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise _Wrong(f"{where} is {value!r}, but must be of type {kind.__name__}")


def _pattern(where: str, value: Any) -> re.Pattern[str]:
    _checked(where, value, str)
    try:
        return re.compile(value, re.MULTILINE)
    except re.error as error:
        raise _Wrong(f"{where} is not a regular expression: {error}") from None
