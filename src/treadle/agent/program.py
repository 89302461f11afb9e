"""Tools and hooks inside the process of the program that opened the session (`session.OwnProgram`)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treadle.agent.hooks import ShellHooks
from treadle.agent.tools.base import AnyArgs, ToolContext
from treadle.errors import ToolError
from treadle.session import Access, HookVerdict, OwnProgram, OwnTool, Use


class ProgramTool:
    """An OwnTool as one of the session's tools."""

    Args = AnyArgs

    def __init__(self, own: OwnTool) -> None:
        self._own = own
        self.name = own.name
        self.description = own.description
        self.kind = own.kind
        self.parameters = own.parameters

    def access(self, args: AnyArgs, resolve: Callable[[str], Path]) -> Access:
        return Access(tool=self.name, kind=self.kind, args=args.values)

    async def ask(self, given: dict[str, Any], timeout: float) -> str:
        """Called by the host itself, not by the model."""
        try:
            async with asyncio.timeout(timeout):
                said = await self._own.call(given)
        except TimeoutError:
            raise ToolError(f"{self.name} did not answer within {timeout:g} s") from None
        return said if isinstance(said, str) else said.text

    async def run(self, args: AnyArgs, context: ToolContext) -> str:
        said = await self._own.call(args.values)
        if isinstance(said, str):
            return said
        from treadle.agent.images import shown_in_words

        return "\n".join([*([said.text] if said.text else []), *shown_in_words(said.images, context)])


class ProgramHooks:
    """The program's hooks, called before those of the settings."""

    def __init__(self, program: OwnProgram, others: ShellHooks) -> None:
        self._program = program
        self._others = others

    async def judge(self, name: str, args: Any, access: Access) -> HookVerdict:
        """What the program says about a call before anybody else has judged it."""
        return await judged(self._program, name, args, access)

    async def pre_tool(self, name: str, args: Any, access: Access) -> str | None:
        return await self._others.pre_tool(name, args, access)

    async def post_tool(self, name: str, args: Any, access: Access, result: str, ok: bool) -> str:
        added = ""
        if self._program.post_tool is not None:
            said = await self._program.post_tool(use_of(name, args, access), result, ok)
            added = f"\n{said}" if said else ""
        return added + await self._others.post_tool(name, args, access, result, ok)

    async def stopping(self, text: str) -> str | None:
        """Called when the agent is done: what it should continue with, if anything."""
        said = await self._program.stop("completed", text) if self._program.stop is not None else None
        return said if isinstance(said, str) and said.strip() else None

    async def turn_end(self, outcome: str, text: str) -> None:
        if self._program.stop is not None and outcome != "completed":
            await self._program.stop(outcome, text)
        await self._others.turn_end(outcome, text)


async def judged(program: OwnProgram, name: str, args: Any, access: Access) -> HookVerdict:
    """What a program's hook says about a call, in one form; an empty verdict when it says nothing."""
    if program.pre_tool is None:
        return HookVerdict()
    said = await program.pre_tool(use_of(name, args, access))
    if isinstance(said, str):
        return HookVerdict(decision="deny", reason=said or "blocked by the program that runs this session")
    return said or HookVerdict()


def use_of(name: str, args: Any, access: Access) -> Use:
    return Use(tool=name, args=args, kind=access.kind, paths=access.paths, command=access.command)
