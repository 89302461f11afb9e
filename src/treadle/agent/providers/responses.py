"""OpenAI Responses, without state at the service: reasoning items are sent back and forth encrypted."""

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
from treadle.agent.providers.http import cut, data_url, decode, effort_of, from_event, tables
from treadle.agent.tools.images import NOT_SHOWN, PDF
from treadle.events import ModelRouted, TextDelta, ThinkingDelta, Usage

REASONS = re.compile(r"(^|/)(o\d|gpt-[5-9]|codex)")
"""Models that reason: only they accept a request for encrypted reasoning."""


class ResponsesFormat(msgspec.Struct, frozen=True, kw_only=True):
    documents: ClassVar[bool] = True
    path: str = "/responses"

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def reader(self, provider: str, model: str) -> ResponsesReader:
        return ResponsesReader(provider, model)

    def body(self, request: ModelRequest, provider: str, model: str) -> bytes:
        body: dict[str, Any] = {
            "model": model,
            "input": [item for message in request.messages for item in self._items(message, provider, request.images)],
            "stream": True,
            "store": False,
        }
        if request.system:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [
                {"type": "function", **msgspec.to_builtins(tool), "strict": False} for tool in request.tools
            ]
        if request.max_output_tokens is not None:
            body["max_output_tokens"] = request.max_output_tokens
        if REASONS.search(model):
            body["include"] = ["reasoning.encrypted_content"]
        if request.cache_key:
            body["prompt_cache_key"] = request.cache_key
        if request.reasoning is not None or request.thinking_tokens is not None:
            effort = effort_of(request)
            body["reasoning"] = {"effort": "xhigh" if effort == "max" else effort, "summary": "auto"}
        return msgspec.json.encode(body)

    def _items(
        self, message: UserMessage | AssistantMessage | ToolResult, provider: str, images: dict[str, bytes]
    ) -> list[dict[str, Any]]:
        if isinstance(message, UserMessage):
            return [{"role": "user", "content": _content(message, images)}]
        if isinstance(message, ToolResult):
            return [{"type": "function_call_output", "call_id": message.call, "output": _content(message, images)}]
        items = [
            thought.raw
            for thought in message.thinking
            if thought.provider == provider and isinstance(thought.raw, dict)
        ]
        if message.text:
            items.append({"role": "assistant", "content": message.text})
        for call in message.calls:
            named = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
            items.append({"type": "function_call", **named})
        return items


def _content(message: UserMessage | ToolResult, images: dict[str, bytes]) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.text
    parts = [{"type": "input_text", "text": message.text}] if message.text.strip() else []
    for image in message.images:
        url = data_url(image, images)
        if url is None:
            parts.append({"type": "input_text", "text": NOT_SHOWN})
        elif image.media_type == PDF:
            parts.append({"type": "input_file", "filename": "document.pdf", "file_data": url})
        else:
            parts.append({"type": "input_image", "image_url": url})
    return parts


class _ResponsesEvent(msgspec.Struct):
    type: str = ""
    delta: Any = None
    item: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    summary_index: int = 0
    error: Any = None
    message: str | None = None
    code: str | None = None


_decoder = msgspec.json.Decoder(_ResponsesEvent)
TEXTS = {"response.output_text.delta", "response.refusal.delta"}
THOUGHTS = {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
ENDS = {"response.completed", "response.incomplete", "response.failed"}


class ResponsesReader:
    def __init__(self, provider: str, model: str) -> None:
        self.done = False
        self._provider = provider
        self._model = model
        self._asked = model
        self._text: list[str] = []
        self._items: list[dict[str, Any]] = []
        self._end: dict[str, Any] = {}

    def read(self, events: list[bytes]) -> list[ReplyItem]:
        items: list[ReplyItem] = []
        for data in events:
            if data == b"[DONE]":
                continue
            event = decode(_decoder, data, self._provider)
            kind = event.type
            if kind in TEXTS and isinstance(event.delta, str):
                self._text.append(event.delta)
                items.append(TextDelta(text=event.delta))
            elif kind in THOUGHTS and isinstance(event.delta, str):
                items.append(ThinkingDelta(text=event.delta))
            else:
                self._other(event, items)
            if self.done:
                break
        return items

    def _other(self, event: _ResponsesEvent, items: list[ReplyItem]) -> None:
        kind = event.type
        if kind == "response.output_item.done" and event.item is not None:
            self._items.append(event.item)
        elif kind == "response.reasoning_summary_part.added" and event.summary_index:
            items.append(ThinkingDelta(text="\n\n"))
        elif kind == "response.created" and event.response is not None:
            self._routed(event.response, items)
        elif kind in ENDS:
            self._ended(event.response or {}, items)
        elif kind == "error" or event.error is not None:
            error = event.error or {"message": event.message or "no explanation", "code": event.code}
            raise from_event(error, provider=self._provider)

    def _routed(self, response: dict[str, Any], items: list[ReplyItem]) -> None:
        model = response.get("model")
        if isinstance(model, str) and model not in ("", self._asked, self._model):
            self._model = model
            items.append(ModelRouted(model=model))

    def _ended(self, response: dict[str, Any], items: list[ReplyItem]) -> None:
        if response.get("status") == "failed" or response.get("error"):
            raise from_event(response.get("error") or "no explanation", provider=self._provider)
        self.done = True
        self._end = response
        self._items = self._items or tables(response.get("output"))
        if not self._text:  # a service that sends only whole items
            whole = "".join(_text(item) for item in self._items)
            if whole:
                self._text.append(whole)
                items.append(TextDelta(text=whole))

    def reply(self) -> Reply:
        if not self.done:
            raise cut(self._provider)
        calls = tuple(
            ToolCall(
                id=str(item.get("call_id") or item.get("id")),
                name=str(item.get("name")),
                arguments=str(item.get("arguments") or "{}"),
            )
            for item in self._items
            if item.get("type") == "function_call"
        )
        thinking = tuple(self._thought(item) for item in self._items if item.get("type") == "reasoning")
        message = AssistantMessage(text="".join(self._text), thinking=thinking, calls=calls, model=self._model)
        return Reply(message=message, finish=self._finish(bool(calls)), usage=self._used())

    def _thought(self, item: dict[str, Any]) -> Thinking:
        parts = [*tables(item.get("summary")), *tables(item.get("content"))]
        text = "\n\n".join(str(part.get("text") or "") for part in parts)
        # Without its encrypted content, an item means nothing to a service that stored nothing.
        return Thinking(text=text, raw=item if item.get("encrypted_content") else None, provider=self._provider)

    def _finish(self, calls: bool) -> FinishReason:
        if self._end.get("status") == "incomplete":
            details = self._end.get("incomplete_details")
            reason = details.get("reason") if isinstance(details, dict) else None
            reasons: dict[Any, FinishReason] = {"max_output_tokens": "length", "content_filter": "refusal"}
            return reasons.get(reason, "other")
        if any(_refusal(item) for item in self._items):
            return "refusal"
        return "tool_calls" if calls else "stop"

    def _used(self) -> Usage | None:
        usage = self._end.get("usage")
        if not isinstance(usage, dict):
            return None
        from treadle.wire.models.families import used  # not needed before a reply

        return used(usage, self._model, str(self._end["id"]) if self._end.get("id") else None, "input", "output")


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    return tables(item.get("content")) if item.get("type") == "message" else []


def _text(item: dict[str, Any]) -> str:
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in _parts(item))


def _refusal(item: dict[str, Any]) -> bool:
    return any(part.get("type") == "refusal" for part in _parts(item))
