"""OpenAI chat completions: OpenRouter, Ollama, vLLM, llama.cpp and everything else that calls itself compatible."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from treadle.agent.messages import (
    AssistantMessage,
    FinishReason,
    Image,
    ModelRequest,
    Reply,
    ReplyItem,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from treadle.agent.providers.http import arguments, cut, data_url, decode, effort_of, from_event, tables
from treadle.agent.tools.images import NOT_SHOWN, PDF
from treadle.events import ModelRouted, TextDelta, ThinkingDelta, Usage
from treadle.sessions.session import new_id

FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}


class ChatFormat(msgspec.Struct, frozen=True, kw_only=True):
    """`openrouter` adds what only that service understands."""

    documents: ClassVar[bool] = False
    path: str = "/chat/completions"
    openrouter: bool = False

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def reader(self, provider: str, model: str) -> ChatReader:
        return ChatReader(provider, model)

    def body(self, request: ModelRequest, provider: str, model: str) -> bytes:
        body: dict[str, Any] = {
            "model": model,
            "messages": self._messages(request, provider, model),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [{"type": "function", "function": msgspec.to_builtins(tool)} for tool in request.tools]
        if request.max_output_tokens is not None:
            body["max_tokens"] = request.max_output_tokens
        if self.openrouter:
            body["usage"] = {"include": True}
        if request.reasoning is not None or request.thinking_tokens is not None:
            body |= self._reasoning(request)
        return msgspec.json.encode(body)

    def _reasoning(self, request: ModelRequest) -> dict[str, Any]:
        effort = effort_of(request)
        if not self.openrouter:
            return {"reasoning_effort": effort}
        if effort == "none":
            return {"reasoning": {"enabled": False}}
        if request.thinking_tokens is not None:
            return {"reasoning": {"max_tokens": request.thinking_tokens}}
        return {"reasoning": {"effort": effort}}

    def _messages(self, request: ModelRequest, provider: str, model: str) -> list[dict[str, Any]]:
        # Reasoning belongs to its own turn; services drop or refuse that of earlier turns.
        turn = max((at for at, m in enumerate(request.messages) if isinstance(m, UserMessage)), default=-1)
        out: list[dict[str, Any]] = [{"role": "system", "content": request.system}] if request.system else []
        # of tools: only a person's message can have images, so they follow the results
        waiting: list[dict[str, Any]] = []
        for at, message in enumerate(request.messages):
            if isinstance(message, ToolResult):
                out.append({"role": "tool", "tool_call_id": message.call, "content": message.text})
                if message.images:
                    waiting.append({"type": "text", "text": f"[shown by {message.name}]"})
                    waiting += _images(message.images, request.images)
                continue
            if waiting:
                out.append({"role": "user", "content": waiting})
                waiting = []
            if isinstance(message, UserMessage):
                out.append({"role": "user", "content": _content(message, request.images)})
            else:
                out.append(self._assistant(message, provider if at > turn else None))
        if waiting:
            out.append({"role": "user", "content": waiting})
        if self.openrouter and model.startswith("anthropic/"):
            _mark(out)
        return out

    def _assistant(self, message: AssistantMessage, thinker: str | None) -> dict[str, Any]:
        out: dict[str, Any] = {"role": "assistant", "content": message.text}
        if message.calls:
            out["content"] = message.text or None
            out["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments if arguments(call.arguments) else "{}"},
                }
                for call in message.calls
            ]
        for thought in message.thinking:
            if thought.provider == thinker and isinstance(thought.raw, dict):
                out |= thought.raw
        return out


def _content(message: UserMessage, images: dict[str, bytes]) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.text
    parts = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return [*parts, *_images(message.images, images)]


def _images(shown: tuple[Image, ...], images: dict[str, bytes]) -> list[dict[str, Any]]:
    urls = [data_url(image, images) if image.media_type != PDF else None for image in shown]
    return [
        {"type": "text", "text": NOT_SHOWN} if url is None else {"type": "image_url", "image_url": {"url": url}}
        for url in urls
    ]


def _mark(messages: list[dict[str, Any]]) -> None:
    """Tell the cache where a prefix ends that will be sent again: after the system prompt and the newest inputs."""
    given = [message for message in messages if message["role"] in ("user", "tool")][-2:]
    for message in messages[:1] + given:
        if isinstance(message["content"], str) and message["content"]:
            mark = {"type": "text", "text": message["content"], "cache_control": {"type": "ephemeral"}}
            message["content"] = [mark]


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _ChatDelta(msgspec.Struct):
    content: str | list[Any] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _ChatDelta | None = None
    message: _ChatDelta | None = None
    """Used instead of `delta` by services that answer at once although they were asked to stream."""
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    model: str | None = None
    id: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Chunk)


class Calls:
    """Joins tool calls from their pieces, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[dict[str, str]] = []
        self._at: dict[int, dict[str, str]] = {}

    def add(self, index: int | None, id: str | None, name: str | None, arguments: str) -> None:
        slot = self._slot(index, id, name)
        if id:
            slot["id"] = id
        if name and name != slot["name"]:  # some services send the whole name again with each piece
            slot["name"] += name
        slot["arguments"] += arguments

    def _slot(self, index: int | None, id: str | None, name: str | None) -> dict[str, str]:
        slot = self._at.get(index) if index is not None else self._without_index(id, name)
        # A new id and a name at an index that has both: the service numbers all its calls 0.
        if slot is None or (id and name and slot["id"] and slot["id"] != id):
            slot = {"id": "", "name": "", "arguments": ""}
            self._calls.append(slot)
            if index is not None:
                self._at[index] = slot
        return slot

    def _without_index(self, id: str | None, name: str | None) -> dict[str, str] | None:
        if id:
            return next((slot for slot in self._calls if slot["id"] == id), None)
        if not self._calls or (name and self._calls[-1]["arguments"]):
            return None
        return self._calls[-1]

    def whole(self) -> tuple[ToolCall, ...]:
        return tuple(
            ToolCall(
                id=slot["id"] or new_id("call"),
                name=slot["name"],
                arguments=slot["arguments"] if slot["arguments"].strip() else "{}",
            )
            for slot in self._calls
        )


