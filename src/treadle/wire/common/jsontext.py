"""JSON text as wires want it: compact, in UTF-8, with one kind of failure.

It is the standard library's `json` with three settings: NaN and the infinities are refused both ways, a lone surrogate
is written as an escape so that the text can always be encoded, and every failure is a `ValueError`, even nesting
that is too deep. `json` is imported where it is used: some of the smallest commands get by without it.
"""

import time

from treadle.light import Any, NoReturn

# Numbers in other programs' JSON. `true` is no number, although Python counts it as 1.


def count(value: Any) -> int:
    """How many were reported; 0 for what is no count."""
    return value if type(value) is int and value >= 0 else 0


def amount(value: Any) -> float | None:
    """An amount, such as a price; None for what is none: it is unknown, not 0."""
    return float(value) if type(value) in (int, float) and value >= 0 else None


# A point in time as records and logs write it. Light: the terminal supervisor imports this.


def timestamp(seconds: float) -> str:
    """A value of `time.time()` in UTC, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def loads(text: str | bytes) -> Any:
    """The one value in `text`. Raises ValueError (a UnicodeDecodeError is one) when it is not exactly one."""
    if isinstance(text, bytes):
        text = text.decode()
    import json

    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: Any, indent: int | None = None, *, sort_keys: bool = False) -> str:
    """`value` as JSON text: compact, or with `indent` spaces per level, one key or item per line."""
    import json

    separators = (",", ":") if indent is None else (",", ": ")
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators, sort_keys=sort_keys
        )
        text.encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, indent=indent, separators=separators, sort_keys=sort_keys)
    return text


def repaired(value: Any, mark: str = "?") -> Any:
    """The value with every text made valid UTF-8: a lone surrogate, which a file name can hold, becomes `mark`."""
    if isinstance(value, str):
        if value.isascii():
            return value
        halves = [mark if "\ud800" <= letter <= "\udfff" else letter for letter in value]
        return "".join(halves)
    if isinstance(value, dict):
        return {repaired(key, mark): repaired(item, mark) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [repaired(item, mark) for item in value]
    return value


REPLACEMENT = "\ufffd"


def repaired_line(line: bytes) -> bytes:
    """JSON text in which an escape for a lone surrogate (`\\ud83d` alone) is replaced by U+FFFD."""
    import re

    def fixed(found: re.Match[bytes]) -> bytes:
        text = found[0]
        half = len(text) == 6 and text[2:3] in b"dD" and text[3:4] in b"89abcdefABCDEF"
        return b"\\ufffd" if half else text

    pair = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    return re.sub(pair + rb"|\\u[0-9a-fA-F]{4}|\\.", fixed, line, flags=re.S)
