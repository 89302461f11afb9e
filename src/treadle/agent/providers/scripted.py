"""The scripted model without any network: plays a script into the loop."""

import time
from collections.abc import AsyncGenerator

import msgspec

from treadle.agent.messages import AssistantMessage, ModelRequest, Thinking
from treadle.agent.providers.base import Reply, ReplyItem
from treadle.agent.providers.failures import from_status
from treadle.agent.providers.retry import Clock, RetryPolicy, SystemClock, retrying
from treadle.agent.providers.script import Cue, Player, Script
from treadle.errors import ConfigError, ProviderError
from treadle.events import TextDelta, ThinkingDelta


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
