"""Which size a terminal has when several people look at it."""

from __future__ import annotations

from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def choose(policy: str, sizes: Sequence[tuple[int, int]], latest: tuple[int, int] | None) -> tuple[int, int] | None:
    """The size to take, or None to leave it. `sizes` are those of the attached terminals, the leader's first.

    latest: of the terminal that last attached, got input or changed its size. smallest: what all of them can show.
    leader: of the terminal that attached first. fixed: nobody's.
    """
    if policy == "fixed" or not sizes:
        return None
    if policy == "latest":
        return latest
    if policy == "leader":
        return sizes[0]
    return min(cols for cols, _ in sizes), min(rows for _, rows in sizes)