class ChatReader:
    def __init__(self, provider: str, model: str) -> None:
        self.done = False
        self._provider = provider
        self._model = model
        self._asked = model
        self._id: str | None = None
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._thought_field = ""
        self._details: list[dict[str, Any]] = []
        self._calls = Calls()
        self._finish: str | None = None
        self._refused = False
        self._usage: dict[str, Any] | None = None

    def read(self, events: list[bytes]) -> list[ReplyItem]:
        items: list[ReplyItem] = []
        for data in events:
            if data == b"[DONE]":
                self.done = True
                break
            chunk = decode(_decoder, data, self._provider)
            if chunk.error is not None:
                raise from_event(chunk.error, provider=self._provider)
            if self._id is None:
                self._begin(chunk, items)
            if chunk.usage is not None:
                self._usage = chunk.usage
            if chunk.choices:
                choice = chunk.choices[0]
                delta = choice.delta or choice.message
                if choice.finish_reason is not None:
                    self._finish = choice.finish_reason
                if delta is not None:
                    self._delta(delta, items)
        return items

    def _begin(self, chunk: _Chunk, items: list[ReplyItem]) -> None:
        self._id = chunk.id or ""
        if chunk.model and chunk.model != self._asked:
            self._model = chunk.model
            items.append(ModelRouted(model=chunk.model))

    def _delta(self, delta: _ChatDelta, items: list[ReplyItem]) -> None:
        content = delta.content
        if content:
            if isinstance(content, list):
                content = "".join(str(part.get("text") or "") for part in tables(content))
            self._text.append(content)
            items.append(TextDelta(text=content))
        thought = delta.reasoning or delta.reasoning_content
        if thought:
            self._thought_field = "reasoning" if delta.reasoning else "reasoning_content"
            self._thoughts.append(thought)
            items.append(ThinkingDelta(text=thought))
        if delta.reasoning_details:
            _merge(self._details, delta.reasoning_details)
        if delta.tool_calls:
            self._add(delta.tool_calls)
        if delta.refusal:
            self._refused = True
            self._text.append(delta.refusal)
            items.append(TextDelta(text=delta.refusal))

    def _add(self, calls: list[_Call]) -> None:
        for call in calls:
            function = call.function or _Function()
            given = function.arguments or ""
            text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            self._calls.add(call.index, call.id, function.name, text)

    def reply(self) -> Reply:
        if self._finish is None and not self.done:
            raise cut(self._provider)
        if self._finish == "error":
            raise from_event({"message": "the service stopped with an error", "code": 502}, provider=self._provider)
        calls = self._calls.whole()
        finish = FINISH.get(self._finish or "stop", "other")
        if self._refused:
            finish = "refusal"
        elif calls and finish == "stop":
            finish = "tool_calls"
        message = AssistantMessage(text="".join(self._text), thinking=self._thinking(), calls=calls, model=self._model)
        return Reply(message=message, finish=finish, usage=self._used())

    def _thinking(self) -> tuple[Thinking, ...]:
        text = "".join(self._thoughts)
        raw = {"reasoning_details": self._details} if self._details else {self._thought_field: text}
        return (Thinking(text=text, raw=raw, provider=self._provider),) if text or self._details else ()

    def _used(self) -> Usage | None:
        if self._usage is None:
            return None
        from treadle.wire.models.families import used  # not needed before a reply

        return used(self._usage, self._model, self._id or None, "prompt", "completion")


def _merge(have: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
    """Pieces of one reasoning block become one block again, because the service wants whole blocks back."""
    for piece in more:
        last = have[-1] if have else None
        same = last is not None and (last.get("type"), last.get("index")) == (piece.get("type"), piece.get("index"))
        if last is None or not same or piece.get("type") == "reasoning.encrypted":
            have.append(dict(piece))
            continue
        for key, value in piece.items():
            joins = key in ("text", "summary") and isinstance(value, str) and isinstance(last.get(key), str)
            last[key] = last[key] + value if joins else (value if value is not None else last.get(key))
