"""OpenAI chat completions, as a server speaks it."""

from typing import Any

from treadle.agent.providers.script import Cue
from treadle.testing.formats import HOLE, Play, around, event, halves, text_of

FINISH = {"refusal": "content_filter", "other": "other"}


def asked(body: dict[str, Any]) -> Cue:
    messages = [message for message in body.get("messages") or [] if isinstance(message, dict)]
    system = [text_of(m.get("content")) for m in messages if m.get("role") in ("system", "developer")]
    replies = [place for place, m in enumerate(messages) if m.get("role") == "assistant"]
    # Some agents add a reminder after the prompt, so everything since the last reply is new.
    new = [m for m in messages[replies[-1] + 1 if replies else 0 :] if m.get("role") in ("user", "tool")]
    last = "\n".join(text_of(m.get("content")) for m in new)
    return Cue(last=last, turn=1 + len(replies), system="\n".join(system))


def events(play: Play) -> list[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return event(_chunk(play, [{"index": 0, "delta": delta, "finish_reason": finish}]))

    out = [chunk({"role": "assistant", "content": ""})]
    out += around(chunk({"reasoning": HOLE}), play.reply.thoughts)
    out += around(chunk({"content": HOLE}), play.reply.pieces)
    for index, call in enumerate(play.calls):
        head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        out.append(chunk({"tool_calls": [head]}))
        for piece in halves(call.arguments):
            out.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    out.append(chunk({}, _finish(play)))
    if play.reply.usage or play.reply.cost is not None:
        out.append(event({**_chunk(play, []), "usage": _usage(play)}))
    return [*out, b"data: [DONE]\n\n"]


def whole(play: Play) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": play.reply.whole_text or None}
    if play.reply.thinking:
        message["reasoning"] = play.reply.thinking
    if play.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in play.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(play)}
    return {**_chunk(play, [choice]), "object": "chat.completion", "usage": _usage(play)}


def failure(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted_error", "param": None, "code": None}}


def _finish(play: Play) -> str:
    return FINISH.get(play.reply.finish_reason, play.reply.finish_reason)


def _chunk(play: Play, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{play.id}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": play.model,
        "choices": choices,
    }


def _usage(play: Play) -> dict[str, Any]:
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
