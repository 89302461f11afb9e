"""Wraps any provider with the profile for small models."""

import os
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from treadle.agent.loop import estimated
from treadle.agent.messages import AssistantMessage, ChatMessage, ModelRequest, ToolCall, ToolResult, UserMessage
from treadle.agent.providers.base import Provider, Reply, ReplyItem
from treadle.agent.small import objections, words
from treadle.agent.small.calls import Written, offered, read, reply_schema
from treadle.agent.small.objections import Objection
from treadle.agent.small.profile import SmallProfile
from treadle.agent.small.render import CUT_OFF, LOOK, argument, is_look, rendered
from treadle.agent.small.repairing import repaired
from treadle.agent.small.runaway import endless
from treadle.events import TextDelta, Usage
from treadle.sessions.session import new_id

REPLY_TOKENS = 700
WARM = 0.7
OBJECTIONS = 2
"""How often a reply may be sent back before it is accepted unchanged."""
MOST_QUOTED = 200
"""How many characters of a rejected reply the model sees again: more of a long one only makes it go on."""
_LEFT_OUT = " ".join(f"-name '{name}' -prune -o" for name in (".?*", "node_modules", "__pycache__", "venv"))
LIST = f"find . {_LEFT_OUT} -type f -printf '%P\\n' | sort"
"""The files of a project, also those in its directories. Git could say it better, but runs what a repository's settings
name, so it needs a person's permission; this does not."""
MOST_FILES = 3
LARGEST_FILE = 6000
"""In bytes: a longer file is not shown unasked."""
_PATH = re.compile(r"[\w./-]*\w\.\w+|\b[A-Z][A-Za-z]+file\b")


class SmallModel:
    """The loop sees an ordinary provider that makes calls; the model sees words and a schema."""

    sees = False

    def __init__(self, inner: Provider, profile: SmallProfile, cwd: str) -> None:
        self.inner = inner
        self.profile = profile
        self._cwd = cwd

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def context_window(self) -> int | None:
        return self.inner.context_window

    @property
    def priced(self) -> bool:
        return self.inner.priced

    async def models(self) -> list[str]:
        return await self.inner.models()

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyItem, None]:
        if not request.tools:  # a summary, for example: it has no required form
            async for item in self.inner.stream(request):
                yield item
            return
        unasked = self._unasked(request)
        if unasked:
            message = AssistantMessage(calls=unasked, model=self.model)
            yield Reply(message=message, finish="tool_calls", usage=Usage(model=self.model, cost_usd=0.0))
            return
        asked, usage = self._asked(request), None
        for left in reversed(range(1 + OBJECTIONS)):
            raw, objecting = None, left > 0 and self.profile.object
            async with aclosing(self._replying(asked, cut=objecting and left == OBJECTIONS)) as items:
                async for item in items:
                    if isinstance(item, Reply):
                        raw = item
                    else:
                        yield item
            if raw is None:
                return
            reply, usage = self._repaired(_understood(raw)), _sum(usage, raw.usage)
            objection = self._objection(reply, raw.finish, request.messages) if objecting else None
            if objection is None:
                break
            asked = self._with_objection(asked, raw.message.text[:MOST_QUOTED], objection, request)
        if reply.message.text:
            yield TextDelta(text=reply.message.text)
        yield msgspec.structs.replace(reply, usage=usage)

    async def _replying(self, asked: ModelRequest, cut: bool) -> AsyncGenerator[ReplyItem, None]:
        """Everything but the words, which are not yet an answer. With `cut`, an endless reply is cut off."""
        text = ""
        async with aclosing(self.inner.stream(asked)) as items:
            async for item in items:
                if not isinstance(item, TextDelta):
                    yield item
                elif cut and endless(text := text + item.text):
                    message = AssistantMessage(text=text, model=self.model)
                    usage = estimated(self.model, asked, message)
                    if self.name == "local":
                        usage = msgspec.structs.replace(usage, cost_usd=0.0)
                    yield Reply(message=message, finish="length", usage=usage)
                    return

    # What the model is asked

    def _asked(self, request: ModelRequest) -> ModelRequest:
        profile, tools = self.profile, offered(request.tools)
        manual = (words.manual if profile.manual else words.descriptions)(tools)
        manual += "" if profile.one_step else f"\n{words.several_note()}"
        again = _repeated(request.messages) if profile.vary else ""
        seen = "read_file" if profile.look_first and _all_shown(request.messages) else ""
        allowed = [tool for tool in tools if tool.name not in (again, seen)]
        return msgspec.structs.replace(
            request,
            system=f"{manual}\n\n{request.system}",
            messages=rendered(request.messages, {tool.name: tool for tool in tools}, profile),
            tools=(),
            schema=reply_schema(allowed, profile) if profile.constrain else None,
            max_output_tokens=REPLY_TOKENS if profile.caps else request.max_output_tokens,
            temperature=WARM if again else 0.0,
            cached=profile.cache,
        )

    def _with_objection(
        self, asked: ModelRequest, reply: str, objection: Objection, request: ModelRequest
    ) -> ModelRequest:
        """The same question with what was wrong about the answer. History never sees either."""
        tools = [tool for tool in offered(request.tools) if tool.name != objection.without]
        return msgspec.structs.replace(
            asked,
            messages=(*asked.messages, AssistantMessage(text=reply), UserMessage(text=objection.text)),
            temperature=WARM if objection.text == CUT_OFF else asked.temperature,  # else it is cut off there again
            schema=reply_schema(tools, self.profile, answer=objection.without != words.ANSWER)
            if asked.schema is not None
            else None,
        )

    def _repaired(self, reply: Reply) -> Reply:
        if not self.profile.repair:
            return reply
        calls = tuple(
            repaired(call, objections.content(argument(call, "file_path"), self._cwd) or "")
            if call.name == "edit_file"
            else call
            for call in reply.message.calls
        )
        return msgspec.structs.replace(reply, message=msgspec.structs.replace(reply.message, calls=calls))

    def _objection(self, reply: Reply, finish: str, messages: Sequence[ChatMessage]) -> Objection | None:
        turn = _turn(messages)
        if finish == "length":
            return Objection(text=CUT_OFF)
        for call in reply.message.calls:
            if (found := objections.to_call(call, turn, self._cwd)) is not None:
                return found
        return objections.to_answer(reply.message.text, turn, self._cwd) if not reply.message.calls else None

    # What needs no model

    def _unasked(self, request: ModelRequest) -> tuple[ToolCall, ...]:
        """Calls that are plainly the next step. They are judged and run like the model's own."""
        names = {tool.name for tool in request.tools}
        last = request.messages[-1] if request.messages else None
        if isinstance(last, UserMessage) and self.profile.look_first and len(_turn(request.messages)) == 1:
            return self._look(last.text, names)
        if isinstance(last, ToolResult) and self.profile.show_file and "read_file" in names:
            return self._show(last, request.messages)
        return ()

    def _look(self, prompt: str, names: set[str]) -> tuple[ToolCall, ...]:
        listing = LIST if sys.platform == "linux" and os.path.exists(os.path.join(self._cwd, ".git")) else "ls"
        calls = [_call("bash", command=listing)] if "bash" in names else []
        if "read_file" in names:
            paths = dict.fromkeys(match.removeprefix("./") for match in _PATH.findall(prompt))
            calls += [_call("read_file", file_path=path) for path in paths if self._showable(path)][:MOST_FILES]
        return tuple(calls)

    def _show(self, result: ToolResult, messages: Sequence[ChatMessage]) -> tuple[ToolCall, ...]:
        """Show the file that was to be changed as it is now: it shows what is left to do."""
        if result.name != "edit_file":
            return ()
        for message in reversed(messages):
            for call in message.calls if isinstance(message, AssistantMessage) else ():
                if call.id == result.call:
                    path = argument(call, "file_path")
                    return (_call("read_file", file_path=path),) if path and self._showable(path) else ()
        return ()

    def _showable(self, path: str) -> bool:
        try:
            return 0 < os.path.getsize(os.path.join(self._cwd, path)) <= LARGEST_FILE and os.path.isfile(
                os.path.join(self._cwd, path)
            )
        except (OSError, ValueError):
            return False


