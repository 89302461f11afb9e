"""Which rows of a long table run when: a few in `make test`, more in `make test-slow`, all in `make test-long`."""

from collections.abc import Iterable
from typing import Any

import pytest


def spread(rows: Iterable[Any], quick: int, slow: int = 0) -> list[Any]:
    """These rows, with so many of them, evenly spread, in the quick and in the slow tier and the others in the long."""
    every = list(rows)
    first = _some(range(len(every)), quick)
    second = _some([at for at in range(len(every)) if at not in first], slow)
    return [row if at in first else _marked(row, "slow" if at in second else "long") for at, row in enumerate(every)]


def _some(places: Iterable[int], count: int) -> set[int]:
    found = list(places)
    return {found[number * len(found) // count] for number in range(min(count, len(found)))}


def _marked(row: Any, tier: str) -> Any:
    return pytest.param(*(row if type(row) is tuple else (row,)), marks=getattr(pytest.mark, tier))
