"""Google's generateContent, as a server speaks it. The path, not the body, holds the model and whether to stream."""

from typing import Any

import msgspec

from treadle.agent.providers.script import Cue
from treadle.testing.formats import HOLE, Play, around, event, text_of

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}


def asked(body: dict[str, Any]) -> Cue:
    contents = [content for content in body.get("contents") or [] if isinstance(content, dict)]
    given = [content for content in contents if content.get("role") != "model"]
    turn = 1 + sum(content.get("role") == "model" for content in contents)
    system = body.get("systemInstruction") or body.get("system_instruction")
    instructions = text_of(system.get("parts")) if isinstance(system, dict) else ""
    return Cue(last=_texts(given[-1]) if given else "", turn=turn, system=instructions)


def events(play: Play) -> list[bytes]:
    def chunk(*parts: dict[str, Any]) -> bytes:
        return event(_reply(play, list(parts)))

    out = around(chunk({"text": HOLE, "thought": True}), play.reply.thoughts)
    out += around(chunk({"text": HOLE}), play.reply.pieces)
    out += [chunk(call) for call in _calls(play)]
    return [*out, event(_last(play, []))]


def whole(play: Play) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if play.reply.thinking:
        parts.append({"text": play.reply.thinking, "thought": True})
    if play.reply.whole_text:
        parts.append({"text": play.reply.whole_text})
    return _last(play, [*parts, *_calls(play)])


def failure(status: int, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": STATUS.get(status, "INTERNAL")}}


def _calls(play: Play) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": _object(call.arguments)}} for call in play.calls
    ]


def _object(arguments: str) -> Any:
    """This format has no place for arguments that are not JSON."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {"malformed": arguments}


def _reply(play: Play, parts: list[dict[str, Any]]) -> dict[str, Any]:
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
    return {"responseId": play.id, "modelVersion": play.model, "candidates": [candidate]}


def _last(play: Play, parts: list[dict[str, Any]]) -> dict[str, Any]:
    used, reply = play.usage, _reply(play, parts)
    reply["candidates"][0]["finishReason"] = FINISH.get(play.reply.finish_reason, "OTHER")
    prompt = used.input + used.cache_read + used.cache_write
    reply["usageMetadata"] = {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": used.cache_read,
        "candidatesTokenCount": used.output - used.reasoning,
        "thoughtsTokenCount": used.reasoning,
        "totalTokenCount": prompt + used.output,
    }
    return reply


def _texts(content: dict[str, Any]) -> str:
    """The texts of a message, and the results of tools."""
    found = []
    for part in content.get("parts") or []:
        if isinstance(part, dict):
            answer = part.get("functionResponse")
            response = answer.get("response") if isinstance(answer, dict) else None
            found.append(msgspec.json.encode(response).decode() if response is not None else text_of(part.get("text")))
    return "\n".join(text for text in found if text)
