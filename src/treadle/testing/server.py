"""A scripted model behind real HTTP, in four wire formats, with faults on request.

    python -m treadle.testing.server SCRIPT [--port N] [--fault NAME ...]

For our own provider tests, and for outside agents: point their base URL here.
"""

import asyncio
import itertools
import re
import signal
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Self, get_args

import h11
import msgspec

from treadle.agent.messages import ToolCall
from treadle.agent.providers.script import (
    Cue,
    ErrorLine,
    Fault,
    Player,
    Script,
    ScriptedReply,
    UsageLine,
    load,
)
from treadle.errors import ConfigError, ProviderError
from treadle.io.tasks import end_tasks, start_held

# A scripted reply as a service would send it, in each of the four wire formats: `asked(body)`, the text of the request;
# `events(play)`, the reply as server-sent events; `whole(play)`, the same reply as one JSON document; and
# `failure(status, message)`, the body of an error.

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


# Ways in which a model service breaks, performed on a real socket.


GIANT = 64 * 1024 * 1024
HARMLESS = frozenset({"slow", "split", "giant"})
"""After these faults the reply is complete, so the script goes on; after any other the same reply is given again."""

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
CHUNKED = STREAM + b"transfer-encoding: chunked\r\n\r\n"
HTML = b"<!doctype html><title>Sign in</title><h1>Sign in to the hotel network</h1>"


