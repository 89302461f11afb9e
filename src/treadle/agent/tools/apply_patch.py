"""Change several files by one patch, all or nothing."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.tools import patches, text
from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.files import Loaded, load, remove, save, text_of, writing
from treadle.agent.tools.paths import missing, show, shown
from treadle.errors import ToolError
from treadle.events import FileChanged, ToolKind
from treadle.io.pinned import lstat
from treadle.session import Access


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
        named = [path for one in patches.parse(args.input) for path in (one.path, one.move_to) if path is not None]
        paths = tuple(dict.fromkeys(show(resolve(path)) for path in named))
        return Access(tool=self.name, kind=self.kind, paths=paths, args=args)

    async def run(self, args: PatchArgs, context: ToolContext) -> str:
        return await writing(context, lambda tell: _apply(patches.parse(args.input), context, tell))


TOOL: Tool[PatchArgs] = ApplyPatch()


class Rewrite(msgspec.Struct):
    """What becomes of one file: its new bytes at a path, or None to remove it. The texts are for the difference."""

    loaded: Loaded
    data: bytes | None
    old: str
    new: str
    mode: int | None = None


def _apply(files: list[patches.FilePatch], context: ToolContext, tell: Callable[[FileChanged], None]) -> str:
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


def _plan(one: patches.FilePatch, context: ToolContext) -> list[Rewrite]:
    path = context.resolve(one.path)
    loaded = load(path)
    if one.kind == "add":
        if loaded.stamp is not None:
            raise ToolError(f"{show(path)} is there already; nothing was written", hint=f"use {patches.UPDATE!r}")
        return [Rewrite(loaded, one.content.encode(), "", one.content)]
    if loaded.stamp is None:
        raise missing(path)
    if one.kind == "delete":
        return [Rewrite(loaded, None, text_of(loaded), "")]
    if what := text.binary(loaded.data[: text.SNIFF]):
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


def _patched(one: patches.FilePatch, loaded: Loaded, context: ToolContext) -> tuple[bytes, str, str]:
    """In the first encoding in which every hunk finds its place; if there is none, the error of the first."""
    failure: ToolError | None = None
    for source in text.decodings(loaded.data):
        try:
            new = patches.apply(source.text, one.hunks, hidden=context.hidden(str(loaded.path)))
            return source.encode(new), source.text, new
        except ToolError as error:
            failure = failure or ToolError(f"{show(loaded.path)}: {error.message}", hint=error.hint)
        except UnicodeEncodeError as error:
            failure = failure or ToolError(f"{show(loaded.path)} is {source.encoding}, which has no {error.object!r}")
    raise failure or ToolError(f"{show(loaded.path)} is not text in any encoding known here")
