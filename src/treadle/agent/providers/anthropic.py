"""Anthropic Messages."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec

from treadle.agent.messages import (
    AssistantMessage,
    FinishReason,
    ModelRequest,
    Reply,
    ReplyItem,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from treadle.agent.providers.http import arguments, cut, decode, effort_of, from_event
from treadle.agent.tools.images import NOT_SHOWN, PDF
from treadle.events import ModelRouted, TextDelta, ThinkingDelta
from treadle.wire.common.images import encoded

FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
BUDGETS = {"minimal": 1_024, "low": 4_000, "medium": 12_000, "high": 24_000, "xhigh": 32_000, "max": 48_000}
VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
MARK = {"type": "ephemeral"}


class AnthropicFormat(msgspec.Struct, frozen=True, kw_only=True):
    documents: ClassVar[bool] = True
    path: str = "/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def reader(self, provider: str, model: str) -> AnthropicReader:
        return AnthropicReader(provider, model)

    def body(self, request: ModelRequest, provider: str, model: str) -> bytes:
        limit = request.max_output_tokens or (8_192 if _version(model)[0] == 3 else 32_000)
        body: dict[str, Any] = {"model": model, "max_tokens": limit, "stream": True}
        if request.system:
            body["system"] = [{"type": "text", "text": request.system, "cache_control": MARK}]
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in request.tools
            ]
        body["messages"] = self._messages(request, provider)
        if request.reasoning is not None or request.thinking_tokens is not None:
            body |= _reasoning(request, limit, model)
        return msgspec.json.encode(body)

    def _messages(self, request: ModelRequest, provider: str) -> list[dict[str, Any]]:
        """Alternating turns: everything between two replies is one message, tool results first."""
        out: list[dict[str, Any]] = []
        for message in request.messages:
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            blocks = self._blocks(message, provider, request.images)
            if not blocks:
                continue
            if out and out[-1]["role"] == role:
                out[-1]["content"] += blocks
            else:
                out.append({"role": role, "content": blocks})
        for given in [entry for entry in out if entry["role"] == "user"][-2:]:
            given["content"][-1]["cache_control"] = MARK
        return out

    def _blocks(
        self, message: UserMessage | AssistantMessage | ToolResult, provider: str, images: dict[str, bytes]
    ) -> list[dict[str, Any]]:
        if isinstance(message, UserMessage):
            text = message.text if message.text.strip() or message.images else "(nothing)"
            return [*([{"type": "text", "text": text}] if text.strip() else []), *_images(message, images)]
        if isinstance(message, ToolResult):
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(message.call), "content": message.text}
            if message.images:
                result["content"] = [{"type": "text", "text": message.text}, *_images(message, images)]
            return [result if message.ok else {**result, "is_error": True}]
        blocks = [block for thought in message.thinking if (block := self._thought(thought, provider)) is not None]
        if message.text.strip():
            blocks.append({"type": "text", "text": message.text})
        for call in message.calls:
            given = {"id": _id(call.id), "name": call.name, "input": arguments(call.arguments)}
            blocks.append({"type": "tool_use", **given})
        return blocks

    def _thought(self, thought: Thinking, provider: str) -> dict[str, Any] | None:
        """Thinking goes back unchanged; unsigned thinking, or that of another model, would be refused."""
        if thought.provider != provider:
            return None
        if isinstance(thought.raw, dict):
            return thought.raw
        if thought.signature is None:
            return None
        return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _images(message: UserMessage | ToolResult, images: dict[str, bytes]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for image in message.images:
        if (data := images.get(image.name)) is None:
            blocks.append({"type": "text", "text": NOT_SHOWN})
        else:
            source = {"type": "base64", "media_type": image.media_type, "data": encoded(data)}
            blocks.append({"type": "document" if image.media_type == PDF else "image", "source": source})
    return blocks


def _version(model: str) -> tuple[int, int]:
    found = VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _reasoning(request: ModelRequest, limit: int, model: str) -> dict[str, Any]:
    """From Claude 4.6 on the model decides how long to think; before that it got a number of tokens."""
    effort = effort_of(request)
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    if _version(model) >= (4, 6):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low" if effort == "minimal" else effort}}
    budget = max(1_024, request.thinking_tokens or BUDGETS[effort])
    if request.max_output_tokens is None:
        limit = max(limit, budget + 4_096)
    budget = min(budget, limit - 1_024)
    thinking = {"type": "enabled", "budget_tokens": budget} if budget >= 1_024 else {"type": "disabled"}
    return {"thinking": thinking, "max_tokens": limit}


def _id(call: str) -> str:
    """Call ids of other services, in the characters that this one allows."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", call)