def parse(text: str) -> Fault | ErrorLine | None:
    """A fault as written on a command line: a name, a status such as `500` or `429:2` (seconds to wait), or `ok`."""
    if text == "ok":
        return None
    if status := re.fullmatch(r"([45]\d\d)(?::([\d.]+))?", text):
        wait = float(status[2]) if status[2] else None
        return ErrorLine(status=int(status[1]), message="a fault was asked for", retry_after=wait)
    try:
        fault: Fault = msgspec.convert(text, Fault)
        return fault
    except msgspec.ValidationError:
        known = ", ".join(get_args(Fault))
        raise ConfigError(f"unknown fault {text!r}", hint=f"one of: ok, 429:SECONDS, 500, {known}") from None


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def perform(
    fault: Fault, events: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answer with `events`, with this fault. True if the connection can serve another request."""
    half = events[: len(events) // 2]
    body = b"".join(events)
    if fault == "hang":
        await _until_gone(reader)
    elif fault == "html":
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(HTML) + HTML)
        return True
    elif fault == "short_length":
        writer.write(STREAM + b"content-length: %d\r\n\r\n" % (len(body) // 2) + body)
    elif fault == "long_length":
        writer.write(STREAM + b"content-length: %d\r\n\r\n" % (len(body) * 2) + body[: len(body) // 2])
    else:
        writer.write(CHUNKED)
        return await _streamed(fault, half, events, reader, writer)
    return False


async def _streamed(
    fault: Fault,
    half: list[bytes],
    events: list[bytes],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> bool:
    rest = events[len(half) :]
    if fault in ("cut", "reset", "stall"):
        writer.write(chunk(b"".join(half) + rest[0][: len(rest[0]) // 2]))
        await writer.drain()
        if fault == "stall":
            await _until_gone(reader)
        if fault == "reset":
            _reset(writer)
        return False
    if fault == "early_end":
        writer.write(chunk(b"".join(half)))
    elif fault == "garbage":
        writer.write(chunk(b"".join(half) + b"data: {\x00\xff not json\n\n" + b"".join(rest)))
    elif fault == "giant":
        writer.write(chunk(b"".join(half) + b'data: {"type":"ping","choices":[],"padding":"'))
        for _ in range(GIANT >> 20):
            writer.write(chunk(b"x" * (1 << 20)))
            await writer.drain()
        writer.write(chunk(b'"}\n\n' + b"".join(rest)))
    else:
        await _dribble(b"".join(events), writer, pause=0.001 if fault == "slow" else 0.0)
    writer.write(b"0\r\n\r\n")
    return True


async def _dribble(body: bytes, writer: asyncio.StreamWriter, pause: float) -> None:
    """Send a few bytes at a time, and single bytes inside a character that has several."""
    for piece in re.findall(rb"[\x80-\xff]|[\x00-\x7f]{1,7}", body):
        writer.write(chunk(piece))
        await writer.drain()
        await asyncio.sleep(pause)


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


FORMATS: dict[str, ReplyFormat] = {
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": anthropic,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}
PIECE = 65536
LARGEST_REQUEST = 256 * 1024 * 1024


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any = None


class ModelServer:
    """`async with ModelServer(script) as server:` serves it on `server.url` until the block ends.

    `faults` are used up one per model request, in order; None means no fault. `batch` sends as many events per HTTP
    chunk as fit, which is fast; without it each event is a chunk of its own, as most services send them. `socket` is
    the path of a Unix socket to serve at in place of a port.
    """

    def __init__(
        self,
        script: Script,
        *,
        faults: Iterable[Fault | ErrorLine | None] = (),
        port: int = 0,
        batch: bool = True,
        socket: str = "",
    ) -> None:
        self.player = Player(script)
        self.requests: list[Recorded] = []
        self.connections = 0
        self._faults = list(faults)
        self._port = port
        self._batch = batch
        self._socket = socket
        self._ids = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def asked(self) -> list[Recorded]:
        """The requests for a reply, without listings and token counts."""
        return [request for request in self.requests if _format(request) is not None]

    async def __aenter__(self) -> Self:
        if self._socket:
            self._server = await asyncio.start_unix_server(self._connected, self._socket)
            return self
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await end_tasks(*self._open)
        await self._server.wait_closed()

    async def arrived(self, number: int) -> None:
        """Wait until this many requests for a reply have come."""
        while len(self.asked) < number:
            self._news.clear()
            await self._news.wait()

    async def all_gone(self) -> None:
        """Wait until every connection is closed."""
        if self._open:
            await asyncio.wait(self._open)

    async def serve_forever(self) -> None:
        assert self._server is not None
        await self._server.serve_forever()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        start_held(self._open, self._converse(reader, writer))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for request in _requests(reader, writer):
                self.requests.append(request)
                self._news.set()
                if not await self._answer(request, reader, writer):
                    break
                await writer.drain()
            with suppress(OSError):
                await writer.drain()
        except (OSError, h11.RemoteProtocolError):
            pass  # the client went away or does not speak HTTP: no one is left to answer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, request: Recorded, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        form = _format(request)
        if form is None:
            writer.write(_json(*self._other(request)))
            return True
        if not isinstance(request.body, dict):
            writer.write(_json(400, form.failure(400, "the body is not a JSON object")))
            return True
        fault = self._faults.pop(0) if self._faults else None
        if isinstance(fault, ErrorLine):
            writer.write(_error(form, fault))
            return True
        asked: Cue = form.asked(request.body)
        try:
            reply = self.player.peek(asked) if fault and fault not in HARMLESS else self.player.next(asked)
        except ProviderError as error:
            writer.write(_json(400, form.failure(400, str(error))))
            return True
        named = request.path.rpartition("/")[2].partition(":")[0] if form is gemini else ""
        model = str(request.body.get("model") or named or self.player.script.model)
        streams = bool(request.body.get("stream")) or request.path.endswith(":streamGenerateContent")
        play = Play(reply=reply, model=model, turn=asked.turn, id=f"{next(self._ids)}")
        return await self._play(form, play, fault or reply.fault, streams, reader, writer)

    async def _play(
        self,
        form: ReplyFormat,
        play: Play,
        fault: Fault | None,
        stream: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        reply = play.reply
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.error is not None:
            writer.write(_error(form, reply.error))
        elif fault is not None:
            return await perform(fault, form.events(play), reader, writer)
        elif not stream:
            writer.write(_json(200, form.whole(play)))
        else:
            writer.write(CHUNKED)
            await self._send(form.events(play), reply, writer)
            writer.write(b"0\r\n\r\n")
        return True

    async def _send(self, events: list[bytes], reply: ScriptedReply, writer: asyncio.StreamWriter) -> None:
        if self._batch and not reply.pace:
            body = b"".join(events)
            for at in range(0, len(body), PIECE):
                writer.write(chunk(body[at : at + PIECE]))
                await writer.drain()
            return
        for event in events:
            if reply.pace:
                await asyncio.sleep(reply.pace)
            writer.write(chunk(event))
            await writer.drain()

    def _other(self, request: Recorded) -> tuple[int, dict[str, Any]]:
        if request.path.endswith("/models"):
            name = self.player.script.model
            entry = {"id": name, "object": "model", "created": 0, "owned_by": "treadle", "type": "model"}
            return 200, {"object": "list", "data": [{**entry, "display_name": name}], "has_more": False}
        if request.path.endswith(":countTokens"):
            return 200, {"totalTokens": len(encode(request.body)) // 4}
        if request.path.endswith("/count_tokens"):
            return 200, {"input_tokens": len(encode(request.body)) // 4}
        return 404, {"error": {"message": f"nothing is served at {request.path}", "type": "not_found_error"}}


def _format(request: Recorded) -> ReplyFormat | None:
    if request.method != "POST":
        return None
    return next((form for path, form in FORMATS.items() if request.path.endswith(path)), None)


async def _requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[Recorded]:
    """The requests of one connection, read with a fresh h11 connection each, because answers are written without it."""
    rest = b""
    while True:
        wire = h11.Connection(h11.SERVER)
        if rest:
            wire.receive_data(rest)
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = wire.next_event()
            if event is h11.NEED_DATA:
                if wire.they_are_waiting_for_100_continue:
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                wire.receive_data(await reader.read(PIECE))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > LARGEST_REQUEST:
                    return
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return
        assert head is not None
        yield _recorded(head, bytes(body))
        rest = wire.trailing_data[0]


def _recorded(head: h11.Request, body: bytes) -> Recorded:
    headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
    try:
        decoded = msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, RecursionError):
        decoded = body
    path = head.target.decode("latin-1").partition("?")[0]
    return Recorded(method=head.method.decode(), path=path, headers=headers, body=decoded)


def _json(status: int, body: dict[str, Any], headers: str = "") -> bytes:
    data = encode(body)
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def _error(form: ReplyFormat, line: ErrorLine) -> bytes:
    wait = "" if line.retry_after is None else f"retry-after: {line.retry_after:g}\r\n"
    return _json(line.status, form.failure(line.status, line.message), wait)


def main(argv: list[str] | None = None) -> None:
    import argparse

    from treadle.errors import TreadleError
    from treadle.io.process.loop import run_async

    parser = argparse.ArgumentParser(
        prog="python -m treadle.testing.server", description="Serve a scripted model over HTTP."
    )
    parser.add_argument("script", help="a TOML file of replies (docs/reference/scripted-model.md)")
    parser.add_argument("--port", type=int, default=0, help="default: any free one, printed on the first line")
    parser.add_argument(
        "--fault", action="append", default=[], help="spent one per request: cut, stall, 500, 429:2, ok, ..."
    )
    parser.add_argument("--unbatched", action="store_true", help="one HTTP chunk per event, as most services send them")
    args = parser.parse_args(argv)
    try:
        script, faults = load(args.script), [parse(fault) for fault in args.fault]
        run_async(_serve(ModelServer(script, faults=faults, port=args.port, batch=not args.unbatched)))
    except (TreadleError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


async def _serve(server: ModelServer) -> None:
    task = asyncio.current_task()
    assert task is not None
    for signum in (signal.SIGINT, signal.SIGTERM):  # also when a shell started us with SIGINT ignored
        asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
    with suppress(asyncio.CancelledError):
        async with server:
            print(f"serving on {server.url}/v1", flush=True)
            await server.serve_forever()


if __name__ == "__main__":
    main()
