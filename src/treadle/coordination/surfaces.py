"""Surfaces, the things that claims cover: a path and what is under it, a glob, or one symbol of a file
(`src/a.py#parse`).

Paths are relative to the top of the repository. Whether two surfaces overlap is decided exactly.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile

from treadle.errors import ConfigError
from treadle.light import Any
from treadle.policy import patterns


class Surface:
    __slots__ = ("text", "pattern", "symbol", "_is_file", "_folds")

    def __init__(self, text: str, top: str = "") -> None:
        """`top` is the repository's directory, to make absolute paths relative and to recognise directories."""
        path, symbol = _split(text)
        if not path or any(char in text for char in "\0\n\r\t"):
            raise ConfigError(f"{text!r} is not a surface", hint="give a path, a glob, or file#symbol")
        self.text = text
        self.pattern = _composed(_as_it_is(_relative(path, top), top))
        literal = patterns.is_literal(self.pattern)
        self.symbol = symbol if literal else ""  # a symbol of more than one file: then only the files count
        self._is_file = literal and (bool(symbol) or bool(top) and os.path.isfile(os.path.join(top, self.pattern)))
        self._folds = folds_case(top)

    @classmethod
    def of(cls, path: str, top: str = "") -> Surface:
        """The surface of a literal path: a file, unless it is known to be a directory in `top`."""
        surface = cls.__new__(cls)
        surface.text = path
        surface.pattern = patterns.escape(_composed(path))
        surface.symbol = ""
        surface._is_file = not (top and os.path.isdir(os.path.join(top, path)))
        surface._folds = folds_case(top)
        return surface

    @classmethod
    def directory(cls, path: str) -> Surface:
        """The surface of a path and everything under it."""
        surface = cls.of(path)
        surface._is_file = False
        return surface

    @property
    def is_outside(self) -> bool:
        """Whether it leads out of the repository, or is nowhere in it."""
        return self.pattern.startswith("/") or all(up > 0 for up, _ in patterns.parse(self.pattern).paths)

    def is_same(self, other: Surface) -> bool:
        mine, theirs = self._keys(other)
        return self.symbol == other.symbol and patterns.normalise(mine) == patterns.normalise(theirs)

    def overlaps(self, other: Surface) -> bool:
        mine, theirs = self._keys(other)
        if self.symbol and other.symbol and patterns.normalise(mine) == patterns.normalise(theirs):
            return self.symbol == other.symbol
        return patterns.overlaps(mine, theirs, (mine,) * self._is_file + (theirs,) * other._is_file)

    def covers(self, path: str) -> bool:
        """Whether it covers this literal path."""
        return patterns.match(_key(self.pattern, self._folds), _key(path, self._folds))

    def _keys(self, other: Surface) -> tuple[str, str]:
        folds = self._folds or other._folds
        return _key(self.pattern, folds), _key(other.pattern, folds)


@lru_cache
def folds_case(top: str) -> bool:
    """Whether two spellings of a name are one file there: the file system is asked about a name that it has."""
    try:
        name = next(name for name in os.listdir(top) if name.isascii() and name != name.swapcase())
        return os.path.samestat(os.lstat(os.path.join(top, name)), os.lstat(os.path.join(top, name.swapcase())))
    except (OSError, StopIteration):
        return False


def _key(path: str, folds: bool) -> str:
    return _composed(path.casefold()) if folds else _composed(path)


def _split(text: str) -> tuple[str, str]:
    """The file and the symbol, split at the first `#` without a backslash before it."""
    place = text.find("#")
    while place > 0 and text[place - 1] == "\\":
        place = text.find("#", place + 1)
    return (text, "") if place < 0 else (text[:place], text[place + 1 :])


def _relative(path: str, top: str) -> str:
    patterns.parse(path)  # raises when it is not a pattern
    if top and path.startswith("/"):
        names = patterns.normalise(path).split("/")
        for count in range(1, len(names) + 1):  # the path to the top may go through symbolic links
            if os.path.realpath("/".join(names[:count]) or "/") == top:
                return "/".join(names[count:]) or "."
    return path


def _as_it_is(path: str, top: str) -> str:
    """A name that exists is that name, even if it looks like a pattern: `app/[id]/page.tsx`."""
    if not top or path.startswith("/") or patterns.is_literal(path):
        return path
    found, place = [], top
    for name in path.split("/"):
        place = os.path.join(place, name)
        found.append(patterns.escape(name) if not patterns.is_literal(name) and os.path.lexists(place) else name)
    return "/".join(found)


def _composed(path: str) -> str:
    """One form for both ways in which accents are written: file systems and programs differ in which they use."""
    if path.isascii():
        return path
    import unicodedata

    return unicodedata.normalize("NFC", path)


def resolved(text: str, top: str) -> str:
    """The same surface where the links in its path lead, because that is where files are changed.

    Raises ConfigError when that is outside of the repository.
    """
    path, symbol = _split(text)
    path = _relative(path, top)
    if not top or path.startswith("/") or not path:
        return text
    names, place = patterns.normalise(path).split("/"), top
    for count, name in enumerate(names):
        if name == ".." or not patterns.is_literal(name):
            break
        place = os.path.join(place, name)
        if os.path.islink(place):
            real = os.path.realpath(place)
            if not real.startswith(f"{top}/"):
                raise ConfigError(f"{text!r} leads out of this repository, to {real}", hint="claim a path inside it")
            rest = [patterns.escape(os.path.relpath(real, top)), *names[count + 1 :]]
            return resolved("/".join(rest) + (f"#{symbol}" if symbol else ""), top)
    return text


LOOK_AT = 20_000
"""After this many files without a match, a glob gets the benefit of the doubt."""


def literal_starts(pattern: str) -> Iterator[str]:
    """For each alternative of a pattern, the path below which everything it covers in a repository lies. A name with
    accents is left out: it may be written in another form there."""
    for up, names in patterns.parse(pattern).paths:
        if up == 0:
            yield "/".join(takewhile(lambda name: isinstance(name, str) and name.isascii(), names))  # type: ignore[arg-type]


def matches_any(surface: Surface, top: str) -> bool:
    """Whether the surface covers any file or directory below `top`."""
    looked = 0
    for start in literal_starts(surface.pattern):
        place = os.path.join(top, start)
        if start and os.path.lexists(place) and surface.covers(start):
            return True
        for directory, directories, names in os.walk(place):
            directories[:] = [name for name in directories if name != ".git"]
            inside = os.path.normpath(os.path.relpath(directory, top)) + "/"
            inside = "" if inside == "./" else inside
            for name in (*names, *directories):
                looked += 1
                if looked > LOOK_AT or surface.covers(inside + name):
                    return True
    return False


# Finds, without checking each, which of many held surfaces may overlap a requested one.
#
# Whatever two surfaces share lies below the directories that both name literally. So the held ones are kept in a tree
# of those directories: only those on the path to the requested one's directory, and those below it, are candidates.


def literal_start(text: str) -> list[str]:
    """The literal names with which every path that a surface covers begins; empty when they are not obvious. In one
    form for all spellings that some file system takes for one."""
    path = _key(text.partition("#")[0], folds=True)
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
