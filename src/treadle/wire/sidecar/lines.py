"""Faults of a line that its types do not show: a name said twice, half a character, a receipt that is not one."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

from treadle.wire.common.jsontext import mended
from treadle.wire.sidecar.receipts import ReceiptMeta, normal_time, normal_uuid

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class IncompleteReceipt(msgspec.ValidationError):
    """A `final` without what the contract requires: whoever leaves that out has not ended well."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def said_twice(line: bytes) -> str | None:
    """A name that the outermost object of the line has more than once."""
    outermost: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        outermost[:] = pairs  # called for inner objects first

    try:
        json.loads(line, object_pairs_hook=keep)
    except ValueError as error:  # a number of more digits than Python converts
        raise msgspec.ValidationError(str(error)) from error
    names = [name for name, _ in outermost]
    return next((name for name in names if names.count(name) > 1), None)


def unusable(meta: ReceiptMeta) -> str | None:
    """Why what has this head is not a receipt; None when it is one."""
    try:
        for text in (meta.run_id, meta.work_order_id):
            normal_uuid(text)
        for text in (meta.started_at, meta.finished_at):
            normal_time(text)
    except ValueError as error:
        return f"its receipt is not one: {error}"
    return None


def mended_line(line: bytes) -> bytes:
    """The line with every half of a surrogate pair replaced. ValueError when that is not what is wrong with it."""
    if not _HALF.search(line):
        raise ValueError("it holds no half of a surrogate pair")
    clean = msgspec.json.encode(mended(json.loads(line, parse_constant=_no_constant)))
    if clean == line:
        raise ValueError("nothing in it was to be replaced")
    return clean
