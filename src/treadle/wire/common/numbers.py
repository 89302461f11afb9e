"""Numbers in other programs' JSON. `true` is no number, although Python counts it as 1."""

from treadle.light import Any


def count(value: Any) -> int:
    """How many were reported; 0 for what is no count."""
    return value if type(value) is int and value >= 0 else 0


def amount(value: Any) -> float | None:
    """An amount, such as a price; None for what is none: it is unknown, not 0."""
    return float(value) if type(value) in (int, float) and value >= 0 else None
