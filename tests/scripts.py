"""Replies of the scripted model: a script is some of them, one after the other (docs/reference/scripted-model.md)."""

import json
from typing import Any


def reply(**fields: Any) -> str:
    calls = fields.pop("call", ())
    return "".join(["[[reply]]\n", _lines(fields), *(f"[[reply.call]]\n{_lines(call)}" for call in calls)])


def says(text: str, **more: Any) -> str:
    return reply(text=text, **more)


def calls(tool: str, arguments: dict[str, Any], **more: Any) -> str:
    return reply(call=[{"name": tool, "arguments": arguments}], **more)


def _lines(fields: dict[str, Any]) -> str:
    return "".join(f"{name} = {_toml(value)}\n" for name, value in fields.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(name)} = {_toml(each)}' for name, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
