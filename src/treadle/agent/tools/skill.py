"""Load the instructions of a skill that the system prompt offers by name."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.agent.project import load_skill, skills
from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.errors import ToolError
from treadle.events import ToolKind
from treadle.session import Access


class SkillArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The skill's name, as the system prompt has it.")]


class SkillTool:
    name = "skill"
    description = "Load the full instructions of a skill by its name."
    kind: ToolKind = "read"
    Args = SkillArgs

    def access(self, args: SkillArgs, resolve: Resolve) -> Access:
        # No path: the person put it in a place for skills so that it is read, wherever that is.
        return Access(tool=self.name, kind=self.kind)

    async def run(self, args: SkillArgs, context: ToolContext) -> str:
        found = {skill.name: skill for skill in await asyncio.to_thread(skills, str(context.cwd))}
        if args.name not in found:
            raise ToolError(f"there is no skill {args.name!r}", hint=f"there are: {', '.join(found) or 'none'}")
        return load_skill(found[args.name])


TOOL: Tool[SkillArgs] = SkillTool()