def _call(name: str, **arguments: str) -> ToolCall:
    return ToolCall(id=LOOK + new_id("call"), name=name, arguments=msgspec.json.encode(arguments).decode())


def _turn(messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """The messages from the person's newest one on."""
    start = max((at for at, message in enumerate(messages) if isinstance(message, UserMessage)), default=0)
    return messages[start:]


def _all_shown(messages: Sequence[ChatMessage]) -> bool:
    """Whether every file of the directory was shown, so that there is nothing else to read."""
    looks = [message for message in _turn(messages) if isinstance(message, ToolResult) and is_look(message)]
    listed = {line.strip() for look in looks if look.name == "bash" for line in look.text.splitlines()}
    calls = [call for message in _turn(messages) if isinstance(message, AssistantMessage) for call in message.calls]
    return bool(listed) and listed <= {argument(call, "file_path") for call in calls if call.name == "read_file"}


def _repeated(messages: Sequence[ChatMessage]) -> str:
    """The tool of the newest call, if the same call was made before in this turn: it may not be made again."""
    made = [message.calls for message in _turn(messages) if isinstance(message, AssistantMessage) and message.calls]
    steps = [tuple((call.name, call.arguments) for call in calls) for calls in made]
    return steps[-1][0][0] if len(steps) > 1 and steps[-1] in steps[:-1] else ""


def _understood(reply: Reply) -> Reply:
    written: Written = read(reply.message.text)
    calls = tuple(ToolCall(id=new_id("call"), name=name, arguments=arguments) for name, arguments in written.calls)
    message = msgspec.structs.replace(reply.message, text=written.answer or "", calls=calls)
    return msgspec.structs.replace(reply, message=message, finish="tool_calls" if calls else "stop")


def _sum(first: Usage | None, second: Usage | None) -> Usage | None:
    """What two requests used together."""
    if first is None or second is None:
        return second
    return msgspec.structs.replace(
        second,
        source="estimate" if "estimate" in (first.source, second.source) else second.source,
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cache_read_tokens=first.cache_read_tokens + second.cache_read_tokens,
        cache_write_tokens=first.cache_write_tokens + second.cache_write_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
        cost_usd=None if None in (first.cost_usd, second.cost_usd) else (first.cost_usd or 0) + (second.cost_usd or 0),
        duration_ms=first.duration_ms + second.duration_ms,
    )
