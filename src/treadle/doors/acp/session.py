"""One open session of an editor: its prompts, questions, modes and commands."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from treadle.doors.acp import questions, settings
from treadle.doors.diffs import proposed
from treadle.errors import NotFound, TreadleError
from treadle.events import Answered, AnyEvent, Asked, TurnEnded, Usage, Warned
from treadle.io.reading import read_if_there
from treadle.io.within import end_tasks
from treadle.policy.modes import MATRIX
from treadle.session import Change, CommandInfo, EventReader, Mode, Prompt, Remembering, Session
from treadle.sessions.abilities import can
from treadle.sessions.totals import Totals
from treadle.wire.acp.content import prompt_images, prompt_text, text_block
from treadle.wire.acp.outgoing import AcpOutgoing, Update, commands_update, stop_reason
from treadle.wire.acp.tools import DENIED
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Fault

AUTH_REQUIRED = -32000
TITLE = 80

MODES: dict[Mode, tuple[str, str]] = {
    "suggest": ("Ask", "Reads by itself and asks before it changes files or runs commands"),
    "auto-edit": ("Edit", "Changes files by itself and asks before it runs commands"),
    "full-auto": ("Full auto", "Changes files and runs commands by itself, within the rules"),
    "plan": ("Plan", "Changes nothing and makes a plan to approve"),
    "yolo": ("No questions", "Does everything without asking, except what rules deny"),
}
assert set(MODES) == set(MATRIX)


class ClientAbilities:
    """What the editor said it can do."""

    def __init__(self, declared: Any) -> None:
        given = declared if isinstance(declared, dict) else {}
        meta = given.get("_meta")
        elicitation = given.get("elicitation")
        self.terminals = isinstance(meta, dict) and meta.get("terminal_output") is True
        self.denials = isinstance(meta, dict) and meta.get(DENIED) is True
        self.forms = isinstance(elicitation, dict) and "form" in elicitation


class Served:
    def __init__(
        self,
        session: Session,
        cwd: str,
        mode: Mode | None,
        *,
        client: ClientAbilities,
        call: questions.Caller,
        tell: Callable[[str, dict[str, Any]], Any],
        warn: Callable[[str], None],
    ) -> None:
        self.session = session
        self.mode = session.info.mode or mode
        self._client = client
        self._call = call
        self._tell = tell
        self._warn = warn
        self._out = AcpOutgoing(
            lambda args: proposed(args, cwd),
            terminals=client.terminals,
            denials=client.denials,
            load=read_if_there,
        )
        self._spent = Totals()
        self._turns: list[str] = []
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._commands: list[CommandInfo] = []
        self._titled = False
        self._options: list[dict[str, Any]] = []
        """The settings as the editor knows them."""
        self._set_up: tuple[tuple[str, ...], Mode | None] = (), None
        self._first: list[dict[str, Any]] = []
        """The settings with which the session was opened."""
        self._effort = settings.AS_SET

    async def update(self, update: Update) -> None:
        await self._tell("session/update", {"sessionId": self.session.id, "update": update})

    # Opening

    async def replay(self) -> None:
        """Send the history, if the session knows it."""
        self._titled = True
        if isinstance(self.session, Remembering):
            for update in self._out.replayed(self.session.history()):
                await self.update(update)

    async def offer_commands(self) -> None:
        commands = self.session.commands()
        if commands != self._commands:
            self._commands = commands
            await self.update(commands_update(commands))

    def modes(self) -> dict[str, Any]:
        current = self.mode or "full-auto"
        offered = MODES if can(self.session.info.capabilities, "mode") else {current: MODES[current]}
        available = [{"id": mode, "name": name, "description": text} for mode, (name, text) in offered.items()]
        return {"currentModeId": current, "availableModes": available}

    async def set_mode(self, name: Any) -> None:
        mode = next((known for known in MODES if known == name), None)
        if mode is None:
            raise Fault(INVALID_PARAMS, f"there is no mode {name!r}", {"modes": list(MODES)})
        await self.session.configure(Change(mode=mode))
        self.mode = mode

    # Settings

    async def setup(self) -> dict[str, Any]:
        """What the answers that open a session have in common."""
        self._options = await settings.offered(self.session, self.modes(), self._effort, self._first)
        self._first = self._first or self._options
        self._set_up = self.session.info.models, self.mode
        return {"modes": self.modes(), "configOptions": self._options}

    async def set_option(self, option: Any, value: Any) -> dict[str, Any]:
        if option == "mode":
            await self.set_mode(value)
            await self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})
        else:
            await self.session.configure(settings.change(self._options, option, value))
            if option == "effort":
                self._effort = value
        return {"configOptions": (await self.setup())["configOptions"]}

    async def _renew_settings(self) -> None:
        """A slash command, or the agent itself, may have changed them."""
        before = self._options
        if not before or self._set_up == (self.session.info.models, self.mode):
            return
        if (await self.setup())["configOptions"] != before:
            await self.update({"sessionUpdate": "config_option_update", "configOptions": self._options})

    # A prompt

    async def prompt(self, blocks: Any) -> dict[str, Any]:
        text, images = prompt_text(blocks), prompt_images(blocks)
        if not text.strip() and not images:
            raise Fault(INVALID_PARAMS, "the prompt is empty")
        if any(isinstance(block, dict) and block.get("type") == "audio" for block in blocks):
            raise Fault(INVALID_PARAMS, "a prompt cannot contain audio")
        if not self._titled:
            self._titled = True
            await self.update({"sessionUpdate": "session_info_update", "title": " ".join(text.split())[:TITLE]})
        reader = self.session.events(after=-1)
        try:
            turn = await self._begin(text, images)
            if turn is None:
                return {"stopReason": "end_turn"}
            return await self._follow(turn, reader)
        finally:
            reader.close()
            await self.offer_commands()
            await self._renew_settings()

    async def _begin(self, text: str, images: tuple[bytes, ...]) -> str | None:
        """The turn that this starts; None when it was a command that is done already."""
        name, _, args = text.strip().removeprefix("/").partition(" ")
        if text.lstrip().startswith("/") and any(command.name == name for command in self.session.commands()):
            if images:
                raise Fault(INVALID_PARAMS, f"images came with the command /{name}, which takes none")
            result = await self.session.command(name, args.strip())
            if result is not None:
                if result.turn is None:
                    await self.update({"sessionUpdate": "agent_message_chunk", "content": text_block(result.message)})
                return result.turn
        return await self.session.prompt(Prompt(text=text, images=images))

    async def _follow(self, turn: str, reader: EventReader) -> dict[str, Any]:
        self._turns.append(turn)
        ended = None
        try:
            async for event in reader:
                if event.turn != turn:
                    self._beside(event)
                    continue
                await self._pass_on(event)
                if isinstance(event, TurnEnded):
                    ended = event
                    break
        finally:
            self._turns.remove(turn)
            if ended is None:
                await self.session.interrupt(turn, "the editor stopped listening")
        return await self._result(ended)

    def _beside(self, event: AnyEvent) -> None:
        if isinstance(event, Warned) and event.code != "gap":
            self._warn(event.message)

    async def _pass_on(self, event: AnyEvent) -> None:
        match event:
            case Asked():
                self._ask(event)
            case Answered():
                if (asking := self._asking.pop(event.request, None)) is not None:
                    asking.cancel()
            case Usage():
                await self._used(event)
            case Warned():
                self._beside(event)
            case _:
                for update in self._out.updates(event):
                    await self.update(update)

    async def _used(self, usage: Usage) -> None:
        self._spent = self._spent.plus(usage)
        used, size = self.session.info.context_used, self.session.info.context_window
        if used is None or size is None or usage.parent is not None:
            return
        update: Update = {"sessionUpdate": "usage_update", "used": used, "size": size}
        if self._spent.cost_usd is not None:
            update["cost"] = {"amount": self._spent.cost_usd, "currency": "USD"}
        await self.update(update)

    async def _result(self, ended: TurnEnded | None) -> dict[str, Any]:
        if self.session.info.mode not in (None, self.mode):  # for example when a plan was approved
            self.mode = self.session.info.mode
            await self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})
        stop = stop_reason(ended) if ended is not None else "cancelled"
        if stop is None:
            error = ended.error if ended is not None else None
            code = AUTH_REQUIRED if error is not None and error.code == "auth_failed" else INTERNAL_ERROR
            data = {"code": error.code, "retryable": error.retryable} if error is not None else None
            raise Fault(code, error.message if error is not None else "the turn failed", data)
        if ended is not None and ended.outcome == "limited" and ended.error is not None:
            await self.update(_message_chunk(f"\n\n[stopped: {ended.error.message}]"))
        return {"stopReason": stop, **({"usage": self._usage()} if self._spent.calls else {})}

    def _usage(self) -> dict[str, int]:
        """Usage of the whole session, as the schema says. Cached tokens are counted besides the input."""
        spent = self._spent
        return {
            "totalTokens": spent.total_tokens,
            "inputTokens": spent.input_tokens,
            "outputTokens": spent.output_tokens,
            "thoughtTokens": spent.reasoning_tokens,
            "cachedReadTokens": spent.cache_read_tokens,
            "cachedWriteTokens": spent.cache_write_tokens,
        }

    # Questions

    def _ask(self, asked: Asked) -> None:
        task = asyncio.create_task(self._put(asked), name=f"question {asked.request}")
        self._asking[asked.request] = task

    async def _put(self, asked: Asked) -> None:
        shown, tool = self._out.asked(asked)
        for update in shown if asked.kind == "permission" else []:
            await self.update(update)
        answer = await questions.put(self._call, self.session.id, asked, tool, forms=self._client.forms)
        with suppress(NotFound):  # its time has run out meanwhile
            await self.session.answer(asked.request, answer)

    async def cancel(self) -> None:
        for turn in list(self._turns):
            with suppress(TreadleError):
                await self.session.interrupt(turn, "cancelled in the editor")

    async def close(self) -> None:
        await end_tasks(*self._asking.values())
        await self.session.close()


def _message_chunk(text: str) -> Update:
    return {"sessionUpdate": "agent_message_chunk", "content": text_block(text)}
