"""Change several places in one file, all or nothing."""

from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.edit_file import Edit, edit
from treadle.agent.tools.files import changing, show
from treadle.errors import ToolError
from treadle.events import ToolKind
from treadle.session import Access


class MultiEditArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file to change, absolute or relative to the working directory.")]
    edits: Annotated[list[Edit], Meta(description="The edits, made in this order, each on the result of the last.")]


class MultiEdit:
    name = "multi_edit"
    description = (
        "Make several edits to one file at once, each like edit_file's, in order. When one of them cannot be made, "
        "none is, and the file stays as it was."
    )
    kind: ToolKind = "write"
    Args = MultiEditArgs

    def access(self, args: MultiEditArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(resolve(args.file_path)),), args=args)

    async def run(self, args: MultiEditArgs, context: ToolContext) -> str:
        if not args.edits:
            raise ToolError("edits is empty: there is nothing to change")
        path = context.resolve(args.file_path)
        return await changing(context, lambda: edit(path, tuple(args.edits), context))


TOOL: Tool[MultiEditArgs] = MultiEdit()
