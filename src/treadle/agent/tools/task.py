"""Give a piece of work to a subagent."""

from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.errors import LocalError, ToolError
from treadle.events import ToolKind
from treadle.session import Access


class TaskArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(description="What to do. The subagent knows nothing of this conversation: say it all.")]
    description: Annotated[str, Meta(description="Three to six words that name the work.")] = ""
    agent_type: Annotated[str | None, Meta(description="A kind of subagent, where some are defined.")] = None
    background: Annotated[bool, Meta(description="Return at once; you are told when it is done.")] = False


class TaskTool:
    name = "task"
    description = (
        "Start a subagent with a conversation of its own and return its final answer. Use it for work that can be "
        "described in one message, such as searching a large code base, to keep your own context small."
    )
    kind: ToolKind = "other"
    Args = TaskArgs

    def access(self, args: TaskArgs, resolve: Resolve) -> Access:
        # What the subagent does is judged call by call, as if the agent did it itself.
        return Access(tool=self.name, kind="read", args=args)

    async def run(self, args: TaskArgs, context: ToolContext) -> str:
        if not args.prompt.strip():
            raise ToolError("the prompt is empty")
        label = args.description or " ".join(args.prompt.split())[:60]
        try:
            task = await context.background.run_agent(
                args.prompt,
                label=label,
                agent_type=args.agent_type,
                background=args.background,
                call=context.call,
            )
        except LocalError as error:
            raise ToolError(error.message, hint=error.hint) from error
        if args.background:
            return f"Started in the background as task {task.id} ({label})"
        if task.status != "completed":
            why = f": {task.error.message}" if task.error else ""
            raise ToolError(f"the subagent {task.status}{why}\n{task.output or ''}".rstrip())
        return task.output or "[the subagent said nothing]"


TOOL: Tool[TaskArgs] = TaskTool()
