"""Ask the person a question."""

from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.errors import ToolError
from treadle.events import ToolKind
from treadle.session import Access


class AskUserArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    question: Annotated[str, Meta(description="The question, complete in itself.")]
    options: Annotated[list[str], Meta(description="Answers to choose from, when there are some.")] = []


class AskUser:
    name = "ask_user"
    description = (
        "Ask the person a question and wait for the answer. Use it only for what you cannot find out and should not "
        "decide yourself. When no one can answer, you are told so."
    )
    kind: ToolKind = "other"
    Args = AskUserArgs

    def access(self, args: AskUserArgs, resolve: Resolve) -> Access:
        # It touches nothing: no one need be asked whether they may be asked.
        return Access(tool=self.name, kind="read", args=args)

    async def run(self, args: AskUserArgs, context: ToolContext) -> str:
        if not args.question.strip():
            raise ToolError("the question is empty")
        answer = await context.ask(args.question, tuple(args.options))
        if answer.decision == "deny":
            raise ToolError(
                f"no answer: {answer.text or 'no one answered'}",
                hint="decide yourself where that is safe, and say what you assumed",
            )
        return answer.text or "yes"


TOOL: Tool[AskUserArgs] = AskUser()
