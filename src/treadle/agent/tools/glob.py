"""Find files by the pattern of their names."""

import asyncio
import heapq
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.files import explain, show, shown
from treadle.errors import ConfigError, ToolError
from treadle.events import ToolKind
from treadle.io import descriptors
from treadle.io.descriptors import Walk
from treadle.policy import patterns
from treadle.session import Access

MAX_FILES = 1000


class GlobArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str, Meta(description="Such as *.py, src/**/*.{ts,tsx} or docs/. Without / it holds at any depth.")
    ]
    path: Annotated[str | None, Meta(description="The directory to look in; without it, the working directory.")] = None
    include_ignored: Annotated[bool, Meta(description="Also files that .gitignore leaves out.")] = False


class Glob:
    name = "glob"
    description = (
        f"Find files by name pattern, the most recently changed first, at most {MAX_FILES}. * stays within a name, ** "
        "crosses directories, {a,b} and [a-z] are alternatives. What .gitignore leaves out, .git, what lies behind "
        "symlinks and what may not be read is not listed."
    )
    kind: ToolKind = "read"
    Args = GlobArgs

    def access(self, args: GlobArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(where(args, resolve)[0]),), args=args)

    async def run(self, args: GlobArgs, context: ToolContext) -> str:
        base, pattern = where(args, context.resolve)
        if not base.is_dir():
            raise explain(_why_no_directory(base), base)
        walk = Walk(str(base), ignore=not args.include_ignored)
        try:
            total, found = await asyncio.to_thread(search, walk, pattern, context.hidden)
        finally:
            walk.stopped = True  # when this is interrupted, the thread ends at its next directory
        return _render(total, found, walk.unreadable, base, context)


TOOL: Tool[GlobArgs] = Glob()


def where(args: GlobArgs, resolve: Resolve) -> tuple[Path, str]:
    """The directory that the fixed beginning of the pattern leads to, and the rest of the pattern."""
    pattern = args.pattern.removeprefix("./")
    if not pattern:
        raise ToolError("the pattern is empty", hint="for all files use **")
    if "/" not in pattern:
        return resolve(args.path or "."), f"**/{pattern}"
    names = pattern.split("/")
    plain = next((place for place, name in enumerate(names[:-1]) if set(name) & set("*?[{\\")), len(names) - 1)
    beginning = "/".join(names[:plain]) or ("/" if plain else ".")
    return resolve(os.path.join(args.path or "", beginning)), "/".join(names[plain:]) or "**"


def search(walk: Walk, pattern: str, hidden: Callable[[str], bool]) -> tuple[int, list[tuple[int, str]]]:
    """How many files match, and the newest of them, newest first; files of the same age by path."""
    try:
        wanted = patterns.parse(pattern).regex.fullmatch
    except ConfigError as error:
        raise ToolError(error.message, hint=error.hint) from None
    matching = [(relative, entry) for relative, entry in walk if wanted(relative) and not hidden(entry.path)]
    newest = heapq.nsmallest(MAX_FILES, ((_age(entry), relative) for relative, entry in matching))
    # A directory may have been swapped for a link during the walk: only this tree was permitted.
    real = descriptors.there(os.path.join(walk.root, relative) for _, relative in newest)
    inside = [(age, relative) for age, relative in newest if os.path.join(walk.root, relative) in real]
    return len(matching) - len(newest) + len(inside), inside


def _age(entry: os.DirEntry[str]) -> int:
    try:
        return -entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _why_no_directory(base: Path) -> OSError:
    try:
        os.scandir(base).close()
    except OSError as error:
        return error
    return NotADirectoryError(20, "Not a directory")


def _render(total: int, found: list[tuple[int, str]], unreadable: int, base: Path, context: ToolContext) -> str:
    lines: list[str] = []
    room = context.output_cap - 256
    for _, relative in found:
        line = shown(base / relative, context.cwd)
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    if not total:
        lines.append("[no file matches]")
    elif len(lines) < total:
        lines.append(f"[the {len(lines):,} newest of {total:,} files; narrow the pattern or the path to see others]")
    if unreadable:
        lines.append(f"[directories that could not be read: {unreadable:,}]")
    return "\n".join(lines)
