"""OpenAI Responses, as a server speaks it."""

from typing import Any

from treadle.agent.providers.script import Cue
from treadle.testing.formats import HOLE, Play, around, event, halves, text_of

INPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def asked(body: dict[str, Any]) -> Cue:
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


def events(play: Play) -> list[bytes]:
    out = [_event("response.created", response=_response(play, "in_progress", []))]
    items = _items(play)
    for index, item in enumerate(items):
        empty = {**item, "status": "in_progress", **_emptied(item)}
        out.append(_event("response.output_item.added", output_index=index, item=empty))
        out += _deltas(play, index, item)
        out.append(_event("response.output_item.done", output_index=index, item=item))
    ending = _ending(play)
    out.append(_event(f"response.{ending}", response=_response(play, ending, items)))
    return out


def whole(play: Play) -> dict[str, Any]:
    return _response(play, _ending(play), _items(play))


def failure(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted_error", "param": None, "code": None}}


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _emptied(item: dict[str, Any]) -> dict[str, Any]:
    if item["type"] == "function_call":
        return {"arguments": ""}
    return {"content": []} if item["type"] == "message" else {"summary": []}


def _deltas(play: Play, index: int, item: dict[str, Any]) -> list[bytes]:
    at: dict[str, Any] = {"item_id": item["id"], "output_index": index}
    if item["type"] == "function_call":
        delta = _event("response.function_call_arguments.delta", **at, delta=HOLE)
        done = _event("response.function_call_arguments.done", **at, arguments=item["arguments"])
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
        _event(f"{name}.added", **at, part={**part, field: ""}),
        *around(_event(f"{prefix}.delta", **at, delta=HOLE), texts),
        _event(f"{prefix}.done", **at, **{field: part[field]}),
        _event(f"{name}.done", **at, part=part),
    ]


def _items(play: Play) -> list[dict[str, Any]]:
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


def _ending(play: Play) -> str:
    return "incomplete" if play.reply.finish_reason in ("length", "other") else "completed"


def _response(play: Play, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
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
        "usage": _usage(play) if over else None,
    }


def _usage(play: Play) -> dict[str, Any]:
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
