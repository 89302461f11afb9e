"""Change several files by one patch, all or nothing."""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.files import (
    SNIFF,
    Loaded,
    binary,
    decodings,
    load,
    missing,
    near_misses,
    remove,
    save,
    show,
    shown,
    text_of,
    writing,
)
from treadle.errors import ToolError
from treadle.events import FileChanged, ToolKind
from treadle.io.descriptors import lstat
from treadle.session import Access

# Patches as GPT models are trained to write them, with context in place of line numbers. Pure: text in, text out.
#
#     *** Begin Patch
#     *** Update File: src/a.py
#     @@ def greet():
#          name = ask()
#     -    print("hi")
#     +    print(f"hello {name}")
#     *** Add File: new.txt
#     +its only line
#     *** Delete File: old.txt
#     *** End Patch
#
# A place is where the lines of a hunk are, below the lines after `@@` and below the hunk before it. It must be the
# only one, or the first below a line that is there once: a patch never changes a place that it might not mean. White
# space may differ; then the file keeps its own lines.

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE, MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
AT_END = "*** End of File"
KINDS: dict[str, Literal["add", "delete", "update"]] = {ADD: "add", DELETE: "delete", UPDATE: "update"}


class Hunk(msgspec.Struct):
    """`lines` are (mark, text) with the marks space, `-` and `+`; `anchors` stand above them in the file."""

    anchors: list[str] = []
    lines: list[tuple[str, str]] = []
    at_end: bool = False


class FilePatch(msgspec.Struct):
    kind: Literal["add", "delete", "update"]
    path: str
    move_to: str | None = None
    hunks: list[Hunk] = []

    @property
    def content(self) -> str:
        """Of an added file."""
        return "".join(f"{text}\n" for hunk in self.hunks for _, text in hunk.lines)


def parse(patch: str) -> list[FilePatch]:
    lines = patch.strip().split("\n")
    if lines[0].strip() != BEGIN:
        raise ToolError(f"a patch begins with the line {BEGIN!r}")
    if lines[-1].strip() != END:
        raise ToolError(f"a patch ends with the line {END!r}; this one is cut off")
    found: list[FilePatch] = []
    for number, line in enumerate(lines[1:-1], 2):
        if (header := next((one for one in KINDS if line.startswith(one)), None)) is not None:
            found.append(FilePatch(KINDS[header], line.removeprefix(header).strip()))
        elif not found:
            raise ToolError(f"line {number} of the patch belongs to no file", hint=f"begin with {UPDATE!r} or {ADD!r}")
        else:
            _take(found[-1], line, number)
    if not found:
        raise ToolError("the patch changes nothing")
    for one in found:
        if not one.path or one.kind == "update" and not one.hunks and one.move_to is None:
            raise ToolError(f"the patch has nothing to do in {one.path!r}")
    return found


def _take(file: FilePatch, line: str, number: int) -> None:
    if file.kind == "delete":
        raise ToolError(f"line {number} of the patch: a file that is deleted has no lines")
    if line.startswith(MOVE) and file.kind == "update" and not file.hunks:
        file.move_to = line.removeprefix(MOVE).strip()
        return
    if line.startswith("@@") and file.kind == "update":
        if not file.hunks or file.hunks[-1].lines:
            file.hunks.append(Hunk())
        if anchor := line.removeprefix("@@").strip():
            file.hunks[-1].anchors.append(anchor)
        return
    if not file.hunks:
        file.hunks.append(Hunk())
    hunk = file.hunks[-1]
    if line.strip() == AT_END and file.kind == "update":
        hunk.at_end = True
        return
    mark, text = (line[:1] or " "), line[1:]
    if mark not in "+- " or file.kind == "add" and mark != "+":
        allowed = "'+'" if file.kind == "add" else "' ', '-' or '+'"
        raise ToolError(
            f"line {number} of the patch begins with {mark!r}", hint=f"lines of a file begin with {allowed}"
        )
    hunk.lines.append((mark, text))


def apply(text: str, hunks: list[Hunk], *, hidden: bool = False) -> str:
    """The text after all hunks. `hidden`: what the file holds may not be shown in an error."""
    crlf = "\r\n" in text
    lines = text.replace("\r\n", "\n").split("\n") if crlf else text.split("\n")
    ends = lines[-1] == ""
    if ends:
        lines.pop()
    below, result = 0, []
    for number, hunk in enumerate(hunks, 1):
        start, clear = _below_anchors(lines, hunk, below, number)
        old = [line for mark, line in hunk.lines if mark != "+"]
        place = _place(lines, old, hunk, start, number, clear, hidden) if old else _end_or(start, hunk, lines)
        result += lines[below:place]
        below = place
        for mark, line in hunk.lines:
            if mark == "+":
                result.append(line)
            else:
                result += [lines[below]] if mark == " " else []
                below += 1
    result += lines[below:]
    joined = "\n".join(result) + ("\n" if result and (ends or not text) else "")
    return joined.replace("\n", "\r\n") if crlf else joined


def _end_or(start: int, hunk: Hunk, lines: list[str]) -> int:
    """Where lines without any context go: below what `@@` names, else at the end."""
    return start if hunk.anchors and not hunk.at_end else len(lines)


def _below_anchors(lines: list[str], hunk: Hunk, start: int, number: int) -> tuple[int, bool]:
    """Where to look from, and whether the last anchor names one line only."""
    clear = False
    for anchor in hunk.anchors:
        below = range(start, len(lines))
        found = [at for at in below if lines[at].strip() == anchor]
        # It may be shortened, as `@@ class A` for `class A(Base):`.
        found = found or [at for at in below if lines[at].strip().startswith(anchor)]
        if not found:
            raise ToolError(f"hunk {number}: no line {anchor!r} is below the hunk before it; nothing was written")
        start, clear = found[0] + 1, len(found) == 1
    return start, clear


