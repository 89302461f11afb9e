"""Hold our verdicts on fields against the schemas that others publish: `make check-schemas`.

Each field of each method that a door serves must have a verdict in `wire/NAME/fields.toml`; one of a newer release that
has none fails. The schemas of ACP, MCP and Claude's SDK are in their Python packages; ACP names a newer `schema.json`,
CLAUDE a newer `sdk.d.ts`. That of A2A is in its SDK, for which SDK names a Python that has it; Codex, the program that
CODEX names, writes its own; that of the worker protocol is heddle's source, the directory that HEDDLE names. DRAW=60
SEED=1 also shows that many fields, drawn at random, with their verdicts.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from treadle.doors.fields import FieldTable

A2A = """
import json
from a2a.types import a2a_pb2
def fields(of, path, seen):
    for field in of.fields:
        place = f"{path}.{field.json_name}" if path else field.json_name
        yield place
        inner = field.message_type
        if inner and inner.full_name not in seen and not inner.full_name.startswith("google."):
            many = getattr(field, "is_repeated", None)
            many = field.label == 3 if many is None else many
            yield from fields(inner, place + "[]" * many, (*seen, inner.full_name))
service = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
print(json.dumps({each.name: list(fields(each.input_type, "", ())) for each in service.methods}))
"""
PROTOCOLS = {"CODEX": "codex", "SDK": "a2a", "HEDDLE": "worker", "ACP": "acp", "CLAUDE": "claude"}
Fields = dict[str, set[str]]
"""Method -> the paths of its fields."""


def unjudged(protocol: str, published: Fields) -> list[str]:
    """Fields without a verdict, of the methods that the table knows; the others are refused as a whole."""
    table = FieldTable(protocol, 0)
    return [
        f"{protocol} {method} {path}"
        for method, paths in sorted(published.items())
        for path in sorted(paths)
        if method in table.methods and not _judged(table, method, path)
    ]


def _judged(table: FieldTable, method: str, path: str) -> str:
    """The verdict that holds for this path; empty: none."""
    parts, verdict = path.split("."), ""
    for count in range(1, len(parts) + 1):
        place = ".".join(parts[:count])
        verdict = table.verdict(method, place)[0] or table.verdict(method, place.removesuffix("[]"))[0]
        if verdict != "used":
            break
    return verdict


def flat(node: Any, definitions: dict[str, Any], path: str = "", seen: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths of all fields of a JSON Schema."""
    if not isinstance(node, dict):
        return
    if (name := str(node.get("$ref", "")).rpartition("/")[2]) and name not in seen:
        yield from flat(definitions[name], definitions, path, (*seen, name))
    for kind in ("anyOf", "oneOf", "allOf"):
        for each in node.get(kind, []):
            yield from flat(each, definitions, path, seen)
    yield from flat(node.get("items"), definitions, f"{path}[]", seen)
    for key, inner in node.get("properties", {}).items():
        place = f"{path}.{key}" if path else key
        yield place
        yield from flat(inner, definitions, place, seen)


ACP = {
    "initialize": "InitializeRequest",
    "authenticate": "AuthenticateRequest",
    "session/new": "NewSessionRequest",
    "session/load": "LoadSessionRequest",
    "session/resume": "ResumeSessionRequest",
    "session/fork": "ForkSessionRequest",
    "session/list": "ListSessionsRequest",
    "session/close": "CloseSessionRequest",
    "session/prompt": "PromptRequest",
    "session/cancel": "CancelNotification",
    "session/set_mode": "SetSessionModeRequest",
    "session/set_config_option": "SetSessionConfigOptionBooleanRequest",
}


def acp() -> Fields:
    from acp import schema

    made = {method: getattr(schema, name).model_json_schema(by_alias=True) for method, name in ACP.items()}
    return {method: set(flat(each, each.get("$defs", {}))) for method, each in made.items()}


MCP = {
    "initialize": "InitializeRequestParams",
    "tools/list": "PaginatedRequestParams",
    "tools/call": "CallToolRequestParams",
}


def mcp() -> Fields:
    import mcp_types

    made = {method: getattr(mcp_types, name).model_json_schema(by_alias=True) for method, name in MCP.items()}
    return {method: set(flat(each, each.get("$defs", {}))) for method, each in made.items()}


def claude() -> Fields:
    """The control requests that a host sends."""
    from claude_agent_sdk import types

    found = [getattr(types, name) for name in dir(types) if name.startswith("SDKControl")]
    named = {each: each.__annotations__.get("subtype") for each in found}
    return {get_args(said)[0]: set(each.__annotations__) for each, said in named.items() if get_args(said)}


