"""A walk over the files that no `.gitignore` leaves out. Links are never followed, `.git` is never entered.

Light, because a child process of the agent uses it alone.
"""

import os
from collections.abc import Iterator
from typing import TypeAlias

from treadle.io.files import read_at_most
from treadle.policy.ignored import IgnoreRules

_MAX_RULES = 1 << 20
"""How many bytes of one `.gitignore` are read."""

Level: TypeAlias = tuple[int, "IgnoreRules"]
"""Where the path relative to a `.gitignore` begins in an absolute path, and its rules."""
_Opened: TypeAlias = tuple[str, Iterator["os.DirEntry[str]"], tuple[Level, ...]]


class Walk:
    """The ordinary files under `root` that are not ignored, as paths relative to it, in the order of their names.

    With `links`, symbolic links too. `excludes` are further rules, below those of any `.gitignore`.
    """

    def __init__(self, root: str, *, ignore: bool = True, links: bool = False, excludes: str = "") -> None:
        self.root = root
        self._links = links
        self._excludes = excludes
        self.unreadable = 0
        self._ignore = ignore
        self.stopped = False
        """Set by another thread to end the walk."""

    def __iter__(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        levels = parents(self.root) if self._ignore else ()
        if self._excludes:
            levels = (*levels, (len(self.root.rstrip("/")) + 1, IgnoreRules(self._excludes)))
        stack = [self._open("", self.root, levels)]
        while stack and not self.stopped:
            inside, entries, levels = stack[-1]
            for entry in entries:
                is_directory = entry.is_dir(follow_symlinks=False)
                if entry.name == ".git" or (levels and left_out(entry.path, entry.name, levels, folder=is_directory)):
                    continue
                if is_directory:
                    stack.append(self._open(f"{inside}{entry.name}/", entry.path, levels))
                    break  # the rest of this directory comes when that one is done
                if entry.is_file(follow_symlinks=False) or (self._links and entry.is_symlink()):
                    yield inside + entry.name, entry
            else:
                stack.pop()

    def _open(self, inside: str, directory: str, levels: tuple[Level, ...]) -> _Opened:
        entries = self._entries(directory)
        if self._ignore and any(entry.name == ".gitignore" for entry in entries):
            levels = ((len(directory.rstrip("/")) + 1, read_rules(directory)), *levels)
        return inside, iter(entries), levels

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return sorted(entries, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            self.unreadable += 1
            return []


def left_out(path: str, name: str, levels: tuple[Level, ...], *, folder: bool = False) -> bool:
    """Whether ignore files exclude it: the innermost file with a matching rule decides."""
    if folder:
        path, name = path + "/", name + "/"
    for start, rules in levels:
        verdict = rules.ignored(path[start:], name)
        if verdict is not None:
            return verdict
    return False


def parents(root: str) -> tuple[Level, ...]:
    """The rules above `root`, up to the top of its repository, innermost first."""
    levels: list[Level] = []
    directory = root
    while directory != "/" and not os.path.lexists(os.path.join(directory, ".git")):
        directory = os.path.dirname(directory)
        if os.path.lexists(os.path.join(directory, ".gitignore")):
            levels.append((len(directory.rstrip("/")) + 1, read_rules(directory)))
    return tuple(levels)


def read_rules(directory: str) -> IgnoreRules:
    """A file that cannot be read, or is not an ordinary file, has no rules."""
    try:
        text = read_at_most(os.path.join(directory, ".gitignore"), _MAX_RULES)
        return IgnoreRules(text.decode("utf-8", "surrogateescape"))
    except OSError:
        return IgnoreRules("")
