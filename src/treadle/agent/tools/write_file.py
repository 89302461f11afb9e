"""Write a whole file."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.files import changing, load, not_known, save, show, shown, text_of, view
from treadle.errors import ToolError
from treadle.events import FileChanged, ToolKind
from treadle.session import Access


class WriteArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file to write, absolute or relative to the working directory.")]
    content: Annotated[str, Meta(description="The whole new content of the file.")]


class WriteFile:
    name = "write_file"
    description = (
        "Make a file, or replace all of what it holds. Missing directories are made. A file that you have not read, or "
        "that has changed since, is shown to you instead of overwritten. To change a part of a file, use edit_file."
    )
    kind: ToolKind = "write"
    Args = WriteArgs

    def access(self, args: WriteArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(resolve(args.file_path)),), args=args)

    async def run(self, args: WriteArgs, context: ToolContext) -> str:
        path = context.resolve(args.file_path)
        return await changing(context, lambda: _write(path, args.content, context))


TOOL: Tool[WriteArgs] = WriteFile()


def _write(path: Path, content: str, context: ToolContext) -> tuple[str, FileChanged | None]:
    loaded = load(path)
    data = content.encode("utf-8")
    lines = content.count("\n") + bool(content and content[-1] != "\n")
    size = f"{len(data):,} bytes, {lines:,} line{'' if lines == 1 else 's'}"
    if loaded.stamp and loaded.data == data:
        return f"{shown(path, context.cwd)} already holds exactly this ({size}); nothing was written", None
    if why := not_known(context, loaded):
        raise ToolError(f"{why}; nothing was written. {view(context, loaded)}")
    change = save(context, loaded, data, text_of(loaded), content)
    return f"{'Replaced' if loaded.stamp else 'Made'} {shown(path, context.cwd)} ({size})", change
