"""Runs ripgrep and reads what it prints."""

import asyncio
import base64
import os
from collections.abc import Callable, Iterator

import msgspec

from treadle.errors import LineTooLong, ToolError
from treadle.wire.common.framing import LineSplitter

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


async def search(
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
