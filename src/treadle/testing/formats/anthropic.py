"""Anthropic Messages, as a server speaks it."""

from typing import Any

import msgspec

from treadle.agent.providers.script import Cue
from treadle.testing.formats import HOLE, Play, around, event, halves, text_of

STOP = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "other": "pause_turn",
}
KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
KINDS |= {413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}


def asked(body: dict[str, Any]) -> Cue:
    messages = [message for message in body.get("messages") or [] if isinstance(message, dict)]
    given = [m for m in messages if m.get("role") == "user"]
    turn = 1 + sum(m.get("role") == "assistant" for m in messages)
    last = text_of(given[-1].get("content")) if given else ""
    return Cue(last=last, turn=turn, system=text_of(body.get("system")))


def events(play: Play) -> list[bytes]:
    usage = _usage(play)
    out = [
        _event("message_start", message={**_message(play), "usage": {**usage, "output_tokens": 0}}),
        _event("ping"),
    ]
    for index, block in enumerate(_blocks(play)):
        out += _block(play, index, block)
    delta = {"stop_reason": STOP[play.reply.finish_reason], "stop_sequence": None}
    out.append(_event("message_delta", delta=delta, usage=usage))
    return [*out, _event("message_stop")]


def whole(play: Play) -> dict[str, Any]:
    return {
        **_message(play),
        "content": _blocks(play),
        "stop_reason": STOP[play.reply.finish_reason],
        "usage": _usage(play),
    }


def failure(status: int, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": KINDS.get(status, "api_error"), "message": message}}


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _block(play: Play, index: int, block: dict[str, Any]) -> list[bytes]:
    def delta(kind: str, field: str, value: str = HOLE) -> bytes:
        return _event("content_block_delta", index=index, delta={"type": kind, field: value})

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
    start = _event("content_block_start", index=index, content_block=empty)
    return [start, *deltas, _event("content_block_stop", index=index)]


def _blocks(play: Play) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if play.reply.thinking:
        blocks.append({"type": "thinking", "thinking": play.reply.thinking, "signature": f"signed-{play.id}"})
    if play.reply.text:
        blocks.append({"type": "text", "text": play.reply.whole_text})
    for call in play.calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": _parsed(call.arguments)})
    return blocks


def _parsed(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}


def _message(play: Play) -> dict[str, Any]:
    return {
        "id": f"msg_{play.id}",
        "type": "message",
        "role": "assistant",
        "model": play.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(play: Play) -> dict[str, Any]:
    used = play.usage
    usage: dict[str, Any] = {
        "input_tokens": used.input,
        "output_tokens": used.output,
        "cache_read_input_tokens": used.cache_read,
        "cache_creation_input_tokens": used.cache_write,
    }
    return usage if play.reply.cost is None else {**usage, "cost": play.reply.cost}
