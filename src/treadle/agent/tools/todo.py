"""Keep a to-do list."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.errors import ToolError
from treadle.events import ToolKind
from treadle.session import Access

MAX_ITEMS = 100
STATE = "todo"
"""Where the list is in the session's state, as a tuple of Item."""
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    content: Annotated[str, Meta(description="What is to be done.")]
    status: Annotated[Literal["pending", "in_progress", "completed"], Meta(description="How far it is.")] = "pending"


class TodoArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    todos: Annotated[list[Item], Meta(description="The whole list; it replaces the last one.")]


class Todo:
    name = "todo"
    description = (
        "Keep a list of the steps of a longer piece of work. Send the whole list each time; mark one item as in "
        "progress while you work on it, and as completed when it is done."
    )
    kind: ToolKind = "other"
    Args = TodoArgs

    def access(self, args: TodoArgs, resolve: Resolve) -> Access:
        # It touches nothing but its own list.
        return Access(tool=self.name, kind="read", args=args)

    async def run(self, args: TodoArgs, context: ToolContext) -> str:
        if len(args.todos) > MAX_ITEMS:
            raise ToolError(f"the list has {len(args.todos)} items; at most {MAX_ITEMS} are kept")
        context.state[STATE] = tuple(args.todos)
        return render(tuple(args.todos))


TOOL: Tool[TodoArgs] = Todo()


def render(items: tuple[Item, ...]) -> str:
    if not items:
        return "[the list is empty]"
    done = sum(item.status == "completed" for item in items)
    lines = [f"{_MARKS[item.status]} {' '.join(item.content.split())}" for item in items]
    return "\n".join([*lines, f"{done} of {len(items)} done"])