def newer_acp(schema: str) -> Fields:
    """Of the JSON Schema in the protocol's own packages for JavaScript and Rust."""
    kinds = json.loads(Path(schema).read_text())["$defs"]
    named = {method: name.replace("BooleanRequest", "Request") for method, name in ACP.items()}
    return {method: set(flat(kinds[name], kinds)) for method, name in named.items() if name in kinds}


def newer_claude(types: str) -> Fields:
    """Of the declarations in the SDK for JavaScript, where each request has its fields at the same depth."""
    text = re.sub(r"/\*.*?\*/", "", Path(types).read_text(), flags=re.DOTALL)
    found = re.findall(r"declare type SDKControl\w*Request = \{(.*?)\n\}", text, re.DOTALL)
    fields = {said[1]: body for body in found if (said := re.search(r"^    subtype: '(\w+)'", body, re.MULTILINE))}
    return {kind: set(re.findall(r"^    (\w+)\??:", body, re.MULTILINE)) for kind, body in fields.items()}


def codex(program: str) -> Fields:
    with tempfile.TemporaryDirectory() as place:
        env = {**os.environ, "CODEX_HOME": place, "HOME": place}
        words = [program, "app-server", "generate-json-schema", "--experimental", "--out", place]
        subprocess.run(words, check=True, env=env, capture_output=True, timeout=120)
        document = json.loads((Path(place) / "ClientRequest.json").read_text())
    return {
        each["properties"]["method"]["enum"][0]: set(flat(each["properties"].get("params"), document["definitions"]))
        for each in document["oneOf"]
    }


def a2a(python: str) -> Fields:
    done = subprocess.run([python, "-c", A2A], check=True, capture_output=True, text=True, timeout=120)
    return {method: set(paths) for method, paths in json.loads(done.stdout).items()}


def heddle(source: str) -> Fields:
    """The requests, as the types of the Rust source have them."""
    text = "\n".join(each.read_text() for each in sorted(Path(source, "src").rglob("types.rs")))
    kinds = {name: body for name, body in re.findall(r"pub struct (\w+) \{(.*?)\n\}", text, re.DOTALL)}
    requests = re.search(r"pub enum IpcRequest \{(.*?)\n\}", text, re.DOTALL)
    assert requests is not None
    found = re.findall(r"\n    (\w+) \{(.*?)\n    \}", requests[1], re.DOTALL)
    return {kind.lower(): {"type", *_rust(body, kinds)} for kind, body in found}


def _rust(body: str, kinds: dict[str, str], path: str = "") -> Iterator[str]:
    for name, kind in re.findall(r"^ *(?:pub )?(?:r#)?(\w+): (.+?),$", body, re.MULTILINE):
        yield path + name
        inner = re.sub(r"\b(?:Option|Box|Vec)<|>", "", kind)
        yield from _rust(kinds.get(inner, ""), kinds, path + name + "[]" * ("Vec<" in kind) + ".")


def draw(published: dict[str, Fields], count: int, seed: str) -> Iterator[str]:
    """So many fields of the methods that are served, each with its verdict."""
    every = [
        (protocol, method, path)
        for protocol, fields in sorted(published.items())
        for method in sorted(FieldTable(protocol, 0).methods & fields.keys())
        for path in sorted(fields[method])
    ]
    for protocol, method, path in random.Random(seed).sample(every, min(count, len(every))):
        yield f"{protocol} {method} {path}: {_judged(FieldTable(protocol, 0), method, path) or 'none'}"


def main() -> int:
    published = {"acp": acp(), "mcp": mcp(), "claude": claude()}
    more = {"CODEX": codex, "SDK": a2a, "HEDDLE": heddle, "ACP": newer_acp, "CLAUDE": newer_claude}
    for variable, read in more.items():
        if given := os.environ.get(variable):
            published[PROTOCOLS[variable]] = read(given)
    left = [line for protocol, fields in published.items() for line in unjudged(protocol, fields)]
    for protocol, fields in published.items():
        served = [method for method in fields if method in FieldTable(protocol, 0).methods]
        print(f"{protocol}: {sum(len(fields[each]) for each in served)} fields of {len(served)} methods")
    for line in draw(published, int(os.environ.get("DRAW", 0)), os.environ.get("SEED", "")):
        print(line)
    print("\n".join(f"no verdict: {line}" for line in left) or "each has its verdict")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
