"""Faults of a line that decoding into types does not find: a repeated name, half a character, an incomplete receipt."""

import json
import re
from typing import Any, NoReturn

import msgspec

from treadle.wire.common.jsontext import repaired
from treadle.wire.sidecar.receipts import ReceiptMeta, normal_time, normal_uuid

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class IncompleteReceipt(msgspec.ValidationError):
    """A `final` that lacks what the contract requires. Such a run has failed."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def repeated_field(line: bytes) -> str | None:
    """A name that occurs more than once in the line's outermost object."""
    outermost: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        outermost[:] = pairs  # the hook is called for inner objects first, so the last call is for the outermost

    try:
        json.loads(line, object_pairs_hook=keep)
    except ValueError as error:  # a number with more digits than Python converts
        raise msgspec.ValidationError(str(error)) from error
    names = [name for name, _ in outermost]
    return next((name for name in names if names.count(name) > 1), None)


def repeated_name(data: bytes) -> str | None:
    """A name that an object anywhere in this JSON has twice. Readers differ about which of the two counts."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            found.append(next(name for name in names if names.count(name) > 1))
        return made

    json.loads(data, object_pairs_hook=look)
    return found[0] if found else None


def unusable(meta: ReceiptMeta) -> str | None:
    """Why a receipt with these metadata is not valid; None when it is."""
    try:
        for text in (meta.run_id, meta.work_order_id):
            normal_uuid(text)
        for text in (meta.started_at, meta.finished_at):
            normal_time(text)
    except ValueError as error:
        return f"its receipt is not valid: {error}"
    return None


def repaired_line(line: bytes) -> bytes:
    """The line with every lone surrogate replaced. Raises ValueError when that is not what is wrong with it."""
    if not _HALF.search(line):
        raise ValueError("it holds no half of a surrogate pair")
    clean = msgspec.json.encode(repaired(json.loads(line, parse_constant=_no_constant)))
    if clean == line:
        raise ValueError("nothing in it was to be replaced")
    return clean