class _AnthropicDelta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _AnthropicEvent(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: _AnthropicDelta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _Block(msgspec.Struct):
    start: dict[str, Any]
    text: list[str] = []
    signature: str = ""


_decoder = msgspec.json.Decoder(_AnthropicEvent)


class AnthropicReader:
    def __init__(self, provider: str, model: str) -> None:
        self.done = False
        self._provider = provider
        self._model = model
        self._id: str | None = None
        self._blocks: dict[int, _Block] = {}
        self._stop: str | None = None
        self._usage: dict[str, Any] = {}

    def read(self, events: list[bytes]) -> list[ReplyItem]:
        items: list[ReplyItem] = []
        for data in events:
            event = decode(_decoder, data, self._provider)
            if event.type == "content_block_delta" and event.delta is not None:
                self._delta(event.index, event.delta, items)
            else:
                self._other(event, items)
            if self.done:
                break
        return items

    def _delta(self, index: int, delta: _AnthropicDelta, items: list[ReplyItem]) -> None:
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block(start={"type": delta.type.removesuffix("_delta")})
        if delta.text:
            block.text.append(delta.text)
            items.append(TextDelta(text=delta.text))
        elif delta.partial_json:
            block.text.append(delta.partial_json)
        elif delta.thinking:
            block.text.append(delta.thinking)
            items.append(ThinkingDelta(text=delta.thinking))
        elif delta.signature:
            block.signature += delta.signature

    def _other(self, event: _AnthropicEvent, items: list[ReplyItem]) -> None:
        if event.type == "content_block_start" and event.content_block is not None:
            self._started(event.index, event.content_block, items)
        elif event.type == "message_start" and event.message is not None:
            self._begin(event.message, items)
        elif event.type == "message_delta":
            self._count(event.usage)
            if event.delta is not None and event.delta.stop_reason is not None:
                self._stop = event.delta.stop_reason
        elif event.type == "message_stop":
            self.done = True
        elif event.type == "error" or event.error is not None:
            raise from_event(event.error or "no explanation", provider=self._provider)

    def _started(self, index: int, start: dict[str, Any], items: list[ReplyItem]) -> None:
        block = self._blocks[index] = _Block(start=start, signature=str(start.get("signature") or ""))
        if start.get("text"):
            block.text.append(str(start["text"]))
            items.append(TextDelta(text=block.text[0]))
        elif start.get("thinking"):
            block.text.append(str(start["thinking"]))
            items.append(ThinkingDelta(text=block.text[0]))

    def _begin(self, message: dict[str, Any], items: list[ReplyItem]) -> None:
        self._id = str(message.get("id") or "") or None
        self._count(message.get("usage"))
        model = message.get("model")
        if isinstance(model, str) and model and model != self._model:
            self._model = model
            items.append(ModelRouted(model=model))

    def _count(self, usage: Any) -> None:
        """Counts are running totals, at the start and again at the end; one missing at the end keeps its value."""
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def reply(self) -> Reply:
        if self._stop is None:
            raise cut(self._provider)
        blocks = [block for _, block in sorted(self._blocks.items())]
        message = AssistantMessage(
            text="".join("".join(block.text) for block in blocks if block.start.get("type") == "text"),
            thinking=tuple(
                self._thought(b) for b in blocks if b.start.get("type") in ("thinking", "redacted_thinking")
            ),
            calls=tuple(_call(block) for block in blocks if block.start.get("type") == "tool_use"),
            model=self._model,
        )
        from treadle.wire.models.families import anthropic_used  # not needed before a reply

        usage = anthropic_used(self._usage, self._model, self._id)
        return Reply(message=message, finish=FINISH.get(self._stop, "other"), usage=usage)

    def _thought(self, block: _Block) -> Thinking:
        if block.start["type"] == "redacted_thinking":
            return Thinking(raw=block.start, provider=self._provider)
        return Thinking(text="".join(block.text), signature=block.signature or None, provider=self._provider)


def _call(block: _Block) -> ToolCall:
    text = "".join(block.text)
    if not text.strip():
        text = msgspec.json.encode(block.start.get("input") or {}).decode()
    return ToolCall(id=str(block.start.get("id")), name=str(block.start.get("name")), arguments=text)
