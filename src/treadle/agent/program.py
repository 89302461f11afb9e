"""Tools and hooks inside the process of the program that opened the session (`session.OwnProgram`)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from treadle.agent.hooks import ShellHooks
from treadle.agent.tools.base import AnyArgs, Resolve, ToolContext
from treadle.errors import ToolError
from treadle.events import CommandRun, Event, FileChanged
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

    def access(self, args: AnyArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, args=args.values)

    async def ask(self, given: dict[str, Any], timeout: float) -> str:
        """Called by the host itself, not by the model."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self._own.call(given)
        except TimeoutError:
            raise ToolError(f"{self.name} did not answer within {timeout:g} s") from None
        return answer if isinstance(answer, str) else answer.text

    async def run(self, args: AnyArgs, context: ToolContext) -> str:
        answer = await self._own.call(args.values)
        if isinstance(answer, str):
            return answer
        from treadle.agent.tools.images import shown_in_words

        return "\n".join([*([answer.text] if answer.text else []), *shown_in_words(answer.images, context)])


class ProgramHooks:
    """The hooks of programs, in their order, called before those of the settings' shell commands."""

    def __init__(self, programs: Sequence[OwnProgram], others: ShellHooks, agent: tuple[str, str] = ("", "")) -> None:
        """`agent`: the id and the kind of the subagent whose hooks these are."""
        self._programs = programs
        self._did: dict[str, list[Event]] = {}
        """What running calls have done so far."""
        self._others = others
        self._agent = agent

    def saw(self, event: CommandRun | FileChanged) -> None:
        """Told by the session before the call that it belongs to has ended."""
        if event.call is not None:
            self._did.setdefault(event.call, []).append(event)

    def _use(self, call: str, name: str, args: Any, access: Access, took: int | None = None) -> Use:
        did = tuple(self._did.get(call, ()))
        code = next((one.exit_code for one in reversed(did) if isinstance(one, CommandRun)), None)
        use = use_of(name, args, access, call, self._agent)
        return msgspec.structs.replace(use, exit_code=code, did=did, duration_ms=took)

    async def judge(self, call: str, name: str, args: Any, access: Access) -> HookVerdict:
        """What the programs say about a call before anybody else has judged it: the strictest of their words."""
        found = HookVerdict()
        for program in self._programs:
            verdict = await judged(program, self._use(call, name, args, access))
            context = "\n".join(filter(None, (found.context, verdict.context)))
            if verdict.decision == "deny":
                return msgspec.structs.replace(verdict, context=context)
            stricter = "ask" if "ask" in (found.decision, verdict.decision) else verdict.decision or found.decision
            changed = found.args if verdict.args is None else verdict.args
            args = args if verdict.args is None else verdict.args
            reason = verdict.reason or found.reason
            found = HookVerdict(decision=stricter, reason=reason, args=changed, context=context)
        return found

    async def pre_tool(self, name: str, args: Any, access: Access) -> str | None:
        return await self._others.pre_tool(name, args, access)

    async def post_tool(
        self, call: str, name: str, args: Any, access: Access, result: str, ok: bool, took: int | None = None
    ) -> str:
        """What the model reads: the result, or what a hook put in its place, and what hooks add."""
        added, use = "", self._use(call, name, args, access, took)
        for program in self._programs:
            answer = await program.post_tool(use, result, ok) if program.post_tool else None
            if isinstance(answer, HookVerdict):
                result = result if answer.result is None else answer.result
                answer = answer.context
            added += f"\n{answer}" if answer else ""
        self._did.pop(call, None)
        return result + added + await self._others.post_tool(name, args, access, result, ok)

    async def event(self, name: str, payload: dict[str, Any]) -> HookVerdict:
        """What the programs say to another event; a denial wins, and their texts are joined."""
        found = HookVerdict()
        if self._agent[0] and name == "PermissionRequest":
            payload = {**payload, "agent_id": self._agent[0], "agent_type": self._agent[1]}
        for program in self._programs:
            verdict = await program.event(name, payload) if program.event is not None else None
            if verdict is None:
                continue
            context = "\n".join(filter(None, (found.context, verdict.context)))
            if verdict.decision == "deny":
                return msgspec.structs.replace(verdict, context=context)
            found = msgspec.structs.replace(verdict if verdict.decision else found, context=context)
        return found

    async def stopping(self, text: str, transcript: Callable[[], str]) -> str | None:
        """Called when the agent is done: what it should continue with, if anything. `transcript`: writes and names the
        conversation of a subagent."""
        agent, kind = self._agent
        found = []
        for program in self._programs:
            answer: str | None = None
            if agent and program.event is not None:
                payload = {"agent_id": agent, "agent_type": kind, "agent_transcript_path": transcript()}
                verdict = await program.event("SubagentStop", {**payload, "last_assistant_message": text})
                answer = verdict.context if verdict is not None else None
            elif not agent and program.stop is not None:
                answer = await program.stop("completed", text)
            if isinstance(answer, str) and answer.strip():
                found.append(answer)
        return "\n".join(found) or None

    async def turn_end(self, outcome: str, text: str) -> None:
        for program in self._programs:
            if program.stop is not None and outcome != "completed" and not self._agent[0]:
                await program.stop(outcome, text)
        await self._others.turn_end(outcome, text)


async def judged(program: OwnProgram, use: Use) -> HookVerdict:
    """What a program's hook says about a call, in one form; an empty verdict when it says nothing."""
    if program.pre_tool is None:
        return HookVerdict()
    answer = await program.pre_tool(use)
    if isinstance(answer, str):
        return HookVerdict(decision="deny", reason=answer or "blocked by the program that runs this session")
    return answer or HookVerdict()


def use_of(name: str, args: Any, access: Access, call: str = "", agent: tuple[str, str] = ("", "")) -> Use:
    return Use(
        tool=name,
        args=args,
        kind=access.kind,
        paths=access.paths,
        command=access.command,
        call=call,
        agent=agent[0],
        agent_type=agent[1],
    )
