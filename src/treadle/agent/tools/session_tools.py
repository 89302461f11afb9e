"""The tools that use the session itself: ask_user, task, todo, skill."""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.errors import LocalError, ToolError
from treadle.events import ToolKind, Warned
from treadle.session import Access
from treadle.settings.project import load_skill, skills

# Ask the person a question.


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
                hint="decide yourself if that is safe, and state your assumptions",
            )
        return answer.text or "yes"


ASK_USER: Tool[AskUserArgs] = AskUser()


# Give a piece of work to a subagent.


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
        # A rule may forbid a kind by its name, also the usual one that is not named.
        named = msgspec.structs.replace(args, agent_type=args.agent_type or "general-purpose")
        return Access(tool=self.name, kind="read", args=named)

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
        return task.output or "[the subagent sent no answer]"


TASK: Tool[TaskArgs] = TaskTool()


# Keep a to-do list.

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
            raise ToolError(f"the list has {len(args.todos)} items; the limit is {MAX_ITEMS}")
        context.state[STATE] = tuple(args.todos)
        return render(tuple(args.todos))


TODO: Tool[TodoArgs] = Todo()


def render(items: tuple[Item, ...]) -> str:
    if not items:
        return "[the list is empty]"
    done = sum(item.status == "completed" for item in items)
    lines = [f"{_MARKS[item.status]} {' '.join(item.content.split())}" for item in items]
    return "\n".join([*lines, f"{done} of {len(items)} done"])


# Load the instructions of a skill that the system prompt offers by name.


class SkillArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The skill's name, as the system prompt has it.")]
    args: Annotated[str, Meta(description="What it is given, where it takes something.")] = ""


class SkillTool:
    name = "skill"
    description = "Load the full instructions of a skill by its name."
    kind: ToolKind = "read"
    Args = SkillArgs

    def access(self, args: SkillArgs, resolve: Resolve) -> Access:
        # No path: the person put it in a place for skills so that it is read, wherever that is.
        return Access(tool=self.name, kind=self.kind, args=args)

    async def run(self, args: SkillArgs, context: ToolContext) -> str:
        found = {skill.name: skill for skill in await asyncio.to_thread(skills, str(context.cwd), context.instructions)}
        offered = [skill.name for skill in found.values() if skill.by_model]
        if args.name not in found:
            raise ToolError(f"there is no skill {args.name!r}", hint=f"available: {', '.join(offered) or 'none'}")
        if args.name not in offered:
            raise ToolError(
                f"the skill {args.name!r} is reserved for people (disable-model-invocation)",
                hint=f"ask the person to type /{args.name}; do not do its work in another way",
            )
        reading = found[args.name].reading
        for refusal in reading.refusals(f"the skill {args.name!r}"):
            raise ToolError(refusal, hint="do the work without it, and say so")
        if reading.notice:
            context.emit(Warned(message=f"the skill {args.name!r}: {reading.notice}", code="settings"))
        return load_skill(found[args.name], args.args)


SKILL: Tool[SkillArgs] = SkillTool()
