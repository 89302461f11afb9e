"""A published OpenAPI document, held against what is really sent and answered."""

import re
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator


class Contract:
    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._paths = {
            re.compile(
                "".join("[^/]+" if part.startswith("{") else re.escape(part) for part in re.split(r"({\w+})", path))
            ): path
            for path in document["paths"]
            if path.startswith("/repos/{owner}/{repo}/")
        }

    def operation(self, method: str, path: str) -> dict[str, Any]:
        exact = [name for pattern, name in self._paths.items() if pattern.fullmatch(path)]
        found = min(exact, key=lambda name: name.count("{"))
        return dict(self.document["paths"][found][method.lower()])

    def resolve(self, schema: Any) -> Any:
        while isinstance(schema, Mapping) and "$ref" in schema:
            node: Any = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                node = node[part.replace("~1", "/").replace("~0", "~")]
            schema = node
        return schema

    def whole(self, schema: Any, depth: int = 0) -> Any:
        """The schema with its references put in, and with `nullable` as JSON Schema says it."""
        schema = self.resolve(schema)
        if depth > 12 or not isinstance(schema, Mapping):
            return schema
        made = {name: self._inside(name, value, depth) for name, value in schema.items() if name != "example"}
        if made.pop("nullable", False):
            return {"anyOf": [made, {"type": "null"}]}
        return made

    def _inside(self, name: str, value: Any, depth: int) -> Any:
        if name == "properties":
            return {each: self.whole(inner, depth + 1) for each, inner in value.items()}
        if name in ("items", "additionalProperties", "not"):
            return self.whole(value, depth + 1)
        if name in ("allOf", "anyOf", "oneOf"):
            return [self.whole(inner, depth + 1) for inner in value]
        return value

    def answer_schema(self, method: str, path: str, status: int) -> Any:
        answers = self.operation(method, path)["responses"]
        content = self.resolve(answers[str(status)]).get("content", {})
        return self.whole(content.get("application/json", {}).get("schema", {}))

    def faults(
        self, method: str, path: str, query: Mapping[str, Any], body: Any, status: int, answer: Any
    ) -> list[str]:
        operation = self.operation(method, path)
        known = {self.resolve(each)["name"] for each in operation.get("parameters", ())}
        wrong = [f"{method} {path}: no parameter {name}" for name in query if name not in known]
        given = operation.get("requestBody")
        if body is not None:
            raw = given["content"]["application/json"]["schema"]
            schema, fields = self.whole(raw), self.resolve(raw)["properties"]
            wrong += [f"{method} {path}: no field {name}" for name in body if name not in fields]
            wrong += [
                f"{method} {path} asks: {error.message}" for error in Draft202012Validator(schema).iter_errors(body)
            ]
        schema = self.answer_schema(method, path, status)
        wrong += [
            f"{method} {path} answers: {error.json_path} {error.message[:200]}"
            for error in Draft202012Validator(schema).iter_errors(answer)
        ]
        return wrong


def filled(schema: Any, value: Any) -> Any:
    """The value with everything that the document requires beside what we say: plain values of the right types."""
    if not isinstance(schema, Mapping):
        return value
    for way in ("anyOf", "oneOf", "allOf"):
        if way in schema and value is None and any(each.get("type") == "null" for each in schema[way]):
            return None
        if way in schema:
            chosen = [each for each in schema[way] if each.get("type") != "null"]
            for each in chosen if way == "allOf" else chosen[:1]:
                value = filled(each, value)
            return value
    if "enum" in schema:
        return value if value in schema["enum"] else schema["enum"][0]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        made = dict(value or {})
        properties = schema.get("properties", {})
        for name in {*schema.get("required", ()), *made} & set(properties):
            made[name] = filled(properties[name], made.get(name))
        return made
    if kind == "array":
        return [filled(schema.get("items"), each) for each in value or ()]
    if value is not None:
        return value
    if kind == "string":
        return {"date-time": "2026-01-01T00:00:00Z", "uri": "http://forge.example/x"}.get(schema.get("format", ""), "x")
    return {"integer": 1, "number": 1, "boolean": False}.get(kind or "", None)
