"""JSON text for the small commands: what the standard library parses and writes, without importing its `json` package.

`json` imports `re`, which alone costs as much as half an interpreter start; its C half does not. What is accepted and
what is written is the same (`tests/wire/test_jsontext.py` holds the two together), with three differences that suit
wires: NaN and the infinities are refused both ways, a lone surrogate is written as an escape so that the text can
always be encoded, and every failure is a `ValueError`, also nesting that is too deep.
"""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_SPACE = " \t\n\r"


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Settings:
    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)
    memo: dict[str, str] = {}


_settings: Any = _Settings()
_scan = make_scanner(_settings)


def loads(text: str | bytes) -> Any:
    """The one value in `text`. Raises ValueError (a UnicodeDecodeError is one) when it is not exactly one."""
    if isinstance(text, bytes):
        text = text.decode()
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        value, end = _scan(text, start)
    except StopIteration as stop:
        raise ValueError(f"expected a JSON value at character {stop.value}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except SystemError:
        # Python 3.11 can say what is wrong only when the module that has the error class is there.
        import json.decoder  # noqa: F401

        return loads(text)
    if text[end:].strip(_SPACE):
        raise ValueError(f"expected nothing more at character {end}")
    return value


def dumps(value: Any, indent: int | None = None, *, sort_keys: bool = False) -> str:
    """`value` as JSON text: compact, or with `indent` spaces per level, one key or item per line."""
    out: list[str] = []
    try:
        _write(value, out, "\n" if indent is not None else "", " " * (indent or 0), sort_keys)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return "".join(out)


def quote(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return encode_basestring_ascii(text)
    return encode_basestring(text)


def mended(value: Any) -> Any:
    """The value with every text made fit for UTF-8: half a surrogate pair, as a file name can hold, becomes `?`."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [mended(item) for item in value]
    return value


def _write(value: Any, out: list[str], line: str, step: str, sort: bool) -> None:
    if isinstance(value, str):
        out.append(quote(value))
    elif value is None or isinstance(value, bool):
        out.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, int):
        out.append(int.__repr__(value))
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{value} is not JSON")
        out.append(float.__repr__(value))
    elif isinstance(value, dict):
        items = [(quote(key) + (": " if line else ":"), item) for key, item in _pairs(value, sort)]
        _group("{", items, "}", out, line, step, sort)
    elif isinstance(value, (list, tuple)):
        _group("[", [("", item) for item in value], "]", out, line, step, sort)
    else:
        raise TypeError(f"{type(value).__name__} is not JSON")


def _pairs(value: dict[str, Any], sort: bool) -> list[tuple[str, Any]]:
    return sorted(value.items()) if sort else list(value.items())


def _group(
    first: str, items: list[tuple[str, Any]], last: str, out: list[str], line: str, step: str, sort: bool
) -> None:
    if not items:
        out.append(first + last)
        return
    inner = line + step if line else ""
    lead = first + inner
    for name, item in items:
        out.append(lead + name)
        _write(item, out, inner, step, sort)
        lead = "," + inner
    out.append(line + last)
