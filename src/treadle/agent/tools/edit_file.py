"""Change one place in a file."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.tools import editing
from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.files import Loaded, changing, load, missing, not_known, save, show, shown, view
from treadle.errors import ToolError
from treadle.events import FileChanged, ToolKind
from treadle.session import Access

OldString = Annotated[str, Meta(description="The text to replace, exactly as it is in the file, unique in it.")]
NewString = Annotated[str, Meta(description="The text to put there.")]
ReplaceAll = Annotated[bool, Meta(description="Replace every occurrence, not only a unique one.")]


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old_string: OldString
    new_string: NewString
    replace_all: ReplaceAll = False


class EditArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file to change, absolute or relative to the working directory.")]
    old_string: OldString
    new_string: NewString
    replace_all: ReplaceAll = False


class EditFile:
    name = "edit_file"
    description = (
        "Replace a piece of text in a file by another. old_string must be in the file exactly once, unless "
        "replace_all is set; when it differs only in white space from one place in the file, that place is taken. "
        "With an empty old_string a file that does not exist is made. A file that you have not read, or that has "
        "changed since, is shown to you instead of edited. The result is a diff."
    )
    kind: ToolKind = "write"
    Args = EditArgs

    def access(self, args: EditArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(resolve(args.file_path)),), args=args)

    async def run(self, args: EditArgs, context: ToolContext) -> str:
        edits = (Edit(old_string=args.old_string, new_string=args.new_string, replace_all=args.replace_all),)
        path = context.resolve(args.file_path)
        return await changing(context, lambda: edit(path, edits, context))


TOOL: Tool[EditArgs] = EditFile()


def edit(path: Path, edits: tuple[Edit, ...], context: ToolContext) -> tuple[str, FileChanged]:
    """Make all of these edits, each on the result of the one before, or none."""
    loaded = load(path)
    if loaded.stamp is None and edits[0].old_string:
        raise missing(path)
    what = editing.binary(loaded.data[: editing.SNIFF])
    if what:
        raise ToolError(f"{show(path)} is {what}; only text can be edited")
    source, result, notes = _edited(loaded, edits)
    try:
        data = source.encode(result)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{show(path)} is {source.encoding}, which has no {result[error.start]!r}; nothing was written",
            hint="use characters that the file's encoding has, or replace the whole file with write_file",
        ) from None
    if why := not_known(context, loaded):
        place = editing.place(source.text, edits[0].old_string)
        raise ToolError(f"{why}; nothing was written. {view(context, loaded, place)}")
    if loaded.stamp and data == loaded.data:
        raise ToolError("the edits leave the file as it is: there is nothing to change")
    change = save(context, loaded, data, source.text, result)
    lines = [f"{'Edited' if loaded.stamp else 'Made'} {shown(path, context.cwd)}", *(f"[{note}]" for note in notes)]
    return "\n".join([*lines, change.diff]), change


def _edited(loaded: Loaded, edits: tuple[Edit, ...]) -> tuple[editing.Text, str, list[str]]:
    """Use the first encoding under which every edit finds its place; if none does, the error of the first."""
    failure: ToolError | None = None
    for source in editing.decodings(loaded.data):
        try:
            result, notes = _apply(source.text, edits)
        except ToolError as error:
            failure = failure or error
        else:
            return source, result, notes
    raise failure or ToolError(f"{show(loaded.path)} is not text in any encoding known here")


def _apply(content: str, edits: tuple[Edit, ...]) -> tuple[str, list[str]]:
    notes = []
    for number, one in enumerate(edits, 1):
        which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        if not one.old_string and not content:
            content = one.new_string
            continue
        try:
            done = editing.apply(content, one.old_string, one.new_string, one.replace_all)
        except ToolError as error:
            none = "; no edit was made" if which else ""
            raise ToolError(f"{which}{error.message}{none}", hint=error.hint) from None
        content = done.text
        if done.tolerant:
            notes.append(f"{which}found only with white space evened out; check the diff")
        elif one.replace_all:
            notes.append(f"{which}{done.count} places")
    return content, notes
