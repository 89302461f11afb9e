"""A script: the replies of a model in a TOML file, played by `scripted:FILE` and by `treadle.testing`.

`docs/reference/scripted-model.md` describes the format. `Player` chooses the next reply; `ScriptedProvider` plays it
into the loop without any network.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterable
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.agent.messages import AssistantMessage, FinishReason, ModelRequest, Reply, ReplyItem, Thinking, ToolCall
from treadle.agent.providers.http import Clock, RetryPolicy, SystemClock, from_status, retrying
from treadle.errors import ConfigError, ProviderError
from treadle.events import TextDelta, ThinkingDelta, Usage
from treadle.io.files import opened

Fault: TypeAlias = Literal[
    "cut",
    "early_end",
    "garbage",
    "stall",
    "slow",
    "split",
    "giant",
    "short_length",
    "long_length",
    "reset",
    "hang",
    "html",
]
"""Faults on the wire, besides what the script says; the reference page explains each."""

WORDS = re.compile(r"\S+\s*|\s+")


class CallLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | str = {}
    """A table becomes JSON; a string is sent unchanged, so a script can send malformed arguments."""
    id: str | None = None

    def call(self, turn: int, index: int) -> ToolCall:
        text = self.arguments if isinstance(self.arguments, str) else msgspec.json.encode(self.arguments).decode()
        return ToolCall(id=self.id or f"call_{turn}_{index}", name=self.name, arguments=text)


class UsageLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


class ErrorLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: int = 500
    message: str = "the script says so"
    retry_after: float | None = None


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    when: str | None = None
    system: str | None = None
    turn: int | None = None
    times: int | Literal["always"] = 1
    text: str = ""
    repeat: int = 1
    piece: int = 0
    thinking: str = ""
    call: tuple[CallLine, ...] = ()
    usage: UsageLine | None = None
    cost: float | None = None
    delay: float = 0.0
    pace: float = 0.0
    finish: FinishReason | None = None
    error: ErrorLine | None = None
    fault: Fault | None = None

    @property
    def conditional(self) -> bool:
        return self.when is not None or self.system is not None or self.turn is not None

    def fits(self, asked: Cue) -> bool:
        return (
            (self.turn is None or self.turn == asked.turn)
            and (self.when is None or re.search(self.when, asked.last) is not None)
            and (self.system is None or re.search(self.system, asked.system) is not None)
        )

    @property
    def whole_text(self) -> str:
        return self.text * self.repeat

    @cached_property
    def pieces(self) -> list[str]:
        """The text as it is streamed: word by word, or `piece` characters at a time."""
        text = self.whole_text
        if self.piece > 0:
            return [text[at : at + self.piece] for at in range(0, len(text), self.piece)]
        return WORDS.findall(text)

    @property
    def thoughts(self) -> list[str]:
        return WORDS.findall(self.thinking)

    @property
    def finish_reason(self) -> FinishReason:
        return self.finish or ("tool_calls" if self.call else "stop")

    def calls(self, turn: int) -> tuple[ToolCall, ...]:
        return tuple(line.call(turn, index) for index, line in enumerate(self.call))

    def used(self, model: str) -> Usage | None:
        if self.usage is None and self.cost is None:
            return None
        line = self.usage or UsageLine()
        return Usage(
            model=model,
            input_tokens=line.input,
            output_tokens=line.output,
            cache_read_tokens=line.cache_read,
            cache_write_tokens=line.cache_write,
            reasoning_tokens=line.reasoning,
            cost_usd=self.cost,
        )


class Cue(msgspec.Struct, frozen=True, kw_only=True):
    """The facts by which a reply can be chosen."""

    last: str
    """The newest user message or tool result."""
    turn: int
    """Which model call of this conversation it is, from 1."""
    system: str = ""

    @classmethod
    def of(cls, request: ModelRequest) -> Cue:
        given = [message for message in request.messages if not isinstance(message, AssistantMessage)]
        return cls(
            last=given[-1].text if given else "",
            turn=1 + len(request.messages) - len(given),
            system=request.system,
        )


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reply: tuple[ScriptedReply, ...]
    loop: bool = False
    model: str = "scripted"
    context_window: int | None = None


def parse(text: str, where: str = "script") -> Script:
    import tomllib

    try:
        script = msgspec.convert(tomllib.loads(text), Script)
        for reply in script.reply:
            for pattern in (reply.when, reply.system):
                re.compile(pattern or "")
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}", hint="see `treadle docs scripted-model`") from None
    except re.error as error:
        raise ConfigError(f"{where}: the pattern {error.pattern!r} is not a regular expression: {error}") from None
    if not script.reply:
        raise ConfigError(f"{where} has no [[reply]]")
    return script


def load(path: str) -> Script:
    try:
        with opened(path) as file:
            text = file.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the script {path}: {error}") from None
    return parse(text, path)


class Player:
    """Hands out replies: the first conditional one that matches, otherwise the next one without a condition."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._used = [0] * len(script.reply)

    def next(self, asked: Cue) -> ScriptedReply:
        found = self._find(asked)
        self._used[found] += 1
        return self.script.reply[found]

    def peek(self, asked: Cue) -> ScriptedReply:
        """What `next` would return, without using it up."""
        return self.script.reply[self._find(asked)]

    def _find(self, asked: Cue) -> int:
        found = self._choose(asked)
        if found is None and self.script.loop:
            self._used = [0] * len(self.script.reply)
            found = self._choose(asked)
        if found is None:
            raise ProviderError(
                f"the script has no reply left for {asked.last[:80]!r} (model call {asked.turn})",
                provider="scripted",
                hint='add a [[reply]], give one `times = "always"`, or set `loop = true`',
            )
        return found

    def _choose(self, asked: Cue) -> int | None:
        left = [at for at, reply in enumerate(self.script.reply) if reply.times == "always" or self._left(at, reply)]
        fitting: Iterable[int] = (at for at in left if self._fits(at, asked))
        plain: Iterable[int] = (at for at in left if not self.script.reply[at].conditional)
        return next(iter(fitting), next(iter(plain), None))

    def _left(self, at: int, reply: ScriptedReply) -> bool:
        return self._used[at] < int(reply.times)

    def _fits(self, at: int, asked: Cue) -> bool:
        reply = self.script.reply[at]
        return reply.conditional and reply.fits(asked)


