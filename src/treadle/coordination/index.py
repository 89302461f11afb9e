"""Finds, without checking each, which of many held surfaces may overlap a requested one.

Whatever two surfaces share lies below the directories that both name literally. So the held ones are kept in a tree of
those directories: only those on the path to the requested one's directory, and those below it, are candidates.
"""

from collections.abc import Iterable, Iterator

from treadle.light import Any


def literal_start(text: str) -> list[str]:
    """The literal names with which every path that a surface covers begins; empty when they are not obvious."""
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
    """Items, found by the text of their surface."""

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
