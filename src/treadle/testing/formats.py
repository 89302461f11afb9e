"""A scripted reply as a service would send it, in each of the four wire formats. Pure: no sockets here.

Every module has `asked(body)`, the text of the request; `events(play)`, the reply as server-sent events; `whole(play)`,
the same reply as one JSON document; and `failure(status, message)`, the body of an error.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from treadle.agent.messages import ToolCall
from treadle.agent.providers.script import Cue, ScriptedReply, UsageLine

encode = msgspec.json.Encoder().encode
HOLE = "\ufffc"


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One reply being given: `id` makes the identifiers in it unique, `turn` those of its calls."""

    reply: ScriptedReply
    model: str
    turn: int
    id: str

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return self.reply.calls(self.turn)

    @property
    def usage(self) -> UsageLine:
        return self.reply.usage or UsageLine()


def event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encode(data) + b"\n\n"


def around(template: bytes, texts: list[str]) -> list[bytes]:
    """One event per text, made by filling the gap in an encoded event: much faster than encoding each."""
    before, after = template.split(encode(HOLE))
    return [before + encode(text) + after for text in texts]


def halves(arguments: str) -> list[str]:
    """Arguments in the pieces in which they are streamed: at least two, so that a client that forgets to join fails."""
    step = max(1, (len(arguments) + 1) // 2) if len(arguments) < 64 else 32
    return [arguments[at : at + step] for at in range(0, len(arguments), step)]


def text_of(content: Any) -> str:
    """The text in a message's content: a string, or a list of typed parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [text_of(part.get("text") or part.get("content")) for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if part)
    return ""


class ReplyFormat(NamedTuple):
    """A wire of models: what a request asks, a reply as streamed events and as one body, and a failure."""

    name: str
    asked: Callable[[dict[str, Any]], Cue]
    events: Callable[[Play], list[bytes]]
    whole: Callable[[Play], dict[str, Any]]
    failure: Callable[[int, str], dict[str, Any]]


# Anthropic Messages, as a server speaks it.


STOP = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "other": "pause_turn",
}
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
}
KINDS |= {413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}


def _anthropic_asked(body: dict[str, Any]) -> Cue:
    messages = [message for message in body.get("messages") or [] if isinstance(message, dict)]
    given = [m for m in messages if m.get("role") == "user"]
    turn = 1 + sum(m.get("role") == "assistant" for m in messages)
    last = text_of(given[-1].get("content")) if given else ""
    return Cue(last=last, turn=turn, system=text_of(body.get("system")))


def _anthropic_events(play: Play) -> list[bytes]:
    usage = _anthropic_usage(play)
    out = [
        _anthropic_event("message_start", message={**_anthropic_message(play), "usage": {**usage, "output_tokens": 0}}),
        _anthropic_event("ping"),
    ]
    for index, block in enumerate(_anthropic_blocks(play)):
        out += _anthropic_block(play, index, block)
    delta = {"stop_reason": STOP[play.reply.finish_reason], "stop_sequence": None}
    out.append(_anthropic_event("message_delta", delta=delta, usage=usage))
    return [*out, _anthropic_event("message_stop")]


def _anthropic_whole(play: Play) -> dict[str, Any]:
    return {
        **_anthropic_message(play),
        "content": _anthropic_blocks(play),
        "stop_reason": STOP[play.reply.finish_reason],
        "usage": _anthropic_usage(play),
    }


def _anthropic_failure(status: int, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": KINDS.get(status, "api_error"), "message": message}}


def _anthropic_event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _anthropic_block(play: Play, index: int, block: dict[str, Any]) -> list[bytes]:
    def delta(kind: str, field: str, value: str = HOLE) -> bytes:
        return _anthropic_event("content_block_delta", index=index, delta={"type": kind, field: value})

    if block["type"] == "thinking":
        empty = {**block, "thinking": "", "signature": ""}
        deltas = around(delta("thinking_delta", "thinking"), play.reply.thoughts)
        deltas.append(delta("signature_delta", "signature", block["signature"]))
    elif block["type"] == "text":
        empty = {**block, "text": ""}
        deltas = around(delta("text_delta", "text"), play.reply.pieces)
    else:
        empty = {**block, "input": {}}
        text = next(call.arguments for call in play.calls if call.id == block["id"])
        deltas = around(delta("input_json_delta", "partial_json"), ["", *halves(text)])
    start = _anthropic_event("content_block_start", index=index, content_block=empty)
    return [start, *deltas, _anthropic_event("content_block_stop", index=index)]


def _anthropic_blocks(play: Play) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if play.reply.thinking:
        blocks.append({"type": "thinking", "thinking": play.reply.thinking, "signature": f"signed-{play.id}"})
    if play.reply.text:
        blocks.append({"type": "text", "text": play.reply.whole_text})
    for call in play.calls:
        blocks.append(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": _anthropic_parsed(call.arguments)}
        )
    return blocks


def _anthropic_parsed(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}


def _anthropic_message(play: Play) -> dict[str, Any]:
    return {
        "id": f"msg_{play.id}",
        "type": "message",
        "role": "assistant",
        "model": play.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _anthropic_usage(play: Play) -> dict[str, Any]:
    used = play.usage
    usage: dict[str, Any] = {
        "input_tokens": used.input,
        "output_tokens": used.output,
        "cache_read_input_tokens": used.cache_read,
        "cache_creation_input_tokens": used.cache_write,
    }
    return usage if play.reply.cost is None else {**usage, "cost": play.reply.cost}


anthropic = ReplyFormat("anthropic", _anthropic_asked, _anthropic_events, _anthropic_whole, _anthropic_failure)


# OpenAI chat completions, as a server speaks it.


FINISH_chat = {"refusal": "content_filter", "other": "other"}


def _chat_asked(body: dict[str, Any]) -> Cue:
    messages = [message for message in body.get("messages") or [] if isinstance(message, dict)]
    system = [text_of(m.get("content")) for m in messages if m.get("role") in ("system", "developer")]
    replies = [place for place, m in enumerate(messages) if m.get("role") == "assistant"]
    # Some agents add a reminder after the prompt, so everything since the last reply is new.
    new = [m for m in messages[replies[-1] + 1 if replies else 0 :] if m.get("role") in ("user", "tool")]
    last = "\n".join(text_of(m.get("content")) for m in new)
    return Cue(last=last, turn=1 + len(replies), system="\n".join(system))


def _chat_events(play: Play) -> list[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return event(_chat_chunk(play, [{"index": 0, "delta": delta, "finish_reason": finish}]))

    out = [chunk({"role": "assistant", "content": ""})]
    out += around(chunk({"reasoning": HOLE}), play.reply.thoughts)
    out += around(chunk({"content": HOLE}), play.reply.pieces)
    for index, call in enumerate(play.calls):
        head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        out.append(chunk({"tool_calls": [head]}))
        for piece in halves(call.arguments):
            out.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    out.append(chunk({}, _chat_finish(play)))
    if play.reply.usage or play.reply.cost is not None:
        out.append(event({**_chat_chunk(play, []), "usage": _chat_usage(play)}))
    return [*out, b"data: [DONE]\n\n"]


def _chat_whole(play: Play) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": play.reply.whole_text or None}
    if play.reply.thinking:
        message["reasoning"] = play.reply.thinking
    if play.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in play.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _chat_finish(play)}
    return {**_chat_chunk(play, [choice]), "object": "chat.completion", "usage": _chat_usage(play)}


def _chat_failure(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted_error", "param": None, "code": None}}


def _chat_finish(play: Play) -> str:
    return FINISH_chat.get(play.reply.finish_reason, play.reply.finish_reason)


def _chat_chunk(play: Play, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{play.id}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": play.model,
        "choices": choices,
    }


def _chat_usage(play: Play) -> dict[str, Any]:
    used = play.usage
    prompt = used.input + used.cache_read + used.cache_write
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": used.output,
        "total_tokens": prompt + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cache_read, "cache_write_tokens": used.cache_write},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }
    return usage if play.reply.cost is None else {**usage, "cost": play.reply.cost}


chat = ReplyFormat("chat", _chat_asked, _chat_events, _chat_whole, _chat_failure)


# Google's generateContent, as a server speaks it. The path, not the body, holds the model and whether to stream.


STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
FINISH_gemini = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}


def _gemini_asked(body: dict[str, Any]) -> Cue:
    contents = [content for content in body.get("contents") or [] if isinstance(content, dict)]
    given = [content for content in contents if content.get("role") != "model"]
    turn = 1 + sum(content.get("role") == "model" for content in contents)
    system = body.get("systemInstruction") or body.get("system_instruction")
    instructions = text_of(system.get("parts")) if isinstance(system, dict) else ""
    return Cue(last=_gemini_texts(given[-1]) if given else "", turn=turn, system=instructions)


def _gemini_events(play: Play) -> list[bytes]:
    def chunk(*parts: dict[str, Any]) -> bytes:
        return event(_gemini_reply(play, list(parts)))

    out = around(chunk({"text": HOLE, "thought": True}), play.reply.thoughts)
    out += around(chunk({"text": HOLE}), play.reply.pieces)
    out += [chunk(call) for call in _gemini_calls(play)]
    return [*out, event(_gemini_last(play, []))]


def _gemini_whole(play: Play) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if play.reply.thinking:
        parts.append({"text": play.reply.thinking, "thought": True})
    if play.reply.whole_text:
        parts.append({"text": play.reply.whole_text})
    return _gemini_last(play, [*parts, *_gemini_calls(play)])


def _gemini_failure(status: int, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": STATUS.get(status, "INTERNAL")}}


def _gemini_calls(play: Play) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": _gemini_object(call.arguments)}}
        for call in play.calls
    ]


def _gemini_object(arguments: str) -> Any:
    """This format has no place for arguments that are not JSON."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {"malformed": arguments}


def _gemini_reply(play: Play, parts: list[dict[str, Any]]) -> dict[str, Any]:
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
    return {"responseId": play.id, "modelVersion": play.model, "candidates": [candidate]}


def _gemini_last(play: Play, parts: list[dict[str, Any]]) -> dict[str, Any]:
    used, reply = play.usage, _gemini_reply(play, parts)
    reply["candidates"][0]["finishReason"] = FINISH_gemini.get(play.reply.finish_reason, "OTHER")
    prompt = used.input + used.cache_read + used.cache_write
    reply["usageMetadata"] = {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": used.cache_read,
        "candidatesTokenCount": used.output - used.reasoning,
        "thoughtsTokenCount": used.reasoning,
        "totalTokenCount": prompt + used.output,
    }
    return reply


def _gemini_texts(content: dict[str, Any]) -> str:
    """The texts of a message, and the results of tools."""
    found = []
    for part in content.get("parts") or []:
        if isinstance(part, dict):
            answer = part.get("functionResponse")
            response = answer.get("response") if isinstance(answer, dict) else None
            found.append(msgspec.json.encode(response).decode() if response is not None else text_of(part.get("text")))
    return "\n".join(text for text in found if text)


gemini = ReplyFormat("gemini", _gemini_asked, _gemini_events, _gemini_whole, _gemini_failure)


# OpenAI Responses, as a server speaks it.


INPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def _responses_asked(body: dict[str, Any]) -> Cue:
    given = body.get("input") or []
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    last, turn, speaking, system = "", 1, False, [str(body.get("instructions") or "")]
    for item in [item for item in given if isinstance(item, dict)]:
        if item.get("role") in ("system", "developer"):
            system.append(text_of(item.get("content")))
            continue
        ours = item.get("role") == "user" or item.get("type") in INPUTS
        if ours:
            last = text_of(item.get("content") if item.get("role") == "user" else item.get("output"))
        elif not speaking:
            turn += 1
        speaking = not ours
    return Cue(last=last, turn=turn, system="\n".join(system))


def _responses_events(play: Play) -> list[bytes]:
    out = [_responses_event("response.created", response=_responses_response(play, "in_progress", []))]
    items = _responses_items(play)
    for index, item in enumerate(items):
        empty = {**item, "status": "in_progress", **_responses_emptied(item)}
        out.append(_responses_event("response.output_item.added", output_index=index, item=empty))
        out += _responses_deltas(play, index, item)
        out.append(_responses_event("response.output_item.done", output_index=index, item=item))
    ending = _responses_ending(play)
    out.append(_responses_event(f"response.{ending}", response=_responses_response(play, ending, items)))
    return out


def _responses_whole(play: Play) -> dict[str, Any]:
    return _responses_response(play, _responses_ending(play), _responses_items(play))


def _responses_failure(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted_error", "param": None, "code": None}}


def _responses_event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _responses_emptied(item: dict[str, Any]) -> dict[str, Any]:
    if item["type"] == "function_call":
        return {"arguments": ""}
    return {"content": []} if item["type"] == "message" else {"summary": []}


def _responses_deltas(play: Play, index: int, item: dict[str, Any]) -> list[bytes]:
    at: dict[str, Any] = {"item_id": item["id"], "output_index": index}
    if item["type"] == "function_call":
        delta = _responses_event("response.function_call_arguments.delta", **at, delta=HOLE)
        done = _responses_event("response.function_call_arguments.done", **at, arguments=item["arguments"])
        return [*around(delta, halves(item["arguments"])), done]
    if item["type"] == "reasoning":
        part, texts = item["summary"][0], play.reply.thoughts
        at["summary_index"], prefix, name = 0, "response.reasoning_summary_text", "response.reasoning_summary_part"
    else:
        part, texts = item["content"][0], play.reply.pieces
        at["content_index"], name = 0, "response.content_part"
        prefix = "response.refusal" if part["type"] == "refusal" else "response.output_text"
    field = "refusal" if part["type"] == "refusal" else "text"
    return [
        _responses_event(f"{name}.added", **at, part={**part, field: ""}),
        *around(_responses_event(f"{prefix}.delta", **at, delta=HOLE), texts),
        _responses_event(f"{prefix}.done", **at, **{field: part[field]}),
        _responses_event(f"{name}.done", **at, part=part),
    ]


def _responses_items(play: Play) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if play.reply.thinking:
        summary = [{"type": "summary_text", "text": play.reply.thinking}]
        items.append({"id": f"rs_{play.id}", "type": "reasoning", "summary": summary, "encrypted_content": "sealed"})
    if play.reply.text:
        part: dict[str, Any] = {"type": "output_text", "text": play.reply.whole_text, "annotations": []}
        if play.reply.finish_reason == "refusal":
            part = {"type": "refusal", "refusal": play.reply.whole_text}
        items.append({"id": f"msg_{play.id}", "type": "message", "role": "assistant", "content": [part]})
    for index, call in enumerate(play.calls):
        space, _, name = call.name.rpartition("::")  # Codex groups the tools of an MCP server
        named = {"call_id": call.id, "name": name, "arguments": call.arguments}
        named |= {"namespace": space} if space else {}
        items.append({"id": f"fc_{play.id}_{index}", "type": "function_call", **named})
    return [{**item, "status": "completed"} for item in items]


def _responses_ending(play: Play) -> str:
    return "incomplete" if play.reply.finish_reason in ("length", "other") else "completed"


def _responses_response(play: Play, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    reason = "max_output_tokens" if play.reply.finish_reason == "length" else "other"
    over = status != "in_progress" and (play.reply.usage is not None or play.reply.cost is not None)
    return {
        "id": f"resp_{play.id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": play.model,
        "output": items,
        "error": None,
        "incomplete_details": {"reason": reason} if status == "incomplete" else None,
        "usage": _responses_usage(play) if over else None,
    }


def _responses_usage(play: Play) -> dict[str, Any]:
    used = play.usage
    given = used.input + used.cache_read + used.cache_write
    usage: dict[str, Any] = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": used.cache_read, "cache_write_tokens": used.cache_write},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": given + used.output,
    }
    return usage if play.reply.cost is None else {**usage, "cost": play.reply.cost}


responses = ReplyFormat("responses", _responses_asked, _responses_events, _responses_whole, _responses_failure)
