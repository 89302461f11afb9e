"""Which of many held surfaces can have anything in common with one that is asked for, without looking at each.

What two surfaces have in common lies below the directories that both name literally. So the held ones are kept in a
tree by those directories: only those on the way to the asked one's directory, and those below it, are candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def literal_start(text: str) -> list[str]:
    """The names that everything which a surface covers begins with; none where that is not plain to see."""
    path = text.partition("#")[0]
    if path.startswith("/") or ".." in path or "\\" in text:
        return []
    wild = min((place for char in "*?[{" if (place := path.find(char)) >= 0), default=-1)
    plain = path if wild < 0 else path[: path.rfind("/", 0, wild) + 1]
    return [name for name in plain.split("/") if name not in ("", ".")]


class _Node:
    __slots__ = ("items", "below")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.below: dict[str, _Node] = {}


class Index:
    """Items by the text of their surface."""

    def __init__(self, entries: Iterable[tuple[str, Any]]) -> None:
        self._root = _Node()
        for text, item in entries:
            node = self._root
            for name in literal_start(text):
                below = node.below.get(name)
                if below is None:
                    below = node.below[name] = _Node()
                node = below
            node.items.append(item)

    def near(self, text: str) -> Iterator[Any]:
        """Every item whose surface may overlap this one."""
        node = self._root
        for name in literal_start(text):
            yield from node.items
            below = node.below.get(name)
            if below is None:
                return
            node = below
        todo = [node]
        while todo:
            node = todo.pop()
            yield from node.items
            todo += node.below.values()
