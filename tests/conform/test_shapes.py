"""Messages against the published schemas, and against another validator of the same schemas."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from treadle.conform.shapes import ShapeWatch, fault, published


def made(kinds: dict[str, Any], schema: Any, depth: int = 0) -> Any:
    """A value with all fields, down to some depth."""
    schema = {**kinds[schema["$ref"]], **schema} if "$ref" in schema else schema
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [0])[0])
    choice: Any = next((schema[word][depth % len(schema[word])] for word in ("oneOf", "anyOf") if word in schema), {})
    parts = [made(kinds, part, depth) for part in [*schema.get("allOf", []), *([choice] if choice else [])]]
    if (kind := schema.get("type", "object" if "properties" in schema else "")) != "object":
        plain = {"string": "abcd", "integer": 1, "number": 1, "boolean": True, "array": []}
        if kind == "array" and depth < 5:
            return [made(kinds, schema.get("items", {}), depth + 1)]
        if isinstance(kind, str) and kind in plain:
            return "a:abcd" if schema.get("format") == "uri" else plain[kind]
        return parts[-1] if parts else None
    fields = schema.get("properties", {}).items() if depth < 5 else ()
    needed = [item for item in schema.get("properties", {}).items() if item[0] in schema.get("required", [])]
    found = {name: made(kinds, one, depth + 1) for name, one in [*fields, *needed]}
    for part in parts:
        found |= part if isinstance(part, dict) else {}
    return found


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from spots(value[key])


@pytest.mark.parametrize("protocol", ["acp", "mcp"])
def test_another_validator_says_the_same_of_spoiled_messages(protocol: str) -> None:
    table, choose = published(protocol), random.Random(54)
    kinds = table["kinds"]
    said = []
    for name in [*table["results"].values(), *table["asked"].values(), *table["told"].values()]:
        other = jsonschema.Draft202012Validator(referred({"$defs": kinds, **kinds[name]}))
        whole = made(kinds, {"$ref": name})
        for _ in range(12):
            spoiled = {"of": copy.deepcopy(whole)}
            inside, key = choose.choice(list(spots(spoiled)))
            spoil = choose.choice([None, 7, -1, 1.5, True, "no:spoil", [], {}, [7], "gone"])
            inside[key] = spoil
            if spoil == "gone" and isinstance(inside, dict) and inside is not spoiled:
                del inside[key]
            why = fault(kinds, {"$ref": name}, spoiled["of"])
            assert (not why) == other.is_valid(spoiled["of"]), (name, why, spoiled)
            said.append(not why)
    assert said.count(True) > 20 and said.count(False) > 20


def referred(node: Any) -> Any:
    if isinstance(node, list):
        return [referred(one) for one in node]
    if not isinstance(node, dict):
        return node
    found = {key: referred(value) for key, value in node.items()}
    if isinstance(name := node.get("$ref"), str):
        found["$ref"] = f"#/$defs/{name}"
    return found


@pytest.mark.parametrize(
    ("protocol", "line", "asked", "why"),
    [
        ("acp", {"method": "session/update", "params": {"sessionId": "s"}}, "", "params.update is missing"),
        ("acp", {"id": 1, "result": None}, "session/load", ""),
        ("acp", {"id": 1, "result": None}, "session/prompt", "result is not of type object"),
        ("acp", {"id": 1, "result": {"stopReason": "stop"}}, "session/prompt", "none of what it may be"),
        ("acp", {"id": 1, "error": {"code": "x", "message": "no"}}, "session/prompt", "error.code is not of type"),
        ("acp", {"method": "_mine/told", "params": {}}, "", ""),
        ("acp", {"method": "told", "params": {}}, "", "no such notification"),
        ("acp", {"id": 1, "method": "session/ask", "params": {}}, "", "no such request"),
        ("mcp", {"id": 1, "result": {"contents": [{"uri": "x", "text": ""}]}}, "resources/read", "contents[]"),
        ("ledger", {"id": 1, "result": {}}, "tools/list", "result.tools is missing"),
        ("worker", {"type": "anything"}, "", ""),
    ],
)
def test_each_fault_of_a_message_is_noted_once(protocol: str, line: dict[str, Any], asked: str, why: str) -> None:
    watch = ShapeWatch(protocol)
    assert [watch.look(line, asked), watch.look(line, asked)] == [not why] * 2
    assert all(why in each for each in watch.wrong) and len(watch.wrong) == bool(why)
