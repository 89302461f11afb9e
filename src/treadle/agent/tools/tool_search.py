"""Find tools that are not shown because there are too many. Not in `BUILTIN`: the toolbox offers it when it must."""

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import DEFERRED, FOUND, AnyTool, Resolve, Tool, ToolContext
from treadle.errors import ToolError
from treadle.events import ToolKind
from treadle.session import Access

MOST = 8


class SearchArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="Words for what the tool should do, or exact names with commas between.")]


class ToolSearch:
    name = "tool_search"
    description = (
        "Find further tools, of servers that are connected here but too many to list. What it finds can be called "
        "from your next step on."
    )
    kind: ToolKind = "read"
    Args = SearchArgs

    def access(self, args: SearchArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind)

    async def run(self, args: SearchArgs, context: ToolContext) -> str:
        tools: list[AnyTool] = context.state.get(DEFERRED, [])
        found = search(tools, args.query)
        if not found:
            servers = sorted({tool.name.split("__")[1] for tool in tools if tool.name.count("__") > 1})
            raise ToolError(
                f"no tool matches {args.query!r}", hint=f"the servers are {', '.join(servers)}; try other words"
            )
        known: dict[str, None] = context.state.setdefault(FOUND, {})
        known.update(dict.fromkeys(tool.name for tool in found))
        return "\n".join(f"{tool.name}: {_first_line(tool.description)}" for tool in found)


TOOL_SEARCH: Tool[SearchArgs] = ToolSearch()


def search(tools: Iterable[AnyTool], query: str) -> list[AnyTool]:
    """The tools with these exact names, else those that match most words; a word in the name counts three times."""
    named = {name.strip().lower() for name in query.split(",")}
    exact = [tool for tool in tools if tool.name.lower() in named]
    if exact:
        return exact
    words = set(re.findall(r"[^\W_]+", query.lower()))
    scored = [(_score(tool, words), at, tool) for at, tool in enumerate(tools)]
    best = sorted((entry for entry in scored if entry[0]), key=lambda entry: (-entry[0], entry[1]))
    return [tool for _, _, tool in best[:MOST]]


def _score(tool: AnyTool, words: set[str]) -> int:
    name, about = tool.name.lower(), tool.description.lower()
    return sum(3 * (word in name) + (word in about) for word in words)


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0][:200]
