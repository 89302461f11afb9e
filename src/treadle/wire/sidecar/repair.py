"""Reads `abp` types from peers that get them wrong. Whatever can be understood is not fatal.

What the contract does not name is taken out, so that the rest can be read exactly, and kept in a `Note`: an unknown
capability, field or error code, a missing value that has an obvious blank. An unknown event becomes a warning event
that carries the original in `ext`. Only what cannot be understood at all raises `msgspec.ValidationError`.
"""

import re
from typing import Any, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields

from treadle.wire.sidecar import receipts

NOWHEN = "1970-01-01T00:00:00Z"
NO_ID = "00000000-0000-0000-0000-000000000000"

BLANKS: dict[str, Any] = {
    "BackendIdentity.id": "",
    "run_id": NO_ID,
    "work_order_id": NO_ID,
    "contract_version": "",
    "started_at": NOWHEN,
    "finished_at": NOWHEN,
    "ts": NOWHEN,
    "duration_ms": 0,
    "outcome": "complete",
    "mode": "mapped",
    "harness_ok": False,
    "is_error": False,
    "usage_raw": None,
    "input": None,
    "output": None,
    "message": "",
    "text": "",
    "summary": "",
    "tool_name": "",
    "lane": "patch_first",
    "root": ".",
    "kind": "",
    "min_support": "any",
}
"""The blank for a required field that a peer left out. The blank of a list, map or struct is an empty one."""


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that deviates from the contract; `value` is what was there."""

    where: str
    problem: str
    value: Any = None
    blank: bool = False
    """Whether a blank replaces something that the contract requires."""

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


def tidy(value: Any, kind: Any, where: str, notes: list[Deviation]) -> Any:
    """`value`, a decoded JSON tree, with everything taken out that would stop `msgspec.convert(value, kind)`."""
    if kind == receipts.Manifest:
        return _tidy_manifest(value, where, notes)
    if kind == receipts.AnyAgentEvent:
        return _tidy_event(value, where, notes)
    if _is_struct(kind):
        return _tidy_struct(value, kind, where, notes)
    if get_origin(kind) is list and isinstance(value, list):
        return _tidy_list(value, get_args(kind)[0], where, notes)
    msgspec.convert(value, kind)
    return value


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _tidy_list(value: list[Any], kind: Any, where: str, notes: list[Deviation]) -> list[Any]:
    clean = []
    for at, item in enumerate(value):
        try:
            clean.append(tidy(item, kind, f"{where}[{at}]", notes))
        except msgspec.ValidationError as error:
            notes.append(Deviation(where=f"{where}[{at}]", problem=str(error), value=item))
    return clean


def _tidy_struct(value: Any, kind: type[msgspec.Struct], where: str, notes: list[Deviation]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise msgspec.ValidationError(f"{where} is not an object")
    tag = kind.__struct_config__.tag_field
    known = {field.name: field for field in fields(kind)}
    clean: dict[str, Any] = {tag: value[tag]} if tag and tag in value else {}
    for name, field in known.items():
        if value.get(name) is not None or (name in value and _takes_null(field)):
            clean |= _tidy_field(value[name], kind, field, f"{where}.{name}", notes)
        elif field.required:
            clean[name] = _blank(kind, field, f"{where}.{name}")
            notes.append(Deviation(where=f"{where}.{name}", problem="missing", blank=True))
    for name in value.keys() - known.keys() - {tag}:
        notes.append(Deviation(where=f"{where}.{name}", problem="not in the contract", value=value[name]))
    return clean


def _takes_null(field: FieldInfo) -> bool:
    return field.type is Any or type(None) in get_args(field.type)


def _tidy_field(
    value: Any, kind: type[msgspec.Struct], field: FieldInfo, where: str, notes: list[Deviation]
) -> dict[str, Any]:
    """The field with its value or its blank; empty when its default applies."""
    try:
        return {field.name: tidy(value, field.type, where, notes)}
    except msgspec.ValidationError as error:
        blank = {field.name: _blank(kind, field, where, error)} if field.required else {}
        notes.append(Deviation(where=where, problem=str(error), value=value, blank=field.required))
        return blank


def _blank(kind: type[msgspec.Struct], field: FieldInfo, where: str, error: Exception | None = None) -> Any:
    for name in (field.name, f"{kind.__name__}.{field.name}"):
        if name in BLANKS:
            return BLANKS[name]
    if get_origin(field.type) is list:
        return []
    if get_origin(field.type) is dict:
        return {}
    if _is_struct(field.type):
        return tidy({}, field.type, where, [])
    raise msgspec.ValidationError(f"{where}: {error}" if error else f"{where} is missing")


def _tidy_manifest(value: Any, where: str, notes: list[Deviation]) -> dict[str, Any]:
    if not isinstance(value, dict):
        notes.append(Deviation(where=where, problem="not an object", value=value))
        return {}
    clean = {}
    for name, level in value.items():
        if name not in receipts.CAPABILITIES:
            notes.append(Deviation(where=f"{where}.{name}", problem="unknown capability", value=level))
            continue
        if isinstance(level, dict) and len(level) == 1 and next(iter(level)) in ("native", "emulated", "unsupported"):
            level = next(iter(level))
        elif level == "restricted" or (isinstance(level, dict) and "restricted" in level):
            inside = level.get("restricted") if isinstance(level, dict) else None
            reason = inside.get("reason") if isinstance(inside, dict) else None
            level = {"restricted": {"reason": reason if isinstance(reason, str) else ""}}
        try:
            msgspec.convert(level, receipts.Level)
        except msgspec.ValidationError:
            notes.append(Deviation(where=f"{where}.{name}", problem="unknown support level", value=level))
            continue
        clean[name] = level
    return clean


def _tidy_event(value: Any, where: str, notes: list[Deviation]) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise msgspec.ValidationError(f"{where} is not an event: it has no type")
    kind = receipts.EVENT_TYPES.get(value["type"])
    ts = value.get("ts")
    if kind is None:
        notes.append(Deviation(where=where, problem=f"unknown event type {value['type']!r}", value=value))
        return {
            "type": "warning",
            "ts": ts if isinstance(ts, str) else NOWHEN,
            "message": f"unknown event type {value['type']!r}",
            "ext": {"unknown_event": value},
        }
    return _tidy_known_event(value, kind, where, notes)


def _tidy_known_event(
    value: dict[str, Any], kind: type[receipts.AgentEvent], where: str, notes: list[Deviation]
) -> Any:
    found: list[Deviation] = []
    clean = _tidy_struct(value, kind, where, found)
    strange = {note.where.rpartition(".")[2]: note.value for note in found if note.problem == "not in the contract"}
    if kind is receipts.ErrorMet and value.get("error_code") is not None and "error_code" not in clean:
        strange["error_code"] = value["error_code"]
    if strange:
        clean["ext"] = {**clean.get("ext", {}), "unknown_fields": strange}
    notes += found
    return clean


def convert(tree: Any, kind: Any, where: str, notes: list[Deviation]) -> Any:
    """`tree` as `kind`, as far as it can be understood."""
    return msgspec.convert(tidy(tree, kind, where, notes), kind)


# Receipts in files...

_STRING_OR_ZERO = re.compile(rb'"(?:[^"\\]|\\.)*"|-0(?![0-9.eE])', re.DOTALL)


def read_receipt(data: bytes, notes: list[Deviation]) -> receipts.Receipt:
    """A receipt from a file."""
    if b"-0" in data:  # which other readers take for a double
        data = _STRING_OR_ZERO.sub(lambda found: b"-0.0" if found.group() == b"-0" else found.group(), data)
    try:
        return receipts.decode_exact(data)
    except msgspec.ValidationError:
        return _read_receipt(data, notes)
    except RecursionError as error:
        raise msgspec.ValidationError("it is nested too deep") from error


def _read_receipt(data: bytes, notes: list[Deviation]) -> receipts.Receipt:
    try:
        tree = msgspec.json.decode(data)
        if not isinstance(tree, dict) or "meta" not in tree:
            raise msgspec.ValidationError("it has no `meta`")
        receipt: receipts.Receipt = convert(tree, receipts.Receipt, "receipt", notes)
    except RecursionError as error:
        raise msgspec.ValidationError("it is nested too deep") from error
    return receipt
