"""Verdicts on the fields that clients send: used, harmless, refused with a reason, or named because no one reads them.

Each protocol has one table, `fields.toml` in its folder of `wire`, and `make check-schemas` holds it against the schema
that is published. A field that is in no table is newer than the table; it is named like one that no one reads.
"""

import os
import tomllib
from collections.abc import Iterator
from typing import Any

import msgspec

import treadle.wire
from treadle.io.files import read
from treadle.wire.common.jsonrpc import Fault

ALL = "*"


class JudgedFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Paths of fields, such as `input[].url`, of some methods. A verdict holds for all that is inside a field, too,
    except that what is inside a field that is used has verdicts of its own, unless its path ends with `.*`."""

    of: tuple[str, ...]
    used: str = ""
    harmless: str = ""
    named: str = ""
    refused: dict[str, str] = {}


class FieldTable:
    def __init__(self, protocol: str, code: int) -> None:
        """`code` is that of the refusals."""
        self._code = code
        text = read(os.path.join(os.path.dirname(treadle.wire.__file__), protocol, "fields.toml")).decode()
        self._methods: dict[str, dict[str, tuple[str, str]]] = {ALL: {}}
        for each in msgspec.convert(tomllib.loads(text)["fields"], list[JudgedFields]):
            for method in each.of:
                self._methods.setdefault(method, {}).update(_verdicts(each))

    @property
    def methods(self) -> set[str]:
        return self._methods.keys() - {ALL}

    def verdict(self, method: str, path: str) -> tuple[str, str]:
        """`used`, `whole` (with all that is inside), `harmless`, `named`, `refused`, or nothing, and the reason."""
        for known in (self._methods.get(method, {}), self._methods[ALL]):
            if (found := known.get(path)) is not None:
                return found
        return "", ""

    def judge(self, method: str, params: dict[str, Any]) -> list[str]:
        """The fields that no one reads, each once. Raises Fault for one that is refused."""
        return list(dict.fromkeys(self._judged(method, params, ""))) if method in self._methods else []

    def _judged(self, method: str, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, list):
            for each in value:
                yield from self._judged(method, each, f"{path}[]")
        for name, inner in value.items() if isinstance(value, dict) else ():
            place = f"{path}.{name}" if path else str(name)
            verdict, reason = self.verdict(method, place)
            if verdict == "refused" and inner:
                raise Fault(self._code, f"{place}: {reason}")
            if verdict == "used":
                yield from self._judged(method, inner, place)
            elif verdict in ("", "named") and inner:
                yield place


def _verdicts(found: JudgedFields) -> dict[str, tuple[str, str]]:
    made = {path: ("refused", reason) for path, reason in found.refused.items()}
    for verdict in ("used", "harmless", "named"):
        for path in getattr(found, verdict).split():
            made[path.removesuffix(".*")] = ("whole" if path.endswith(".*") else verdict, "")
    return made
