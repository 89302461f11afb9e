"""The files and directories that others hold and that exist, as the paths that a sandbox keeps read-only.

A path that does not exist cannot be kept: what a command makes under another's claim is found afterwards (`guard.py`).
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from treadle.coordination.claim import Claim, Overlap
from treadle.coordination.surfaces import literal_starts
from treadle.io.sandbox.matches import Matches
from treadle.policy import patterns

MOST = 128
"""Each path is a mount. If there are more, whole directories of them are kept, although only a part of each is held."""


class HeldPaths:
    def __init__(self, top: str, records: str) -> None:
        """`records`: the directory of the coordination files, which belong to no one."""
        self._top = top
        self._apart = (os.path.join(top, ".git"), records)
        self._known: dict[str, Matches] = {}

    def find(self, claims: Iterable[Claim]) -> dict[str, str]:
        """The outermost paths that these claims cover, each with who holds it, why and until when."""
        found: dict[str, str] = {}
        for claim in claims:
            for text in claim.texts:
                surface = claim.surface(text)
                for path in self._paths(surface.pattern) if surface is not None and not surface.is_outside else ():
                    real = os.path.realpath(path)
                    if _is_under(real, (self._top,)):
                        found.setdefault(real, str(Overlap(os.path.relpath(path, self._top), text, claim)))
        return self._few(_outermost(found))

    def _paths(self, pattern: str) -> Iterator[str]:
        for start in literal_starts(pattern):
            place = os.path.normpath(os.path.join(self._top, start))
            if not patterns.match(pattern, start or ".") and not _covers(pattern, start):
                yield from self._search(pattern, place)
            elif place == self._top:
                # A directory with git's own in it cannot be kept whole: an agent commits to a private one.
                names = os.listdir(place)
                yield from (one for name in names if (one := os.path.join(place, name)) not in self._apart)
            elif os.path.lexists(place) and place not in self._apart:
                yield place

    def _search(self, pattern: str, place: str) -> Iterator[str]:
        if pattern not in self._known:
            self._known[pattern] = Matches(
                [place], lambda path: path not in self._apart and patterns.match(pattern, path[len(self._top) + 1 :])
            )
        yield from (path for path in self._known[pattern].find() if not _is_under(path, self._apart))

    def _few(self, found: dict[str, str]) -> dict[str, str]:
        while len(found) > MOST:
            around = Counter(map(os.path.dirname, found))
            place, number = max(around.items(), key=lambda one: one[1] if one[0] != self._top else 0)
            if place == self._top:
                return found
            inside = next(why for path, why in found.items() if os.path.dirname(path) == place)
            found = _outermost({**found, place: f"{number} paths in it are held, for example: {inside}"})
        return found


def _covers(pattern: str, start: str) -> bool:
    """Whether everything in a directory is covered, by trying names that no pattern means in particular."""
    below = f"{start}/\x01" if start else "\x01"
    return patterns.match(pattern, below) and patterns.match(pattern, f"{below}/\x01")


def _outermost(found: dict[str, str]) -> dict[str, str]:
    outermost: dict[str, str] = {}
    for path in sorted(found, key=lambda path: path.count("/")):
        parent = os.path.dirname(path)
        while parent not in outermost and parent != "/":
            parent = os.path.dirname(parent)
        if parent not in outermost:
            outermost[path] = found[path]
    return outermost


def _is_under(path: str, places: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{place}/") for place in places)
