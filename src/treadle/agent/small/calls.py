"""What a small model may write, as a JSON Schema, and what it wrote, as calls. Pure.

A call is one flat object, `{"tool": NAME, ARGUMENT: VALUE, ...}`. The end of a turn is a call too, `answer`, so that
there is only one form to learn. Only the arguments that a tool requires are offered.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from treadle.agent.messages import ToolSchema
from treadle.agent.small.profile import SmallProfile
from treadle.agent.small.words import ANSWER

CAPS = {"file_path": 160, "command": 400, "old_string": 1000, "new_string": 1500, "content": 2400, "text": 1000}
OTHER_CAP = 1000
MOST_CALLS = 4
_ANSWER = ToolSchema(
    name=ANSWER, description="", parameters={"properties": {"text": {"type": "string"}}, "required": ["text"]}
)
_NAMED = re.compile(r'"tool"\s*:\s*"(\w+)"')
_FENCE = re.compile(r"```(?:json)?\s*(\{.*?\})\s*```", re.DOTALL)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply says: calls to make, or the answer, or neither when it is not a readable call."""

    calls: tuple[tuple[str, str], ...] = ()
    """Names and arguments, as JSON text."""
    answer: str | None = None


def offered(tools: Iterable[ToolSchema]) -> list[ToolSchema]:
    """The tools that can be written as flat objects."""
    return [tool for tool in tools if "tool" not in tool.parameters.get("properties", {}) and tool.name != ANSWER]


def reply_schema(tools: Sequence[ToolSchema], profile: SmallProfile, *, answer: bool = True) -> dict[str, Any]:
    calls = [_call(tool, profile) for tool in tools]
    if answer:
        calls.append(_call(_ANSWER, profile))
    if profile.one_step:
        return {"anyOf": calls}
    several = {"type": "array", "items": {"anyOf": calls[: len(tools)]}, "minItems": 1, "maxItems": MOST_CALLS}
    many = {"type": "object", "properties": {"calls": several}, "required": ["calls"], "additionalProperties": False}
    return {"anyOf": [*calls, many]}


def _call(tool: ToolSchema, profile: SmallProfile) -> dict[str, Any]:
    known = tool.parameters.get("properties", {})
    names = [name for name in known if name in tool.parameters.get("required", ())]
    if profile.path_first:
        names.sort(key=lambda name: name != "file_path")
    properties = {name: _value(name, known[name], profile) for name in names}
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, **properties},
        "required": ["tool", *names],
        "additionalProperties": False,
    }


def _value(name: str, schema: dict[str, Any], profile: SmallProfile) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if key not in ("description", "title", "default")}
    if profile.caps and plain.get("type") == "string" and "enum" not in plain:
        plain.setdefault("maxLength", CAPS.get(name, OTHER_CAP))
    return plain


def read(text: str) -> Written:
    """Tolerant: where the schema could not be enforced, there may be words or a fence around the call."""
    found = _object(text)
    if found is None:
        named = _NAMED.search(text)
        return Written(calls=((named[1], text),)) if named else Written(answer=text.strip())
    several = found.get("calls")
    objects = [one for one in several if isinstance(one, dict)] if isinstance(several, list) else [found]
    calls = [(str(one.get("tool", "")), {key: one[key] for key in one if key != "tool"}) for one in objects]
    if len(calls) == 1 and (calls[0][0] == ANSWER or not calls[0][0]):
        answer = calls[0][1].get("text")
        return Written(answer=answer if isinstance(answer, str) else text.strip())
    return Written(
        calls=tuple((name, msgspec.json.encode(arguments).decode()) for name, arguments in calls if name != ANSWER)
    )


def _object(text: str) -> dict[str, Any] | None:
    fenced = _FENCE.search(text)
    outer = text[text.find("{") : text.rfind("}") + 1]
    for piece in (text, fenced[1] if fenced else "", outer):
        try:
            found = msgspec.json.decode(piece)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            continue
        if isinstance(found, dict) and ("tool" in found or "calls" in found):
            return found
    return None