# The scripted model without any network: plays a script into the loop.


class ScriptedProvider:
    name = "scripted"
    sees = True

    def __init__(self, script: Script, *, retry: RetryPolicy | None = None, clock: Clock | None = None) -> None:
        self.player = Player(script)
        self.model = script.model
        self.context_window = script.context_window
        self._retry = retry or RetryPolicy()
        self._clock = clock or SystemClock()

    @property
    def priced(self) -> bool:
        return any(reply.cost is not None for reply in self.player.script.reply)

    def cost(self, usage: Usage) -> float | None:
        return None

    def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyItem, None]:
        return retrying(lambda: self._play(Cue.of(request)), self._retry, self._clock)

    async def _play(self, asked: Cue) -> AsyncGenerator[ReplyItem, None]:
        began = time.monotonic()
        reply = self.player.next(asked)
        if reply.fault not in (None, "cut"):
            raise ConfigError(
                f"the fault {reply.fault!r} needs a connection to break",
                hint="serve the script: python -m treadle.testing.server FILE",
            )
        if reply.delay:
            await self._clock.sleep(reply.delay)
        if reply.error is not None:
            raise from_status(
                reply.error.status, reply.error.message, provider=self.name, retry_after=reply.error.retry_after
            )
        for text in reply.thoughts:
            yield ThinkingDelta(text=text)
        pieces = reply.pieces[: len(reply.pieces) // 2] if reply.fault == "cut" else reply.pieces
        for text in pieces:
            if reply.pace:
                await self._clock.sleep(reply.pace)
            yield TextDelta(text=text)
        if reply.fault == "cut":
            raise ProviderError("the reply was cut off before its end", provider=self.name, retryable=True)
        thinking = (Thinking(text=reply.thinking, provider=self.name),) if reply.thinking else ()
        message = AssistantMessage(
            text=reply.whole_text, thinking=thinking, calls=reply.calls(asked.turn), model=self.model
        )
        usage = reply.used(self.model)
        if usage is not None:
            usage = msgspec.structs.replace(usage, duration_ms=round((time.monotonic() - began) * 1000))
        yield Reply(message=message, finish=reply.finish_reason, usage=usage)

    async def models(self) -> list[str]:
        return [self.model]

    async def aclose(self) -> None:
        pass
