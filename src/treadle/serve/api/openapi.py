"""The table of calls as an OpenAPI 3.1 document, made from the types that requests are checked against; importing this
imports every call.
"""

import re
from functools import cache
from typing import Any

import msgspec

import treadle
from treadle.serve.api import devices, goals, machines, orders, terminals
from treadle.serve.api.calls import BASE, TABLE, ApiCall
from treadle.serve.envelope import JSON, PROBLEM, HttpProblem
from treadle.serve.notify import notices

# Every call of the HTTP interface: importing this module imports those that define them.

MODULES = (orders, devices, goals, machines, notices, terminals)


def every() -> list[ApiCall]:
    return TABLE


_FAILURES = {
    "400": "the request cannot be read",
    "401": "no token, or one that is not known",
    "403": "this token may not do that",
    "404": "there is no such thing",
    "405": "this method is not possible here",
    "409": "it is not in a state for that, or another person was first",
    "422": "what is asked for makes no sense",
    "429": "too many requests",
    "503": "the fleet's engine does not answer",
}


@cache
def document() -> dict[str, Any]:
    kinds: list[Any] = [HttpProblem]
    for each in every():
        kinds += [kind for kind in (each.query, each.body, each.returns) if kind is not None and kind is not bytes]
    schemas, components = _readable(msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}"))
    by_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for each in every():
        paths.setdefault(BASE + each.path, {})[each.method.lower()] = _operation(each, by_kind, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Treadle", "version": treadle.__version__, "description": "A fleet of agents and terminals."},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _readable(schema: Any) -> Any:
    """The same in the words that generators of clients know: no `items: false` after a tuple's items, since `maxItems`
    says it, and `items` for every other array."""
    if isinstance(schema, dict):
        made = {key: _readable(value) for key, value in schema.items() if (key, value) != ("items", False)}
        bare = made.get("type") == "array" and "items" not in made and "prefixItems" not in made
        return {**made, "items": {}} if bare else made
    return [_readable(each) for each in schema] if isinstance(schema, list | tuple) else schema


def _operation(each: ApiCall, by_kind: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "description": f"Needs the right `{each.right}`.",
        "parameters": _parameters(each, components),
        "responses": {
            str(each.status): {"description": "done", "content": _content(each, by_kind)},
            **{
                status: {
                    "description": text,
                    "content": {PROBLEM: {"schema": by_kind[id(HttpProblem)]}},
                }
                for status, text in _FAILURES.items()
            },
        },
    }
    if each.body is not None:
        content = {JSON: {"schema": by_kind[id(each.body)]}}
        made["requestBody"] = {"required": not each.optional_body, "content": content}
        for status, text in (("413", "the body is too large"), ("415", "the body is not application/json")):
            failure = {PROBLEM: {"schema": by_kind[id(HttpProblem)]}}
            made["responses"][status] = {"description": text, "content": failure}
    if each.name == "submit_order":
        header = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
        made["parameters"].append(header)
        made["responses"]["200"] = made["responses"]["201"]
    return made


def _content(each: ApiCall, by_kind: dict[int, Any]) -> dict[str, Any]:
    if each.returns is bytes:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {JSON: {"schema": by_kind[id(each.returns)]}}


def _parameters(each: ApiCall, components: dict[str, Any]) -> list[dict[str, Any]]:
    name_schema = {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$"}
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": name_schema}
        for name in re.findall(r"{(\w+)}", each.path)
    ]
    if each.query is not None:
        schema = components[each.query.__name__]
        for name, property in schema["properties"].items():
            property = {key: value for key, value in property.items() if key != "default"}
            if property.get("type") == "array":
                found.append({"name": name, "in": "query", "schema": property, "style": "form", "explode": True})
            else:
                found.append({"name": name, "in": "query", "schema": _plain(property)})
    return found


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from an optional parameter: it is left out, never null."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    return options[0] if len(options) == 1 else schema
