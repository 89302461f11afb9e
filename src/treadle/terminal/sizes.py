"""Which size a terminal gets when several people look at it."""

from collections.abc import Sequence


def choose(policy: str, sizes: Sequence[tuple[int, int]], latest: tuple[int, int] | None) -> tuple[int, int] | None:
    """The size to use, or None to keep it. `sizes` are those of the attached terminals, the leader's first.

    latest: the size of the terminal that last attached, typed or was resized. smallest: what all of them can show.
    leader: the size of the terminal that attached first. fixed: never changed.
    """
    if policy == "fixed" or not sizes:
        return None
    if policy == "latest":
        return latest
    if policy == "leader":
        return sizes[0]
    return min(cols for cols, _ in sizes), min(rows for _, rows in sizes)