def _place(lines: list[str], old: list[str], hunk: Hunk, start: int, number: int, clear: bool, hidden: bool) -> int:
    same: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)
    for even in same:
        wanted = [even(line) for line in old]
        have = [even(line) for line in lines]
        places = [at for at in range(start, len(lines) - len(old) + 1) if have[at : at + len(old)] == wanted]
        if hunk.at_end:
            places = [at for at in places if at + len(old) == len(lines)]
        if len(places) == 1 or places and clear:
            return places[0]
        if places:
            named = ", ".join(str(at + 1) for at in places[:10])
            raise ToolError(
                f"hunk {number} fits at {len(places)} places, at lines {named}; nothing was written",
                hint="add lines around it, or the line of its function or class after @@",
            )
    where = "" if hidden else f"; {near_misses([f'{line}{chr(10)}' for line in lines], chr(10).join(old))}"
    raise ToolError(f"hunk {number}: its lines are not in the file, or not below the hunk before it{where}")


class PatchArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: Annotated[str, Meta(description="The whole patch, from *** Begin Patch to *** End Patch.")]


class ApplyPatch:
    name = "apply_patch"
    description = (
        "Change files by a patch between the lines `*** Begin Patch` and `*** End Patch`. Each file begins with "
        "`*** Add File: PATH` (then its lines, each after `+`), `*** Delete File: PATH`, or `*** Update File: PATH`, "
        "optionally `*** Move to: PATH`, then hunks: `@@`, optionally with the line of the function or class it is "
        "in, then three lines of context before and after, each after a space, removed lines after `-`, added ones "
        "after `+`. There are no line numbers. A hunk must fit at one place only. If one does not, nothing is changed."
    )
    kind: ToolKind = "write"
    Args = PatchArgs

    def access(self, args: PatchArgs, resolve: Resolve) -> Access:
        named = [path for one in parse(args.input) for path in (one.path, one.move_to) if path is not None]
        paths = tuple(dict.fromkeys(show(resolve(path)) for path in named))
        return Access(tool=self.name, kind=self.kind, paths=paths, args=args)

    async def run(self, args: PatchArgs, context: ToolContext) -> str:
        return await writing(context, lambda tell: _apply(parse(args.input), context, tell))


APPLY_PATCH: Tool[PatchArgs] = ApplyPatch()


class Rewrite(msgspec.Struct):
    """What becomes of one file: its new bytes at a path, or None to remove it. The texts are for the difference."""

    loaded: Loaded
    data: bytes | None
    old: str
    new: str
    mode: int | None = None


def _apply(files: list[FilePatch], context: ToolContext, tell: Callable[[FileChanged], None]) -> str:
    planned: dict[str, Rewrite] = {}
    for one in files:
        for step in _plan(one, context):
            if str(step.loaded.path) in planned:
                raise ToolError(f"the patch names {show(step.loaded.path)} twice; nothing was written")
            planned[str(step.loaded.path)] = step
    done: list[str] = []
    for step in planned.values():
        path = shown(step.loaded.path, context.cwd)
        try:
            change = (
                remove(context, step.loaded, step.old)
                if step.data is None
                else save(context, step.loaded, step.data, step.old, step.new, mode=step.mode)
            )
        except ToolError as error:
            before = f"; already done: {', '.join(done)}" if done else ""
            raise ToolError(f"{error.message}{before}", hint=error.hint) from error
        tell(change)
        done.append(f"{ {'added': 'Made', 'modified': 'Edited', 'deleted': 'Removed'}[change.change] } {path}")
    return "\n".join(done)


def _plan(one: FilePatch, context: ToolContext) -> list[Rewrite]:
    path = context.resolve(one.path)
    loaded = load(path)
    if one.kind == "add":
        if loaded.stamp is not None:
            raise ToolError(f"{show(path)} is there already; nothing was written", hint=f"use {UPDATE!r}")
        return [Rewrite(loaded, one.content.encode(), "", one.content)]
    if loaded.stamp is None:
        raise missing(path)
    if one.kind == "delete":
        return [Rewrite(loaded, None, text_of(loaded), "")]
    if what := binary(loaded.data[:SNIFF]):
        raise ToolError(f"{show(path)} is {what}; only text can be patched")
    data, old, new = _patched(one, loaded, context)
    if one.move_to is None:
        if data == loaded.data:
            raise ToolError(f"the patch leaves {show(path)} as it is; nothing was written")
        return [Rewrite(loaded, data, old, new)]
    target = load(context.resolve(one.move_to))
    if target.stamp is not None:
        raise ToolError(f"{show(target.path)} is there already; nothing was written", hint="choose another name")
    mode = lstat(str(path)).st_mode & 0o777
    return [Rewrite(target, data, "", new, mode), Rewrite(loaded, None, old, "")]


def _patched(one: FilePatch, loaded: Loaded, context: ToolContext) -> tuple[bytes, str, str]:
    """In the first encoding in which every hunk finds its place; if there is none, the error of the first."""
    failure: ToolError | None = None
    for source in decodings(loaded.data):
        try:
            new = apply(source.text, one.hunks, hidden=context.hidden(str(loaded.path)))
            return source.encode(new), source.text, new
        except ToolError as error:
            failure = failure or ToolError(f"{show(loaded.path)}: {error.message}", hint=error.hint)
        except UnicodeEncodeError as error:
            failure = failure or ToolError(f"{show(loaded.path)} is {source.encoding}, which has no {error.object!r}")
    raise failure or ToolError(f"{show(loaded.path)} is not text in any encoding known here")
